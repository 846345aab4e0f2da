//! Everything that one service port needs in the kernel: elements, shapes, and if it is sticky, objects of its own.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use switchyard_model::{Endpoint, Protocol};

use super::Config;
use super::base::REJECT;
use super::element::{Data, Key, Place};
use super::names::Set;
use super::rule::Verdict;
use super::shape::{Entry, Shape};
use super::slots::{Slots, Window};
use super::sticky::{self, Sticky};
use crate::route::{
    Client, Frontend, FrontendAddress, FrontendKind, Pool, PortRoutes, Route, Verdict as Decision,
};
use crate::settings::Settings;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Elements of shared sets.
    pub elements: BTreeMap<Place, Data>,
    /// Shared chains, as often as frontends lead to them.
    pub shapes: Vec<Shape>,
    /// Own objects.
    pub sticky: Sticky,
    /// Frontends that stay silent.
    pub silent: Silent,
}

/// How many service ports are silent because others have endpoints and this node has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// At their cluster IP.
    pub internal: usize,
    /// At their other frontends.
    pub external: usize,
}

impl Silent {
    /// Of one service port.
    pub(crate) fn of(routes: &PortRoutes<'_>) -> Self {
        let is_silent = |verdict| usize::from(verdict == Decision::Drop);
        Self { internal: is_silent(routes.internal.verdict), external: is_silent(routes.external_default()) }
    }
}

impl std::ops::AddAssign for Silent {
    fn add_assign(&mut self, more: Self) {
        self.internal += more.internal;
        self.external += more.external;
    }
}

impl std::ops::SubAssign for Silent {
    fn sub_assign(&mut self, less: Self) {
        self.internal -= less.internal;
        self.external -= less.external;
    }
}

/// What a service port needs.
pub fn needs(config: &Config, settings: &Settings, routes: &PortRoutes<'_>, slots: &Slots) -> Needs {
    let mut elements = BTreeMap::new();
    let mut needs = elements_of(config, settings, routes, slots, &mut |place, data| {
        elements.insert(place, data);
    });
    needs.elements = elements;
    if let Some(seconds) = routes.port.affinity {
        needs.sticky = sticky::sticky(config, settings, routes, seconds);
    }
    needs
}

/// Hands the elements over that a service port needs, those of sets that ports share once each. Returns the needs without them, and without
/// own objects: where ten thousand service ports are gone through, nobody keeps what each needs.
pub fn elements_of(
    config: &Config,
    settings: &Settings,
    routes: &PortRoutes<'_>,
    slots: &Slots,
    each: &mut dyn FnMut(Place, Data),
) -> Needs {
    let needs = Needs { silent: Silent::of(routes), ..Needs::default() };
    let mut builder = Builder { routes, slots, needs, each };
    let mut seen: HashSet<Frontend> = HashSet::new();
    let is_alone = routes.routes.len() == 1;
    // One service port may name an address twice, as external and as load-balancer IP: the first route counts.
    for route in routes.routes.iter().filter(|route| is_alone || seen.insert(route.frontend)) {
        builder.add(route);
    }
    // Listeners of a relay are all here.
    let is_here = |e: &Endpoint| config.relay.is_some() || e.is_on(&settings.node_name);
    for endpoint in routes.choice.reachable.iter().filter(|e| is_here(e)) {
        let (ip, port) = (endpoint.address.ip(), endpoint.address.port());
        builder.put(Set::Hairpins, Key::Hairpin(ip, routes.port.name.protocol, port), Data::None);
    }
    source_ranges(settings, routes).into_iter().for_each(|(place, data)| (builder.each)(place, data));
    builder.needs
}

struct Builder<'a> {
    routes: &'a PortRoutes<'a>,
    slots: &'a Slots,
    needs: Needs,
    each: &'a mut dyn FnMut(Place, Data),
}

impl Builder<'_> {
    fn put(&mut self, set: Set, key: Key, data: Data) {
        (self.each)(Place { set, key }, data);
    }

    fn protocol(&self) -> Protocol {
        self.routes.port.name.protocol
    }

    fn add(&mut self, route: &Route) {
        if route.kind == FrontendKind::ClusterIp {
            self.put(Set::ClusterIps, Key::Address(self.routes.port.cluster_ip), Data::None);
            match self.routes.internal.verdict {
                Decision::Pick(pool) => {
                    self.lead(route, Shape::Pick(Entry::Address, self.slots.window(pool)))
                }
                refusal => self.refuse(route, refusal),
            }
            return;
        }
        if self.routes.choice.exists_somewhere {
            self.lead(route, self.external_shape(entry(route)));
        }
        self.refuse(route, self.routes.external_default());
    }

    fn external_shape(&self, entry: Entry) -> Shape {
        let cluster = self.slots.window(Pool::Cluster);
        if self.routes.external.iter().any(|b| b.client == Client::ThisNode) {
            return Shape::External { entry, cluster, local: self.slots.window(Pool::Local) };
        }
        Shape::PickMasquerade(entry, cluster)
    }

    /// Sends a frontend's packets to a shape, or to the port's own chain, and fills its slots.
    fn lead(&mut self, route: &Route, shape: Shape) {
        let chain = match (self.routes.port.affinity, self.routes.internal.verdict) {
            (None, _) => {
                self.needs.shapes.push(shape);
                self.fill(route, &shape.windows());
                shape.name()
            }
            (Some(_), Decision::Pick(pool)) if route.kind == FrontendKind::ClusterIp => {
                sticky::pool_chain(&self.routes.port.name, pool)
            }
            (Some(_), _) => sticky::external_chain(&self.routes.port.name),
        };
        let data = Data::Verdict(Verdict::Goto(chain));
        match route.frontend.address {
            FrontendAddress::Ip(ip) => self.put(Set::Frontends, self.key(ip), data),
            FrontendAddress::Node(_) => {
                self.put(Set::NodePorts, Key::NodePort(self.protocol(), route.frontend.port), data);
            }
        }
    }

    fn key(&self, ip: IpAddr) -> Key {
        Key::Frontend(ip, self.protocol(), self.routes.port.port)
    }

    fn fill(&mut self, route: &Route, windows: &[Window]) {
        let (protocol, port) = (self.protocol(), route.frontend.port);
        let slots = self.slots.placed().iter();
        for (slot, endpoint) in slots.filter(|(slot, _)| windows.iter().any(|w| w.contains(*slot))) {
            let (set, key) = match route.frontend.address {
                FrontendAddress::Ip(ip) => (Set::Slots, Key::Slot(ip, protocol, port, *slot)),
                FrontendAddress::Node(_) => (Set::NodePortSlots, Key::NodePortSlot(protocol, port, *slot)),
            };
            self.put(set, key, Data::Endpoint(*endpoint));
        }
    }

    fn refuse(&mut self, route: &Route, decision: Decision) {
        let verdict = match decision {
            Decision::Pick(_) => return,
            Decision::Reject => Verdict::Goto(REJECT.to_owned()),
            Decision::Drop => Verdict::Drop,
        };
        let data = Data::Verdict(verdict);
        match route.frontend.address {
            FrontendAddress::Ip(ip) => self.put(Set::Refusals, self.key(ip), data),
            FrontendAddress::Node(_) => {
                self.put(Set::NodePortRefusals, Key::NodePort(self.protocol(), route.frontend.port), data);
            }
        }
    }
}

/// Who may use the load-balancer IPs. Source ranges hold whether there are endpoints or not: the check comes before
/// translation.
pub(crate) fn source_ranges(settings: &Settings, routes: &PortRoutes<'_>) -> BTreeMap<Place, Data> {
    let port = routes.port;
    let mut elements = BTreeMap::new();
    if port.source_ranges.is_empty() {
        return elements;
    }
    let mut allowed = port.source_ranges.clone();
    if allowed.iter().any(|range| range.contains(&settings.node_ip)) {
        allowed.extend(port.load_balancer_ips.iter().map(|ip| ipnet::IpNet::from(*ip)));
    }
    let allowed = ipnet::IpNet::aggregate(&allowed);
    let protocol = port.name.protocol;
    for route in routes.routes.iter().filter(|route| route.kind == FrontendKind::LoadBalancerIp) {
        let FrontendAddress::Ip(ip) = route.frontend.address else { continue };
        let restricted = Place { set: Set::Restricted, key: Key::Frontend(ip, protocol, port.port) };
        elements.insert(restricted, Data::None);
        for range in &allowed {
            let key = Key::Source(ip, protocol, port.port, *range);
            elements.insert(Place { set: Set::AllowedSources, key }, Data::None);
        }
    }
    elements
}

fn entry(route: &Route) -> Entry {
    match route.frontend.address {
        FrontendAddress::Ip(_) => Entry::Address,
        FrontendAddress::Node(_) => Entry::NodePort,
    }
}
