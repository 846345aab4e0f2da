//! Figures of a guest, as the files of `docs/benchmarks` tell them.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::super::machine::Machine;
use super::super::report::Section;
use super::super::{Goal, Measured, duration};
use super::{Cost, Figures, MARK};

const COMMAND: &str = "cargo run --release -p xtask -- vm --bench ipvs";

const ABOUT: &str = "The mode in a private network namespace, from the last object received to all written: the table, virtual servers with \
their destinations, addresses on `kube-ipvs0`. What it wrote is then saved with `ipvsadm -Sn`, `ip` and `nft`, and restored by `ipvsadm -R`, \
`ip -batch` and `nft -f` in another namespace: the same content, which is checked. Virtual servers alone: the same commands from memory, \
through the same socket. The programs' times begin with their start. Addresses cost more the more there are, with `ip` as with us: for each \
new one the kernel goes through all that the link has.";

const CLOCK: &str = "**These are times of an emulated processor** without KVM, whose clock counts instructions, a billion to the second, and \
knows neither caches nor other programs. Only ratios and counts say something about other machines.";

/// What is kept as JSON.
#[derive(Serialize)]
struct Kept<'a> {
    command: &'a str,
    kernel: &'a str,
    machine: &'a Machine,
    figures: &'a [Figures],
    lines: &'a [Measured],
}

/// Writes `ipvs.md` and `ipvs.json`, and shows the table. An error if a goal was missed.
pub(crate) fn report(lines: &[String], kernel: &str, directory: &Path) -> Result<()> {
    let read = |line: &String| -> Result<Figures> {
        let text = line.strip_prefix(MARK).context("a line of figures without its mark")?;
        serde_json::from_str(text).context("figures that cannot be read")
    };
    let figures = lines.iter().map(read).collect::<Result<Vec<_>>>()?;
    let (machine, section) = (Machine::here(), section(&figures));
    println!("\n{}", section.text());
    fs::create_dir_all(directory)?;
    fs::write(directory.join("ipvs.md"), markdown(&machine, kernel, &section))?;
    let kept = Kept { command: COMMAND, kernel, machine: &machine, figures: &figures, lines: &section.lines };
    fs::write(directory.join("ipvs.json"), serde_json::to_string_pretty(&kept)? + "\n")?;
    println!("written to {}", directory.display());
    let missed = section.lines.iter().filter(|line| line.goal == Goal::Missed).count();
    ensure!(missed == 0, "{missed} goals were missed");
    Ok(())
}

fn markdown(machine: &Machine, kernel: &str, section: &Section) -> String {
    let mut out = format!("# ipvs mode\n\nWritten by `{COMMAND}`. {CLOCK}\n\n| | |\n|---|---|\n");
    // Writing to a String cannot fail.
    let _ = writeln!(out, "| kernel of the guest | Linux {kernel} |");
    let _ = writeln!(out, "| ipvsadm | {} |", super::super::machine::package("ipvsadm"));
    let _ = writeln!(out, "| emulator | {} |", super::super::machine::package("qemu-system-x86"));
    for (name, value) in machine.rows().iter().filter(|(name, _)| !matches!(*name, "iptables" | "kernel")) {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    section.markdown(&mut out);
    out
}

fn section(figures: &[Figures]) -> Section {
    let lines = figures.iter().flat_map(lines).collect();
    Section { title: "Beside ipvsadm -R", about: ABOUT, lines, pictures: Vec::new() }
}

fn lines(figures: &Figures) -> Vec<Measured> {
    let Figures { services, first, servers, ipvsadm, ip, nft, restart, change, change_ipvsadm } = figures;
    let info = |what: &str, value: String| Measured::info(*services, what, value);
    let cost = |what: &str, cost: &Cost| {
        let measured = info(what, format!("{}, {}", cost.operations, duration(cost.median())));
        Measured { runs: cost.seconds.clone(), ..measured }
    };
    let times = |what: &str, ours: Duration, theirs: Duration, wanted, most: f64| {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(1e-9);
        info(what, format!("{ratio:.2}")).wanting(wanted, Goal::met(ratio <= most))
    };
    let programs = ipvsadm.median() + ip.median() + nft.median();
    vec![
        cost("first sync: operations, time", first),
        cost("of it, virtual servers and destinations", servers),
        cost("`ipvsadm -R` with the same", ipvsadm),
        cost("`ip -batch` with the same addresses", ip),
        info("`nft -f` with the same table", duration(nft.median())),
        times("virtual servers, times `ipvsadm -R`", servers.median(), ipvsadm.median(), "at most 1", 1.0),
        times("first sync, times `ipvsadm -R`", first.median(), ipvsadm.median(), "at most 1", 1.0),
        times("first sync, times the three programs", first.median(), programs, "at most 1", 1.0),
        cost("start with nothing to write: operations, time", restart),
        cost("one endpoint replaced: operations, time", change),
        cost("`ipvsadm -R` with the same change", change_ipvsadm),
        times(
            "one endpoint replaced, times `ipvsadm -R`",
            change.median(),
            change_ipvsadm.median(),
            "at most 1",
            1.0,
        ),
    ]
}
