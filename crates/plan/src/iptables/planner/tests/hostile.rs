//! Names that no API server would let through, pushed into the planner directly.

use proptest::prelude::*;
use switchyard_model::ServiceName;

use super::*;
use crate::settings::LocalDetector;
use crate::testing::kernel::words;

fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\""),
        Just("'"),
        Just("\\"),
        Just("\n"),
        Just("\r\n"),
        Just("\u{2028}"),
        Just(" "),
        Just("\t"),
        Just("\0"),
        Just("-j ACCEPT"),
        Just("\nCOMMIT\n*filter\n-A INPUT -j ACCEPT"),
        Just("-A INPUT"),
        Just("#"),
        Just(";"),
        Just("$(reboot)"),
        Just("é"),
        Just("\u{202e}"),
        Just("web"),
        Just(":"),
        Just("/"),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// All restore input that a life of these service ports causes.
fn everything(ports: &[ServicePort], detector: &str) -> String {
    let detector = LocalDetector::Bridge(detector.into());
    let mut planner = empty(Settings { detector, ..settings(Family::V4) });
    let mut text = String::new();
    for limit in [1, 100] {
        for step in planner.full(&BTreeSet::new(), limit) {
            text += &planner.render(&step).restore.text();
        }
        text += &planner.partial(all(ports)).batch.restore.text();
    }
    let gone = ports.iter().map(|p| (p.name.clone(), None)).collect();
    text + &planner.partial(gone).batch.restore.text()
}

fn named(namespace: &str, service: &str, port_name: &str) -> Vec<ServicePort> {
    let text =
        "svc a/b:c tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=10.0.0.0/8 sticky=60 \
                etp=local health=32000\n ep 10.1.0.1:80 @here\n ep 10.1.0.2:80 @there
        svc a/b:c udp 10.96.0.2:80 node=30080 itp=local etp=local\n ep 10.1.0.2:80 @there
        svc a/b:c sctp 10.96.0.3:80 ext=203.0.113.1";
    let mut ports = World::new(Family::V4, text).ports;
    for port in &mut ports {
        port.name.service = ServiceName::new(namespace, service);
        port.name.port = port_name.into();
    }
    ports
}

/// The words of each line, with everything that a name may decide taken out.
fn skeleton(text: &str) -> Vec<Vec<String>> {
    let mut skeleton = Vec::new();
    for line in text.lines() {
        let mut words = words(line);
        if let Some(at) = words.iter().position(|w| w == "--comment") {
            words[at + 1].clear();
        }
        if let Some(at) = words.iter().position(|w| w == "-i") {
            words[at + 1].clear();
        }
        for word in &mut words {
            if let Some(at) =
                word.find("KUBE-S").or_else(|| word.find("KUBE-EXT-")).or_else(|| word.find("KUBE-FW-"))
            {
                word.truncate(at + 8);
            }
        }
        skeleton.push(words);
    }
    skeleton
}

proptest! {
    /// Every line is a rule of ours, and no name adds, removes or changes an argument.
    #[test]
    fn no_name_leaves_its_argument(
        namespace in nasty(), service in nasty(), port in nasty(), detector in nasty(),
    ) {
        let text = everything(&named(&namespace, &service, &port), &format!("br{detector}"));
        let ours = ["*", ":KUBE-", "-A KUBE-", "-X KUBE-", "COMMIT"];
        for line in text.lines() {
            prop_assert!(ours.iter().any(|start| line.starts_with(start)), "{line:?}");
        }
        prop_assert!(text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)));
        // Chains are deleted in the order of their hashed names, so compare without order.
        let sorted = |text: &str| {
            let mut lines = skeleton(text);
            lines.sort();
            lines
        };
        prop_assert_eq!(sorted(&text), sorted(&everything(&named("ns", "svc", "p"), "cbr0")));
    }
}
