//! Real packets through the lab: who answers, from which source, and what a failure looks like.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use switchyard_lab::{Answer, Dial, Family, Host, Lab, LabError, Node, Transport, address};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn at(host: &Host, family: Family, port: u16) -> SocketAddr {
    SocketAddr::new(host.ip(family), port)
}

#[test]
fn everybody_reaches_pods_in_both_families_and_the_source_is_kept() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let server = lab.add_pod(Node::N1, 0).unwrap();
    let _tcp = server.echo_tcp(8080).unwrap();
    let _udp = server.echo_udp(8080).unwrap();
    let neighbour = lab.add_pod(Node::N1, 1).unwrap();
    let remote = lab.add_pod(Node::N2, 0).unwrap();
    for family in FAMILIES {
        for transport in TRANSPORTS {
            let dial = Dial::new(transport, at(&server, family, 8080));
            let callers = [&neighbour, &remote, lab.client(), lab.node(Node::N2), &server];
            for caller in callers {
                let answer = caller.dial(&dial);
                assert_eq!(answer.name(), Some("pod-1-0"), "{} {dial:?}: {answer:?}", caller.name());
                assert_eq!(answer.seen_ip(), Some(caller.ip(family)), "{}", caller.name());
            }
            let own_node = lab.node(Node::N1).dial(&dial);
            assert_eq!(own_node.seen_ip(), Some(address::pod_gateway(Node::N1, family)));
        }
    }
}

#[test]
fn the_client_reaches_nodes_and_both_pods_reach_the_client() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let _echoes =
        Node::ALL.map(|n| (lab.node(n).echo_tcp(30080).unwrap(), lab.node(n).echo_udp(30080).unwrap()));
    let _client_echo = lab.client().echo_tcp(9000).unwrap();
    let pod = lab.add_pod(Node::N2, 7).unwrap();
    for family in FAMILIES {
        for node in Node::ALL {
            for transport in TRANSPORTS {
                let answer = lab.client().dial(&Dial::new(transport, at(lab.node(node), family, 30080)));
                assert_eq!(answer.name(), Some(node.name()), "{answer:?}");
            }
        }
        let answer = pod.dial(&Dial::tcp(at(lab.client(), family, 9000)));
        assert_eq!((answer.name(), answer.seen_ip()), (Some("client"), Some(pod.ip(family))));
    }
}

#[test]
fn a_closed_port_refuses_and_a_missing_pod_is_silent() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let pod = lab.add_pod(Node::N1, 0).unwrap();
    let short = Duration::from_millis(150);
    for family in FAMILIES {
        let missing = SocketAddr::new(address::pod(Node::N2, 99, family).unwrap(), 8080);
        for transport in TRANSPORTS {
            let closed = Dial::new(transport, at(&pod, family, 8080));
            assert_eq!(lab.client().dial(&closed), Answer::Refused, "{closed:?}");
            assert_eq!(lab.client().dial_many(&closed, 20).failed.get("Refused"), Some(&20), "{closed:?}");
            let silent = Dial::new(transport, missing).within(short);
            assert_eq!(lab.client().dial(&silent), Answer::Timeout, "{silent:?}");
        }
    }
    check_icmp_is_noticed_at_once(&lab, &pod);
}

fn check_icmp_is_noticed_at_once(lab: &Lab, pod: &Host) {
    let ruleset = "table inet t { chain c { type filter hook forward priority 0; tcp dport 1 reject with icmpx admin-prohibited; tcp dport 2 reject; }; }";
    let loaded = lab.node(Node::N1).exec_ok("nft", &[ruleset]);
    assert!(loaded.is_ok(), "{loaded:?}");
    for family in FAMILIES {
        let answer = lab.client().dial(&Dial::tcp(at(pod, family, 1)).within(Duration::from_millis(300)));
        assert!(matches!(answer, Answer::Unreachable(_)), "{answer:?}");
        let answer = lab.client().dial(&Dial::tcp(at(pod, family, 2)).within(Duration::from_millis(300)));
        assert_eq!(answer, Answer::Refused);
    }
}

#[test]
fn service_addresses_of_every_range_arrive_at_n1() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let pod = lab.add_pod(Node::N2, 0).unwrap();
    let _echo = pod.echo_tcp(8080).unwrap();
    let n1 = lab.node(Node::N1);
    for family in FAMILIES {
        let (word, backend) = match family {
            Family::V4 => ("ip", pod.ip(family).to_string()),
            Family::V6 => ("ip6", format!("[{}]", pod.ip(family))),
        };
        let rules = format!(
            "table {word} t {{ chain c {{ type nat hook prerouting priority dstnat; tcp dport 80 dnat to {backend}:8080; }}; \
             chain m {{ type nat hook postrouting priority srcnat; masquerade; }}; }}"
        );
        let loaded = n1.feed("nft", &["-f", "-"], rules.as_bytes()).unwrap();
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
        for (range, _) in address::service_ranges(family) {
            let answer = lab.client().dial(&Dial::tcp(SocketAddr::new(range, 80)));
            assert_eq!(
                (answer.name(), answer.seen_ip()),
                (Some("pod-2-0"), Some(n1.ip(family))),
                "{range}: {answer:?}"
            );
        }
    }
}

#[test]
fn a_service_address_without_a_rule_is_silent_for_everybody() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let pod = lab.add_pod(Node::N1, 0).unwrap();
    for family in FAMILIES {
        let nobody = SocketAddr::new(address::service_ranges(family)[0].0, 80);
        for caller in [lab.client(), lab.node(Node::N1), lab.node(Node::N2), &pod] {
            let answer = caller.dial(&Dial::tcp(nobody).within(Duration::from_millis(60)));
            assert_eq!(answer, Answer::Timeout, "{}", caller.name());
        }
    }
}

#[test]
fn a_held_connection_keeps_its_port_and_notices_death() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let pod = lab.add_pod(Node::N1, 0).unwrap();
    let (tcp, udp) = (pod.echo_tcp(8080).unwrap(), pod.echo_udp(8080).unwrap());
    assert_eq!((tcp.name(), tcp.port()), ("pod-1-0", 8080));
    let source = at(lab.client(), Family::V6, 40_000);
    let mut held = TRANSPORTS
        .map(|t| lab.client().hold(&Dial::new(t, at(&pod, Family::V6, 8080)).from(source)).unwrap());
    for connection in &mut held {
        for _ in 0..3 {
            assert_eq!(connection.ask(), Answer::Answered { name: "pod-1-0".to_owned(), seen: source });
        }
        assert_eq!(connection.local_addr().unwrap(), source);
    }
    drop((tcp, udp));
    assert!(matches!(held[0].ask(), Answer::Other(_)));
    assert_eq!(held[1].ask(), Answer::Refused);
    // The same port again, and a server that comes back.
    drop(held);
    let _tcp = pod.echo_tcp(8080).unwrap();
    let tally = lab.client().dial_many(&Dial::tcp(at(&pod, Family::V6, 8080)).from(source), 5);
    assert_eq!(tally.answered.get("pod-1-0"), Some(&5), "{tally:?}");
}

#[test]
fn a_pod_that_is_dropped_can_be_added_again_at_once() {
    let Some(lab) = Lab::new_or_skip() else { return };
    for _ in 0..3 {
        let pod = lab.add_pod(Node::N1, 0).unwrap();
        let _echo = pod.echo_udp(53).unwrap();
        assert!(matches!(lab.add_pod(Node::N1, 0), Err(LabError::PodExists { .. })));
        for family in FAMILIES {
            let dial = Dial::udp(at(&pod, family, 53));
            let answer = lab.client().dial(&dial);
            assert!(answer.name().is_some(), "{dial:?}: {answer:?}");
        }
    }
    for family in FAMILIES {
        let gone = SocketAddr::new(address::pod(Node::N1, 0, family).unwrap(), 53);
        assert_eq!(lab.client().dial(&Dial::udp(gone).within(Duration::from_millis(60))), Answer::Timeout);
    }
    assert!(lab.add_pod(Node::N1, 245).is_err());
}

#[test]
fn a_lab_is_quick_to_make() {
    let Some(_warm) = Lab::new_or_skip() else { return };
    let start = Instant::now();
    let lab = Lab::new().unwrap();
    let base = start.elapsed();
    let pods: Vec<_> = (0..10).map(|i| lab.add_pod(Node::N1, i).unwrap()).collect();
    eprintln!("lab: {base:?}, then {} pods: {:?}", pods.len(), start.elapsed() - base);
    assert!(base < Duration::from_millis(500), "{base:?}");
}
