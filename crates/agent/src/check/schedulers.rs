//! The IPVS schedulers that this kernel has, built in or as modules. Nothing is loaded.

use std::collections::BTreeSet;
use std::path::Path;

/// Modules of IPVS that are no scheduler.
const OTHERS: [&str; 2] = ["ftp", "pe_sip"];

/// Largest file that is read.
const BYTES: u64 = 32 << 20;

/// Their names, sorted; none where the kernel's modules cannot be seen, as in a container.
pub(super) fn known() -> Vec<String> {
    let release = read(Path::new("/proc/sys/kernel/osrelease"));
    let dir = Path::new("/lib/modules").join(release.trim());
    let lists = ["modules.builtin", "modules.dep"].map(|name| read(&dir.join(name)));
    let loaded = read(Path::new("/proc/modules"));
    names(lists.iter().chain([&loaded]).map(String::as_str))
}

fn read(path: &Path) -> String {
    use std::io::Read;
    let mut text = Vec::new();
    // What cannot be read lists nothing.
    let _ = std::fs::File::open(path).and_then(|file| file.take(BYTES).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// From lines that begin with a module, by path or by name.
fn names<'a>(lists: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for line in lists.flat_map(str::lines) {
        let first = line.split([' ', ':']).next().unwrap_or_default();
        let file = first.rsplit('/').next().unwrap_or_default();
        let module = file.split('.').next().unwrap_or_default();
        let name = module.strip_prefix("ip_vs_").filter(|name| !OTHERS.contains(name));
        names.extend(name.filter(|name| name.len() <= 15).map(str::to_owned));
    }
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_are_found_by_path_and_by_name() {
        let dep = "kernel/net/netfilter/ipvs/ip_vs_rr.ko.xz: kernel/net/netfilter/ipvs/ip_vs.ko.xz\n\
                   kernel/net/netfilter/ipvs/ip_vs_ftp.ko: x\nkernel/net/ip_vs.ko:\n";
        assert_eq!(names([dep, "ip_vs_wrr 16384 0 - Live 0x0\nxfs 1 0\n"].into_iter()), ["rr", "wrr"]);
        assert!(names([""].into_iter()).is_empty());
    }
}
