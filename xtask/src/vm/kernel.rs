//! The kernels: what they are called, and the files of one of them, downloaded once and kept in `target/vm`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::packages::{self, Suite};
use super::{modules, tool};

/// Changes whenever the kept files get another form, so that older ones are not used.
const FORM: u8 = 2;

/// A kernel that Debian builds. Always the flavour for virtual machines: it has the same modules for networks and few others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kernel {
    /// 5.10, the oldest that Debian still has and that has all that nftables mode needs.
    Bullseye,
    /// 6.1.
    Bookworm,
    /// The newest for bookworm.
    Backports,
}

impl Kernel {
    /// From old to new.
    pub(super) const ALL: [Self; 3] = [Self::Bullseye, Self::Bookworm, Self::Backports];

    pub(super) fn parse(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kernel| kernel.name() == text);
        found.with_context(|| {
            format!("no kernel {text:?}; there are: {}", Self::ALL.map(Self::name).join(", "))
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bullseye => "bullseye",
            Self::Bookworm => "bookworm",
            Self::Backports => "backports",
        }
    }

    fn suites(self) -> &'static [Suite] {
        match self {
            Self::Bullseye => &[Suite::Main("bullseye"), Suite::Security("bullseye-security")],
            Self::Bookworm => &[Suite::Main("bookworm"), Suite::Security("bookworm-security")],
            Self::Backports => &[Suite::Main("bookworm-backports")],
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kernel's files.
#[derive(Debug)]
pub(super) struct Files {
    /// What `uname -r` says.
    pub(super) release: String,
    /// The image to boot.
    pub(super) image: PathBuf,
    /// The root of a tree with modules for networks and nothing else.
    pub(super) modules: PathBuf,
}

impl Files {
    /// The files of a kernel in a directory, downloaded if they are not there.
    pub(super) fn fetch(kernel: Kernel, directory: &Path) -> Result<Self> {
        let place = directory.join("kernels").join(format!("{kernel}-{FORM}"));
        if let Some(files) = Self::kept(&place) {
            return Ok(files);
        }
        println!("vm {kernel}: downloading");
        // Of our own: somebody else may be downloading the same.
        let work = directory.join("kernels").join(format!("{kernel}.part-{}", std::process::id()));
        remove(&work)?;
        fs::create_dir_all(&work)?;
        let package = packages::download(kernel.suites(), &work)?;
        let tree = work.join("package");
        tool::output(tool::command("dpkg-deb").arg("-x").arg(&package).arg(&tree))?;
        let release = release(&tree)?;
        fs::rename(tree.join(format!("boot/vmlinuz-{release}")), work.join("vmlinuz"))
            .context("the package has no kernel")?;
        modules::select(&tree, &release, &work.join("modules"))?;
        for spent in [&tree, &package, &work.join("apt")] {
            remove(spent)?;
        }
        fs::write(work.join("release"), &release)?;
        // A directory with the final name is complete. If there is one by now, it is as good.
        if fs::rename(&work, &place).is_err() {
            remove(&work)?;
        }
        Self::kept(&place).context("the kernel's files vanished")
    }

    fn kept(place: &Path) -> Option<Self> {
        let release = fs::read_to_string(place.join("release")).ok()?;
        Some(Self { release, image: place.join("vmlinuz"), modules: place.join("modules") })
    }
}

/// The name of the only kernel in an unpacked package.
fn release(tree: &Path) -> Result<String> {
    let entries = fs::read_dir(tree.join("boot")).context("the package has no /boot")?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    match names.find_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)) {
        Some(release) => Ok(release),
        None => bail!("the package has no kernel"),
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
