//! The modules that tests need, out of all that a kernel has: those for packets, and whatever these depend on.
//!
//! In: an unpacked package. Out: a tree that `modprobe` understands, with modules unpacked and without their signatures, because the guest
//! is slow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::tool;

/// Names of modules; a star at the end stands for anything.
const WANTED: [&str; 24] = [
    "ip_vs*",
    "nf_*",
    "nft_*",
    "nfnetlink*",
    "xt_*",
    "x_tables",
    "ip_tables",
    "ip6_tables",
    "iptable_*",
    "ip6table_*",
    "ipt_*",
    "ip6t_*",
    "ip_set*",
    "dummy",
    "veth",
    "bridge",
    "br_netfilter",
    "tun",
    "sctp*",
    "libcrc32c",
    "crc32c*",
    "hmac",
    "sha1*",
    "sha256*",
];

/// Copied as they are.
const LISTS: [&str; 3] = ["modules.order", "modules.builtin", "modules.builtin.modinfo"];

/// Makes the tree.
pub(super) fn select(package: &Path, release: &str, to: &Path) -> Result<()> {
    // Newer packages have everything below /usr.
    let base =
        ["", "usr"].map(|part| package.join(part)).into_iter().find(|base| base.join("lib/modules").is_dir());
    let base = base.context("the package has no modules")?;
    depmod(&base, release)?;
    let from = base.join("lib/modules").join(release);
    let to_modules = to.join("lib/modules").join(release);
    let text = fs::read_to_string(from.join("modules.dep"))?;
    let dependencies = parse(&text);
    for module in closure(&dependencies) {
        let copied = to_modules.join(plain(module));
        copy(&from.join(module), &copied)?;
        // Signatures hang behind the last section, and go with the symbols for debuggers.
        tool::output(tool::command("strip").arg("--strip-debug").arg(&copied))?;
    }
    for list in LISTS {
        // Kernels before 5.2 have no modinfo of what is built in.
        if from.join(list).is_file() {
            fs::copy(from.join(list), to_modules.join(list))?;
        }
    }
    depmod(to, release)
}

fn depmod(base: &Path, release: &str) -> Result<()> {
    tool::output(tool::command("depmod").arg("-b").arg(base).arg(release)).map(drop)
}

/// Each module's path with the paths of all that it depends on.
fn parse(modules_dep: &str) -> BTreeMap<&str, Vec<&str>> {
    let lines = modules_dep.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(module, needs)| (module, needs.split_whitespace().collect())).collect()
}

fn closure<'a>(dependencies: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let wanted = dependencies.iter().filter(|(module, _)| is_wanted(name(module)));
    wanted.flat_map(|(module, needs)| needs.iter().copied().chain([*module])).collect()
}

fn is_wanted(name: &str) -> bool {
    WANTED.iter().any(|wanted| match wanted.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *wanted,
    })
}

fn name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

/// The path of the module once it is unpacked.
fn plain(path: &str) -> &str {
    path.strip_suffix(".xz").or_else(|| path.strip_suffix(".zst")).unwrap_or(path)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let parent: PathBuf = to.parent().map(Path::to_path_buf).context("a module without a directory")?;
    fs::create_dir_all(parent)?;
    let program = match from.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display())),
    };
    let unpacked = fs::File::create(to)?;
    let status = tool::command(program).args(["-q", "-d", "-c"]).arg(from).stdout(unpacked).status();
    if !status.with_context(|| format!("cannot run {program}"))?.success() {
        bail!("{program} cannot unpack {}", from.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_comes_with_what_it_needs() {
        let text = "kernel/net/ip_vs_rr.ko.xz: kernel/net/ip_vs.ko.xz kernel/lib/libcrc32c.ko.xz\n\
                    kernel/net/ip_vs.ko.xz: kernel/lib/libcrc32c.ko.xz\nkernel/lib/libcrc32c.ko.xz:\n\
                    kernel/net/dummy.ko.xz:\nkernel/net/dummy_other.ko.xz:\nkernel/drivers/gpu.ko.xz:\n";
        let expected = ["kernel/lib/libcrc32c.ko.xz", "kernel/net/dummy.ko.xz"];
        let expected = expected.into_iter().chain(["kernel/net/ip_vs.ko.xz", "kernel/net/ip_vs_rr.ko.xz"]);
        assert_eq!(closure(&parse(text)), expected.collect());
    }

    #[test]
    fn packed_modules_lose_their_ending() {
        assert_eq!(plain("kernel/net/dummy.ko.xz"), "kernel/net/dummy.ko");
        assert_eq!(plain("kernel/net/dummy.ko"), "kernel/net/dummy.ko");
    }
}
