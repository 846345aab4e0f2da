//! The settings of the kernel that ipvs mode needs. IPVS must be loaded: it brings some of them.

use crate::sysctl::{Sysctl, SysctlError, Written};

/// Whether the node answers ARP for virtual addresses only where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arp {
    /// On every link, as the kernel does by default.
    Lax,
    /// Never for addresses of another link (`strictARP`).
    Strict,
}

/// Writes every setting that differs. Says which ones did.
///
/// # Errors
/// The first that cannot be written.
pub fn apply(sysctl: &Sysctl, arp: Arp) -> Result<Vec<&'static str>, SysctlError> {
    let release = sysctl.read("kernel/osrelease").unwrap_or_default();
    let mut changed = Vec::new();
    for (name, value) in wanted(arp, &release) {
        if sysctl.set_if_different(name, value)? == Written::Changed {
            changed.push(name);
        }
    }
    Ok(changed)
}

fn wanted(arp: Arp, release: &str) -> Vec<(&'static str, &'static str)> {
    // Masquerading and the state of connections need connection tracking for what IPVS sends.
    let mut all = vec![("net/ipv4/vs/conntrack", "1")];
    // Before 4.1 there is no such setting. From 5.9 on the kernel's default neither drops nor misleads connections that
    // reuse a port.
    if matches!(number(release), Some(version) if ((4, 1)..(5, 9)).contains(&version)) {
        all.push(("net/ipv4/vs/conn_reuse_mode", "0"));
    }
    all.extend([
        ("net/ipv4/vs/expire_nodest_conn", "1"),
        ("net/ipv4/vs/expire_quiescent_template", "1"),
        ("net/ipv4/ip_forward", "1"),
    ]);
    if arp == Arp::Strict {
        all.extend([("net/ipv4/conf/all/arp_ignore", "1"), ("net/ipv4/conf/all/arp_announce", "2")]);
    }
    all
}

/// Major and minor number of a release such as `6.1.0-54-amd64`.
fn number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_the_kernel_and_the_wish() {
        let has = |arp, release: &str, name: &str| wanted(arp, release).iter().any(|(n, _)| n.contains(name));
        for (release, reuse) in [
            ("3.10.0-1", false),
            ("4.1.0", true),
            ("5.8.18-x", true),
            ("5.9.0", false),
            ("6.1.0-54-amd64", false),
            ("", false),
        ] {
            assert_eq!(has(Arp::Lax, release, "conn_reuse_mode"), reuse, "{release}");
        }
        assert!(has(Arp::Strict, "6.1", "arp_ignore") && has(Arp::Strict, "6.1", "arp_announce"));
        assert!(!has(Arp::Lax, "6.1", "arp"));
    }

    #[test]
    fn only_what_differs_is_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("net/ipv4/vs")).unwrap();
        for (name, value) in [("vs/conntrack", "1"), ("vs/expire_nodest_conn", "0"), ("ip_forward", "1")] {
            std::fs::write(dir.path().join("net/ipv4").join(name), value).unwrap();
        }
        let error = apply(&Sysctl::in_dir(dir.path()), Arp::Lax).unwrap_err();
        assert!(error.to_string().contains("expire_quiescent_template"), "{error}");
        std::fs::write(dir.path().join("net/ipv4/vs/expire_quiescent_template"), "1").unwrap();
        std::fs::write(dir.path().join("net/ipv4/vs/expire_nodest_conn"), "0").unwrap();
        let changed = apply(&Sysctl::in_dir(dir.path()), Arp::Lax).unwrap();
        assert_eq!(changed, ["net/ipv4/vs/expire_nodest_conn"]);
    }
}
