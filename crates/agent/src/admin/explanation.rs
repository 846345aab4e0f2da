//! Explanations: the question of an operator as a packet, and why it goes where it goes as JSON.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};
use switchyard_model::{Family, Protocol};
use switchyard_netlink::NetlinkError;
use switchyard_netlink::route::Routes;
use switchyard_plan::explain::{Explanation, Hit, Judged, Place, Reason, Standing, explain as why};
use switchyard_plan::trace::{Answer, NodeAddresses, Packet, is_own};
use switchyard_serve::admin::Question;
use switchyard_source::lookup::Pods;

use super::{Dialled, Refusal, Sender};
use crate::sync::{View, with_causes};

/// What somebody wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who sends; nobody in particular means this node.
    pub from: Option<Sender>,
    /// The interface that it comes in on; without it, the one that leads to the sender.
    pub interface: Option<String>,
    /// What is dialled.
    pub to: Dialled,
    /// By which protocol; without it TCP, or for a Service the one that its port has.
    pub protocol: Option<Protocol>,
}

impl Asked {
    pub(super) fn read(question: &Question) -> Result<Self, Refusal> {
        let missing = |name: &str| (400, format!("{name} is missing"));
        let to = question.parameter("to").ok_or_else(|| missing("to"))?;
        let to = Dialled::read(to)?;
        let from =
            question.parameter("from").filter(|text| !text.is_empty()).map(Sender::read).transpose()?;
        if let (Dialled::Address(to), Some(Sender::Address(from))) = (&to, &from)
            && Family::of(*from) != Family::of(to.ip())
        {
            return Err((400, "from and to are of different IP families".to_owned()));
        }
        let interface = question.parameter("interface").filter(|name| !name.is_empty()).map(str::to_owned);
        let protocol =
            question.parameter("protocol").filter(|text| !text.is_empty()).map(protocol).transpose()?;
        Ok(Self { from, interface, to, protocol })
    }
}

fn protocol(text: &str) -> Result<Protocol, Refusal> {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let found = all.into_iter().find(|protocol| protocol.to_string().eq_ignore_ascii_case(text));
    found.ok_or_else(|| (400, format!("protocol must be tcp, udp or sctp, not {text:?}")))
}

/// Who sends, and what is dialled.
struct Ends {
    from: Option<IpAddr>,
    /// The name of the pod that sends, if that was asked for.
    pod: Option<String>,
    to: SocketAddr,
    protocol: Protocol,
}

fn ends(view: &View<'_>, asked: &Asked, pods: Option<&Pods>) -> Result<Ends, Refusal> {
    let resolve = |family| asked.to.resolve(view, asked.protocol, family);
    let (from, pod, (to, protocol)) = match &asked.from {
        None => (None, None, resolve(None)?),
        Some(Sender::Address(from)) => (Some(*from), None, resolve(Some(Family::of(*from)))?),
        Some(Sender::Pod { namespace, name }) => {
            let unknown = "pods are not known by name here; give an IP address, or ask `switchyard explain`";
            let pods = pods.ok_or_else(|| (400, unknown.to_owned()))?;
            let pod = Sender::find(namespace.as_deref(), name, pods)?;
            let (from, found) =
                pod.dial(|family| resolve(Some(family)).map(|found| (found.0.ip(), found)))?;
            (Some(from), Some(pod.name), found)
        }
    };
    Ok(Ends { from, pod, to, protocol })
}

pub(super) fn explain(view: &View<'_>, asked: &Asked, pods: Option<&Pods>) -> Result<Value, Refusal> {
    let Ends { from, pod, to, protocol } = ends(view, asked, pods)?;
    let family = Family::of(to.ip());
    let Some(sync) = view.family(family) else {
        return Err((404, format!("this node does not serve {family}")));
    };
    let cannot = |error: NetlinkError| (500, format!("cannot ask the kernel: {}", with_causes(&error)));
    let mut routes = Routes::open().map_err(cannot)?;
    let node: NodeAddresses =
        routes.addresses().map_err(cannot)?.into_iter().map(|one| one.address).collect();
    let book = sync.book();
    let source = from.unwrap_or(book.settings().node_ip);
    let interface = match &asked.interface {
        Some(name) => Some(name.clone()),
        None if from.is_none() || is_own(&node, source) => None,
        None => Some(routes.interface_towards(source).map_err(cannot)?.unwrap_or_default()),
    };
    let packet = Packet { source, interface, destination: to.ip(), protocol, port: to.port() };
    let manners = sync.manners();
    let explanation = why(Place { book, node: &node, manners: &manners }, &packet);
    let means = sync.means(&explanation, &packet);
    Ok(show(&packet, pod.as_deref(), &explanation, means))
}

/// Lines of means that are told; of a Service with more endpoints the rest is only counted.
const MEANS: usize = 500;

fn show(packet: &Packet, pod: Option<&str>, explanation: &Explanation<'_>, mut means: Vec<String>) -> Value {
    let more = means.len().saturating_sub(MEANS);
    means.truncate(MEANS);
    let verdict = match explanation.answer {
        Answer::Endpoints(_) => "endpoints",
        Answer::Reject => "reject",
        Answer::Drop => "drop",
        Answer::Untouched => "untouched",
    };
    json!({
        "apiVersion": "v1",
        "kind": "Explanation",
        "from": packet.source,
        "fromPod": pod,
        "interface": packet.interface.as_deref().filter(|name| !name.is_empty()),
        "isFromThisNode": packet.interface.is_none(),
        "to": SocketAddr::new(packet.destination, packet.port).to_string(),
        "protocol": packet.protocol.to_string(),
        "verdict": verdict,
        "reason": explanation.reason.to_string(),
        "dialInstead": match &explanation.reason {
            Reason::DialInstead(_, at) => Some(at.to_string()),
            _ => None,
        },
        "hit": explanation.hit.as_ref().map(|hit| show_hit(hit, &explanation.reason)),
        "by": means,
        "byLeftOut": more,
    })
}

fn show_hit(hit: &Hit<'_>, reason: &Reason) -> Value {
    let odds = match reason {
        Reason::Picked(pick) => Some(pick.chooser.odds(hit.candidates())),
        _ => None,
    };
    let endpoint = |judged: &Judged<'_>| {
        let (odds, source, excluded) = match judged.standing {
            Standing::Candidate(source) => (odds.as_deref(), Some(source), None),
            Standing::Excluded(why) => (None, None, Some(why.to_string())),
        };
        json!({
            "address": judged.endpoint.address.to_string(),
            "node": judged.endpoint.node.as_deref(),
            "odds": odds,
            "seenSource": source.map(|source| source.seen().to_string()),
            "sourceReason": source.map(|source| source.to_string()),
            "excluded": excluded,
        })
    };
    json!({
        "service": hit.port.name.service.to_string(),
        "portName": &*hit.port.name.port,
        "frontend": hit.frontend.to_string(),
        "frontendKind": hit.kind.to_string(),
        "client": hit.client.to_string(),
        "affinitySeconds": hit.port.affinity,
        "allowedSources": hit.allowed_sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "losers": hit.losers.iter().map(|key| key.name.to_string()).collect::<Vec<_>>(),
        "endpoints": hit.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
