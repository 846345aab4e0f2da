//! Who owns a frontend that two service ports ask for.
//!
//! The API server keeps cluster IPs and node ports unique, but external IPs and load-balancer IPs are anybody's, and
//! files may contain anything. kube-proxy lets the order of a hash map decide, so the owner can change with every
//! sync. Here a cluster IP beats every other kind of address, so that nobody can take another Service's traffic over by
//! naming its cluster IP as an external one; then the older Service wins, then the smaller name: whoever has the
//! traffic keeps it, on every node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use switchyard_model::{PortKey, ServicePort};

use crate::route::{Frontend, FrontendKind, frontends};

/// One wish for a frontend. Orders by who wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    kind: Standing,
    created: i64,
    key: PortKey,
}

/// How good a reason is. Orders by who wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// The API server gave the address to the Service.
    ClusterIp,
    /// The Service's author, or a load balancer, named it.
    Named,
}

impl From<FrontendKind> for Standing {
    fn from(kind: FrontendKind) -> Self {
        if kind == FrontendKind::ClusterIp { Self::ClusterIp } else { Self::Named }
    }
}

/// A frontend that more than one service port asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What they ask for.
    pub frontend: Frontend,
    /// Who has it.
    pub winner: PortKey,
    /// Who does not.
    pub losers: Vec<PortKey>,
}

/// All claims.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The winner of each frontend.
    winners: HashMap<Frontend, Claim>,
    /// The others, only where there are any.
    losers: BTreeMap<Frontend, BTreeSet<Claim>>,
}

impl Claims {
    /// True if another service port owns a frontend that this one asks for.
    pub fn is_lost(&self, own: &ServicePort, frontend: &Frontend) -> bool {
        // Nearly all frontends have one claimant: the few losers are quicker to look through than all winners.
        let is_contested = self.losers.contains_key(frontend);
        is_contested && self.winners.get(frontend).is_some_and(|winner| winner.key != PortKey::from(own))
    }

    /// Who owns the frontend.
    pub fn winner(&self, frontend: &Frontend) -> Option<&PortKey> {
        self.winners.get(frontend).map(|claim| &claim.key)
    }

    /// Everybody who asks for the frontend, the winner first.
    pub fn claimants(&self, frontend: &Frontend) -> Vec<PortKey> {
        let losers = self.losers.get(frontend).into_iter().flatten();
        self.winners.get(frontend).into_iter().chain(losers).map(|claim| claim.key.clone()).collect()
    }

    /// All frontends with more than one claimant, in order.
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.conflicts_from(None).collect()
    }

    /// The same from this frontend on, one after another.
    pub fn conflicts_from(&self, first: Option<Frontend>) -> impl Iterator<Item = Conflict> + '_ {
        let begin = first.map_or(Bound::Unbounded, Bound::Included);
        let conflict = |(frontend, losers): (&Frontend, &BTreeSet<Claim>)| {
            self.winners.get(frontend).map(|winner| Conflict {
                frontend: *frontend,
                winner: winner.key.clone(),
                losers: losers.iter().map(|c| c.key.clone()).collect(),
            })
        };
        self.losers.range((begin, Bound::Unbounded)).filter_map(conflict)
    }

    /// How many claims are lost.
    pub fn lost(&self) -> usize {
        self.losers.values().map(BTreeSet::len).sum()
    }

    /// Other service ports that ask for a frontend of this one: their rules may change when this one does.
    pub fn rivals(&self, port: &ServicePort) -> BTreeSet<PortKey> {
        let mut rivals = BTreeSet::new();
        let own = PortKey::from(port);
        for (_, frontend) in frontends(port) {
            rivals.extend(self.winners.get(&frontend).map(|c| c.key.clone()));
            rivals.extend(self.losers.get(&frontend).into_iter().flatten().map(|c| c.key.clone()));
        }
        rivals.remove(&own);
        rivals
    }

    /// Adds the claims of a service port.
    pub fn add(&mut self, port: &ServicePort) {
        for (kind, frontend) in frontends(port) {
            let claim = Claim { kind: kind.into(), created: port.created, key: PortKey::from(port) };
            match self.winners.get_mut(&frontend) {
                None => {
                    self.winners.insert(frontend, claim.clone());
                }
                // One service port may name an address twice, as external and as load-balancer IP.
                Some(winner) if winner.key == claim.key => {}
                Some(winner) if claim < *winner => {
                    let loser = std::mem::replace(winner, claim.clone());
                    self.losers.entry(frontend).or_default().insert(loser);
                }
                Some(_) => {
                    self.losers.entry(frontend).or_default().insert(claim.clone());
                }
            }
        }
    }

    /// Takes the claims of a service port away; the next in line wins.
    pub fn remove(&mut self, port: &ServicePort) {
        let key = PortKey::from(port);
        for (_, frontend) in frontends(port) {
            if let Some(losers) = self.losers.get_mut(&frontend) {
                losers.retain(|c| c.key != key);
            }
            if self.winners.get(&frontend).is_some_and(|c| c.key == key) {
                self.winners.remove(&frontend);
                if let Some(next) = self.losers.get_mut(&frontend).and_then(BTreeSet::pop_first) {
                    self.winners.insert(frontend, next);
                }
            }
            if self.losers.get(&frontend).is_some_and(BTreeSet::is_empty) {
                self.losers.remove(&frontend);
            }
        }
    }
}

#[cfg(test)]
mod tests;
