//! Routes: for every address that clients dial, what happens to their packets. The mode-neutral heart.
//!
//! In: settings, one service port, the frontends that belong to another Service. Out: [`PortRoutes`].
//!
//! Every mode, the tracer and whatever explains a decision to a person start from here, so that they cannot
//! disagree about policy; they only differ in how they tell the kernel.

use std::net::IpAddr;

use ipnet::IpNet;
use switchyard_model::{Endpoint, Family, Protocol, ServicePort, TrafficPolicy};

use crate::choice::{Choice, choose};
use crate::settings::{LocalDetector, MasqueradeClusterIp, Settings};

/// The address part of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontendAddress {
    /// One virtual address.
    Ip(IpAddr),
    /// Any address of this node that serves node ports.
    Node(Family),
}

/// What clients dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// Address.
    pub address: FrontendAddress,
    /// Protocol.
    pub protocol: Protocol,
    /// Port.
    pub port: u16,
}

impl std::fmt::Display for Frontend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            FrontendAddress::Ip(IpAddr::V4(ip)) => write!(f, "{ip}:{}/{}", self.port, self.protocol),
            FrontendAddress::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}/{}", self.port, self.protocol),
            FrontendAddress::Node(family) => {
                write!(f, "node port {}/{} ({family})", self.port, self.protocol)
            }
        }
    }
}

/// Where a frontend comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrontendKind {
    /// `spec.clusterIPs`.
    ClusterIp,
    /// `spec.externalIPs`.
    ExternalIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancerIp,
    /// `spec.ports[].nodePort`.
    NodePort,
}

/// Which list of [`Choice`] a packet picks from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// [`Choice::cluster`].
    Cluster,
    /// [`Choice::local`].
    Local,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to one endpoint of the pool, each with the same odds.
    Pick(Pool),
    /// Nobody anywhere can answer: the client is told at once.
    Reject,
    /// Another node can answer, this one must stay silent.
    Drop,
}

/// Whether a packet gets this node's address as its source. A packet that comes back to the endpoint it came
/// from (hairpin) always does, whatever is said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masquerade {
    /// It keeps its source.
    Never,
    /// Unless it comes from a local pod.
    FromOutside,
    /// Always.
    Always,
}

/// Whose packets a branch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Pods of this node, as the detector tells.
    LocalPod,
    /// This node itself.
    ThisNode,
    /// Everybody else.
    Anyone,
}

/// What happens to the packets of some clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Whose packets.
    pub client: Client,
    /// What happens to them.
    pub verdict: Verdict,
    /// Whether their source is replaced.
    pub masquerade: Masquerade,
}

/// One frontend and what happens to packets sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What clients dial.
    pub frontend: Frontend,
    /// Where it comes from.
    pub kind: FrontendKind,
    /// The first branch whose client fits counts; the last one fits everybody.
    pub branches: Vec<Branch>,
    /// Who may use it; empty means everybody. Others are dropped.
    pub allowed_sources: Vec<IpNet>,
}

/// All routes of one service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRoutes<'a> {
    /// The service port.
    pub port: &'a ServicePort,
    /// Its endpoints, seen from this node.
    pub choice: Choice<'a>,
    /// What happens to traffic to the cluster IP.
    pub internal: Branch,
    /// What happens to traffic to every other frontend.
    pub external: Vec<Branch>,
    /// One route per frontend that this service port owns: cluster IP, external IPs, load-balancer IPs, node port.
    pub routes: Vec<Route>,
}

impl PortRoutes<'_> {
    /// The endpoints of a pool.
    pub fn pool(&self, pool: Pool) -> &[&Endpoint] {
        match pool {
            Pool::Cluster => &self.choice.cluster,
            Pool::Local => &self.choice.local,
        }
    }

    /// What happens to external traffic of ordinary clients.
    pub fn external_default(&self) -> Verdict {
        self.external.last().map_or(Verdict::Reject, |b| b.verdict)
    }
}

/// Every frontend that a service port asks for, in the order in which they are planned.
pub fn frontends(port: &ServicePort) -> Vec<(FrontendKind, Frontend)> {
    let protocol = port.name.protocol;
    let at =
        |kind, ip: &IpAddr| (kind, Frontend { address: FrontendAddress::Ip(*ip), protocol, port: port.port });
    let mut all = vec![at(FrontendKind::ClusterIp, &port.cluster_ip)];
    all.extend(port.external_ips.iter().map(|ip| at(FrontendKind::ExternalIp, ip)));
    all.extend(port.load_balancer_ips.iter().map(|ip| at(FrontendKind::LoadBalancerIp, ip)));
    if let Some(node_port) = port.node_port {
        let frontend = Frontend { address: FrontendAddress::Node(port.family), protocol, port: node_port };
        all.push((FrontendKind::NodePort, frontend));
    }
    all
}

/// Decides for every frontend of a service port, except those that `is_lost` says belong to another Service.
pub fn routes<'a>(
    settings: &Settings,
    port: &'a ServicePort,
    is_lost: impl Fn(&Frontend) -> bool,
) -> PortRoutes<'a> {
    let choice = choose(settings, port);
    let internal = internal_branch(settings, port, &choice);
    let external = external_branches(settings, port, &choice);
    let allowed = allowed_sources(settings, port, &choice);
    let wanted = frontends(port).into_iter().filter(|(_, frontend)| !is_lost(frontend));
    let routes = wanted
        .map(|(kind, frontend)| Route {
            frontend,
            kind,
            branches: if kind == FrontendKind::ClusterIp { vec![internal] } else { external.clone() },
            allowed_sources: if kind == FrontendKind::LoadBalancerIp { allowed.clone() } else { Vec::new() },
        })
        .collect();
    PortRoutes { port, choice, internal, external, routes }
}

fn verdict(policy: TrafficPolicy, choice: &Choice<'_>) -> Verdict {
    match (choice.exists_somewhere, policy) {
        (false, _) => Verdict::Reject,
        (true, TrafficPolicy::Cluster) => Verdict::Pick(Pool::Cluster),
        (true, TrafficPolicy::Local) if choice.local.is_empty() => Verdict::Drop,
        (true, TrafficPolicy::Local) => Verdict::Pick(Pool::Local),
    }
}

fn internal_branch(settings: &Settings, port: &ServicePort, choice: &Choice<'_>) -> Branch {
    let masquerade = match (settings.masquerade, &settings.detector) {
        (MasqueradeClusterIp::All, _) => Masquerade::Always,
        (MasqueradeClusterIp::FromOutside, LocalDetector::None) => Masquerade::Never,
        (MasqueradeClusterIp::FromOutside, _) => Masquerade::FromOutside,
    };
    Branch { client: Client::Anyone, verdict: verdict(port.internal_policy, choice), masquerade }
}

fn external_branches(settings: &Settings, port: &ServicePort, choice: &Choice<'_>) -> Vec<Branch> {
    let verdict = verdict(port.external_policy, choice);
    if port.external_policy == TrafficPolicy::Cluster || verdict == Verdict::Reject {
        return vec![Branch { client: Client::Anyone, verdict, masquerade: Masquerade::Always }];
    }
    // Inside the cluster there is no outside address to keep: such clients may use every endpoint.
    let whole_cluster = Verdict::Pick(Pool::Cluster);
    let mut branches = Vec::with_capacity(3);
    if settings.detector != LocalDetector::None {
        branches.push(Branch {
            client: Client::LocalPod,
            verdict: whole_cluster,
            masquerade: Masquerade::Never,
        });
    }
    branches.push(Branch {
        client: Client::ThisNode,
        verdict: whole_cluster,
        masquerade: Masquerade::Always,
    });
    branches.push(Branch { client: Client::Anyone, verdict, masquerade: Masquerade::Never });
    branches
}

fn allowed_sources(settings: &Settings, port: &ServicePort, choice: &Choice<'_>) -> Vec<IpNet> {
    if choice.exists_somewhere { source_ranges(settings, port) } else { Vec::new() }
}

/// Source ranges, and the load balancer's own addresses when the node is in one of them: traffic from the node to
/// a load-balancer IP may carry that IP as its source.
pub(crate) fn source_ranges(settings: &Settings, port: &ServicePort) -> Vec<IpNet> {
    let mut allowed = port.source_ranges.clone();
    if allowed.iter().any(|range| range.contains(&settings.node_ip)) {
        allowed.extend(port.load_balancer_ips.iter().map(|ip| IpNet::from(*ip)));
    }
    allowed
}

#[cfg(test)]
mod tests;
