//! What a relay does otherwise than kube-proxy's nftables mode, which userspace mode is compared with: kube-proxy has no such mode any more.
//!
//! All of it is here, and docs/modes.md says why. Everything else must be the same, because the rules that lead to the relay decide it: who
//! may answer, who is refused, dropped or left alone. SCTP, which is set aside, is dialled by nobody.

use std::net::{IpAddr, SocketAddr};

use switchyard_lab::Answer;
use switchyard_lab::scenario::address::Symbol;

use crate::probes::Probe;
use crate::sources;

/// The option whose default differs: a relay's node ports answer on every address of the node, those of nftables mode on the primary one.
const OPTION: &str = "--nodeport-addresses=";

/// What kube-proxy is started with besides the flags of both, so that its node ports answer where those of a relay do.
pub(crate) fn flag_for_kube_proxy(flags: &[String]) -> Option<String> {
    let is_set = flags.iter().any(|flag| flag.starts_with(OPTION));
    (!is_set).then(|| format!("{OPTION}0.0.0.0/0,::/0"))
}

/// kube-proxy's answer as it must be through a relay: the same endpoint, which sees the node, because the relay dials it.
pub(crate) fn relayed(answer: Answer) -> Answer {
    match answer {
        Answer::Answered { name, seen } => {
            let ip = node_towards(&name, seen.ip()).unwrap_or(seen.ip());
            Answer::Answered { name, seen: SocketAddr::new(ip, seen.port()) }
        }
        other => other,
    }
}

/// Whether kube-proxy can serve what a relay can: not where it keeps the client's address, and neither client nor endpoint is on n1. Then
/// the answer goes past n1 to a client that does not know the endpoint. Without a cluster CIDR it keeps all addresses, else those of pods.
pub(crate) fn is_comparable(probe: &Probe, flags: &[String]) -> bool {
    let knows_pods = flags.iter().any(|flag| flag.starts_with("--cluster-cidr="));
    let is_kept = match probe.from {
        Symbol::Pod(node, _) => node != 1,
        Symbol::Client | Symbol::Node(2) => !knows_pods,
        _ => false,
    };
    !(is_kept && probe.service.nodes.contains(&2))
}

/// The address that n1 has towards a pod, which is named as its echo server calls itself.
fn node_towards(pod: &str, like: IpAddr) -> Option<IpAddr> {
    let symbol = if pod.starts_with("pod-1-") { Symbol::Gateway } else { Symbol::Node(1) };
    symbol.ip(sources::family(like))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pod: &str, client: &str) -> String {
        let answer = Answer::Answered { name: pod.to_owned(), seen: client.parse().unwrap() };
        let relayed = relayed(answer);
        assert_eq!(relayed.name(), Some(pod));
        relayed.seen_ip().unwrap().to_string()
    }

    #[test]
    fn endpoints_see_the_node() {
        assert_eq!(seen("pod-1-1", "192.168.100.10:7"), "10.1.1.1");
        assert_eq!(seen("pod-2-1", "192.168.100.10:7"), "192.168.1.10");
        assert_eq!(seen("pod-1-1", "[fd00:168:100::10]:7"), "fd00:10:1:1::1");
        assert_eq!(relayed(Answer::Refused), Answer::Refused);
    }

    #[test]
    fn an_answer_that_goes_past_the_node_is_not_compared() {
        let from = |client: Symbol, flags: &[String]| {
            let mut probe = Probe::to_nobody(client);
            probe.service.nodes.insert(2);
            is_comparable(&probe, flags)
        };
        let told = ["--cluster-cidr=10.1.0.0/16".to_owned()];
        assert!(
            from(Symbol::Client, &told) && from(Symbol::Pod(1, 9), &told) && !from(Symbol::Pod(2, 9), &told)
        );
        assert!(!from(Symbol::Client, &[]) && from(Symbol::Pod(1, 9), &[]) && from(Symbol::Node(1), &[]));
        assert!(is_comparable(&Probe::to_nobody(Symbol::Pod(2, 9)), &told), "no endpoint is on n2");
    }

    #[test]
    fn node_ports_answer_everywhere_unless_it_is_said_where() {
        assert_eq!(flag_for_kube_proxy(&[]), Some("--nodeport-addresses=0.0.0.0/0,::/0".to_owned()));
        assert_eq!(flag_for_kube_proxy(&["--nodeport-addresses=primary".to_owned()]), None);
    }
}
