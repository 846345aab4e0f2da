//! Services with ClientIP affinity have chains and sets of their own: a set of clients per endpoint, which forgets them
//! after the timeout. A removed endpoint takes its set along, so its clients choose again at once.

use std::collections::HashSet;
use std::net::SocketAddr;

use switchyard_model::ServicePortName;

use super::Config;
use super::base::Chain;
use super::names;
use super::rule::{Field, Is, Rule, SetName, Statement, Verdict};
use super::shape::external_short_cuts;
use super::slots::MAX;
use crate::route::{Client, Pool, PortRoutes, Verdict as Decision};
use crate::settings::Settings;

/// A set of clients that forgets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSet {
    /// Name.
    pub name: String,
    /// Seconds until a client is forgotten.
    pub seconds: u32,
}

/// Everything that a sticky service port has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sticky {
    /// One set per endpoint.
    pub sets: Vec<ClientSet>,
    /// Chains; one comes before all that lead to it.
    pub chains: Vec<Chain>,
}

/// The chain of a pool.
pub fn pool_chain(name: &ServicePortName, pool: Pool) -> String {
    match pool {
        Pool::Cluster => names::sticky("sticky", name),
        Pool::Local => names::sticky("sticky-local", name),
    }
}

/// The chain for external traffic.
pub fn external_chain(name: &ServicePortName) -> String {
    names::sticky("sticky-external", name)
}

/// What a sticky service port needs.
pub fn sticky(config: &Config, settings: &Settings, routes: &PortRoutes<'_>, seconds: u32) -> Sticky {
    let name = &routes.port.name;
    // For the kernel 0 means "never forget".
    let seconds = seconds.max(1);
    let mut needs = Sticky::default();
    let addresses =
        |pool| -> Vec<SocketAddr> { routes.pool(pool).iter().map(|e| e.address).take(MAX).collect() };
    let pools = [Pool::Cluster, Pool::Local].map(|pool| (pool, addresses(pool)));
    let used: HashSet<SocketAddr> = pools.iter().flat_map(|(_, list)| list.iter().copied()).collect();
    for endpoint in routes.choice.reachable.iter().map(|e| e.address).filter(|e| used.contains(e)) {
        needs.chains.push(endpoint_chain(name, endpoint, seconds));
        needs.sets.push(ClientSet { name: clients(name, endpoint, seconds), seconds });
    }
    for (pool, endpoints) in pools.iter().filter(|(_, list)| !list.is_empty()) {
        needs.chains.push(balancing(name, *pool, endpoints, seconds));
    }
    if routes.choice.exists_somewhere && routes.port.is_externally_accessible() {
        needs.chains.push(external(config, settings, routes));
    }
    needs
}

/// A set cannot change its timeout, so the timeout is part of its name.
fn clients(name: &ServicePortName, endpoint: SocketAddr, seconds: u32) -> String {
    names::sticky_endpoint(&format!("clients-{seconds}"), name, endpoint)
}

fn endpoint_name(name: &ServicePortName, endpoint: SocketAddr) -> String {
    names::sticky_endpoint("endpoint", name, endpoint)
}

fn endpoint_chain(name: &ServicePortName, endpoint: SocketAddr, seconds: u32) -> Chain {
    let rule = Rule::new([
        // Says nothing new, but without it nft could not read back what it lists.
        Statement::Protocol(name.protocol),
        Statement::Remember(clients(name, endpoint, seconds)),
        Statement::Dnat(endpoint),
    ]);
    Chain { name: endpoint_name(name, endpoint), base: None, rules: vec![rule] }
}

fn balancing(name: &ServicePortName, pool: Pool, endpoints: &[SocketAddr], seconds: u32) -> Chain {
    let goto = |endpoint: &SocketAddr| Verdict::Goto(endpoint_name(name, *endpoint));
    let known = |endpoint: &SocketAddr| {
        let set = SetName::Own(clients(name, *endpoint, seconds));
        Rule::new([Statement::In(Is::Yes, vec![Field::Source], set), Statement::Verdict(goto(endpoint))])
    };
    let mut rules: Vec<Rule> = endpoints.iter().map(known).collect();
    rules.push(match endpoints {
        [only] => Rule::new([Statement::Verdict(goto(only))]),
        several => Rule::new([Statement::RandomVerdict(several.iter().map(goto).collect())]),
    });
    Chain { name: pool_chain(name, pool), base: None, rules }
}

fn external(config: &Config, settings: &Settings, routes: &PortRoutes<'_>) -> Chain {
    let name = &routes.port.name;
    let goto = |pool| Statement::Verdict(Verdict::Goto(pool_chain(name, pool)));
    let is_local = routes.external.iter().any(|b| b.client == Client::ThisNode);
    let mut rules = if is_local {
        external_short_cuts(config, settings, &goto(Pool::Cluster))
    } else {
        vec![Rule::new([Statement::OrMark(config.mark)])]
    };
    if let Decision::Pick(pool) = routes.external_default() {
        rules.push(Rule::new([goto(pool)]));
    }
    Chain { name: external_chain(name), base: None, rules }
}
