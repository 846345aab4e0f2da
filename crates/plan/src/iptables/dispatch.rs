//! The rules of one service port in the chains that all service ports share.

use std::net::IpAddr;

use switchyard_model::{Family, Protocol};

use super::base::{LOOPBACK_COUNTER, Top, loopback};
use super::names::ServiceChains;
use super::rule::{Is, Match, Rule, Target};
use super::{Config, Counter};
use crate::route::{FrontendAddress, FrontendKind, Pool, PortRoutes, Route, Verdict};
use crate::settings::{LoopbackNodePorts, Settings};

/// Rules with the chain they belong to, in kube-proxy's order.
pub type Dispatch = Vec<(Top, Rule)>;

/// All dispatch rules of one service port.
pub fn dispatch(config: &Config, settings: &Settings, routes: &PortRoutes<'_>) -> Dispatch {
    let context = Context { config, settings, routes, chains: ServiceChains::new(&routes.port.name) };
    let mut rules = Dispatch::new();
    for route in &routes.routes {
        context.add_route(route, &mut rules);
    }
    if let Some(port) = routes.port.health_check_node_port {
        let matches = [
            Match::Comment(format!("{} health check node port", routes.port.name)),
            Match::Protocol(Protocol::Tcp),
            Match::DestinationPort(port),
        ];
        rules.push((Top::FilterNodePorts, Rule::new(matches, Target::Accept)));
    }
    rules
}

struct Context<'a> {
    config: &'a Config,
    settings: &'a Settings,
    routes: &'a PortRoutes<'a>,
    chains: ServiceChains,
}

impl Context<'_> {
    fn add_route(&self, route: &Route, rules: &mut Dispatch) {
        match (route.kind, route.frontend.address) {
            (FrontendKind::ClusterIp, FrontendAddress::Ip(ip)) => self.add_cluster_ip(ip, rules),
            (FrontendKind::ExternalIp, FrontendAddress::Ip(ip)) => {
                if self.routes.choice.exists_somewhere {
                    rules.push((Top::NatServices, self.to(ip, "external IP", self.chains.external())));
                }
                self.add_external_refusal(Some(ip), rules);
            }
            (FrontendKind::LoadBalancerIp, FrontendAddress::Ip(ip)) => {
                self.add_load_balancer(route, ip, rules)
            }
            _ => self.add_node_port(route.frontend.port, rules),
        }
    }

    fn add_cluster_ip(&self, ip: IpAddr, rules: &mut Dispatch) {
        let chain = match self.routes.internal.verdict {
            Verdict::Pick(Pool::Cluster) => self.chains.cluster(),
            Verdict::Pick(Pool::Local) => self.chains.local(),
            refusal => {
                if let Some((reason, target)) = refuse(refusal) {
                    let matches = self.at(ip, reason);
                    rules.push((Top::FilterServices, Rule::new(matches, target)));
                }
                return;
            }
        };
        rules.push((Top::NatServices, self.to(ip, "cluster IP", chain)));
    }

    fn add_load_balancer(&self, route: &Route, ip: IpAddr, rules: &mut Dispatch) {
        let is_restricted = !route.allowed_sources.is_empty();
        if self.routes.choice.exists_somewhere {
            let chain = if is_restricted { self.chains.firewall() } else { self.chains.external() };
            rules.push((Top::NatServices, self.to(ip, "loadbalancer IP", chain)));
        }
        if is_restricted {
            let reason = format!("traffic not accepted by {}", self.chains.firewall());
            rules.push((Top::FilterProxyFirewall, Rule::new(self.at(ip, &reason), Target::Drop)));
        }
        self.add_external_refusal(Some(ip), rules);
    }

    fn add_node_port(&self, port: u16, rules: &mut Dispatch) {
        let protocol = Match::Protocol(self.routes.port.name.protocol);
        let name = || Match::BareComment(self.routes.port.name.to_string());
        if self.routes.choice.exists_somewhere {
            let counts_loopback = self.settings.family == Family::V4
                && self.settings.loopback_node_ports == LoopbackNodePorts::Served
                && self.config.loopback_counter == Counter::Present;
            if counts_loopback {
                let matches = [
                    name(),
                    protocol.clone(),
                    Match::DestinationIn(Is::Yes, loopback()),
                    Match::DestinationPort(port),
                    Match::Count(LOOPBACK_COUNTER),
                ];
                rules.push((Top::NatNodePorts, Rule::jump(matches, self.chains.external())));
            }
            let matches = [name(), protocol, Match::DestinationPort(port)];
            rules.push((Top::NatNodePorts, Rule::jump(matches, self.chains.external())));
        }
        self.add_external_refusal(None, rules);
    }

    /// Rejects or drops what no endpoint may take. After address translation, so that clients with a short cut have
    /// had their chance.
    fn add_external_refusal(&self, ip: Option<IpAddr>, rules: &mut Dispatch) {
        let Some((reason, target)) = refuse(self.routes.external_default()) else { return };
        let matches = match (ip, self.routes.port.node_port) {
            (Some(ip), _) => self.at(ip, reason),
            (None, Some(node_port)) => vec![
                Match::Comment(format!("{} {reason}", self.routes.port.name)),
                Match::DestinationLocal,
                Match::Protocol(self.routes.port.name.protocol),
                Match::DestinationPort(node_port),
            ],
            (None, None) => return,
        };
        rules.push((Top::FilterExternalServices, Rule::new(matches, target)));
    }

    /// Matches for a virtual address of this service port, with a comment.
    fn at(&self, ip: IpAddr, comment: &str) -> Vec<Match> {
        vec![
            Match::Comment(format!("{} {comment}", self.routes.port.name)),
            Match::Protocol(self.routes.port.name.protocol),
            Match::Destination(ip),
            Match::DestinationPort(self.routes.port.port),
        ]
    }

    fn to(&self, ip: IpAddr, comment: &str, chain: String) -> Rule {
        Rule::jump(self.at(ip, comment), chain)
    }
}

/// What to do with packets that have nowhere to go, and the words for it.
fn refuse(verdict: Verdict) -> Option<(&'static str, Target)> {
    match verdict {
        Verdict::Reject => Some(("has no endpoints", Target::Reject)),
        Verdict::Drop => Some(("has no local endpoints", Target::Drop)),
        Verdict::Pick(_) => None,
    }
}
