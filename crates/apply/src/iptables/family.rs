//! Whether the kernel has a family at all.

use std::path::Path;

use switchyard_model::Family;

/// True unless the kernel was built or started without IPv6, or IPv6 is switched off for all interfaces. Whether
/// the iptables programs work is a different question: [`Iptables::probe`](super::Iptables::probe).
pub fn family_usable(family: Family) -> bool {
    family_usable_in(Path::new("/proc"), family)
}

fn family_usable_in(proc: &Path, family: Family) -> bool {
    match family {
        Family::V4 => true,
        Family::V6 => {
            let switch =
                crate::sysctl::Sysctl::in_dir(proc.join("sys")).read("net/ipv6/conf/all/disable_ipv6");
            proc.join("net/if_inet6").exists() && !switch.is_ok_and(|value| value == "1")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn ipv6_needs_its_proc_file_and_an_open_switch() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        assert!(family_usable_in(proc, Family::V4));
        assert!(!family_usable_in(proc, Family::V6));
        fs::create_dir_all(proc.join("net")).unwrap();
        fs::write(proc.join("net/if_inet6"), "").unwrap();
        assert!(family_usable_in(proc, Family::V6));
        fs::create_dir_all(proc.join("sys/net/ipv6/conf/all")).unwrap();
        fs::write(proc.join("sys/net/ipv6/conf/all/disable_ipv6"), "1\n").unwrap();
        assert!(!family_usable_in(proc, Family::V6));
        fs::write(proc.join("sys/net/ipv6/conf/all/disable_ipv6"), "0\n").unwrap();
        assert!(family_usable_in(proc, Family::V6));
    }
}
