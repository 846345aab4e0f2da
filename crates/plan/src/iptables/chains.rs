//! The chains of one service port: KUBE-EXT, KUBE-FW, KUBE-SVC, KUBE-SVL and one KUBE-SEP per endpoint.

use std::collections::HashMap;
use std::net::SocketAddr;

use switchyard_model::{Endpoint, TrafficPolicy};

use super::names::{self, MARK_MASQ, ServiceChains};
use super::rule::{Is, Match, Rule, Target};
use crate::route::{Client, Masquerade, Pool, PortRoutes, Verdict};
use crate::settings::{LocalDetector, Settings};

/// A chain of the nat table with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Name.
    pub name: String,
    /// Rules, in order.
    pub rules: Vec<Rule>,
}

/// Whether the rules in front of endpoints carry comments; large clusters do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// They do.
    Full,
    /// They do not.
    Terse,
}

/// All chains of one service port. A chain comes before every chain that jumps to it, so that any prefix of the list
/// can be written without a jump into nothing.
pub fn chains(settings: &Settings, routes: &PortRoutes<'_>, comments: Comments) -> Vec<Chain> {
    let builder = Builder {
        settings,
        routes,
        comments,
        names: ServiceChains::new(&routes.port.name),
        endpoints: routes
            .choice
            .reachable
            .iter()
            .map(|e| (e.address, names::endpoint(&routes.port.name, e.address)))
            .collect(),
    };
    let mut chains = builder.endpoint_chains();
    chains.extend(builder.balancing(Pool::Cluster));
    chains.extend(builder.balancing(Pool::Local));
    chains.extend(builder.external());
    chains.extend(builder.firewall());
    chains
}

/// The match for traffic that is, or is not, from pods of this node.
pub fn from_local_pods(detector: &LocalDetector, is: Is) -> Option<Match> {
    match detector {
        LocalDetector::None => None,
        LocalDetector::Cidr(range) => Some(Match::SourceIn(is, *range)),
        LocalDetector::Bridge(name) => Some(Match::Interface(is, name.clone())),
        LocalDetector::InterfacePrefix(prefix) => Some(Match::Interface(is, format!("{prefix}+"))),
    }
}

struct Builder<'a> {
    settings: &'a Settings,
    routes: &'a PortRoutes<'a>,
    comments: Comments,
    names: ServiceChains,
    /// Chain names of the reachable endpoints.
    endpoints: HashMap<SocketAddr, String>,
}

impl Builder<'_> {
    /// Chain name of an endpoint of a pool; every pool is part of the reachable endpoints.
    fn endpoint_chain(&self, endpoint: &Endpoint) -> String {
        let known = self.endpoints.get(&endpoint.address).cloned();
        known.unwrap_or_else(|| names::endpoint(&self.routes.port.name, endpoint.address))
    }

    fn comment(&self, bare: Option<&Endpoint>) -> Vec<Match> {
        if self.comments == Comments::Terse {
            return Vec::new();
        }
        let name = &self.routes.port.name;
        vec![match bare {
            Some(endpoint) => Match::Comment(format!("{name} -> {}", endpoint.address)),
            None => Match::BareComment(name.to_string()),
        }]
    }

    fn pool_chain(&self, pool: Pool) -> String {
        match pool {
            Pool::Cluster => self.names.cluster(),
            Pool::Local => self.names.local(),
        }
    }

    fn endpoint_chains(&self) -> Vec<Chain> {
        let one = |endpoint: &&Endpoint| {
            let name = self.endpoint_chain(endpoint);
            let mut hairpin = self.comment(None);
            hairpin.push(Match::Source(endpoint.address.ip()));
            let mut translate = self.comment(None);
            if self.routes.port.affinity.is_some() {
                translate.push(Match::Remember(name.clone()));
            }
            translate.push(Match::Protocol(self.routes.port.name.protocol));
            Chain {
                name,
                rules: vec![
                    Rule::jump(hairpin, MARK_MASQ),
                    Rule::new(translate, Target::Dnat(endpoint.address)),
                ],
            }
        };
        self.routes.choice.reachable.iter().map(one).collect()
    }

    fn balancing(&self, pool: Pool) -> Option<Chain> {
        let endpoints = self.routes.pool(pool);
        if endpoints.is_empty() {
            return None;
        }
        let mut rules = Vec::new();
        if self.routes.internal.verdict == Verdict::Pick(pool) {
            rules.extend(self.masquerade_cluster_ip());
        }
        let chains: Vec<String> = endpoints.iter().map(|e| self.endpoint_chain(e)).collect();
        if let Some(seconds) = self.routes.port.affinity {
            for (endpoint, chain) in endpoints.iter().zip(&chains) {
                let mut matches = self.comment(Some(endpoint));
                matches.push(Match::SeenLately { list: chain.clone(), seconds });
                rules.push(Rule::jump(matches, chain.clone()));
            }
        }
        for (i, (endpoint, chain)) in endpoints.iter().zip(&chains).enumerate() {
            let mut matches = self.comment(Some(endpoint));
            let left = endpoints.len() - i;
            if left > 1 {
                matches.push(Match::OneIn(left));
            }
            rules.push(Rule::jump(matches, chain.clone()));
        }
        Some(Chain { name: self.pool_chain(pool), rules })
    }

    fn masquerade_cluster_ip(&self) -> Option<Rule> {
        let port = self.routes.port;
        let mut matches = vec![
            Match::Comment(format!("{} cluster IP", port.name)),
            Match::Protocol(port.name.protocol),
            Match::Destination(port.cluster_ip),
            Match::DestinationPort(port.port),
        ];
        match self.routes.internal.masquerade {
            Masquerade::Never => return None,
            Masquerade::Always => {}
            Masquerade::FromOutside => matches.push(from_local_pods(&self.settings.detector, Is::Not)?),
        }
        Some(Rule::jump(matches, MARK_MASQ))
    }

    fn external(&self) -> Option<Chain> {
        if !self.routes.choice.exists_somewhere || !self.routes.port.is_externally_accessible() {
            return None;
        }
        let name = &self.routes.port.name;
        let mut rules = Vec::new();
        if self.routes.port.external_policy == TrafficPolicy::Cluster {
            let text = format!("masquerade traffic for {name} external destinations");
            rules.push(Rule::jump([Match::Comment(text)], MARK_MASQ));
        }
        for branch in &self.routes.external {
            match branch.client {
                Client::LocalPod => {
                    let text = format!("pod traffic for {name} external destinations");
                    let from = from_local_pods(&self.settings.detector, Is::Yes)?;
                    rules.push(Rule::jump([Match::Comment(text), from], self.names.cluster()));
                }
                Client::ThisNode => {
                    let text = |verb: &str| {
                        Match::Comment(format!("{verb} LOCAL traffic for {name} external destinations"))
                    };
                    rules.push(Rule::jump([text("masquerade"), Match::SourceLocal], MARK_MASQ));
                    rules.push(Rule::jump([text("route"), Match::SourceLocal], self.names.cluster()));
                }
                Client::Anyone => {
                    if let Verdict::Pick(pool) = branch.verdict {
                        rules.push(Rule::jump([], self.pool_chain(pool)));
                    }
                }
            }
        }
        Some(Chain { name: self.names.external(), rules })
    }

    /// Present whenever source ranges apply, also if another Service owns all the load-balancer IPs.
    fn firewall(&self) -> Option<Chain> {
        let port = self.routes.port;
        let is_used = self.routes.choice.exists_somewhere
            && !port.load_balancer_ips.is_empty()
            && !port.source_ranges.is_empty();
        if !is_used {
            return None;
        }
        let comment = || Match::Comment(format!("{} loadbalancer IP", port.name));
        let external = || self.names.external();
        let mut rules: Vec<Rule> = Vec::new();
        for range in &port.source_ranges {
            rules.push(Rule::jump([comment(), Match::SourceIn(Is::Yes, *range)], external()));
        }
        if port.source_ranges.iter().any(|range| range.contains(&self.settings.node_ip)) {
            for ip in &port.load_balancer_ips {
                rules.push(Rule::jump([comment(), Match::Source(*ip)], external()));
            }
        }
        let rest = format!("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL", port.name);
        rules.push(Rule::new([Match::Comment(rest)], Target::None));
        Some(Chain { name: self.names.firewall(), rules })
    }
}
