//! Programs that are missing, old, slow, locked out, or lie.

use std::fs::File;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use switchyard_model::Family;

use crate::NextStep;
use crate::iptables::fixture::{Fakes, VARIANTS, in_namespace};
use crate::iptables::*;

const NAT: &str = "*nat\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n";

fn probe(fakes: &Fakes, variant: Variant) -> Result<Iptables, IptablesError> {
    Iptables::probe_in(&fakes.dirs(), Family::V4, variant)
}

#[test]
fn missing_programs() {
    let error = Iptables::probe_in(&Fakes::new().only(), Family::V6, Variant::Nft).unwrap_err();
    assert!(error.to_string().contains("ip6tables-nft not found in /"), "{error}");
    assert_eq!(error.next_step(), NextStep::Stop);
    let no_restore = Fakes::new()
        .script("iptables-nft", "echo 'iptables v1.8.9 (nf_tables)'")
        .script("iptables-nft-save", "");
    let error = Iptables::probe_in(&no_restore.only(), Family::V4, Variant::Nft).unwrap_err();
    assert!(error.to_string().contains("iptables-nft-restore not found"), "{error}");
    assert!(VariantChoice::Auto.resolve_in(&Fakes::new().only()).is_err());
}

#[test]
fn old_and_unreadable_versions() {
    let old = Fakes::new().script("iptables-legacy", "echo iptables v1.6.1");
    let error = probe(&old, Variant::Legacy).unwrap_err();
    assert!(matches!(error, IptablesError::TooOld { .. }), "{error:?}");
    assert_eq!(error.next_step(), NextStep::Stop);
    let odd = Fakes::new().script("iptables-legacy", "printf 'hello \\033[31m'");
    let error = probe(&odd, Variant::Legacy).unwrap_err();
    assert!(
        matches!(&error, IptablesError::VersionUnreadable { text, .. } if !text.contains('\x1b')),
        "{error:?}"
    );
    let broken = Fakes::new().program("iptables-legacy", "#!/nonexistent/interpreter\n");
    assert!(matches!(probe(&broken, Variant::Legacy).unwrap_err(), IptablesError::Exec { .. }));
}

#[test]
fn no_permission_and_no_kernel_support() {
    in_namespace(|| {
        for variant in VARIANTS {
            let name = format!("iptables-{}", variant.as_str());
            let drop = "setpriv --bounding-set -net_admin,-net_raw --inh-caps -net_admin,-net_raw";
            let weak = Fakes::new().script(&name, &format!("exec {drop} /usr/sbin/{name} \"$@\""));
            let error = probe(&weak, variant).unwrap_err();
            assert!(matches!(error, IptablesError::Permission { .. }), "{error:?}");
            assert_eq!(error.next_step(), NextStep::Stop);
        }
        let script = "[ \"$1\" = --version ] && exec echo 'iptables v1.8.9 (legacy)'\n\
            echo \"iptables v1.8.9 (legacy): can't initialize iptables table \\`nat': Table does not exist (do you need to insmod?)\" >&2\n\
            exit 3";
        let error = probe(&Fakes::new().script("iptables-legacy", script), Variant::Legacy).unwrap_err();
        assert!(matches!(error, IptablesError::KernelSupport { .. }), "{error:?}");
    });
}

#[test]
fn a_held_lock_is_reported_with_its_holder_and_is_no_lost_canary() {
    in_namespace(|| {
        let fakes = Fakes::new();
        let lock_file = fakes.path("lock");
        let iptables = Iptables::probe(Family::V4, Variant::Legacy)
            .unwrap()
            .with_lock_file(lock_file.clone())
            .with_limits(Limits { lock_wait: 1, ..Limits::default() });
        canary::ensure(&iptables).unwrap();
        let held =
            Flock::lock(File::create(&lock_file).unwrap(), FlockArg::LockExclusive).map_err(|e| e.1).unwrap();
        let us = format!("(pid {})", std::process::id());
        let error = iptables.restore(NAT, RestoreOptions::default()).unwrap_err();
        assert!(matches!(error, RestoreError::Locked { .. }), "{error:?}");
        assert!(error.to_string().contains(&us), "{error}");
        assert_eq!(error.next_step(), NextStep::Backoff);
        let error = canary::is_gone(&iptables, Table::Mangle).unwrap_err();
        assert!(matches!(error, IptablesError::Locked { .. }), "{error:?}");
        drop(held);
        iptables.restore(NAT, RestoreOptions::default()).unwrap();
    });
}

#[test]
fn a_hanging_restore_is_killed() {
    in_namespace(|| {
        let fakes = Fakes::new().script("iptables-nft-restore", "sleep 60");
        let short = Limits { restore: Duration::from_millis(200), ..Limits::default() };
        let iptables = probe(&fakes, Variant::Nft).unwrap().with_limits(short);
        let begin = Instant::now();
        let error = iptables.restore(NAT, RestoreOptions::default()).unwrap_err();
        assert!(matches!(error, RestoreError::Timeout { .. }), "{error:?}");
        assert_eq!(error.next_step(), NextStep::FullSync);
        assert!(begin.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn a_restore_that_fails_on_a_pattern_is_classified_by_the_real_input() {
    in_namespace(|| {
        let body = "n=$(grep -n BAD | cut -d: -f1)\n\
            [ -n \"$n\" ] && { echo \"iptables-restore: line $n failed\" >&2; exit 1; }\nexit 0";
        let iptables = probe(&Fakes::new().script("iptables-nft-restore", body), Variant::Nft);
        // The directory of the fakes is gone here: a program that vanishes is an error of its own.
        let error = iptables.unwrap().restore(NAT, RestoreOptions::default()).unwrap_err();
        assert!(matches!(error, RestoreError::Exec { .. }), "{error:?}");
        let fakes = Fakes::new().script("iptables-nft-restore", body);
        let iptables = probe(&fakes, Variant::Nft).unwrap();
        iptables.restore(NAT, RestoreOptions::default()).unwrap();
        let error = iptables.restore("*nat\n-A A -j BAD\nCOMMIT\n", RestoreOptions::default()).unwrap_err();
        assert_eq!(error.next_step(), NextStep::Quarantine { line: 2 });
    });
}

#[test]
fn a_save_that_never_ends_is_cut_off() {
    in_namespace(|| {
        let fakes = Fakes::new().script("iptables-nft-save", "yes");
        let iptables = probe(&fakes, Variant::Nft).unwrap();
        let iptables = iptables.with_limits(Limits { save_bytes: 1 << 20, ..Limits::default() });
        let error = iptables.save(Table::Nat).unwrap_err();
        assert!(matches!(error, IptablesError::TooMuchOutput { limit: 1_048_576, .. }), "{error:?}");
    });
}

#[test]
fn long_and_wild_error_text_is_bounded_and_escaped() {
    in_namespace(|| {
        let body = "head -c 300000 /dev/urandom >&2; exit 77";
        let fakes = Fakes::new().script("iptables-nft-restore", body);
        let error = probe(&fakes, Variant::Nft).unwrap().restore(NAT, RestoreOptions::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.len() < 2200 && !text.chars().any(char::is_control), "{text:?}");
    });
}
