//! Looking until something is so, and reading what there is to see.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use switchyard_lab::Host;
use switchyard_lab::scenario::address::{Symbol, wire_family};
use switchyard_model::Family;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Where the proxy tells its metrics, and its health.
pub(crate) const METRICS: &str = "127.0.0.1:10249";
pub(crate) const HEALTH: &str = "127.0.0.1:10256";

/// `symbol:port` as an address of a family.
pub(crate) fn at(target: &str, family: Family) -> SocketAddr {
    let (symbol, port) = target.split_once(':').unwrap();
    SocketAddr::new(Symbol::parse(symbol).unwrap().ip(family).unwrap(), port.parse().unwrap())
}

/// The address of a host in the words of the model.
pub(crate) fn ip(host: &Host, family: Family) -> std::net::IpAddr {
    host.ip(wire_family(family))
}

/// The series of a metric of the proxy that runs here, by labels; none if it does not answer.
pub(crate) fn series(host: &Host, name: &str) -> BTreeMap<String, f64> {
    let page = http(host, METRICS, "/metrics").unwrap_or_default().1;
    let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let lines = lines.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'));
    lines.filter_map(|(labels, value)| Some((labels.to_owned(), value.parse().ok()?))).collect()
}

/// True if every change that was seen is written, by the proxy's own word.
pub(crate) fn is_idle(host: &Host) -> bool {
    let done = series(host, "kubeproxy_sync_proxy_rules_last_timestamp_seconds");
    let asked = series(host, "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds");
    !asked.is_empty() && asked.iter().all(|(labels, at)| done.get(labels).is_some_and(|done| done >= at))
}

/// Asks again and again until it is so.
pub(crate) fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within(PATIENCE, is_so), "not in time: {what}");
}

/// True if it comes true in this time.
pub(crate) fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        let over = Instant::now() >= end;
        if is_so() {
            return true;
        }
        if over {
            return false;
        }
        std::thread::sleep(Duration::from_millis(15));
    }
}

/// GET from a host: status and body.
pub(crate) fn http(from: &Host, to: impl ToSocketAddrs, path: &str) -> anyhow::Result<(u16, String)> {
    let to = to.to_socket_addrs()?.next().ok_or_else(|| anyhow!("no address"))?;
    let text = from.run(|| -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    })??;
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_owned() };
    Ok((status.ok_or_else(|| anyhow!("no HTTP answer: {text:?}"))?, body))
}

/// The chunks of a body. Their sizes count bytes; the pages here are ASCII.
pub(crate) fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        body.push_str(rest.get(..size).unwrap_or_default());
        chunks = rest.get(size + 2..).unwrap_or_default();
    }
    body
}

/// Writes an executable shell script.
pub(crate) fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let draft = path.with_extension("draft");
    std::fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(draft, path).unwrap();
}
