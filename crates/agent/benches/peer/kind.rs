//! The kinds of proxies that are compared: one row of [`KINDS`] each.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::e2e::programs::{KUBE_PROXY, find_or_skip, search_path};

/// The newer kube-proxy, which only this benchmark builds.
const KUBE_PROXY_NEXT: &str = "kube-proxy-next";

/// Whose proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Switchyard.
    Ours,
    /// kube-proxy of the release that the tests use.
    Upstream,
    /// kube-proxy of the next one.
    Next,
}

/// A proxy, its mode, and in iptables mode the programs that it uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// As `--kind` takes it.
    pub(crate) name: &'static str,
    /// For tables.
    pub(crate) label: &'static str,
    pub(crate) program: Program,
    mode: &'static str,
    backend: Option<&'static str>,
}

/// In the order in which they take turns.
pub(crate) const KINDS: [Kind; 10] = [
    Kind {
        name: "upstream-nftables",
        label: "kube-proxy 1.36 nftables",
        program: Program::Upstream,
        mode: "nftables",
        backend: None,
    },
    Kind {
        name: "ours-nftables",
        label: "switchyard nftables",
        program: Program::Ours,
        mode: "nftables",
        backend: None,
    },
    Kind {
        name: "next-nftables",
        label: "kube-proxy 1.37 nftables",
        program: Program::Next,
        mode: "nftables",
        backend: None,
    },
    Kind {
        name: "upstream-iptables-legacy",
        label: "kube-proxy 1.36 iptables-legacy",
        program: Program::Upstream,
        mode: "iptables",
        backend: Some("legacy"),
    },
    Kind {
        name: "ours-iptables-legacy",
        label: "switchyard iptables-legacy",
        program: Program::Ours,
        mode: "iptables",
        backend: Some("legacy"),
    },
    Kind {
        name: "next-iptables-legacy",
        label: "kube-proxy 1.37 iptables-legacy",
        program: Program::Next,
        mode: "iptables",
        backend: Some("legacy"),
    },
    Kind {
        name: "upstream-iptables-nft",
        label: "kube-proxy 1.36 iptables-nft",
        program: Program::Upstream,
        mode: "iptables",
        backend: Some("nft"),
    },
    Kind {
        name: "ours-iptables-nft",
        label: "switchyard iptables-nft",
        program: Program::Ours,
        mode: "iptables",
        backend: Some("nft"),
    },
    Kind {
        name: "next-iptables-nft",
        label: "kube-proxy 1.37 iptables-nft",
        program: Program::Next,
        mode: "iptables",
        backend: Some("nft"),
    },
    Kind {
        name: "ours-userspace",
        label: "switchyard userspace",
        program: Program::Ours,
        mode: "userspace",
        backend: None,
    },
];

/// Whether syncs pause for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// As the proxy does when nobody says anything.
    Default,
    /// Never.
    None,
}

impl Kind {
    /// The first one of a program.
    pub(crate) fn of(program: Program) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.program == program)
    }

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The kinds of upstream's that it is compared with; none for upstream's own.
    pub(crate) fn peers(&self) -> Vec<&'static Self> {
        let is_peer = |kind: &&Self| {
            let is_same = kind.mode == self.mode && kind.backend == self.backend;
            is_same && kind.program != Program::Ours && self.program == Program::Ours
        };
        KINDS.iter().filter(is_peer).collect()
    }

    /// Where its program is; prints why there is none.
    pub(crate) fn program_or_skip(&self) -> Option<PathBuf> {
        match self.program {
            Program::Ours => Some(env!("CARGO_BIN_EXE_switchyard").into()),
            Program::Upstream => find_or_skip(KUBE_PROXY),
            Program::Next => find_or_skip(KUBE_PROXY_NEXT),
        }
    }

    /// True if packets pass through the process.
    pub(crate) fn is_relay(&self) -> bool {
        self.mode == "userspace"
    }

    /// In iptables mode the ending of the programs' names.
    pub(crate) fn backend(&self) -> Option<&'static str> {
        self.backend
    }

    /// The command line, but for the API server. `dir` is for what it shares with no other.
    pub(crate) fn command(&self, dir: &Path, pause: Pause) -> Command {
        let mut command = Command::new(self.program_or_skip().unwrap());
        command.arg(format!("--proxy-mode={}", self.mode));
        if pause == Pause::None {
            // nftables mode has no such flag of its own: this one counts for it.
            command.arg("--iptables-min-sync-period=0s");
        }
        if let (Program::Ours, Some(backend)) = (self.program, self.backend) {
            command.arg(format!("--iptables-backend={backend}"));
        }
        command.env("PATH", search_path(dir, self.backend));
        command.env("XTABLES_LOCKFILE", dir.join("xtables.lock"));
        command
    }
}
