//! The probe of nftables mode on the real kernel: it passes, leaves nothing, tells nobody, and knows when it may not ask.

use std::io::Write;
use std::process::Command;

use switchyard_apply::nft::probe::{ProbeError, probe};
use switchyard_model::Family;
use switchyard_netlink::monitor::Monitor;
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::Nft;

/// Set for the copy of this program that runs without capabilities.
const WITHOUT_RIGHTS: &str = "SWITCHYARD_TEST_WITHOUT_RIGHTS";

fn skip(reason: &str) {
    assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {reason}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

fn namespace_or_skip() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            skip(&format!("{error} (network namespaces need root)"));
            None
        }
    }
}

#[test]
fn this_kernel_has_it_all_and_nothing_is_left() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            let before = nft.generation().unwrap();
            for family in Family::ALL {
                probe(family).unwrap();
            }
            assert_eq!(nft.generation().unwrap(), before);
            for family in [switchyard_netlink::Family::V4, switchyard_netlink::Family::V6] {
                assert_eq!(nft.tables(family).unwrap(), []);
            }
        })
        .unwrap();
}

#[test]
fn nobody_is_notified() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut monitor = Monitor::open().unwrap();
            probe(Family::V4).unwrap();
            assert_eq!(monitor.read().unwrap(), []);
            let added = Command::new("nft").args(["add", "table", "ip", "other"]).status().unwrap();
            assert!(added.success());
            assert_ne!(monitor.read().unwrap(), []);
        })
        .unwrap();
}

#[test]
fn without_rights_it_says_so() {
    if std::env::var_os(WITHOUT_RIGHTS).is_some() || Namespace::new().is_err() {
        let error = probe(Family::V4).unwrap_err();
        assert!(matches!(error, ProbeError::NotPermitted(_)), "{error}");
        return;
    }
    let child = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "without_rights_it_says_so"])
        .env(WITHOUT_RIGHTS, "1")
        .output();
    match child {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        }
        Err(error) => skip(&format!("no setpriv: {error}")),
    }
}
