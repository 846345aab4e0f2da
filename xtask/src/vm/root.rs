//! The guest's root: programs with their libraries, modules, the working tree and the tests, all at the paths that they have here.
//!
//! `/bin`, `/sbin`, `/lib` and `/lib64` are links into `/usr`, as on Debian.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::archive::Archive;
use super::kernel::Files;
use super::tool;

/// Programs of this machine that tests run; everything else comes from busybox.
pub(super) const PROGRAMS: [&str; 22] = [
    "busybox",
    "kmod",
    "modprobe",
    "ip",
    "nft",
    "conntrack",
    "ipset",
    "ipvsadm",
    "setpriv",
    "unshare",
    "iptables",
    "iptables-nft",
    "iptables-nft-save",
    "iptables-nft-restore",
    "iptables-legacy",
    "iptables-legacy-save",
    "iptables-legacy-restore",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
];

/// The same for the other family, which has the same names behind another first word.
const BACKENDS: [&str; 6] = ["nft", "nft-save", "nft-restore", "legacy", "legacy-save", "legacy-restore"];

/// In these the kernel and busybox look for programs that have no other name.
const MERGED: [(&str, &str); 4] =
    [("/bin", "usr/bin"), ("/sbin", "usr/sbin"), ("/lib", "usr/lib"), ("/lib64", "usr/lib64")];

/// Larger files of the working tree are no test data.
const LARGEST_FILE: u64 = 1024 * 1024;

/// What protocols are called; ipset wants to know.
const PROTOCOLS: &str = "icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\nsctp 132 SCTP\n";

/// All programs that must be on this machine, by name.
pub(super) fn programs() -> impl Iterator<Item = String> {
    let v6 = BACKENDS.iter().map(|backend| format!("ip6tables-{backend}"));
    PROGRAMS.iter().map(|name| (*name).to_owned()).chain(v6)
}

/// Makes the archive.
pub(super) fn make(root: &Path, files: &Files, tests: &[PathBuf], script: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for (path, target) in MERGED {
        archive.link(Path::new(path), Path::new(target))?;
    }
    archive.file(Path::new("/init"), 0o755, script.as_bytes())?;
    archive.file(Path::new("/etc/protocols"), 0o644, PROTOCOLS.as_bytes())?;
    for program in programs() {
        add_program(&mut archive, &program)?;
    }
    for name in ["sh", "env"] {
        archive.link(&Path::new("/usr/bin").join(name), Path::new("busybox"))?;
    }
    add_tree(&mut archive, &files.modules, Path::new("/usr"))?;
    add_working_tree(&mut archive, root)?;
    for test in tests {
        add_test(&mut archive, test)?;
    }
    archive.finish()
}

/// A program under its name, with its libraries and, for iptables, its extensions.
fn add_program(archive: &mut Archive, name: &str) -> Result<()> {
    let found = tool::find(name).with_context(|| format!("no program {name}"))?;
    let real = fs::canonicalize(&found)?;
    add_file(archive, &real)?;
    for place in ["/usr/sbin", "/usr/bin"] {
        archive.link(&Path::new(place).join(name), &below_usr(&real))?;
    }
    add_libraries(archive, &real)
}

fn add_libraries(archive: &mut Archive, of: &Path) -> Result<()> {
    for library in tool::libraries(of)? {
        // Under the name that the loader asks for.
        let target = below_usr(&library);
        if archive.holds(&target) {
            continue;
        }
        archive.file(&target, 0o755, &fs::read(&library)?)?;
        let extensions = fs::canonicalize(&library)?.with_file_name("xtables");
        if is_xtables(&library) && extensions.is_dir() {
            for entry in fs::read_dir(extensions)? {
                let extension = entry?.path();
                add_file(archive, &extension)?;
                add_libraries(archive, &extension)?;
            }
        }
    }
    Ok(())
}

fn is_xtables(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libxtables.so"))
}

/// A file at its own path.
fn add_file(archive: &mut Archive, path: &Path) -> Result<()> {
    let permissions = fs::metadata(path)?.permissions().mode();
    archive.file(&below_usr(path), permissions, &fs::read(path)?)
}

/// A test program, without what only a debugger reads.
fn add_test(archive: &mut Archive, program: &Path) -> Result<()> {
    let stripped = tempfile::NamedTempFile::new()?;
    let mut strip = tool::command("strip");
    strip.arg("--strip-debug").arg("-o").arg(stripped.path()).arg(program);
    tool::output(&mut strip)?;
    archive.file(program, 0o755, &fs::read(stripped.path())?)?;
    add_libraries(archive, program)
}

/// A whole directory, below another path.
fn add_tree(archive: &mut Archive, from: &Path, to: &Path) -> Result<()> {
    let mut entries = fs::read_dir(from)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            add_tree(archive, &entry.path(), &target)?;
        } else {
            archive.file(&target, 0o644, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// What the tests may read: every file of the working tree that git does not ignore.
fn add_working_tree(archive: &mut Archive, root: &Path) -> Result<()> {
    let mut git = tool::command("git");
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = tool::output(git.current_dir(root))?;
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        let Ok(found) = fs::metadata(&path) else { continue };
        if found.is_file() && found.len() <= LARGEST_FILE {
            archive.file(&path, found.permissions().mode(), &fs::read(&path)?)?;
        }
    }
    Ok(())
}

/// The path of a file in the guest, where some directories are links.
fn below_usr(path: &Path) -> PathBuf {
    let is_merged = MERGED.iter().any(|(link, _)| path.starts_with(link));
    let relative = path.strip_prefix("/").unwrap_or(path);
    if is_merged { Path::new("/usr").join(relative) } else { Path::new("/").join(relative) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_where_a_link_is() {
        assert_eq!(below_usr(Path::new("/lib64/ld.so")), Path::new("/usr/lib64/ld.so"));
        assert_eq!(below_usr(Path::new("/usr/lib/x/libc.so")), Path::new("/usr/lib/x/libc.so"));
        assert_eq!(below_usr(Path::new("/library/a")), Path::new("/library/a"));
    }
}
