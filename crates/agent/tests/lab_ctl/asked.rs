//! `switchyard explain`: with a real packet beside the answer, by the name of a Service, and what is wrong in one line.

use std::net::SocketAddr;

use serde_json::Value;
use switchyard_model::Family;

use super::{answering, ask, json, text};
use crate::common::looking::{http, ip};
use crate::common::variant::Variant;
use crate::common::world::{POD_PORT, World};

const OBJECTS: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.2:8080\nendpoint web n2.2:8080
service dns cluster.2:53/udp\nendpoint dns n2.3:8080/udp
service nobody cluster.3:80/tcp
service shut cluster.4:80/tcp\nendpoint shut n1.2:9";

/// A port of the client that nobody listens on.
fn outside(world: &World) -> String {
    SocketAddr::new(ip(world.lab.client(), Family::V4), 9).to_string()
}

/// Everything that a packet of this node can meet.
fn a_packet_goes_where_it_is_said_to_go(variant: Variant) {
    let Some(world) = answering(variant, OBJECTS) else { return };
    let outside = outside(&world);
    for (to, verdict) in [
        ("web", "endpoints"),
        ("default/dns", "endpoints"),
        ("nobody", "reject"),
        (outside.as_str(), "untouched"),
    ] {
        let output = ask(&world, &["explain", "--to", to, "--probe", "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{to}: {output:?}");
        let answer = json(&output);
        assert_eq!(answer["verdict"], verdict, "{to}: {answer}");
        assert_eq!(answer["probe"]["agrees"], true, "{to}: {answer}");
        let is_led = verdict == "endpoints";
        assert_eq!(answer["probe"]["endpoint"].is_string(), is_led, "{to}: {answer}");
        assert_eq!(answer["by"].as_array().unwrap().is_empty(), verdict == "untouched", "{to}: {answer}");
    }
    let said = ask(&world, &["explain", "--to", "web", "--probe"]);
    let said = text(&said.stdout);
    assert!(said.contains("\nprobe       as said above: the packet went to "), "{said}");
    assert!(said.contains("\nby  "), "{said}");
}

every_mode!(a_packet_goes_where_it_is_said_to_go);

#[test]
fn a_packet_goes_where_it_is_said_to_go_in_userspace_mode() {
    a_packet_goes_where_it_is_said_to_go(Variant::Userspace);
}

/// A port of a cluster IP that no Service has, and an address of a ServiceCIDR that no Service has: what refuses them is named, and there.
fn what_refuses_a_stray_is_named_and_found(variant: Variant) {
    let cidrs = "service-cidrs 10.96.0.0/16,fd00:10:96::/112\n";
    let Some(world) = answering(variant, &format!("{cidrs}{OBJECTS}")) else { return };
    let chain =
        world.n1().exec_ok("nft", &["list", "chain", "ip", "switchyard", "cluster-ips-check"]).unwrap();
    for (to, verdict, named) in [("10.96.0.1:81", "reject", 2), ("10.96.0.199:80", "drop", 1)] {
        let answer = json(&ask(&world, &["explain", "--to", to, "--probe", "-o", "json"]));
        assert_eq!(
            (&answer["verdict"], &answer["probe"]["agrees"]),
            (&verdict.into(), &true.into()),
            "{answer}"
        );
        let by: Vec<&str> =
            answer["by"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(by.len(), named, "{answer}");
        for line in &by {
            if let Some(rule) = line.strip_prefix("rule ") {
                let rule = rule.strip_suffix(" of chain cluster-ips-check").unwrap();
                assert!(chain.lines().any(|listed| listed.trim() == rule), "{rule} is not in {chain}");
            } else {
                let element = line.strip_prefix("element cluster-ips ").unwrap();
                let found = ["get", "element", "ip", "switchyard", "cluster-ips", element];
                world.n1().exec_ok("nft", &found).unwrap();
            }
        }
        let said = ask(&world, &["explain", "--to", to]);
        let printed: Vec<&str> =
            text(&said.stdout).lines().filter_map(|line| line.strip_prefix("by  ")).collect();
        assert_eq!(printed, by);
    }
}

#[test]
fn what_refuses_a_stray_is_named_and_found_in_nftables_mode() {
    what_refuses_a_stray_is_named_and_found(Variant::Nftables);
}

#[test]
fn what_refuses_a_stray_is_named_and_found_in_userspace_mode() {
    what_refuses_a_stray_is_named_and_found(Variant::Userspace);
}

/// The form's first choice of a protocol is the one that the Service has.
#[test]
fn the_dashboard_explains_a_udp_service_by_its_name() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    world.write(OBJECTS);
    world.start(&["--enable-ui"]);
    world.settle();
    let page = |query: &str| http(world.n1(), "127.0.0.1:10249", &format!("/ui/explain?{query}")).unwrap();
    let (status, shown) = page("from=&to=default%2Fdns&protocol=");
    assert_eq!(status, 200, "{shown}");
    assert!(
        shown.contains("to 10.96.0.2:53/udp") && shown.contains("<code>element frontends { 10.96.0.2"),
        "{shown}"
    );
    assert_eq!(page("to=default%2Fdns&protocol=tcp").0, 404);
}

/// Somebody leads packets elsewhere, in front of the proxy.
#[test]
fn a_packet_that_goes_elsewhere_is_told_with_exit_code_1() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    let elsewhere = SocketAddr::new(ip(&world.pod("n2.9"), Family::V4), POD_PORT).to_string();
    let script = format!(
        "add table ip theirs\nadd chain ip theirs out {{ type nat hook output priority -150; }}\n\
         add rule ip theirs out ip daddr 10.96.0.1 tcp dport 80 dnat to {elsewhere}\n"
    );
    let fed = world.n1().feed("nft", &["-f", "-"], script.as_bytes()).unwrap();
    assert!(fed.status.success(), "{script}: {fed:?}");
    let output = ask(&world, &["explain", "--to", "web", "--probe", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let answer = json(&output);
    assert_eq!(answer["probe"]["agrees"], false, "{answer}");
    assert_eq!(answer["probe"]["endpoint"], elsewhere.as_str(), "{answer}");
}

/// A reset is forgotten by the kernel at once, so nobody can say whose it was.
#[test]
fn an_endpoint_that_does_not_listen_cannot_be_followed() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    let output = ask(&world, &["explain", "--to", "shut", "--probe"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("\nprobe       cannot be compared: it was refused"), "{said}");
}

/// Each is one line that says what to do.
#[test]
fn what_is_wrong_is_said_in_one_line() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    for (arguments, code, said) in [
        (
            &["explain", "--to", "missing"] as &[&str],
            1,
            "no Service missing is served here; `switchyard get services` lists all",
        ),
        (&["explain", "--to", "10.96.0.1"], 1, "to must be an address with a port or a Service"),
        (&["explain", "--to", "web:https"], 1, "web has no such port, only 80/tcp; write web:PORT"),
        (&["explain", "--to", "web", "--from", "web-0"], 1, "no pod web-0 is known: only pods"),
        (
            &["explain", "--to", "web", "--from", "10.1.0.2", "--probe"],
            2,
            "only packets of this node can be sent; leave --from out",
        ),
        (&["explain", "--to", "web", "--from", "fd00::1"], 0, ""),
        (
            &["explain", "--to", "10.96.0.1:80", "--from", "fd00::1"],
            1,
            "from and to are of different IP families",
        ),
    ] {
        let output = ask(&world, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        let error = text(&output.stderr);
        assert!(error.contains(said) && error.lines().count() <= 1, "{arguments:?}: {error}");
    }
    let found = json(&ask(&world, &["get", "services", "-n", "default", "web", "-o", "json"]));
    assert_eq!(found["items"].as_array().map(Vec::len), Some(2), "{found}");
}

/// As kubectl: what was asked for by name and is not there is an error, an empty list is none.
#[test]
fn what_is_not_there_is_told_on_standard_error() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    let said = |arguments: &[&str]| {
        let output = ask(&world, arguments);
        let [found, error] = [&output.stdout, &output.stderr].map(|bytes| text(bytes).to_owned());
        (output.status.code(), found, error)
    };
    let missing = "Error: no Service missing is served here; `switchyard get services` lists all, \
                   `switchyard get quarantine` what was set aside\n";
    for resource in ["services", "endpoints", "routes"] {
        for output in ["table", "wide", "json", "yaml", "name"] {
            let told = said(&["get", resource, "missing", "-o", output]);
            assert_eq!(told, (Some(1), String::new(), missing.to_owned()), "{resource} {output}");
        }
    }
    let (code, found, error) = said(&["get", "services", "web", "missing", "dns", "-o", "name"]);
    assert_eq!((code, found.as_str(), error.as_str()), (Some(1), "default/web\ndefault/dns\n", missing));
    let (code, found, error) = said(&["get", "services", "-n", "nobody"]);
    let note = "No resources found in namespace nobody; `switchyard get services` lists all\n";
    assert_eq!((code, found.as_str(), error.as_str()), (Some(0), "", note));
    let (code, found, error) = said(&["get", "services", "-n", "nobody", "-o", "json"]);
    let list: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((code, &list["items"], error.as_str()), (Some(0), &serde_json::json!([]), ""));
    let (code, found, _) = said(&["get", "endpoints", "web", "-n", "default", "--no-headers"]);
    assert_eq!((code, found.lines().count()), (Some(0), 4));
    // A command line that cannot be read is no answer.
    for (arguments, code) in [
        (&["diff", "-o", "wide"] as &[&str], 2),
        (&["explain", "--to", "web", "--probe", "-o", "wide"], 2),
        (&["explain", "--to", "web", "-o", "wide"], 1),
        (&["get", "services", "--watch"], 1),
        (&["get", "services", "web", "-l", "app=web"], 1),
    ] {
        let (found, stdout, error) = said(arguments);
        assert_eq!((found, stdout.as_str()), (Some(code), ""), "{arguments:?}: {error}");
    }
}

/// What the system refuses is said with its cause and with what to do.
#[test]
fn trouble_of_the_system_is_said_in_one_line() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    world.n1().exec_ok("ip", &["route", "add", "unreachable", "203.0.113.0/24"]).unwrap();
    let unsent = ask(&world, &["explain", "--to", "203.0.113.9:53/udp", "--probe"]);
    assert_eq!(unsent.status.code(), Some(2), "{unsent:?}");
    let error = text(&unsent.stderr);
    let advice =
        "Error: cannot send a packet; `ip route get ADDRESS` shows whether this node has a way there";
    assert!(error.starts_with(advice) && error.contains(": No route to host"), "{error}");
    let script = format!(
        "{} get services --admin-socket {} >/dev/full",
        env!("CARGO_BIN_EXE_switchyard"),
        super::socket(&world).display()
    );
    let unprinted = world.n1().exec("sh", &["-c", &script]).unwrap();
    let want =
        "Error: cannot print; see whether there is room where the output goes: No space left on device";
    assert!(text(&unprinted.stderr).starts_with(want), "{unprinted:?}");
    assert_eq!((unprinted.status.code(), text(&unprinted.stderr).lines().count()), (Some(1), 1));
}

/// The socket is for the agent's user alone.
#[test]
fn a_socket_of_another_user_is_said_in_one_line() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    let socket = super::socket(&world);
    // The socket itself must be what refuses, not the directory of the test.
    std::process::Command::new("chmod").arg("0711").arg(socket.parent().unwrap()).status().unwrap();
    let program = world.path("switchyard");
    std::fs::copy(env!("CARGO_BIN_EXE_switchyard"), &program).unwrap();
    let script = format!(
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups {} get services --admin-socket {}",
        program.display(),
        socket.display()
    );
    let output = world.n1().exec("sh", &["-c", &script]).unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.starts_with("Error: may not use ") && error.contains("try sudo"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// The ledger is counted.
#[test]
fn syncs_are_counted_by_how_they_ended() {
    let Some(world) = answering(Variant::Nftables, OBJECTS) else { return };
    let listed = json(&ask(&world, &["get", "changes", "-o", "json"]));
    let written = |item: &&Value| item["outcome"] == "written";
    let count = listed["items"].as_array().unwrap().iter().filter(written).count();
    let metric = world.metric("switchyard_syncs_total", "written");
    assert!(count > 0 && metric >= f64::from(u32::try_from(count).unwrap()), "{count} {metric}");
    assert!(world.metric("switchyard_change_latency_seconds_count", "") > 0.0);
    assert_eq!(world.metric("switchyard_syncs_total", "failed"), 0.0);
}
