//! From one text to a value that may go into a rule. An error says what is allowed.

use ipnet::IpNet;
use switchyard_config::{Problem, address};
use switchyard_model::Family;

use super::LocalMode;

/// Longest name of an interface in Linux.
const LONGEST_INTERFACE: usize = 15;

/// Ranges split at commas: one or two, of different families.
pub(super) fn cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    let range = |part: &str| {
        let wrong = || format!("\"{}\" must be a CIDR such as 10.0.0.0/8 or fd00::/8", part.escape_debug());
        address::cidr(part.trim()).ok_or_else(wrong)
    };
    let ranges: Vec<IpNet> = text.split(',').map(range).collect::<Result<_, _>>()?;
    for family in Family::ALL {
        if ranges.iter().filter(|range| Family::of(range.addr()) == family).count() > 1 {
            return Err(format!("has more than one {family} range; at most one per IP family is allowed"));
        }
    }
    Ok(ranges)
}

/// The bridge that pods are attached to.
pub(super) fn bridge(name: &str) -> Result<LocalMode, Problem> {
    interface("detectLocal.bridgeInterface", name, LONGEST_INTERFACE).map(LocalMode::Bridge)
}

/// How pod interfaces begin. iptables writes `+` behind it, which takes one byte of the name.
pub(super) fn interface_prefix(name: &str) -> Result<LocalMode, Problem> {
    interface("detectLocal.interfaceNamePrefix", name, LONGEST_INTERFACE - 1).map(LocalMode::InterfacePrefix)
}

/// A name that the kernel would accept and that is one plain word in a rule: no quotes, no negation, no option.
/// An empty one is allowed here, because kube-proxy's checks have refused it already.
fn interface(path: &str, name: &str, longest: usize) -> Result<String, Problem> {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '"' | '\'' | '\\' | '+');
    if name.len() > longest || !name.chars().all(is_plain) || name.starts_with(['-', '!', '#']) {
        let allowed = format!("must be an interface name of at most {longest} characters, such as cni0");
        return Err(Problem::text(path, name, allowed));
    }
    Ok(name.to_owned())
}
