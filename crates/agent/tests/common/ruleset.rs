//! What the kernel holds of the proxy, read by the programs of others: `iptables-save` or `nft`.
//!
//! Out: sorted lines, without what differs between two kernels that do the same: handles, counters, the clients that a sticky Service
//! remembers, and what depends on the past: how large a set is, and which of its slots an endpoint has.

use serde_json::Value;
use switchyard_lab::Host;

use super::variant::Variant;

/// The families as `nft` names them.
pub(crate) const NFT_FAMILIES: [&str; 2] = ["ip", "ip6"];

/// Everything of the proxy in both families; in iptables mode, everything.
pub(crate) fn rules(host: &Host, variant: Variant) -> String {
    let Some(backend) = variant.backend() else {
        return NFT_FAMILIES.iter().map(|family| table(host, family, variant.table())).collect();
    };
    let tools = ["iptables", "ip6tables"].map(|tool| format!("{tool}-{backend}-save"));
    tools.iter().map(|tool| saved(tool, &host.exec_ok::<&str>(tool, &[]).unwrap())).collect()
}

/// True if a table of nf_tables is there in both families.
pub(crate) fn has_tables(host: &Host, name: &str) -> bool {
    NFT_FAMILIES.iter().all(|family| !table(host, family, name).is_empty())
}

/// True if anything of kube-proxy is there in a family: a chain of this variant, or its table of nftables mode. Our iptables mode has the
/// same chains. KUBE-FIREWALL does not count, because it is the kubelet's too.
pub(crate) fn has_any_of_kube_proxy(host: &Host, variant: Variant) -> bool {
    match variant.backend() {
        None => NFT_FAMILIES.iter().any(|family| !table(host, family, "kube-proxy").is_empty()),
        Some(_) => rules(host, variant).replace("KUBE-FIREWALL", "").contains("KUBE-"),
    }
}

/// True if rules of the proxy lead somewhere from this port of the cluster IP 250 (or `::250`), in both families.
pub(crate) fn has_mark(host: &Host, variant: Variant, port: u16) -> bool {
    let has = |program: &str, arguments: &[&str], text: &str| {
        host.exec_ok(program, arguments).is_ok_and(|found| found.contains(text))
    };
    let Some(backend) = variant.backend() else {
        return [("ip6", "fd00:10:96::250"), ("ip", "10.96.0.250")].iter().all(|(family, address)| {
            let element = format!("{{ {address} . tcp . {port} }}");
            has("nft", &["get", "element", family, variant.table(), "frontends", &element], " : goto ")
        });
    };
    let mark = format!("--dport {port} -j KUBE-SVC-");
    ["ip6tables", "iptables"].iter().all(|tool| has(&format!("{tool}-{backend}-save"), &["-t", "nat"], &mark))
}

/// Stock `nft` must be able to list everything, in both forms.
pub(crate) fn check_listable(host: &Host) -> anyhow::Result<()> {
    host.exec_ok("nft", &["list", "ruleset"])?;
    let json = host.exec_ok("nft", &["--json", "list", "ruleset"])?;
    serde_json::from_str::<Value>(&json)?;
    Ok(())
}

/// Lines of a save, each with its table, without comments and counters.
fn saved(tool: &str, save: &str) -> String {
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

/// A table of nf_tables; nothing if there is none.
pub(crate) fn table(host: &Host, family: &str, name: &str) -> String {
    let Ok(text) = host.exec_ok("nft", &["--json", "list", "table", family, name]) else {
        return String::new();
    };
    let json: Value = serde_json::from_str(&text).unwrap();
    let mut lines: Vec<String> = Vec::new();
    let mut last = (String::new(), 0);
    for object in json["nftables"].as_array().unwrap() {
        let (kind, body) = object.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "set" | "map" => set(body, &mut lines),
            "rule" => {
                // The order of rules matters: each has its number.
                let chain = body["chain"].as_str().unwrap();
                last = if last.0 == chain { (last.0, last.1 + 1) } else { (chain.to_owned(), 0) };
                lines.push(format!("{chain} {}: {}", last.1, without(body, &["handle", "family", "table"])));
            }
            "metainfo" => {}
            _ => lines.push(format!("{kind} {}", without(body, &["handle", "family", "table"]))),
        }
    }
    lines.sort();
    lines.iter().map(|line| format!("{family} {line}\n")).collect()
}

fn set(body: &Value, lines: &mut Vec<String>) {
    let name = body["name"].as_str().unwrap();
    if name.starts_with("clients-") {
        lines.push(format!("set {}", without(body, &["handle", "family", "table", "elem"])));
        return;
    }
    lines.push(format!("set {}", without(body, &["handle", "family", "table", "elem", "size"])));
    for element in body["elem"].as_array().into_iter().flatten() {
        if !name.ends_with("slots") {
            lines.push(format!("{name} {element}"));
            continue;
        }
        let (key, endpoint) = (element[0]["concat"].as_array().unwrap(), &element[1]);
        let (slot, frontend) = key.split_last().unwrap();
        let frontend = Value::Array(frontend.to_vec());
        lines.push(format!("{name} {frontend} has slot {slot}"));
        lines.push(format!("{name} {frontend} has endpoint {endpoint}"));
    }
}

fn without(body: &Value, keys: &[&str]) -> Value {
    let mut body = body.clone();
    keys.iter().for_each(|key| drop(body.as_object_mut().unwrap().remove(*key)));
    body
}
