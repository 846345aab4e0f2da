//! What pages show, as values.
//!
//! In: what the agent knows, cut to what a page may hold. Out: nothing; pages read these.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use switchyard_model::{Family, Protocol, ServiceName, TrafficPolicy};

/// How the proxy is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Whether the first lists have been taken.
    pub is_started: bool,
    /// Services that are served.
    pub services: usize,
    /// Each family that this node has.
    pub families: Vec<FamilyCounts>,
    /// How much was set aside.
    pub set_aside: usize,
    /// The ledger.
    pub changes: Changes,
}

/// How much one family serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyCounts {
    /// Which.
    pub family: Family,
    /// The node's address.
    pub node_ip: IpAddr,
    /// Ports of Services.
    pub service_ports: usize,
    /// Endpoints over all of them.
    pub endpoints: usize,
}

/// Which Services somebody wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Part of `namespace/name`, in any case, or an address that is dialled; empty for all.
    pub text: String,
    /// Which page, from 0.
    pub page: usize,
}

/// A page of Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePage {
    /// What was searched for.
    pub search: Search,
    /// Services that were found.
    pub found: usize,
    /// Services on a full page.
    pub page_size: usize,
    /// Those of this page.
    pub services: Vec<ServiceSummary>,
}

/// A row of the list of Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSummary {
    /// Which.
    pub name: ServiceName,
    /// What clients dial: the first of them.
    pub frontends: Vec<Frontend>,
    /// How many there are.
    pub frontend_count: usize,
    /// The families that it has.
    pub families: Vec<Family>,
    /// Of the port with the fewest ready endpoints: how many it has.
    pub endpoints: usize,
    /// And how many of them are ready.
    pub ready: usize,
    /// Its ports, each in each family.
    pub ports: usize,
    /// How many of these have an endpoint to go to.
    pub served: usize,
    /// How many were refused by the kernel.
    pub set_aside: usize,
    /// Whether clients stay with an endpoint.
    pub is_sticky: bool,
    /// Whether some traffic stays on the node.
    pub is_local: bool,
}

/// What clients dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// The address and port that a client may dial; of a node port, one of the node's.
    pub dial: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Where it comes from.
    pub kind: FrontendKind,
}

/// Where a frontend comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendKind {
    /// `spec.clusterIPs`.
    ClusterIp,
    /// `spec.externalIPs`.
    ExternalIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancerIp,
    /// Any address of the node.
    NodePort,
}

/// One Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSheet {
    /// Which.
    pub name: ServiceName,
    /// Its ports, each in each family: the first of them.
    pub ports: Vec<PortSheet>,
    /// How many there are.
    pub port_count: usize,
}

/// One port of a Service in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSheet {
    /// Its name; may be empty.
    pub port_name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its family.
    pub family: Family,
    /// Seconds of ClientIP affinity.
    pub affinity_seconds: Option<u32>,
    /// For the cluster IP.
    pub internal_policy: TrafficPolicy,
    /// For all other frontends.
    pub external_policy: TrafficPolicy,
    /// Port on which load balancers ask for health.
    pub health_check_node_port: Option<u16>,
    /// Why the kernel refused what the object says.
    pub set_aside: Option<String>,
    /// What happens to packets: one row per frontend and kind of client, the first of them.
    pub routes: Vec<Route>,
    /// How many rows there are.
    pub route_count: usize,
    /// Its endpoints: the first of them.
    pub endpoints: Vec<Endpoint>,
    /// How many there are.
    pub endpoint_count: usize,
}

/// What happens to the packets of some clients at one frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What they dial.
    pub frontend: Frontend,
    /// Who they are.
    pub client: String,
    /// Where their packets go.
    pub verdict: String,
    /// Whether their source is replaced.
    pub masquerade: String,
    /// The only sources that may use it; empty for all.
    pub allowed_sources: Vec<String>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it may be used.
    pub state: EndpointState,
    /// The node it runs on.
    pub node: Option<String>,
    /// Whether that is this node.
    pub is_here: bool,
    /// Zones and nodes that it is meant for.
    pub hints: Vec<String>,
    /// Whether this node uses it for anybody.
    pub is_used: bool,
}

/// What an EndpointSlice says about an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It may get new connections.
    Ready,
    /// It may not.
    NotReady,
    /// It ends, and answers until then.
    ServingWhileEnding,
    /// It ends and does not answer.
    Ending,
}

/// The change ledger, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Oldest first.
    pub entries: Vec<Change>,
    /// The number of the latest sync, whether it is among them or not.
    pub last: u64,
}

/// One sync of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Counts all syncs since the start.
    pub number: u64,
    /// Which family.
    pub family: Family,
    /// How much was written.
    pub kind: ChangeKind,
    /// Some of the Services that changed.
    pub services: Vec<ServiceName>,
    /// How many there are.
    pub service_count: usize,
    /// When the first of the changes was seen; absent for a sync without changes.
    pub seen: Option<SystemTime>,
    /// When the sync was over.
    pub committed: SystemTime,
    /// From the moment that the first change was seen.
    pub latency: Option<Duration>,
    /// What planning and writing took.
    pub took: Duration,
    /// Lines or messages.
    pub operations: usize,
    /// How it ended.
    pub outcome: Outcome,
}

/// How much a sync wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Everything.
    Full,
    /// What changed.
    Partial,
}

/// How a sync ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Written,
    /// Well, but for this many service ports.
    SetAside(usize),
    /// Not at all, because of this.
    Failed(String),
}

/// What was set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAsidePage {
    /// The first of it.
    pub items: Vec<SetAside>,
    /// How much there is.
    pub total: usize,
}

/// One thing that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Why, roughly.
    pub kind: SetAsideKind,
    /// What.
    pub object: String,
    /// In which family, if it is in one.
    pub family: Option<Family>,
    /// Why, exactly.
    pub cause: String,
}

/// Why something was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAsideKind {
    /// The object is wrong.
    Object,
    /// The kernel refused it.
    Refused,
    /// Another Service has the frontend.
    Conflict,
    /// The mode cannot serve something of it.
    Unserved,
    /// Some of its endpoints are too many.
    LeftOut,
}

/// Where a packet goes, and why: what the admin API answers, as far as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Who sends.
    pub from: IpAddr,
    /// Through which interface, if it was looked for.
    pub interface: Option<String>,
    /// Whether the node itself sends.
    pub is_from_this_node: bool,
    /// What is dialled.
    pub to: String,
    /// By which protocol.
    pub protocol: String,
    /// `endpoints`, `reject`, `drop` or `untouched`.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// The frontend that it hits.
    pub hit: Option<Hit>,
    /// What does it, one line each.
    #[serde(default)]
    pub by: Vec<String>,
    /// How many more there are.
    #[serde(default)]
    pub by_left_out: usize,
}

/// A frontend that a packet hits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// Namespace and name of its Service.
    pub service: String,
    /// Name of its port.
    pub port_name: String,
    /// What was dialled.
    pub frontend: String,
    /// Where it comes from.
    pub frontend_kind: String,
    /// As whom the sender is treated.
    pub client: String,
    /// Seconds of affinity.
    pub affinity_seconds: Option<u32>,
    /// The only sources that may use it; empty for all.
    #[serde(default)]
    pub allowed_sources: Vec<String>,
    /// Who else asked for it.
    #[serde(default)]
    pub losers: Vec<String>,
    /// Every endpoint.
    #[serde(default)]
    pub endpoints: Vec<ExplainedEndpoint>,
}

/// An endpoint, and whether it may answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedEndpoint {
    /// Where it listens.
    pub address: String,
    /// The node it runs on.
    pub node: Option<String>,
    /// Its odds, if it may answer.
    pub odds: Option<String>,
    /// Whom it sees as the client.
    pub seen_source: Option<String>,
    /// Why.
    pub source_reason: Option<String>,
    /// Why it may not answer.
    pub excluded: Option<String>,
}
