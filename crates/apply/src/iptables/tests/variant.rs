//! Detection on a node with both variants.

use switchyard_model::Family;

use crate::iptables::fixture::{Fakes, VARIANTS, in_namespace};
use crate::iptables::*;

fn write(family: Family, variant: Variant, input: &str) {
    Iptables::probe(family, variant).unwrap().restore(input, RestoreOptions::default()).unwrap();
}

#[test]
fn an_empty_node_uses_nft() {
    in_namespace(|| assert_eq!(VariantChoice::Auto.resolve().unwrap(), Variant::Nft));
}

#[test]
fn the_kubelet_hint_decides_in_either_family() {
    for variant in VARIANTS {
        for (family, hint) in [(Family::V4, "KUBE-IPTABLES-HINT"), (Family::V6, "KUBE-KUBELET-CANARY")] {
            in_namespace(move || {
                let other = if variant == Variant::Nft { Variant::Legacy } else { Variant::Nft };
                write(family, other, &format!("*filter\n{}COMMIT\n", "-A INPUT -j ACCEPT\n".repeat(20)));
                write(family, variant, &format!("*mangle\n:{hint} - [0:0]\nCOMMIT\n"));
                assert_eq!(VariantChoice::Auto.resolve().unwrap(), variant);
            });
        }
    }
}

#[test]
fn without_a_hint_the_larger_rule_set_decides() {
    let rules = |n| {
        format!("*filter\n:KUBE-KUBELET-CANARY-NOT - [0:0]\n{}COMMIT\n", "-A INPUT -j ACCEPT\n".repeat(n))
    };
    for (nft, legacy, expected) in [(3, 4, Variant::Legacy), (4, 4, Variant::Nft), (5, 4, Variant::Nft)] {
        in_namespace(move || {
            write(Family::V4, Variant::Legacy, &rules(legacy));
            write(Family::V4, Variant::Nft, &rules(nft));
            assert_eq!(VariantChoice::Auto.resolve().unwrap(), expected);
        });
    }
}

#[test]
fn a_rule_set_too_large_to_read_counts_as_the_larger_one() {
    in_namespace(|| {
        write(Family::V4, Variant::Legacy, "*filter\n-A INPUT -j ACCEPT\nCOMMIT\n");
        let huge = "[ \"$1\" = -t ] || exec yes -- -A";
        let fakes = Fakes::new().script("iptables-nft-save", huge);
        assert_eq!(VariantChoice::Auto.resolve().unwrap(), Variant::Legacy);
        assert_eq!(VariantChoice::Auto.resolve_in(&fakes.dirs()).unwrap(), Variant::Nft);
    });
}

#[test]
fn a_choice_is_not_questioned() {
    assert_eq!(VariantChoice::Nft.resolve_in(&[]).unwrap(), Variant::Nft);
    assert_eq!(VariantChoice::Legacy.resolve_in(&[]).unwrap(), Variant::Legacy);
}

#[test]
fn plain_programs_are_used_when_there_are_no_others() {
    in_namespace(|| {
        for variant in VARIANTS {
            let real = |kind: &str| format!("exec /usr/sbin/iptables-{}{kind} \"$@\"", variant.as_str());
            let fakes = Fakes::new()
                .script("iptables", &real(""))
                .script("iptables-save", &real("-save"))
                .script("iptables-restore", &real("-restore"));
            assert_eq!(VariantChoice::Auto.resolve_in(&fakes.only()).unwrap(), variant);
            let iptables = Iptables::probe_in(&fakes.only(), Family::V4, variant).unwrap();
            assert_eq!(iptables.ensure_chain(Table::Nat, "X").unwrap(), Ensured::Created);
            let other = if variant == Variant::Nft { Variant::Legacy } else { Variant::Nft };
            let error = Iptables::probe_in(&fakes.only(), Family::V4, other).unwrap_err();
            assert!(matches!(error, IptablesError::BinaryMissing { .. }), "{error:?}");
        }
    });
}
