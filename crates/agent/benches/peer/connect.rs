//! How long connecting takes: through the Services that the kernel finds first and last, straight to a pod on the same node, and between
//! pods of a node without rules, in turn.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use switchyard_lab::{Family, Host};

use crate::cluster::{Objects, PODS, at, pod};
use crate::common::world::POD_PORT;
use crate::figures::{Connect, Quantiles};
use crate::machine;
use crate::options::Cell;
use crate::stage::Stage;

/// Turns, and connections in each of them.
const TURNS: u32 = 40;
const IN_A_TURN: u32 = 50;

const ANSWER: Duration = Duration::from_secs(5);

/// The processor of who measures.
const CALLING: usize = 0;

/// A proxy that still writes what changed before may lose a connection. So many turns are tried again, each after this time.
const AGAIN: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) fn measure(stage: &mut Stage<'_>, cell: &Cell, deadline: Duration) -> anyhow::Result<Connect> {
    let (first, last) = ends(stage, cell, deadline)?;
    let direct = SocketAddr::new(pod(PODS[0]).parse()?, POD_PORT);
    let bare = SocketAddr::new(stage.bare.1.ip(Family::V4), POD_PORT);
    let from =
        [(&stage.bare.0, bare), (&stage.caller, direct), (&stage.caller, first), (&stage.caller, last)];
    let (mut times, mut again) = ([const { Vec::new() }; 4], 0);
    machine::on_processor(CALLING, || -> anyhow::Result<()> {
        for _ in 0..TURNS {
            for ((host, to), times) in from.iter().zip(&mut times) {
                times.extend(sooner_or_later(host, *to, &mut again)?);
            }
        }
        Ok(())
    })?;
    let [bare, direct, first, last] = times.map(|times| Quantiles::of(&times));
    Ok(Connect { bare, direct, first, last })
}

/// One turn in which every connection was made.
fn sooner_or_later(host: &Host, to: SocketAddr, again: &mut u32) -> anyhow::Result<Vec<f64>> {
    loop {
        match turn(host, to) {
            Err(_) if *again < AGAIN => *again += 1,
            done => return done,
        }
        std::thread::sleep(PAUSE);
    }
}

/// Microseconds.
fn turn(host: &Host, to: SocketAddr) -> anyhow::Result<Vec<f64>> {
    let connect = || -> std::io::Result<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..IN_A_TURN {
            let begin = Instant::now();
            let stream = TcpStream::connect_timeout(&to, ANSWER)?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
            drop(stream);
        }
        Ok(times)
    };
    host.run(connect)?.with_context(|| format!("connecting to {to}"))
}

/// The Services that are found first and last. In iptables mode a packet is compared with one after the other, in an order that kube-proxy
/// leaves to chance; so these two get pods as endpoints now. In a map no Service is the first.
fn ends(stage: &mut Stage<'_>, cell: &Cell, deadline: Duration) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let objects = &stage.cluster.objects;
    let Some(backend) = cell.kind.backend() else {
        return Ok((at(&objects.crowd, 0), at(&objects.crowd, cell.services - 1)));
    };
    let rules =
        stage.node().exec_ok(&format!("iptables-{backend}"), &["-t", "nat", "-S", "KUBE-SERVICES"])?;
    let mut numbers = rules.lines().filter_map(|rule| number(rule, objects));
    let first = numbers.next().context("no Service in KUBE-SERVICES")?;
    let last = numbers.next_back().unwrap_or(first);
    let mut line = objects.crowd.line();
    for n in [first, last] {
        objects.crowd.roll(&mut line, n, &PODS.map(pod))?;
        let to = at(&objects.crowd, n);
        stage.wait(Instant::now(), deadline, |stage| stage.ask(to).is_some())?;
    }
    Ok((at(&objects.crowd, first), at(&objects.crowd, last)))
}

/// The number of the Service that a rule is for.
fn number(rule: &str, objects: &Objects) -> Option<u32> {
    let (_, rest) = rule.split_once(" -d ")?;
    let ip: Ipv4Addr = rest.split('/').next()?.parse().ok()?;
    let [_, _, high, low] = ip.octets();
    let n = u32::from(high) * 256 + u32::from(low);
    (objects.crowd.cluster_ip(n) == ip.to_string()).then_some(n)
}
