//! One family of one variant, probed and ready.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchyard_model::Family;

use super::binaries::Binaries;
use super::error::says_absent;
use super::exec::{Finished, Invocation, Output};
use super::save::{self, Detail};
use super::{
    Children, DEFAULT_LOCK_FILE, Ensured, IptablesError, Jump, Position, Removed, RestoreError,
    RestoreOptions, Table, Variant, Version, default_dirs, is_chain_name,
};
use crate::printable::bounded;

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Seconds to wait for the xtables lock (`-w`).
    pub lock_wait: u32,
    /// After this a single command is killed.
    pub command: Duration,
    /// After this a restore is killed.
    pub restore: Duration,
    /// Most bytes of `iptables-save` that are read.
    pub save_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let five_minutes = Duration::from_secs(300);
        Self { lock_wait: 5, command: five_minutes, restore: five_minutes, save_bytes: 512 << 20 }
    }
}

/// Copies of one jump that are removed before we give up on somebody who keeps inserting it.
const MAX_COPIES: usize = 64;

/// The iptables programs of one family.
#[derive(Clone, Debug)]
pub struct Iptables {
    family: Family,
    variant: Variant,
    version: Version,
    binaries: Binaries,
    limits: Limits,
    lock_file: PathBuf,
    children: Children,
}

impl Iptables {
    /// Finds the programs, checks their version and asks the kernel for the nat table.
    pub fn probe(family: Family, variant: Variant) -> Result<Self, IptablesError> {
        Self::probe_in(&default_dirs(), family, variant)
    }

    /// As [`probe`](Self::probe), with programs from these directories only.
    pub fn probe_in(dirs: &[PathBuf], family: Family, variant: Variant) -> Result<Self, IptablesError> {
        let (binaries, version) = Binaries::find(dirs, family, variant)?;
        let lock_file =
            env::var_os("XTABLES_LOCKFILE").map_or_else(|| DEFAULT_LOCK_FILE.into(), PathBuf::from);
        let limits = Limits::default();
        let children = Children::default();
        let tool = Self { family, variant, version, binaries, limits, lock_file, children };
        let (command, finished) = tool.command("-S", Table::Nat, "POSTROUTING", &[])?;
        tool.success(command, &finished)?;
        Ok(tool)
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same with another lock file, handed to the programs as `XTABLES_LOCKFILE`.
    #[must_use]
    pub fn with_lock_file(self, lock_file: PathBuf) -> Self {
        Self { lock_file, ..self }
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The variant.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The version of the programs.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The programs that were started, to tell our writes from others'.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// Creates a chain that is absent.
    pub fn ensure_chain(&self, table: Table, chain: &str) -> Result<Ensured, IptablesError> {
        let (command, finished) = self.command("-N", table, chain, &[])?;
        let text = String::from_utf8_lossy(&finished.stderr);
        if text.lines().any(|line| line.ends_with("Chain already exists.") || line.contains("(File exists)"))
        {
            return Ok(Ensured::Existed);
        }
        self.success(command, &finished).map(|()| Ensured::Created)
    }

    /// Whether a jump is there. An answer that is not definite is an error.
    pub fn has_jump(&self, jump: &Jump) -> Result<bool, IptablesError> {
        let (command, check) = self.command("-C", jump.table, &jump.chain, &jump.args)?;
        if check.status.success() {
            return Ok(true);
        }
        if says_absent(&check) || says_target_absent(&check, jump) {
            return Ok(false);
        }
        Err(IptablesError::failed(command, &check, &self.lock_file))
    }

    /// Inserts a jump that is absent. One that is present stays where it is.
    pub fn ensure_jump(&self, jump: &Jump, position: Position) -> Result<Ensured, IptablesError> {
        if self.has_jump(jump)? {
            return Ok(Ensured::Existed);
        }
        self.insert_jump(jump, position).map(|()| Ensured::Created)
    }

    /// Inserts a jump without a look whether it is there.
    pub fn insert_jump(&self, jump: &Jump, position: Position) -> Result<(), IptablesError> {
        let verb = match position {
            Position::First => "-I",
            Position::Last => "-A",
        };
        let (command, finished) = self.command(verb, jump.table, &jump.chain, &jump.args)?;
        self.success(command, &finished)
    }

    /// Deletes every copy of a jump.
    pub fn delete_jump(&self, jump: &Jump) -> Result<Removed, IptablesError> {
        let mut removed = Removed::Absent;
        for _ in 0..MAX_COPIES {
            let (command, finished) = self.command("-D", jump.table, &jump.chain, &jump.args)?;
            if says_absent(&finished) || says_target_absent(&finished, jump) {
                break;
            }
            self.success(command, &finished)?;
            removed = Removed::Removed;
        }
        Ok(removed)
    }

    /// Whether the kernel has the chain. An answer that is not definite is an error.
    pub fn chain_exists(&self, table: Table, chain: &str) -> Result<bool, IptablesError> {
        let (command, finished) = self.command("-S", table, chain, &[])?;
        if finished.status.success() {
            return Ok(true);
        }
        if says_absent(&finished) {
            return Ok(false);
        }
        let failure = IptablesError::failed(command, &finished, &self.lock_file);
        let unclear = matches!(&failure, IptablesError::Refused { stderr, .. } if stderr.contains("is incompatible, use 'nft' tool"));
        if !unclear {
            return Err(failure);
        }
        let text = self.save(table)?;
        save::parse(&text, table, Detail::Chains).map(|saved| saved.has_chain(chain)).ok_or(failure)
    }

    /// Removes all rules of a chain.
    pub fn flush_chain(&self, table: Table, chain: &str) -> Result<Removed, IptablesError> {
        self.remove("-F", table, chain)
    }

    /// Deletes an empty chain that nothing jumps to.
    pub fn delete_chain(&self, table: Table, chain: &str) -> Result<Removed, IptablesError> {
        self.remove("-X", table, chain)
    }

    fn remove(&self, verb: &str, table: Table, chain: &str) -> Result<Removed, IptablesError> {
        let (command, finished) = self.command(verb, table, chain, &[])?;
        if says_absent(&finished) {
            return Ok(Removed::Absent);
        }
        self.success(command, &finished).map(|()| Removed::Removed)
    }

    /// The whole table as `iptables-save` prints it; see [`save::parse`].
    pub fn save(&self, table: Table) -> Result<String, IptablesError> {
        let invocation = Invocation {
            program: &self.binaries.save,
            args: vec!["-t".to_owned(), table.as_str().to_owned()],
            input: None,
            output: Output::Keep { limit: self.limits.save_bytes },
            timeout: self.limits.command,
            env: self.lock_env(),
            children: Some(&self.children),
        };
        let command = invocation.shown();
        let finished =
            invocation.run().map_err(|reason| IptablesError::not_finished(command.clone(), reason))?;
        self.success(command, &finished)?;
        Ok(String::from_utf8(finished.stdout)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Writes restore text without flushing what it does not name. A chain line flushes that chain.
    pub fn restore(&self, input: &str, options: RestoreOptions) -> Result<(), RestoreError> {
        self.restore_pieces(&[input], options)
    }

    /// As [`restore`](Self::restore), with input in pieces so that a large one need not be copied together.
    pub fn restore_pieces(&self, input: &[&str], options: RestoreOptions) -> Result<(), RestoreError> {
        let wait = self.limits.lock_wait.to_string();
        let mut args = ["-w", &wait, "--noflush", "--counters"].map(str::to_owned).to_vec();
        if let Some(table) = options.table {
            args.extend(["-T", table.as_str()].map(str::to_owned));
        }
        let finished = Invocation {
            program: &self.binaries.restore,
            args,
            input: Some(input),
            output: Output::Discard,
            timeout: self.limits.restore,
            env: self.lock_env(),
            children: Some(&self.children),
        }
        .run()
        .map_err(RestoreError::not_finished)?;
        if finished.status.success() {
            Ok(())
        } else {
            Err(RestoreError::failed(&finished, &input.concat(), &self.lock_file))
        }
    }

    /// Runs `iptables -w 5 VERB CHAIN -t TABLE ARGS...`.
    fn command(
        &self,
        verb: &str,
        table: Table,
        chain: &str,
        args: &[String],
    ) -> Result<(String, Finished), IptablesError> {
        if !is_chain_name(chain) {
            return Err(IptablesError::BadName { name: bounded(chain.as_bytes(), 200) });
        }
        let wait = self.limits.lock_wait.to_string();
        let mut all = ["-w", &wait, verb, chain, "-t", table.as_str()].map(str::to_owned).to_vec();
        all.extend_from_slice(args);
        let invocation = Invocation {
            program: &self.binaries.iptables,
            args: all,
            input: None,
            output: Output::Discard,
            timeout: self.limits.command,
            env: self.lock_env(),
            children: Some(&self.children),
        };
        let command = invocation.shown();
        match invocation.run() {
            Ok(finished) => Ok((command, finished)),
            Err(reason) => Err(IptablesError::not_finished(command, reason)),
        }
    }

    fn success(&self, command: String, finished: &Finished) -> Result<(), IptablesError> {
        if finished.status.success() {
            Ok(())
        } else {
            Err(IptablesError::failed(command, finished, &self.lock_file))
        }
    }

    fn lock_env(&self) -> Option<(&'static str, std::ffi::OsString)> {
        // Unset stays unset: old versions have the default compiled in elsewhere.
        let is_default = self.lock_file == Path::new(DEFAULT_LOCK_FILE);
        (!is_default).then(|| ("XTABLES_LOCKFILE", self.lock_file.clone().into_os_string()))
    }
}

/// A rule cannot exist if the chain that it would lead to does not.
fn says_target_absent(finished: &Finished, jump: &Jump) -> bool {
    let Some(target) = jump.target() else { return false };
    let text = String::from_utf8_lossy(&finished.stderr);
    finished.status.code() == Some(2)
        && (text.contains(&format!("Chain '{target}' does not exist"))
            || text.contains(&format!("Couldn't load target `{target}'")))
}
