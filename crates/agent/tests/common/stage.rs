//! A lab with the pods of a scenario, and what real packets of a flow do there.
//!
//! The three ways not to get an answer are told apart: a refusal (port unreachable, or a reset), silence, and what happens without us:
//! the node has no such port, or the router prohibits an address of a service range that comes back to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use switchyard_lab::scenario::address::{Symbol, node, wire_family};
use switchyard_lab::scenario::{Expected, Flow, Mode, Scenario, Seen, Step};
use switchyard_lab::{Answer, Dial, Echo, Host, Lab, Node, Transport, address};
use switchyard_model::{Family, Protocol};

use super::looking::http;

/// How often a set of pods is dialled at least, and at most until each of them was seen. With five pods the odds of missing one by
/// chance are 1 in 10^18.
const TRIES: (u32, u32) = (6, 200);

/// How often a sticky client dials. The odds of staying by chance with one of three pods are 1 in 500,000.
const STICKY_TRIES: u32 = 13;

/// After this time nobody will answer.
const SILENCE: Duration = Duration::from_millis(300);

/// An answer or a refusal comes before this. A busy machine may lose or delay a packet; the kernel sends the next after a second.
const AT_ONCE: Duration = Duration::from_secs(3);

/// How long a health check may take to tell the news.
const NEWS: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Stage {
    lab: Lab,
    pods: BTreeMap<Symbol, Host>,
    /// Held for their drop.
    _echoes: Vec<Echo>,
}

impl Stage {
    /// Makes the pods, with echo servers on all ports that an endpoint has in any step.
    pub(crate) fn new(lab: Lab, scenario: &Scenario) -> anyhow::Result<Self> {
        let mut pods = BTreeMap::new();
        for symbol in scenario.pods() {
            let Symbol::Pod(number, index) = symbol else { continue };
            let node = node(number).with_context(|| format!("{symbol} is on no node"))?;
            pods.insert(symbol, lab.add_pod(node, index)?);
        }
        prohibit_untranslated(&lab)?;
        let endpoints = scenario.steps.iter().flat_map(|step| step.objects.endpoints());
        let ports: BTreeSet<_> = endpoints.map(|e| (e.pod, e.port, e.protocol)).collect();
        let mut echoes = Vec::new();
        for (symbol, port, protocol) in ports {
            let pod = pods.get(&symbol).with_context(|| format!("{symbol} is no pod"))?;
            echoes.push(match protocol {
                Protocol::Tcp => pod.echo_tcp(port)?,
                Protocol::Udp => pod.echo_udp(port)?,
                Protocol::Sctp => bail!("the lab has no SCTP"),
            });
        }
        Ok(Self { lab, pods, _echoes: echoes })
    }

    /// The lab.
    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The host that a symbol stands for.
    pub(crate) fn host(&self, symbol: Symbol) -> anyhow::Result<&Host> {
        match symbol {
            Symbol::Client => Ok(self.lab.client()),
            Symbol::Node(1) => Ok(self.lab.node(Node::N1)),
            Symbol::Node(2) => Ok(self.lab.node(Node::N2)),
            other => self.pods.get(&other).ok_or_else(|| anyhow!("nobody can dial from {other}")),
        }
    }

    /// Tries a flow; the error says what came instead of what was expected.
    pub(crate) fn check(&self, flow: &Flow, mode: Mode, family: Family) -> anyhow::Result<()> {
        let ip = flow.to.ip(family).with_context(|| format!("{} has no address", flow.to))?;
        self.check_at(flow, SocketAddr::new(ip, flow.port), flow.expected_in(mode))
    }

    /// Tries a flow that dials another address than it says.
    pub(crate) fn check_at(&self, flow: &Flow, to: SocketAddr, expected: &Expected) -> anyhow::Result<()> {
        let call = Call::new(self, flow, to)?;
        match expected {
            Expected::Pods(pods) => call.expect_all(pods),
            Expected::Sticky(pods) => call.expect_one(pods),
            Expected::Reject => call.expect_refusal(),
            Expected::Drop => call.expect_silence(),
            Expected::Untouched => call.expect_nobody(),
            Expected::Http(status) => call.expect_status(*status),
        }
    }

    /// The failures of the last of all tries of a step.
    pub(crate) fn failures(
        &self,
        scenario: &Scenario,
        step: &Step,
        mode: Mode,
        patience: Duration,
    ) -> Vec<String> {
        let end = Instant::now() + patience;
        loop {
            let tries = step.flows.iter().flat_map(|flow| flow.families().iter().map(move |f| (flow, *f)));
            let failed = tries.filter_map(|(flow, family)| {
                let error = self.check(flow, mode, family).err()?;
                let (name, line, title, expected) =
                    (&scenario.name, flow.line, &step.title, flow.expected_in(mode));
                Some(format!(
                    "{name}.txt:{line} {family} ({title}): {flow}: expected {expected:?}; {error:#}"
                ))
            });
            let failed: Vec<String> = failed.collect();
            if failed.is_empty() || Instant::now() >= end {
                return failed;
            }
        }
    }
}

/// The lab drops what no rule translates silently. Here the router says so, or it would look like a drop of ours. (Not the node: it would
/// refuse before its filter rules had their turn.)
fn prohibit_untranslated(lab: &Lab) -> anyhow::Result<()> {
    for (flag, family) in [("-4", switchyard_lab::Family::V4), ("-6", switchyard_lab::Family::V6)] {
        for (address, prefix) in address::service_ranges(family) {
            let range = format!("{address}/{prefix}");
            let rule = [flag, "rule", "add", "pref", "1", "iif", "n1", "to", &range, "prohibit"];
            lab.router().exec_ok("ip", &rule)?;
        }
    }
    Ok(())
}

/// What masqueraded traffic of n1 comes from: the address of the interface that it leaves by.
fn node_address_towards(pod: Symbol, family: switchyard_lab::Family) -> IpAddr {
    match pod {
        Symbol::Pod(1, _) => address::pod_gateway(Node::N1, family),
        _ => address::node(Node::N1, family),
    }
}

/// A flow in one family.
struct Call<'a> {
    from: &'a Host,
    family: switchyard_lab::Family,
    to: SocketAddr,
    transport: Transport,
    /// Pods by the names that they answer with.
    names: BTreeMap<&'a str, Symbol>,
}

impl<'a> Call<'a> {
    fn new(stage: &'a Stage, flow: &Flow, to: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self {
            from: stage.host(flow.from)?,
            family: wire_family(Family::of(to.ip())),
            to,
            transport: match flow.protocol {
                Protocol::Tcp => Transport::Tcp,
                Protocol::Udp => Transport::Udp,
                Protocol::Sctp => bail!("the lab has no SCTP"),
            },
            names: stage.pods.iter().map(|(symbol, pod)| (pod.name(), *symbol)).collect(),
        })
    }

    fn dial(&self, patience: Duration) -> Answer {
        self.from.dial(&Dial::new(self.transport, self.to).within(patience))
    }

    /// Dials once; one of the pods must answer and must have seen the right source.
    fn pod(&self, pods: &BTreeMap<Symbol, Seen>) -> anyhow::Result<Symbol> {
        let answer = self.dial(AT_ONCE);
        let (Some(name), Some(source)) = (answer.name(), answer.seen_ip()) else { bail!("got {answer:?}") };
        let pod = *self.names.get(name).ok_or_else(|| anyhow!("{name} answered"))?;
        let seen = pods.get(&pod).ok_or_else(|| anyhow!("{pod} answered"))?;
        let is_right = match seen {
            Seen::Client => source == self.from.ip(self.family),
            Seen::Node => source == node_address_towards(pod, self.family),
        };
        ensure!(is_right, "{pod} saw {source}, not {seen:?}");
        Ok(pod)
    }

    fn expect_all(&self, pods: &BTreeMap<Symbol, Seen>) -> anyhow::Result<()> {
        let mut found = BTreeSet::new();
        for tries in 1..=TRIES.1 {
            found.insert(self.pod(pods)?);
            if tries >= TRIES.0 && found.len() == pods.len() {
                return Ok(());
            }
        }
        bail!("only {} answered", found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    fn expect_one(&self, pods: &BTreeMap<Symbol, Seen>) -> anyhow::Result<()> {
        let first = self.pod(pods)?;
        for _ in 1..STICKY_TRIES {
            let next = self.pod(pods)?;
            ensure!(next == first, "{first} answered first and then {next}");
        }
        Ok(())
    }

    fn expect_refusal(&self) -> anyhow::Result<()> {
        let answer = self.dial(AT_ONCE);
        ensure!(answer == Answer::Refused, "got {answer:?}");
        Ok(())
    }

    fn expect_silence(&self) -> anyhow::Result<()> {
        let answer = self.dial(SILENCE);
        ensure!(answer == Answer::Timeout, "got {answer:?}");
        Ok(())
    }

    fn expect_nobody(&self) -> anyhow::Result<()> {
        let mut answer = self.dial(AT_ONCE);
        // A kernel limits how often it says so to one client.
        if answer == Answer::Timeout {
            answer = self.dial(AT_ONCE);
        }
        ensure!(matches!(answer, Answer::Refused | Answer::Unreachable(_)), "got {answer:?}");
        Ok(())
    }

    fn expect_status(&self, expected: u16) -> anyhow::Result<()> {
        let end = Instant::now() + NEWS;
        loop {
            let got = http(self.from, self.to, "/healthz");
            match got {
                Ok((status, _)) if status == expected => return Ok(()),
                got if Instant::now() >= end => bail!("got {got:?}"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}
