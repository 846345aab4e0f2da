//! `switchyard explain --probe`: a real packet of this node, and who got it.
//!
//! In: what the agent says that happens. Out: whether it does. A TCP connection is opened and closed at once; over UDP one empty datagram is
//! sent. Who gets it, the kernel's connection tracking tells, also if nobody answers; where a listener of the proxy was dialled, there is
//! nothing to track, and nobody needs the right to. Every wait is bounded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_netlink::conntrack::{Conntrack, Filter};
use switchyard_netlink::{Family, socket};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;

use super::client::CtlError;
use super::explain::plain;
use super::table::printable;
use super::{Finding, client};

/// How long a connection may take: longer than the kernel's first repetition of a packet.
const PATIENCE: Duration = Duration::from_secs(3);

/// A change between question and packet is no disagreement: it is tried again.
const TRIES: usize = 3;

/// How long a listener that has nobody to turn to may take to say so.
const TURNED_AWAY: Duration = Duration::from_millis(500);

/// Who leads packets to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The kernel translates them.
    Kernel,
    /// The kernel leads them to the proxy, which dials endpoints itself.
    Relay,
    /// What was dialled is a listener of the proxy.
    Listener,
}

impl Way {
    fn of(agent: &Value, answer: &Value, to: SocketAddr) -> Self {
        match agent["mode"] == "userspace" {
            false => Self::Kernel,
            // Rules lead nobody there who dials a loopback address.
            true if to.ip().is_loopback() && !answer["hit"].is_null() => Self::Listener,
            true => Self::Relay,
        }
    }
}

/// What became of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The connection was opened, or a datagram came back.
    Answered,
    /// Somebody refused it.
    Refused,
    /// Nothing happened.
    Silence,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probed {
    fate: Fate,
    /// Who got it, if the kernel translated it.
    got: Option<SocketAddr>,
    /// Absent if it cannot be said.
    agrees: Option<bool>,
    said: String,
}

impl Probed {
    pub(super) fn json(&self) -> Value {
        let outcome = match self.fate {
            Fate::Answered => "answered",
            Fate::Refused => "refused",
            Fate::Silence => "silence",
        };
        let got = self.got.map(|got| got.to_string());
        json!({ "outcome": outcome, "endpoint": got, "agrees": self.agrees, "text": self.said })
    }

    pub(super) fn text(&self) -> String {
        let agrees = match self.agrees {
            Some(true) => "as said above",
            Some(false) => "NOT as said above",
            None => "cannot be compared",
        };
        format!("\nprobe       {agrees}: {}\n", printable(&self.said))
    }

    pub(super) fn finding(&self) -> Finding {
        match self.agrees {
            Some(true) => Finding::Good,
            Some(false) => Finding::Bad,
            None => Finding::Unknown,
        }
    }
}

/// Asks, sends and compares.
pub(super) fn probe(
    agent: &Value,
    from: Option<&str>,
    ask: impl Fn() -> Result<Value, CtlError>,
) -> Result<(Value, Probed), CtlError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CtlError::Unsent)?;
    let mut last = None;
    for _ in 0..TRIES {
        let answer = ask()?;
        let said = &answer;
        if said["isFromThisNode"] != true {
            let advice = "leave --from out, or run it on the node that has the address";
            return Err(CtlError::Unprobed(format!("only packets of this node can be sent; {advice}")));
        }
        let to: SocketAddr = plain(&said["to"]).parse().map_err(|_| client::unknown("no address in to"))?;
        // A pod of the host's network was asked for by name; the agent says its address.
        let source = from.and_then(|_| plain(&said["from"]).parse().ok()).unwrap_or_else(|| unspecified(to));
        let protocol = plain(&said["protocol"]);
        let way = Way::of(agent, said, to);
        let (fate, got) = match protocol.as_str() {
            "tcp" => runtime.block_on(tcp(source, to, way))?,
            "udp" => runtime.block_on(udp(source, to, way))?,
            other => {
                return Err(CtlError::Unprobed(format!(
                    "{} cannot be probed, only tcp and udp",
                    printable(other)
                )));
            }
        };
        let probed = compare(&answer, way, fate, got.filter(|got| *got != to));
        if probed.agrees != Some(false) {
            return Ok((answer, probed));
        }
        last = Some((answer, probed));
    }
    last.ok_or_else(|| client::unknown("no answer"))
}

fn unspecified(to: SocketAddr) -> IpAddr {
    match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

async fn tcp(source: IpAddr, to: SocketAddr, way: Way) -> Result<(Fate, Option<SocketAddr>), CtlError> {
    let socket =
        if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(CtlError::Unsent)?;
    socket.bind(SocketAddr::new(source, 0)).map_err(CtlError::Unsent)?;
    let port = socket.local_addr().map_err(CtlError::Unsent)?.port();
    let outcome = timeout(PATIENCE, socket.connect(to)).await;
    // The flow is looked at while the connection, if there is one, is still open.
    let got = receiver(6, port, to, way)?;
    let fate = match outcome {
        Ok(Ok(stream)) if way == Way::Listener && is_turned_away(&stream).await => Fate::Refused,
        Ok(Ok(_)) => Fate::Answered,
        Ok(Err(_)) => Fate::Refused,
        Err(_) => Fate::Silence,
    };
    Ok((fate, got))
}

/// True if the connection was accepted only to be reset.
async fn is_turned_away(stream: &TcpStream) -> bool {
    let first = timeout(TURNED_AWAY, stream.peek(&mut [0])).await;
    matches!(first, Ok(Err(_)))
}

async fn udp(source: IpAddr, to: SocketAddr, way: Way) -> Result<(Fate, Option<SocketAddr>), CtlError> {
    let socket = UdpSocket::bind(SocketAddr::new(source, 0)).await.map_err(CtlError::Unsent)?;
    let port = socket.local_addr().map_err(CtlError::Unsent)?.port();
    socket.connect(to).await.map_err(CtlError::Unsent)?;
    // A rule may refuse it at once.
    let sent = socket.send(&[]).await;
    let mut room = [0; 2048];
    let fate = match sent {
        Err(_) => Fate::Refused,
        Ok(_) => match timeout(PATIENCE, socket.recv(&mut room)).await {
            Ok(Ok(_)) => Fate::Answered,
            Ok(Err(_)) => Fate::Refused,
            Err(_) => Fate::Silence,
        },
    };
    Ok((fate, receiver(17, port, to, way)?))
}

/// Who gets packets from this port to that address, by connection tracking.
fn receiver(protocol: u8, port: u16, to: SocketAddr, way: Way) -> Result<Option<SocketAddr>, CtlError> {
    if way == Way::Listener {
        return Ok(None);
    }
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let filter =
        Filter { family, protocol: Some(protocol), orig_dst: Some(to.ip()), orig_dst_port: Some(to.port()) };
    let mut found = None;
    let listed = socket::retry(|| {
        Conntrack::open()?.dump(&filter, &mut |flow| {
            if flow.orig.src_port == port {
                found = Some(SocketAddr::new(flow.reply.src, flow.reply.src_port));
            }
        })
    });
    listed.map_err(CtlError::Unfollowed)?;
    Ok(found)
}

fn compare(answer: &Value, way: Way, fate: Fate, got: Option<SocketAddr>) -> Probed {
    let endpoints =
        answer.pointer("/hit/endpoints").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let candidates = endpoints.iter().filter(|one| !one["odds"].is_null()).map(|one| plain(&one["address"]));
    let is_candidate = got.is_some_and(|got| candidates.into_iter().any(|one| one == got.to_string()));
    let agrees = match plain(&answer["verdict"]).as_str() {
        // The process itself dials the endpoint: from outside one sees only that somebody answers.
        "endpoints" if way == Way::Relay => Some(got.is_some() && fate == Fate::Answered),
        // Not everybody answers an empty datagram.
        "endpoints" if way == Way::Listener && fate == Fate::Silence => None,
        "endpoints" if way == Way::Listener => Some(fate == Fate::Answered),
        // The kernel forgets a flow at once whose only answer is a reset, and a rule that rejects looks the same.
        "endpoints" if got.is_none() && fate == Fate::Refused => None,
        "endpoints" => Some(is_candidate),
        "reject" => Some(got.is_none() && fate == Fate::Refused),
        "drop" => Some(got.is_none() && fate == Fate::Silence),
        _ => Some(got.is_none()),
    };
    let fate_text = match fate {
        Fate::Answered => "it answered",
        Fate::Refused => "it was refused",
        Fate::Silence => "nobody answered",
    };
    let said = match got {
        Some(got) if way == Way::Relay => format!("the packet went to the relay at {got}, and {fate_text}"),
        Some(got) => format!("the packet went to {got}, and {fate_text}"),
        None if way == Way::Listener => format!("the packet went to the relay, and {fate_text}"),
        None if agrees.is_none() => {
            "it was refused before it could be followed; does an endpoint listen on its port?".to_owned()
        }
        None => format!("the packet was sent nowhere else, and {fate_text}"),
    };
    Probed { fate, got, agrees, said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_got_it_and_what_happened_decide() {
        let (one, other) = ("10.1.0.1:80".parse().ok(), "10.1.0.9:80".parse().ok());
        let endpoints = json!([
            { "address": "10.1.0.1:80", "odds": "1/1" },
            { "address": "10.1.0.9:80", "odds": null, "excluded": "not ready" },
        ]);
        let answer = |verdict: &str| json!({ "verdict": verdict, "hit": { "endpoints": endpoints } });
        for (verdict, way, fate, got, agrees) in [
            ("endpoints", Way::Kernel, Fate::Answered, one, Some(true)),
            ("endpoints", Way::Kernel, Fate::Silence, one, Some(true)),
            ("endpoints", Way::Kernel, Fate::Answered, other, Some(false)),
            ("endpoints", Way::Kernel, Fate::Silence, None, Some(false)),
            ("endpoints", Way::Kernel, Fate::Refused, None, None),
            ("endpoints", Way::Relay, Fate::Answered, other, Some(true)),
            ("endpoints", Way::Relay, Fate::Refused, other, Some(false)),
            ("reject", Way::Kernel, Fate::Refused, None, Some(true)),
            ("reject", Way::Kernel, Fate::Refused, one, Some(false)),
            ("reject", Way::Kernel, Fate::Silence, None, Some(false)),
            ("drop", Way::Kernel, Fate::Silence, None, Some(true)),
            ("drop", Way::Kernel, Fate::Refused, None, Some(false)),
            ("untouched", Way::Kernel, Fate::Answered, None, Some(true)),
            ("untouched", Way::Kernel, Fate::Answered, one, Some(false)),
            ("endpoints", Way::Listener, Fate::Answered, None, Some(true)),
            ("endpoints", Way::Listener, Fate::Refused, None, Some(false)),
            ("endpoints", Way::Listener, Fate::Silence, None, None),
            ("reject", Way::Listener, Fate::Refused, None, Some(true)),
            ("reject", Way::Listener, Fate::Answered, None, Some(false)),
            ("drop", Way::Listener, Fate::Silence, None, Some(true)),
        ] {
            let probed = compare(&answer(verdict), way, fate, got);
            assert_eq!(probed.agrees, agrees, "{verdict} {way:?} {fate:?} {got:?}");
            assert_eq!(probed.json()["agrees"], json!(agrees));
        }
    }
}
