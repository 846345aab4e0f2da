//! What an operator dials: an address with a port, or a Service by its name.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use switchyard_model::{Family, Protocol, ServiceName, ServicePort};

use super::Refusal;
use crate::sync::View;

/// Names that an error lists.
const NAMES: usize = 8;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialled {
    /// An address.
    Address(SocketAddr),
    /// A Service: its cluster IP.
    Service {
        /// Absent if there is only one Service of the name.
        namespace: Option<String>,
        /// Its name.
        name: String,
        /// Number or name of the port; absent if it has only one.
        port: Option<String>,
    },
}

impl Dialled {
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let wrong = || {
            let text: String = text.chars().take(80).collect();
            let forms = "10.96.0.10:80, [fd00::10]:80, web, shop/web or shop/web:http";
            (400, format!("to must be an address with a port or a Service, as in {forms}, not {text:?}"))
        };
        let (service, port) = match text.split_once(':') {
            Some((service, port)) => (service, Some(port)),
            None => (text, None),
        };
        let (namespace, name) = match service.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, service),
        };
        let all = [Some(name), namespace, port];
        if name.parse::<IpAddr>().is_ok() || !all.into_iter().flatten().all(is_name) {
            return Err(wrong());
        }
        let owned = |part: Option<&str>| part.map(str::to_owned);
        Ok(Self::Service { namespace: owned(namespace), name: name.to_owned(), port: owned(port) })
    }

    /// Address, port and protocol. `protocol` and `family` are absent if any will do.
    pub(super) fn resolve(
        &self,
        view: &View<'_>,
        protocol: Option<Protocol>,
        family: Option<Family>,
    ) -> Result<(SocketAddr, Protocol), Refusal> {
        let (namespace, name, port) = match self {
            Self::Address(address) => return Ok((*address, protocol.unwrap_or(Protocol::Tcp))),
            Self::Service { namespace, name, port } => (namespace.as_deref(), name, port.as_deref()),
        };
        let families = view.families.iter().filter(|sync| family.is_none_or(|f| f == sync.family()));
        let ports = families.flat_map(|sync| sync.book().ports().values()).map(|port| &**port);
        find(ports, namespace, name, port, protocol)
    }
}

fn find<'a>(
    ports: impl Iterator<Item = &'a ServicePort>,
    namespace: Option<&str>,
    name: &str,
    port: Option<&str>,
    protocol: Option<Protocol>,
) -> Result<(SocketAddr, Protocol), Refusal> {
    let is_it = |service: &ServiceName| {
        *service.name == *name && namespace.is_none_or(|namespace| *service.namespace == *namespace)
    };
    let own: Vec<&ServicePort> = ports.filter(|port| is_it(&port.name.service)).collect();
    let services: BTreeSet<String> = own.iter().map(|port| port.name.service.to_string()).collect();
    let shown = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    if services.is_empty() {
        return Err((404, format!("no Service {shown} is served here; `switchyard get services` lists all")));
    }
    if services.len() > 1 {
        let list = list(services);
        return Err((400, format!("several Services have the name {shown}: {list}; write NAMESPACE/NAME")));
    }
    let is_port = |one: &&&ServicePort| {
        port.is_none_or(|port| *one.name.port == *port || one.port.to_string() == port)
            && protocol.is_none_or(|protocol| one.name.protocol == protocol)
    };
    let fitting: Vec<&&ServicePort> = own.iter().filter(is_port).collect();
    let words = |port: &ServicePort| {
        let name = if port.name.port.is_empty() { String::new() } else { format!("{}:", port.name.port) };
        format!("{name}{}/{}", port.port, port.name.protocol)
    };
    let names: BTreeSet<String> = fitting.iter().map(|port| words(port)).collect();
    match fitting.first() {
        None => {
            let all = list(own.iter().map(|port| words(port)).collect());
            Err((404, format!("{shown} has no such port, only {all}; write {shown}:PORT")))
        }
        Some(_) if names.len() > 1 => {
            Err((400, format!("{shown} has several ports: {}; write {shown}:PORT[/PROTOCOL]", list(names))))
        }
        Some(port) => Ok((SocketAddr::new(port.cluster_ip, port.port), port.name.protocol)),
    }
}

/// True for what may be the name of an object.
pub(super) fn is_name(part: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !part.is_empty() && part.len() <= 253 && part.chars().all(is_plain)
}

/// The first of some names, for an error.
pub(super) fn list(names: BTreeSet<String>) -> String {
    let more = names.len().saturating_sub(NAMES);
    let mut list: Vec<String> = names.into_iter().take(NAMES).collect();
    if more > 0 {
        list.push(format!("{more} more"));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use switchyard_model::{ServicePortName, TrafficPolicy};

    use super::*;

    fn port(service: &str, name: &str, protocol: Protocol, at: &str) -> ServicePort {
        let (namespace, service) = service.split_once('/').unwrap();
        let at: SocketAddr = at.parse().unwrap();
        ServicePort {
            name: ServicePortName {
                service: ServiceName::new(namespace, service),
                port: name.into(),
                protocol,
            },
            family: Family::of(at.ip()),
            created: 0,
            cluster_ip: at.ip(),
            external_ips: Vec::new(),
            load_balancer_ips: Vec::new(),
            source_ranges: Vec::new(),
            port: at.port(),
            node_port: None,
            health_check_node_port: None,
            affinity: None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            endpoints: Vec::new(),
        }
    }

    fn ask(text: &str, protocol: Option<Protocol>) -> Result<String, String> {
        let ports = [
            port("shop/web", "http", Protocol::Tcp, "10.96.0.1:80"),
            port("shop/web", "https", Protocol::Tcp, "10.96.0.1:443"),
            port("shop/db", "", Protocol::Tcp, "10.96.0.2:5432"),
            port("test/db", "", Protocol::Tcp, "10.96.0.3:5432"),
            port("kube-system/dns", "dns", Protocol::Udp, "10.96.0.10:53"),
            port("kube-system/dns", "dns-tcp", Protocol::Tcp, "10.96.0.10:53"),
        ];
        let dialled = Dialled::read(text).map_err(|(_, text)| text)?;
        let Dialled::Service { namespace, name, port } = dialled else { return Ok("address".to_owned()) };
        let found = find(ports.iter(), namespace.as_deref(), &name, port.as_deref(), protocol);
        found.map(|(at, protocol)| format!("{at}/{protocol}")).map_err(|(_, text)| text)
    }

    #[test]
    fn services_are_found_by_name() {
        assert_eq!(ask("10.96.0.1:80", None), Ok("address".to_owned()));
        assert_eq!(ask("[fd00::1]:80", None), Ok("address".to_owned()));
        assert_eq!(ask("web:http", None), Ok("10.96.0.1:80/tcp".to_owned()));
        assert_eq!(ask("shop/web:443", None), Ok("10.96.0.1:443/tcp".to_owned()));
        assert_eq!(ask("test/db", None), Ok("10.96.0.3:5432/tcp".to_owned()));
        assert_eq!(ask("dns:53", Some(Protocol::Udp)), Ok("10.96.0.10:53/udp".to_owned()));
    }

    #[test]
    fn what_is_unknown_or_ambiguous_is_said_in_one_line_with_what_to_do() {
        for (text, said) in [
            ("nobody", "no Service nobody is served here; `switchyard get services` lists all"),
            ("shop/dns", "no Service shop/dns is served here; `switchyard get services` lists all"),
            ("db", "several Services have the name db: shop/db, test/db; write NAMESPACE/NAME"),
            ("web", "web has several ports: http:80/tcp, https:443/tcp; write web:PORT[/PROTOCOL]"),
            (
                "shop/web:8080",
                "shop/web has no such port, only http:80/tcp, https:443/tcp; write shop/web:PORT",
            ),
            ("dns:53", "dns has several ports: dns-tcp:53/tcp, dns:53/udp; write dns:PORT[/PROTOCOL]"),
        ] {
            assert_eq!(ask(text, None), Err(said.to_owned()));
        }
        for wrong in
            ["", "10.96.0.1", "a b", "a/b/c", "web:", "/web", "we\nb", "\u{202e}web", &"x".repeat(300)]
        {
            let said = ask(wrong, None).unwrap_err();
            assert!(said.starts_with("to must be ") && said.lines().count() == 1, "{wrong:?}: {said}");
        }
    }
}
