//! Each rule of the graph can fail.

use super::*;

const LOCK: &str = r#"
[[package]]
name = "netlink-sys"
version = "0.9.0"
dependencies = [
 "bytes",
 "tokio 1.54.0",
]

[[package]]
name = "tokio"
version = "1.54.0"

[[package]]
name = "ipnet"
version = "2.12.0"
"#;

/// `name kind` per dependency; a kind of `path` is ours, `dev-path` ours for tests.
fn check(package: &str, dependencies: &[(&str, &str)]) -> Vec<String> {
    let dependencies = dependencies
        .iter()
        .map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            kind: kind.starts_with("dev").then(|| "dev".to_owned()),
            source: (!kind.ends_with("path")).then(|| "registry".to_owned()),
        })
        .collect();
    let package = Package { name: package.to_owned(), dependencies };
    findings(&[package], &Lock::parse(LOCK)).iter().map(ToString::to_string).collect()
}

#[test]
fn what_the_table_allows_passes() {
    assert!(check("switchyard-model", &[("ipnet", "normal")]).is_empty());
    assert!(check("switchyard-plan", &[("switchyard-model", "path")]).is_empty());
    assert!(check("switchyard-source", &[("tokio", "normal")]).is_empty());
    assert!(check("switchyard", &[("switchyard-apply", "path"), ("anyhow", "normal")]).is_empty());
}

#[test]
fn a_forbidden_crate_of_ours_is_found() {
    assert_eq!(
        check("switchyard-plan", &[("switchyard-netlink", "path")]),
        ["switchyard-plan: must not depend on switchyard-netlink"]
    );
    assert_eq!(
        check("switchyard-model", &[("switchyard-plan", "path")]),
        ["switchyard-model: must not depend on switchyard-plan"]
    );
}

#[test]
fn dependencies_for_tests_are_free_but_not_on_the_agent() {
    assert!(check("switchyard-plan", &[("switchyard-lab", "dev-path"), ("tokio", "dev")]).is_empty());
    assert_eq!(
        check("switchyard-lab", &[("switchyard", "dev-path")]),
        ["switchyard-lab: must not depend on the agent; nobody does"]
    );
}

#[test]
fn pure_crates_do_not_name_the_outside_world() {
    assert_eq!(check("switchyard-plan", &[("nix", "normal")]), ["switchyard-plan: must not depend on nix"]);
    assert_eq!(
        check("switchyard-model", &[("libc", "normal")]),
        ["switchyard-model: must not depend on libc"]
    );
    assert_eq!(
        check("switchyard-plan", &[("tracing", "normal")]),
        ["switchyard-plan: must not reach tracing"]
    );
}

#[test]
fn a_runtime_behind_a_dependency_is_found_with_the_way_to_it() {
    assert_eq!(
        check("switchyard-netlink", &[("netlink-sys", "normal")]),
        ["switchyard-netlink: must not reach netlink-sys -> tokio"]
    );
}

#[test]
fn anyhow_is_for_programs() {
    assert_eq!(
        check("switchyard-serve", &[("anyhow", "normal")]),
        ["switchyard-serve: must not depend on anyhow"]
    );
}

#[test]
fn a_crate_that_nobody_thought_about_is_found() {
    assert_eq!(
        check("switchyard-extra", &[]),
        ["switchyard-extra: a new crate: add it to the table in xtask/src/graph.rs"]
    );
}

#[test]
fn metadata_is_understood() {
    let text =
        r#"{"packages":[{"name":"a","dependencies":[{"name":"b","kind":null,"source":null,"req":"*"}]}]}"#;
    let packages = packages(text).unwrap();
    assert_eq!(packages[0].dependencies[0].name, "b");
}
