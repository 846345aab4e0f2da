//! Looking until something is so, and reading what there is to see.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use switchyard_lab::Host;
use switchyard_lab::scenario::address::{Symbol, wire_family};
use switchyard_model::Family;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// `symbol:port` as an address of a family.
pub(crate) fn at(target: &str, family: Family) -> SocketAddr {
    let (symbol, port) = target.split_once(':').unwrap();
    SocketAddr::new(Symbol::parse(symbol).unwrap().ip(family).unwrap(), port.parse().unwrap())
}

/// The address of a host in the words of the model.
pub(crate) fn ip(host: &Host, family: Family) -> std::net::IpAddr {
    host.ip(wire_family(family))
}

/// True if every change that was seen is written, by the proxy's own word.
pub(crate) fn is_idle(host: &Host) -> bool {
    let page = http(host, "127.0.0.1:10249", "/metrics").unwrap_or_default().1;
    let series = |name: &str| -> BTreeMap<String, f64> {
        let values = page.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
        values.filter_map(|(labels, value)| Some((labels.to_owned(), value.parse().ok()?))).collect()
    };
    let done = series("kubeproxy_sync_proxy_rules_last_timestamp_seconds");
    let asked = series("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds");
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

/// GET on a host: status, and headers with the body.
pub(crate) fn http(host: &Host, to: &str, path: &str) -> Option<(u16, String)> {
    let ask = || -> std::io::Result<String> {
        let to: SocketAddr = to.parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = host.run(ask).ok()?.ok()?;
    let status = text.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, text))
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

/// Lines of a save, each with its table, without comments and counters.
pub(crate) fn sorted(tool: &str, save: &str) -> String {
    let mut table = "";
    let mut lines = Vec::new();
    for line in save.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if !line.starts_with('#') && line != "COMMIT" {
            let line = if line.starts_with(':') { line.split(" [").next().unwrap() } else { line };
            lines.push(format!("{tool} {table} {line}\n"));
        }
    }
    lines.sort();
    lines.concat()
}
