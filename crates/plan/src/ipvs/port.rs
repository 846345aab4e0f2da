//! Everything that one service port needs in the kernel: virtual servers, and elements of sets.
//!
//! Addresses for the link are the elements of [`Set::VirtualIps`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use switchyard_model::TrafficPolicy;

use super::base::{CLUSTER, EXTERNAL, EXTERNAL_LOCAL, INSIDE_ONLY, node_port_addresses};
use super::{Config, Content, Options, Server};
use crate::nft::base::REJECT;
use crate::nft::element::{Data, Key, Place};
use crate::nft::names::Set;
use crate::nft::port::{Silent, source_ranges};
use crate::nft::rule::Verdict;
use crate::route::{Frontend, FrontendAddress, FrontendKind, Pool, PortRoutes, Route, Verdict as Decision};
use crate::settings::Settings;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Virtual servers.
    pub servers: BTreeMap<Server, Content>,
    /// Elements of shared sets.
    pub elements: BTreeMap<Place, Data>,
    /// Frontends that stay silent.
    pub silent: Silent,
}

/// What a service port needs. `is_taken` says of an address of this node that a Service names it, with this port:
/// then it is no node port.
pub fn needs(
    config: &Config,
    settings: &Settings,
    routes: &PortRoutes<'_>,
    is_taken: &dyn Fn(Server) -> bool,
) -> Needs {
    let needs = Needs {
        silent: Silent::of(routes),
        elements: source_ranges(settings, routes),
        servers: BTreeMap::new(),
    };
    let mut builder = Builder { config, settings, routes, is_taken, needs };
    let mut seen: HashSet<Frontend> = HashSet::new();
    // One service port may name an address twice, as external and as load-balancer IP: the first route counts.
    for route in routes.routes.iter().filter(|route| seen.insert(route.frontend)) {
        builder.add(route);
    }
    let protocol = routes.port.name.protocol;
    for endpoint in routes.choice.reachable.iter().filter(|e| e.is_on(&settings.node_name)) {
        let (ip, port) = (endpoint.address.ip(), endpoint.address.port());
        builder.put(Set::Hairpins, Key::Hairpin(ip, protocol, port), Data::None);
    }
    if let Some(port) = routes.port.health_check_node_port {
        builder.put(Set::HealthPorts, Key::NodePort(switchyard_model::Protocol::Tcp, port), Data::None);
    }
    builder.needs
}

struct Builder<'a> {
    config: &'a Config,
    settings: &'a Settings,
    routes: &'a PortRoutes<'a>,
    is_taken: &'a dyn Fn(Server) -> bool,
    needs: Needs,
}

/// What happens at a frontend.
struct Plan {
    /// The chain that marks packets for masquerading.
    class: &'static str,
    /// Where packets go that are not refused.
    pool: Option<Pool>,
    /// Who is refused, and how.
    refusal: Option<Verdict>,
}

impl Builder<'_> {
    fn put(&mut self, set: Set, key: Key, data: Data) {
        self.needs.elements.insert(Place { set, key }, data);
    }

    fn add(&mut self, route: &Route) {
        let plan = self.plan(route.kind);
        let (protocol, port) = (self.routes.port.name.protocol, route.frontend.port);
        let class = Data::Verdict(Verdict::Goto(plan.class.to_owned()));
        match route.frontend.address {
            FrontendAddress::Ip(ip) => {
                let key = Key::Frontend(ip, protocol, port);
                self.put(Set::Frontends, key, class);
                // Whatever is not here is an unknown port of a virtual address.
                let verdict = plan.refusal.unwrap_or(Verdict::Return);
                self.put(Set::Refusals, key, Data::Verdict(verdict));
                if !self.config.own.contains(&ip) {
                    self.put(Set::VirtualIps, Key::Address(ip), Data::None);
                }
                self.serve(Server { address: ip, protocol, port }, plan.pool);
            }
            FrontendAddress::Node(_) => {
                let key = Key::NodePort(protocol, port);
                self.put(Set::NodePorts, key, class);
                if let Some(verdict) = plan.refusal {
                    self.put(Set::NodePortRefusals, key, Data::Verdict(verdict));
                }
                let addresses: Vec<IpAddr> = node_port_addresses(self.config, self.settings).collect();
                let servers = addresses.into_iter().map(|address| Server { address, protocol, port });
                for server in servers.filter(|server| !(self.is_taken)(*server)) {
                    self.serve(server, plan.pool);
                }
            }
        }
    }

    fn plan(&self, kind: FrontendKind) -> Plan {
        let is_inside = kind == FrontendKind::ClusterIp;
        let decision = if is_inside { self.routes.internal.verdict } else { self.routes.external_default() };
        let is_local = self.routes.port.external_policy == TrafficPolicy::Local;
        let class = match (is_inside, is_local) {
            (true, _) => CLUSTER,
            (false, true) => EXTERNAL_LOCAL,
            (false, false) => EXTERNAL,
        };
        let (pool, refusal) = match decision {
            Decision::Pick(pool) => (Some(pool), None),
            Decision::Reject => (None, Some(Verdict::Goto(REJECT.to_owned()))),
            Decision::Drop if is_inside => (None, Some(Verdict::Drop)),
            Decision::Drop => (Some(Pool::Cluster), Some(Verdict::Goto(INSIDE_ONLY.to_owned()))),
        };
        Plan { class, pool, refusal }
    }

    /// A virtual server is there as long as its frontend, with endpoints or without: connections may outlive them.
    fn serve(&mut self, server: Server, pool: Option<Pool>) {
        let endpoints = pool.map(|pool| self.routes.pool(pool)).unwrap_or_default();
        let destinations: BTreeSet<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.address).collect();
        let options = Options::new(self.config, self.routes.port.affinity);
        self.needs.servers.insert(server, Content { options, destinations });
    }
}
