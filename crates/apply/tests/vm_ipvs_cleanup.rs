//! What kube-proxy's ipvs mode leaves is removed from a kernel that has IPVS, and nothing is removed where that mode never ran.
//!
//! Runs where `ipvsadm` works, as in the guest of `make vm`; `VM=require` makes it a failure where it does not.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::Write;
use std::process::Command;

use switchyard_apply::ipvs::{LINK, find_leftovers, remove_leftovers};
use switchyard_netlink::ipvs::{Flushed, flush};
use switchyard_netlink::netns::Namespace;

/// Virtual and real servers of both families, as kube-proxy makes them.
const SERVERS: &str = "-A -t 10.96.0.10:53 -s rr
-a -t 10.96.0.10:53 -r 10.244.1.5:53 -m -w 1
-A -u 10.96.0.10:53 -s rr
-A -t [fd00:10:96::a]:53 -s wlc
-a -t [fd00:10:96::a]:53 -r [fd00:10:244:1::5]:53 -m -w 1
";

/// Virtual servers of others beside them, as `ipvsadm` lists them.
const FOREIGN: [&str; 2] = ["-A -t 192.0.2.1:443 -s rr", "-A -t 198.51.100.1:30081 -s rr"];

/// A namespace with the virtual servers, a set of kube-proxy's and one of somebody else's.
fn with_servers_or_skip() -> Option<Namespace> {
    let made = Namespace::new().map_err(|error| error.to_string()).and_then(|namespace| {
        let list = namespace.run(|| Command::new("ipvsadm").arg("-Ln").output());
        match list.map_err(|error| error.to_string())? {
            Ok(output) if output.status.success() => Ok(namespace),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("no ipvsadm: {error}")),
        }
    });
    match made {
        Ok(namespace) => {
            namespace.run(set_up).unwrap();
            Some(namespace)
        }
        Err(reason) => {
            assert!(std::env::var("VM").as_deref() != Ok("require"), "VM=require, but: {reason}");
            let _ = writeln!(std::io::stderr(), "SKIPPED: no IPVS: {reason} (make vm has a kernel with it)");
            None
        }
    }
}

fn set_up() {
    for line in SERVERS.lines() {
        run("ipvsadm", line);
    }
    run("ipset", "create KUBE-CLUSTER-IP hash:ip,port");
    run("ipset", "create KUBE-6-CLUSTER-IP hash:ip,port family inet6");
    run("ipset", "create SOMEBODY-ELSES hash:ip");
}

/// Runs a program that must succeed; what it printed.
fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The virtual and real servers, one on each line.
fn servers() -> Vec<String> {
    let listed = run("ipvsadm", "-Sn");
    let mut lines: Vec<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn servers_sets_and_the_interface_go_where_ipvs_mode_was() {
    let Some(namespace) = with_servers_or_skip() else { return };
    namespace
        .run(|| {
            run("ip", "link add kube-ipvs0 type dummy");
            run("ip", "address add 10.96.0.10/32 dev kube-ipvs0");
            run("ip", "address add fd00:10:96::a/128 dev kube-ipvs0");
            // Node ports are at an address of the node, as are those of somebody else, who has another address, too.
            run("ip", "link add node0 type dummy");
            run("ip", "address add 192.0.2.1/32 dev node0");
            run("ipvsadm", "-A -t 192.0.2.1:30080 -s rr");
            for foreign in FOREIGN {
                run("ipvsadm", foreign);
            }
            let before = servers();
            let found = find_leftovers();
            assert!(found.errors.is_empty(), "{found:?}");
            for object in [
                "virtual server 10.96.0.10:53/tcp",
                "virtual server 192.0.2.1:30080/tcp",
                "interface kube-ipvs0",
                "set KUBE-CLUSTER-IP",
                "set KUBE-6-CLUSTER-IP",
            ] {
                assert!(found.objects.iter().any(|line| line == object), "{object}: {found:?}");
            }
            let is_foreign =
                |line: &String| ["SOMEBODY", ":443/", ":30081/"].iter().any(|text| line.contains(text));
            assert!(!found.objects.iter().any(is_foreign), "{found:?}");
            assert_eq!(servers(), before, "looking removes nothing");
            let removed = remove_leftovers();
            assert!(removed.was_here && removed.errors.is_empty(), "{removed:?}");
            assert_eq!(servers(), FOREIGN);
            assert_eq!(find_leftovers().objects, [""; 0]);
            assert_eq!(run("ipset", "list -n"), "SOMEBODY-ELSES\n");
            assert!(!run("ip", "-o link").contains(LINK));
            let again = remove_leftovers();
            assert!(!again.was_here && again.errors.is_empty(), "{again:?}");
        })
        .unwrap();
}

#[test]
fn servers_and_sets_stay_where_ipvs_mode_was_not() {
    let Some(namespace) = with_servers_or_skip() else { return };
    namespace
        .run(|| {
            run("ip", "link add other0 type dummy");
            let (before, sets) = (servers(), run("ipset", "list -n"));
            let removed = remove_leftovers();
            assert!(!removed.was_here && removed.errors.is_empty(), "{removed:?}");
            assert_eq!((servers(), run("ipset", "list -n")), (before, sets));
            assert!(run("ip", "-o link").contains("other0"));
        })
        .unwrap();
}

#[test]
fn a_flush_ends_at_the_border_of_the_namespace() {
    let (Some(one), Some(other)) = (with_servers_or_skip(), with_servers_or_skip()) else { return };
    assert_eq!(one.run(|| flush().unwrap()).unwrap(), Flushed::Yes);
    assert_eq!(one.run(servers).unwrap(), [""; 0]);
    assert_eq!(other.run(servers).unwrap().len(), SERVERS.lines().count());
}
