//! Cluster IPs for Services that name none.

use super::{Bench, service};

fn unassigned(name: &str, more: &str) -> String {
    format!("kind: Service\nmetadata: {{name: {name}}}\nspec: {{{more}}}\n---\n")
}

/// The Services that somebody knows who has heard everything.
fn services(bench: &mut Bench) -> Vec<String> {
    bench.refresh();
    known(bench)
}

fn known(bench: &Bench) -> Vec<String> {
    bench.services.values().map(|service| service.replace(", ", ",")).collect()
}

#[test]
fn addresses_are_stable_sticky_and_within_the_ranges() {
    let text = unassigned("a", "") + &unassigned("b", "ports: [{port: 80}]");
    let mut bench = Bench::new(|_| ());
    bench.write("a.yaml", &text);
    let first = services(&mut bench);
    assert!(first.iter().all(|s| s.contains("[10.96.0.")), "{first:?}");
    let mut other = Bench::new(|_| ());
    other.write("z.yaml", &text);
    assert_eq!(services(&mut other), first);

    // Somebody names the address that `a` got: `a` must move, `b` stays.
    let address = first[0].trim_start_matches("default/a[").trim_end_matches(']').to_owned();
    bench.write("b.yaml", service("explicit", &address));
    let moved = services(&mut bench);
    assert_ne!(moved[0], first[0]);
    assert_eq!(moved[1], first[1]);
    assert_eq!(moved[2], format!("default/explicit[{address}]"));
    // And what `a` has now it keeps, also when its first address is free again.
    std::fs::remove_file(bench.directory.path().join("b.yaml")).expect("removed");
    assert_eq!(services(&mut bench), moved[..2]);
}

#[test]
fn families_follow_the_policy() {
    let shape = |more: &str| {
        let mut bench = Bench::new(|_| ());
        bench.write("a.yaml", unassigned("a", more));
        let list = services(&mut bench);
        let (_, addresses) = list[0].split_once('[').expect("addresses");
        let families = addresses.trim_end_matches(']').split(',').filter(|a| !a.is_empty());
        families.map(|a| if a.starts_with("fd00::") { '6' } else { '4' }).collect::<String>()
    };
    assert_eq!(shape(""), "4");
    assert_eq!(shape("ipFamilyPolicy: SingleStack"), "4");
    assert_eq!(shape("ipFamilies: [IPv6]"), "6");
    assert_eq!(shape("ipFamilyPolicy: PreferDualStack"), "46");
    assert_eq!(shape("ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]"), "46");
    assert_eq!(shape("type: ExternalName"), "");
}

#[test]
fn a_full_range_is_a_complaint_about_those_without_address() {
    let mut bench =
        Bench::new(|config| config.service_ranges = vec!["10.0.0.0/29".parse().expect("a range")]);
    bench.write("a.yaml", (0..7).map(|n| unassigned(&format!("s{n}"), "")).collect::<String>());
    let events = bench.refresh();
    let mut addresses: Vec<_> =
        known(&bench).iter().map(|s| s.split_once('[').expect("some").1.to_owned()).collect();
    addresses.sort();
    assert_eq!(
        addresses,
        ["10.0.0.1]", "10.0.0.2]", "10.0.0.3]", "10.0.0.4]", "10.0.0.5]", "10.0.0.6]", "]"]
    );
    assert!(events[0].contains("the range for cluster IPs is full"), "{events:?}");

    let mut bench = Bench::new(|config| config.service_ranges.clear());
    bench.write("a.yaml", unassigned("a", ""));
    assert!(bench.refresh()[0].contains("no range for cluster IPs is configured"));
}
