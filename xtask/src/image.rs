//! `image`: an OCI image archive of the program, without an engine that builds images.
//!
//! In: the program, and the programs and libraries of this machine that it needs. Out: one tar file that `skopeo`, `podman`,
//! `docker load` and `ctr image import` read.
//!
//! Invariants
//! - The same files give the same bytes: no times, no owners, and everything in order.
//! - Nothing is inside that is not needed: no shell, and no iptables unless the variant has it.

mod oci;
mod tar;
#[cfg(test)]
mod tests;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use tree::Tree;

/// How `image` is called, after its name.
pub(crate) const USAGE: &str = "image [--variant plain|iptables] [--program FILE] [--out FILE]";

/// Where the program is inside, and under which name kubeadm's DaemonSet starts it.
const PROGRAM: &str = "/usr/local/bin/switchyard";
const ALIAS: &str = "/usr/local/bin/kube-proxy";

/// Mount points, and where the program may put its socket.
const DIRECTORIES: [&str; 6] = ["/dev", "/etc", "/proc", "/run", "/sys", "/tmp"];

/// What is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// The program and its libraries: every mode but iptables.
    Plain,
    /// The programs of iptables as well, with both backends.
    Iptables,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "switchyard",
            Self::Iptables => "switchyard-iptables",
        }
    }
}

#[derive(Debug)]
struct Options {
    variant: Variant,
    program: Option<PathBuf>,
    out: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self { variant: Variant::Plain, program: None, out: None };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{name} needs a value; usage: {USAGE}"));
            match *name {
                "--variant" => {
                    options.variant = match *value()? {
                        "plain" => Variant::Plain,
                        "iptables" => Variant::Iptables,
                        other => bail!("there is no variant {other}; use plain or iptables"),
                    }
                }
                "--program" => options.program = Some(PathBuf::from(value()?)),
                "--out" => options.out = Some(PathBuf::from(value()?)),
                other => bail!("unknown argument {other}; usage: {USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Makes the image and says where it is.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let program = options.program.map_or_else(crate::bench::build_agent, Ok)?;
    let out = match options.out {
        Some(out) => out,
        None => target_directory()?.join("image").join(options.variant.name()).with_extension("tar"),
    };
    let image = make(&program, options.variant)?;
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    fs::write(&out, &image.archive).with_context(|| format!("cannot write {}", out.display()))?;
    println!("{} ({:.1} MB, {} files)", out.display(), megabytes(&image.archive), image.files);
    println!("{}@{}", options.variant.name(), image.digest);
    Ok(())
}

fn target_directory() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let target = own.parent().and_then(Path::parent).context("this program is not in a target directory")?;
    Ok(target.to_owned())
}

fn megabytes(bytes: &[u8]) -> f64 {
    f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX)) / 1e6
}

/// An image, ready to be written.
#[derive(Debug)]
struct Image {
    archive: Vec<u8>,
    /// Of its manifest: what a registry calls it.
    digest: String,
    files: usize,
}

fn make(program: &Path, variant: Variant) -> Result<Image> {
    let tree = content(program, variant)?;
    let layer = tar::pack(&tree)?;
    let (archive, digest) = oci::archive(variant.name(), &[PROGRAM], &layer)?;
    Ok(Image { archive, digest, files: tree.len() })
}

fn content(program: &Path, variant: Variant) -> Result<Tree> {
    let mut tree = Tree::merged();
    for directory in DIRECTORIES {
        tree.directory(directory);
    }
    tree.program(program, PROGRAM)?;
    tree.link(ALIAS, "switchyard");
    if variant == Variant::Iptables {
        for name in iptables() {
            tree.installed(&name)?;
        }
    }
    Ok(tree)
}

/// The names under which the programs of iptables are called.
fn iptables() -> impl Iterator<Item = String> {
    let names = ["iptables", "ip6tables"];
    let backends = ["", "-nft", "-legacy"];
    let verbs = ["", "-save", "-restore"];
    names
        .into_iter()
        .flat_map(move |name| backends.map(|backend| format!("{name}{backend}")))
        .flat_map(move |name| verbs.map(|verb| format!("{name}{verb}")))
}
