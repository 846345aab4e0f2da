//! Reads scenario text.

use std::collections::BTreeMap;

use ipnet::IpNet;
use switchyard_model::{Conditions, Protocol, ServiceName, TrafficPolicy};

use super::address::Symbol;
use super::objects::{EndpointSpec, Objects, PortSpec, ServiceSpec};
use super::{Expected, Flow, OPTIONS, Scenario, Seen, Step};

/// What is wrong with a scenario.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{scenario}, line {line}: {problem}: `{text}`")]
pub struct ParseError {
    scenario: String,
    line: usize,
    problem: &'static str,
    text: String,
}

type Parsed<T> = Result<T, &'static str>;

pub(super) fn scenario(name: &str, text: &str) -> Result<Scenario, ParseError> {
    let mut options = BTreeMap::new();
    let mut steps = vec![Step { title: String::new(), objects: Objects::default(), flows: Vec::new() }];
    for (index, raw) in text.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        statement(&mut options, &mut steps, index + 1, line).map_err(|problem| ParseError {
            scenario: name.to_owned(),
            line: index + 1,
            problem,
            text: line.to_owned(),
        })?;
    }
    Ok(Scenario { name: name.to_owned(), options, steps })
}

fn statement(
    options: &mut BTreeMap<String, String>,
    steps: &mut Vec<Step>,
    number: usize,
    line: &str,
) -> Parsed<()> {
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let step = steps.last_mut().ok_or("no step")?;
    match verb {
        "option" => {
            let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
            if !OPTIONS.contains(&name) {
                return Err("unknown option");
            }
            options.insert(name.to_owned(), value.to_owned());
        }
        "zone" => step.objects.zone = Some(rest.to_owned()),
        "service-cidrs" => step.objects.service_cidrs = ranges(rest)?,
        "service" => service(&mut step.objects, rest)?,
        "endpoint" => endpoint(&mut step.objects, rest)?,
        "remove" => remove(&mut step.objects, rest)?,
        "flow" => step.flows.push(flow(number, rest)?),
        "then" => {
            let objects = step.objects.clone();
            steps.push(Step { title: rest.to_owned(), objects, flows: Vec::new() });
        }
        _ => return Err("unknown statement"),
    }
    Ok(())
}

fn service_name(text: &str) -> ServiceName {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    ServiceName::new(namespace, name)
}

fn protocol(text: &str) -> Parsed<Protocol> {
    Protocol::from_api(&text.to_uppercase()).ok_or("unknown protocol")
}

fn number<T: std::str::FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| "not a number in range")
}

fn symbols(text: &str) -> Parsed<Vec<Symbol>> {
    text.split(',').map(|s| Symbol::parse(s).ok_or("unknown address symbol")).collect()
}

/// The ranges of both families; `none` takes them away.
fn ranges(text: &str) -> Parsed<Vec<IpNet>> {
    let ranges = text.split(',').filter(|text| *text != "none");
    ranges.map(|text| text.parse().map_err(|_| "not a CIDR range")).collect()
}

fn policy(text: &str) -> Parsed<TrafficPolicy> {
    match text {
        "Cluster" => Ok(TrafficPolicy::Cluster),
        "Local" => Ok(TrafficPolicy::Local),
        _ => Err("policy is Cluster or Local"),
    }
}

/// `symbol:port`.
fn at(text: &str) -> Parsed<(Symbol, u16)> {
    let (symbol, port) = text.rsplit_once(':').ok_or("address:port expected")?;
    Ok((Symbol::parse(symbol).ok_or("unknown address symbol")?, number(port)?))
}

/// `NAME cluster.N:PORT/PROTO key=value…`. A second line with the same name adds a port.
fn service(objects: &mut Objects, text: &str) -> Parsed<()> {
    let mut words = text.split_whitespace();
    let name = service_name(words.next().ok_or("service name expected")?);
    let (target, proto) =
        words.next().and_then(|w| w.split_once('/')).ok_or("address:port/protocol expected")?;
    let (cluster_ip, port) = at(target)?;
    let mut port = PortSpec { name: String::new(), protocol: protocol(proto)?, port, node_port: None };
    let spec = objects.services.entry(name.clone()).or_insert_with(|| ServiceSpec {
        name,
        created: 0,
        cluster_ip,
        ports: Vec::new(),
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
    });
    for word in words {
        let (key, value) = word.split_once('=').ok_or("key=value expected")?;
        match key {
            "name" => value.clone_into(&mut port.name),
            "nodeport" => port.node_port = Some(number(value)?),
            "created" => spec.created = number(value)?,
            "ext" => spec.external_ips = symbols(value)?,
            "lb" => spec.load_balancer_ips = symbols(value)?,
            "ranges" => spec.source_ranges = symbols(value)?,
            "affinity" => spec.affinity = Some(number(value)?),
            "itp" => spec.internal_policy = policy(value)?,
            "etp" => spec.external_policy = policy(value)?,
            "health" => spec.health_check_node_port = Some(number(value)?),
            _ => return Err("unknown key of a service"),
        }
    }
    spec.cluster_ip = cluster_ip;
    spec.ports.retain(|p| (&p.name, p.protocol) != (&port.name, port.protocol));
    spec.ports.push(port);
    Ok(())
}

/// `SERVICE POD:PORT[/PROTO] key=value…`. Replaces an endpoint of the same pod, port and slice.
fn endpoint(objects: &mut Objects, text: &str) -> Parsed<()> {
    let mut words = text.split_whitespace();
    let service = service_name(words.next().ok_or("service name expected")?);
    let target = words.next().ok_or("pod:port expected")?;
    let (target, proto) = target.split_once('/').unwrap_or((target, "tcp"));
    let (pod, port) = at(target)?;
    let mut spec = EndpointSpec {
        pod,
        port,
        port_name: String::new(),
        protocol: protocol(proto)?,
        conditions: Conditions::default(),
        zones: Vec::new(),
        nodes: Vec::new(),
        slice: 0,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, "true"));
        let list = || value.split(',').map(String::from).collect();
        match key {
            "name" => value.clone_into(&mut spec.port_name),
            "ready" => spec.conditions.ready = value == "true",
            "serving" => spec.conditions.serving = value == "true",
            "terminating" => spec.conditions.terminating = value == "true",
            "zones" => spec.zones = list(),
            "nodes" => spec.nodes = list(),
            "slice" => spec.slice = number(value)?,
            _ => return Err("unknown key of an endpoint"),
        }
    }
    let all = objects.endpoints.entry(service).or_default();
    let is_other = |e: &EndpointSpec| {
        (e.pod, e.port, e.protocol, e.slice) != (spec.pod, spec.port, spec.protocol, spec.slice)
            || e.port_name != spec.port_name
    };
    all.retain(is_other);
    all.push(spec);
    Ok(())
}

fn remove(objects: &mut Objects, text: &str) -> Parsed<()> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["service", name] => {
            let name = service_name(name);
            objects.endpoints.remove(&name);
            objects.services.remove(&name).map(|_| ()).ok_or("no such service")
        }
        ["endpoint", service, target] => {
            let (pod, port) = at(target.split('/').next().unwrap_or_default())?;
            let all = objects.endpoints.get_mut(&service_name(service)).ok_or("no such service")?;
            let before = all.len();
            all.retain(|e| (e.pod, e.port) != (pod, port));
            if all.len() < before { Ok(()) } else { Err("no such endpoint") }
        }
        _ => Err("`remove service NAME` or `remove endpoint SERVICE POD:PORT` expected"),
    }
}

/// `PROTO FROM -> TO:PORT : EXPECTED [| nftables EXPECTED] [| ipvs EXPECTED]`.
fn flow(line: usize, text: &str) -> Parsed<Flow> {
    const FORM: &str = "`flow PROTO FROM -> TO:PORT : EXPECTED` expected";
    let (who, expected) = text.split_once(" : ").ok_or(FORM)?;
    let (left, to) = who.split_once("->").ok_or(FORM)?;
    let (proto, from) = left.trim().split_once(char::is_whitespace).ok_or(FORM)?;
    let (to, port) = at(to.trim())?;
    let from = Symbol::parse(from.trim()).ok_or("unknown address symbol")?;
    let mut all = expected.split('|');
    let expected = all.next().ok_or(FORM)?;
    let (mut in_nftables, mut in_ipvs) = (None, None);
    for other in all {
        const OTHER: &str = "`| nftables EXPECTED` or `| ipvs EXPECTED` expected, each once";
        let (mode, expected) = other.trim().split_once(' ').ok_or(OTHER)?;
        let place = match mode {
            "nftables" => &mut in_nftables,
            "ipvs" => &mut in_ipvs,
            _ => return Err(OTHER),
        };
        if place.replace(expectation(expected.trim())?).is_some() {
            return Err(OTHER);
        }
    }
    Ok(Flow {
        line,
        protocol: protocol(proto)?,
        from,
        to,
        port,
        expected: expectation(expected.trim())?,
        expected_in_nftables: in_nftables,
        expected_in_ipvs: in_ipvs,
    })
}

fn expectation(text: &str) -> Parsed<Expected> {
    let pod = |word: &str| {
        let (symbol, seen) = word.split_once('@').ok_or("pod@client or pod@node expected")?;
        let seen = match seen {
            "client" => Seen::Client,
            "node" => Seen::Node,
            _ => return Err("pod@client or pod@node expected"),
        };
        Ok((Symbol::parse(symbol).ok_or("unknown address symbol")?, seen))
    };
    let pods = |text: &str| text.split_whitespace().map(pod).collect::<Parsed<_>>();
    match text.split_once(char::is_whitespace) {
        None if text == "reject" => Ok(Expected::Reject),
        None if text == "drop" => Ok(Expected::Drop),
        None if text == "untouched" => Ok(Expected::Untouched),
        Some(("http", status)) => Ok(Expected::Http(number(status.trim())?)),
        Some(("sticky", some)) => Ok(Expected::Sticky(pods(some)?)),
        _ => Ok(Expected::Pods(pods(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_build_on_each_other() {
        let text = "service web cluster.1:80/tcp nodeport=30080 etp=Local\n\
                    endpoint web n1.1:8080\n\
                    flow tcp client -> n1:30080 : n1.1@client\n\
                    then it goes\n\
                    remove endpoint web n1.1:8080\n\
                    flow tcp client -> n1:30080 : reject";
        let scenario = Scenario::parse("x", text).unwrap();
        let sizes: Vec<_> =
            scenario.steps.iter().map(|s| (s.objects.endpoints().count(), s.flows.len())).collect();
        assert_eq!(sizes, [(1, 1), (0, 1)]);
    }

    #[test]
    fn every_kind_of_expectation_is_read() {
        let n1 = BTreeMap::from([(Symbol::Pod(1, 1), Seen::Node)]);
        assert_eq!(expectation("n1.1@node"), Ok(Expected::Pods(n1.clone())));
        assert_eq!(expectation("sticky n1.1@node"), Ok(Expected::Sticky(n1)));
        assert_eq!(expectation("http 503"), Ok(Expected::Http(503)));
        assert_eq!(expectation("drop"), Ok(Expected::Drop));
        assert!(expectation("sticky").is_err() && expectation("http ok").is_err());
    }

    #[test]
    fn modes_may_differ() {
        use super::super::Mode::{Iptables, Ipvs, Nftables};
        let one = |text: &str| flow(1, text);
        let flow = one("tcp n1 -> localhost:1 : n1.1@node | nftables untouched").unwrap();
        assert!(matches!(flow.expected_in(Iptables), Expected::Pods(_)));
        assert_eq!(flow.expected_in(Nftables), &Expected::Untouched);
        let same = one("tcp n1 -> localhost:1 : drop").unwrap();
        assert_eq!(same.expected_in(Nftables), same.expected_in(Iptables));
        let both = one("tcp n1 -> n1:1 : drop | nftables reject | ipvs untouched").unwrap();
        assert_eq!(
            (both.expected_in(Nftables), both.expected_in(Ipvs)),
            (&Expected::Reject, &Expected::Untouched)
        );
        assert_eq!(flow.expected_in(Ipvs), flow.expected_in(Iptables));
        assert!(one("tcp n1 -> localhost:1 : drop | iptables drop").is_err());
        assert!(one("tcp n1 -> localhost:1 : drop | ipvs drop | ipvs drop").is_err());
        assert!(one("tcp n1 -> localhost:1 : drop | nftables").is_err());
    }

    #[test]
    fn options_become_flags_and_loopback_is_for_ipv4() {
        let text = "option cluster-cidr=none\noption masquerade-all\nflow tcp n1 -> localhost:1 : untouched";
        let scenario = Scenario::parse("x", text).unwrap();
        assert_eq!(scenario.flags(), ["--cluster-cidr=", "--masquerade-all=true"]);
        assert_eq!(scenario.steps[0].flows[0].families(), [switchyard_model::Family::V4]);
        assert!(Scenario::parse("x", "option sync=1").is_err());
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| Scenario::parse("x", text).unwrap_err().to_string();
        assert_eq!(
            error("\nservice web nowhere:80/tcp"),
            "x, line 2: unknown address symbol: `service web nowhere:80/tcp`"
        );
        assert!(error("flow tcp client -> n1:99999 : drop").contains("not a number in range"));
        assert!(error("remove endpoint web n1.1:1").contains("no such service"));
    }
}
