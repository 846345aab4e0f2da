//! What the mode wrote, as other programs read it and write it again.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use switchyard_apply::ipvs::LINK;
use switchyard_plan::nft::names::IPVS_TABLE;

use super::super::cluster::{self, ENDPOINTS, NEW_POD_IPS, POD_IPS, number};
use super::Figures;

/// Text for the programs that restore it.
pub(super) struct Restored {
    /// For `ipvsadm -R`.
    servers: String,
    /// For `ip -batch`.
    addresses: String,
    /// For `nft -f`.
    table: String,
}

impl Restored {
    /// Reads what is in this namespace.
    pub(super) fn read() -> Result<Self> {
        let servers = saved()?;
        let (listed, _) = run("ip", &["-o", "-4", "address", "show", "dev", LINK], "")?;
        let words = listed.lines().filter_map(|line| line.split_whitespace().nth(3));
        let addresses = words.map(|address| format!("address add {address} dev {LINK}\n")).collect();
        let (table, _) = run("nft", &["list", "table", "ip", IPVS_TABLE], "")?;
        Ok(Self { servers, addresses, table })
    }

    /// Virtual servers and destinations.
    pub(super) fn servers(&self) -> usize {
        self.servers.lines().count()
    }

    /// Restores everything in this namespace.
    pub(super) fn restore(&self, figures: &mut Figures, tell: &dyn Fn(&str, Duration)) -> Result<()> {
        let (_, time) = run("nft", &["-f", "-"], &self.table)?;
        tell("nft -f", time);
        figures.nft.add(1, time)?;
        let (_, time) = run("ipvsadm", &["-R"], &self.servers)?;
        tell("ipvsadm -R", time);
        figures.ipvsadm.add(self.servers(), time)?;
        run("ip", &["link", "add", LINK, "type", "dummy"], "")?;
        let (_, time) = run("ip", &["-batch", "-"], &self.addresses)?;
        tell("ip -batch", time);
        figures.ip.add(self.addresses.lines().count(), time)?;
        ensure!(are_same(&self.servers, &saved()?), "ipvsadm did not restore what it saved");
        Ok(())
    }
}

/// The virtual servers and destinations of this namespace, for `ipvsadm -R`.
pub(super) fn saved() -> Result<String> {
    run("ipvsadm", &["-Sn"], "").map(|(text, _)| text)
}

/// True if the virtual servers and their destinations are the same. They are listed in no order.
pub(super) fn are_same(one: &str, other: &str) -> bool {
    one.lines().collect::<BTreeSet<_>>() == other.lines().collect::<BTreeSet<_>>()
}

/// What [`cluster::replace_endpoint`] does, as a person would do it who knows what differs.
pub(super) fn replace_endpoint(index: u32, figures: &mut Figures) -> Result<()> {
    let server = number(cluster::CLUSTER_IPS, index);
    let (old, new) = (number(POD_IPS, index * ENDPOINTS), number(NEW_POD_IPS, index));
    let lines = format!("-a -t {server}:80 -r {new}:8080 -m -w 1\n-d -t {server}:80 -r {old}:8080\n");
    let (_, time) = run("ipvsadm", &["-R"], &lines)?;
    figures.change_ipvsadm.add(lines.lines().count(), time)
}

/// Runs a program to its end; what it printed, and how long it took.
fn run(program: &str, arguments: &[&str], input: &str) -> Result<(String, Duration)> {
    // From a file, so that nobody has to wait for a reader.
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(file).stderr(Stdio::inherit());
    let begin = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let time = begin.elapsed();
    ensure!(output.status.success(), "{program} {} failed", arguments.join(" "));
    Ok((String::from_utf8(output.stdout).context("not UTF-8")?, time))
}
