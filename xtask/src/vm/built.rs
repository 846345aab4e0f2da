//! Test programs, built from the working tree as `cargo test` would build them, so that whatever it has built is not built again.
//!
//! In: which tests were asked for. Out: the steps for the guest, and every program that must be there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::guest::{Judged, Step};
use super::options::{Options, Scope, Selection};

/// Test programs with arguments for their harness. Integration tests that are for other kernels only are always added.
type Programs = &'static [(Kind, &'static str, &'static [&'static str])];

/// What shows something on another kernel, with arguments that leave out what does not: the file of the configuration is read before any
/// kernel is asked, and userspace mode needs nothing of it that is new. `growth` is of sets that are replaced while packets use them.
const EVERYTHING: Programs = &[
    (Kind::Unit, "netlink", &["ipvs"]),
    (Kind::Unit, "apply", &["ipvs"]),
    (Kind::Integration, "lab_probe", &[]),
    (Kind::Integration, "lab_incremental", &[]),
    (Kind::Integration, "lab_kernel", &[]),
    (Kind::Integration, "lab_nftables", &["growth"]),
    (Kind::Integration, "lab_privileges", &["--exact", "ipvs"]),
    (Kind::Integration, "lab_scenarios", &["--skip", "with_the_file_of_kubeadm", "--skip", "userspace"]),
];

/// What needs IPVS.
const IPVS: Programs = &[
    (Kind::Unit, "netlink", &["ipvs"]),
    (Kind::Unit, "apply", &["ipvs"]),
    (Kind::Integration, "lab_privileges", &["--exact", "ipvs"]),
    (Kind::Integration, "lab_scenarios", &["--exact", "ipvs"]),
];

/// The task of this program that measures in the guest.
pub(crate) const MEASURE: &str = "measure-ipvs";

/// So begin the names of integration tests that are for other kernels only.
const ONLY_HERE: &str = "vm_";

/// One test program that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    kind: Kind,
    name: String,
    /// The directory of its package.
    package: PathBuf,
    /// Used if there are none for all tests.
    arguments: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file of some crate's `tests`.
    Integration,
    /// The unit tests of the library of the crate in this directory.
    Unit,
}

/// What was built.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) steps: Vec<Step>,
    /// Test programs, and those that they run.
    pub(super) programs: Vec<PathBuf>,
}

/// A line of what cargo says.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds what the options ask for.
pub(super) fn build(root: &Path, options: &Options) -> Result<Built> {
    let wanted = wanted(root, &options.tests, options.selection)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What `cargo run` says of this package; build scripts that look at it would make cargo build half of the dependencies anew.
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_this_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.args(["test", "--no-run", "--locked", "--message-format=json-render-diagnostics"]);
    match options.scope {
        Scope::Workspace => command.arg("--workspace"),
        Scope::Packages => {
            for test in &wanted {
                command.arg("-p").arg(package_name(&test.package)?);
            }
            &mut command
        }
    };
    for test in wanted.iter().filter(|test| test.kind == Kind::Integration) {
        command.args(["--test", &test.name]);
    }
    if wanted.iter().any(|test| test.kind == Kind::Unit) {
        command.arg("--lib");
    }
    let output = command.current_dir(root).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo could not build the tests");
    }
    let text = String::from_utf8(output.stdout).context("cargo said something that is not UTF-8")?;
    steps(&text, &wanted, &options.harness)
}

/// This program instead of tests: it measures.
pub(super) fn benchmark(root: &Path) -> Result<Built> {
    if cfg!(debug_assertions) {
        bail!("figures of a debug build say nothing; use cargo run --release");
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let step = Step {
        name: "benchmark".to_owned(),
        directory: root.to_path_buf(),
        program: program.clone(),
        arguments: vec![MEASURE.to_owned()],
        judged: Judged::Figures,
    };
    Ok(Built { steps: vec![step], programs: vec![program] })
}

/// The name in the manifest of a package.
fn package_name(package: &Path) -> Result<String> {
    let manifest = fs::read_to_string(package.join("Cargo.toml"))?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    Ok(name.with_context(|| format!("{} has no name", package.display()))?.to_owned())
}

fn wanted(root: &Path, asked: &[String], selection: Selection) -> Result<Vec<Wanted>> {
    let known = integration_tests(root)?;
    let find = |kind, name: &str, arguments| {
        let package = match kind {
            Kind::Integration => {
                known.iter().find(|(known, _)| known == name).map(|(_, package)| package.clone())
            }
            Kind::Unit => Some(root.join("crates").join(name)).filter(|package| package.is_dir()),
        }?;
        Some(Wanted { kind, name: name.to_owned(), package, arguments })
    };
    if asked.is_empty() {
        let only_here =
            known.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with(ONLY_HERE));
        let only_here = only_here.map(|name| (Kind::Integration, name, &[][..]));
        let selected = match selection {
            Selection::Everything => EVERYTHING,
            Selection::Ipvs | Selection::Benchmark => IPVS,
        };
        let all = selected.iter().copied().chain(only_here).map(|(kind, name, arguments)| {
            find(kind, name, arguments).with_context(|| format!("there are no tests {name} any more"))
        });
        return all.collect();
    }
    let asked = asked.iter().map(|name| {
        let found = find(Kind::Integration, name, &[]).or_else(|| find(Kind::Unit, name, &[]));
        found.with_context(|| {
            format!("--test {name}: there is neither crates/*/tests/{name}.rs nor crates/{name}")
        })
    });
    asked.collect()
}

/// The names of all files in `tests` directories, in order, each with the directory of its package.
fn integration_tests(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut names = Vec::new();
    for package in fs::read_dir(root.join("crates"))? {
        let package = package?.path();
        let Ok(entries) = fs::read_dir(package.join("tests")) else { continue };
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.extend(files.filter_map(|file| Some((file.strip_suffix(".rs")?.to_owned(), package.clone()))));
    }
    names.sort();
    Ok(names)
}

/// Picks the programs out of what cargo said.
fn steps(text: &str, wanted: &[Wanted], harness: &[String]) -> Result<Built> {
    let mut built = Built { steps: Vec::new(), programs: Vec::new() };
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("cargo said something unexpected")?;
        let (Some(program), Some(target), Some(manifest)) =
            (message.executable, message.target, message.manifest_path)
        else {
            continue;
        };
        if message.reason != "compiler-artifact" {
            continue;
        }
        let directory = manifest.parent().unwrap_or(&manifest).to_path_buf();
        if message.profile.is_some_and(|profile| profile.test) {
            found.push((target, directory, program));
        } else {
            built.programs.push(program);
        }
    }
    for test in wanted {
        let is_it = |target: &Target, directory: &Path| match test.kind {
            Kind::Integration => target.kind == ["test"] && target.name == test.name,
            Kind::Unit => target.kind == ["lib"] && directory.ends_with(&test.name),
        };
        let program = found.iter().find(|(target, directory, _)| is_it(target, directory));
        let (_, directory, program) = program.with_context(|| format!("cargo built no {}", test.name))?;
        built.programs.push(program.clone());
        built.steps.push(step(test, directory, program, harness));
    }
    Ok(built)
}

fn step(test: &Wanted, directory: &Path, program: &Path, harness: &[String]) -> Step {
    let own = if harness.is_empty() { test.arguments } else { &[] };
    let name = match test.kind {
        Kind::Integration => test.name.clone(),
        Kind::Unit => format!("unit tests of {}", test.name),
    };
    Step {
        name,
        directory: directory.to_path_buf(),
        program: program.to_path_buf(),
        arguments: own.iter().map(|own| (*own).to_owned()).chain(harness.iter().cloned()).collect(),
        judged: if harness.is_empty() { Judged::Tests } else { Judged::TestsIfAny },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["bin"],"name":"switchyard"},"profile":{"test":false},"executable":"/t/switchyard"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["test"],"name":"lab_scenarios"},"profile":{"test":true},"executable":"/t/deps/lab_scenarios-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/netlink/Cargo.toml","target":{"kind":["lib"],"name":"switchyard_netlink"},"profile":{"test":true},"executable":"/t/deps/switchyard_netlink-1"}
{"reason":"build-finished","success":true}"#;

    fn scenarios() -> Wanted {
        Wanted {
            kind: Kind::Integration,
            name: "lab_scenarios".to_owned(),
            package: PathBuf::new(),
            arguments: &[],
        }
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let unit = Wanted {
            kind: Kind::Unit,
            name: "netlink".to_owned(),
            package: PathBuf::new(),
            arguments: &["ipvs"],
        };
        let built = steps(SAID, &[unit, scenarios()], &[]).unwrap();
        let arguments: Vec<_> = built.steps.iter().map(|step| step.arguments.join(" ")).collect();
        assert_eq!(arguments, ["ipvs", ""]);
        assert_eq!(built.programs.len(), 3);
        assert_eq!(built.steps.last().unwrap().directory, Path::new("/w/crates/agent"));
    }

    #[test]
    fn arguments_for_the_harness_replace_a_filter() {
        let built = steps(SAID, &[scenarios()], &["nftables".to_owned()]).unwrap();
        assert_eq!(built.steps.first().unwrap().arguments, ["nftables"]);
        assert_eq!(built.steps.first().unwrap().judged, Judged::TestsIfAny);
    }

    #[test]
    fn what_cargo_did_not_build_is_an_error() {
        let missing = Wanted {
            kind: Kind::Integration,
            name: "lab_probe".to_owned(),
            package: PathBuf::new(),
            arguments: &[],
        };
        assert!(steps(SAID, &[missing], &[]).is_err());
    }

    #[test]
    fn a_test_that_does_not_exist_is_refused() {
        let root = crate::repository::root().unwrap();
        assert_eq!(package_name(&root.join("crates/agent")).unwrap(), "switchyard");
        let named = |name: &str| wanted(&root, &[name.to_owned()], Selection::Everything);
        assert!(named("lab_nonsense").is_err());
        assert_eq!(named("netlink").unwrap().first().unwrap().kind, Kind::Unit);
        for (selection, least) in [(Selection::Everything, EVERYTHING), (Selection::Ipvs, IPVS)] {
            assert!(wanted(&root, &[], selection).unwrap().len() > least.len());
        }
    }
}
