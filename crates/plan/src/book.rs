//! The book of one family: every service port that should be served, who owns which frontend, and what was set aside.
//!
//! Modes plan from a book. It is the only state that survives from one sync to the next, and it holds values, not
//! rules: what the kernel should contain can always be worked out from it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use switchyard_model::{Family, PortKey, ServicePort, ServicePortName};

use crate::claims::{Claims, Conflict};
use crate::route::{Frontend, PortRoutes, routes};
use crate::settings::Settings;

/// New values of service ports of one family; `None` means gone.
pub type PortChanges = BTreeMap<ServicePortName, Option<Arc<ServicePort>>>;

/// One service port before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Which.
    pub name: ServicePortName,
    /// What it was.
    pub old: Option<Arc<ServicePort>>,
    /// What it is.
    pub new: Option<Arc<ServicePort>>,
}

/// A service port that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// What was refused.
    pub refused: Arc<ServicePort>,
    /// Why, in the words of whoever refused it.
    pub cause: String,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Book {
    settings: Settings,
    ports: BTreeMap<ServicePortName, Arc<ServicePort>>,
    claims: Claims,
    endpoints: usize,
    quarantined: BTreeMap<ServicePortName, Quarantined>,
}

impl Book {
    /// An empty book.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ports: BTreeMap::new(),
            claims: Claims::default(),
            endpoints: 0,
            quarantined: BTreeMap::new(),
        }
    }

    /// Facts and wishes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces facts and wishes. Every service port may be planned differently afterwards.
    pub fn settle(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// All service ports, in order.
    pub fn ports(&self) -> &BTreeMap<ServicePortName, Arc<ServicePort>> {
        &self.ports
    }

    /// Number of endpoints over all service ports, usable or not.
    pub fn endpoints(&self) -> usize {
        self.endpoints
    }

    /// Frontends that more than one service port asks for.
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.claims.conflicts()
    }

    /// The same from this frontend on, one after another.
    pub fn conflicts_from(&self, first: Option<Frontend>) -> impl Iterator<Item = Conflict> + '_ {
        self.claims.conflicts_from(first)
    }

    /// How many frontends are asked for in vain, by how many service ports each.
    pub fn lost(&self) -> usize {
        self.claims.lost()
    }

    /// What was set aside.
    pub fn quarantined(&self) -> &BTreeMap<ServicePortName, Quarantined> {
        &self.quarantined
    }

    /// The service port that owns a frontend.
    pub fn owner(&self, frontend: &Frontend) -> Option<&ServicePort> {
        let key = self.claims.winner(frontend)?;
        self.ports.get(&key.name).map(|port| &**port)
    }

    /// Everybody who asks for a frontend, its owner first.
    pub fn claimants(&self, frontend: &Frontend) -> Vec<PortKey> {
        self.claims.claimants(frontend)
    }

    /// The routes of a service port.
    pub fn routes<'a>(&'a self, port: &'a ServicePort) -> PortRoutes<'a> {
        routes(&self.settings, port, |frontend| self.claims.is_lost(port, frontend))
    }

    /// Service ports whose rules may differ once `changes` are in the book: those that change, and those that
    /// share a frontend with one that does.
    pub fn affected(&self, changes: &PortChanges) -> BTreeSet<ServicePortName> {
        let mut affected: BTreeSet<ServicePortName> = BTreeSet::new();
        for (name, new) in changes {
            let values = self.ports.get(name).into_iter().chain(new);
            let rivals = values.flat_map(|port| self.claims.rivals(port));
            affected.extend(rivals.map(|key| key.name));
            affected.insert(name.clone());
        }
        affected
    }

    /// Writes changes into the book. Says what really changed: a service port that got the value it had is not in
    /// the answer.
    pub fn update(&mut self, changes: PortChanges) -> Vec<Replaced> {
        let mut replaced = Vec::new();
        for (name, new) in changes {
            self.quarantined.remove(&name);
            let old = self.ports.get(&name).cloned();
            if old != new {
                self.put(&name, new.clone());
                replaced.push(Replaced { name, old, new });
            }
        }
        replaced
    }

    /// Sets a service port aside because the kernel refused it. `good` is the value that the kernel holds, if any:
    /// traffic goes on by it until the object changes.
    pub fn quarantine(&mut self, name: &ServicePortName, good: Option<Arc<ServicePort>>, cause: String) {
        let Some(held) = self.ports.get(name).cloned() else { return };
        self.put(name, good.filter(|good| *good != held));
        // If an earlier fallback was refused as well, what the object says is still the value set aside first.
        let earlier = self.quarantined.remove(name);
        let refused = earlier.map_or(held, |earlier| earlier.refused);
        self.quarantined.insert(name.clone(), Quarantined { refused, cause });
    }

    /// Takes everything that was set aside back, to try it again.
    pub fn readmit(&mut self) {
        for (name, entry) in std::mem::take(&mut self.quarantined) {
            self.put(&name, Some(entry.refused));
        }
    }

    fn put(&mut self, name: &ServicePortName, new: Option<Arc<ServicePort>>) {
        let old = match new.clone() {
            Some(port) => self.ports.insert(name.clone(), port),
            None => self.ports.remove(name),
        };
        if let Some(old) = old {
            self.claims.remove(&old);
            self.endpoints -= old.endpoints.len();
        }
        if let Some(new) = new {
            self.claims.add(&new);
            self.endpoints += new.endpoints.len();
        }
    }
}

/// The changes of one family.
pub fn of_family(changes: &BTreeMap<PortKey, Option<Arc<ServicePort>>>, family: Family) -> PortChanges {
    let mine = changes.iter().filter(|(key, _)| key.family == family);
    mine.map(|(key, port)| (key.name.clone(), port.clone())).collect()
}
