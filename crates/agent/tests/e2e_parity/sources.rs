//! More addresses for some clients: with affinity, one client sees only one endpoint.
//!
//! The addresses are in the upper half of the client's network. Only a route leads to them, and the client takes them for its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use switchyard_lab::Host;
use switchyard_lab::scenario::address::{Symbol, wire_family};
use switchyard_model::Family;

/// How many addresses a client has besides its own, in each family.
pub(crate) const LENT: u8 = 120;

/// Who has them.
const BORROWERS: [Symbol; 3] = [Symbol::Client, Symbol::Pod(1, 9), Symbol::Pod(2, 9)];

/// The addresses of a client in the family of what it dials; none if it has only its own.
pub(crate) fn of(client: Symbol, to: IpAddr) -> impl Iterator<Item = IpAddr> {
    let own = client.ip(family(to)).filter(|_| BORROWERS.contains(&client));
    own.into_iter().flat_map(|own| (1..=LENT).map(move |number| nth(own, number)))
}

/// The family of an address.
pub(crate) fn family(ip: IpAddr) -> Family {
    match ip {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

fn nth(own: IpAddr, number: u8) -> IpAddr {
    match own {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            Ipv4Addr::new(a, b, c, 128 + number).into()
        }
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0x8000 + u16::from(number)).into()
        }
    }
}

/// Gives a client its addresses; `before` is the last host on the way to it.
pub(crate) fn lend(client: &Host, before: &Host) -> anyhow::Result<()> {
    for (flag, family) in [("-4", Family::V4), ("-6", Family::V6)] {
        let own = client.ip(wire_family(family));
        let length = if family == Family::V4 { 25 } else { 113 };
        let range = format!("{}/{length}", nth(own, 0));
        before.exec_ok("ip", &[flag, "route", "add", &range, "via", &own.to_string()])?;
        client.exec_ok("ip", &[flag, "route", "add", "local", &range, "dev", "lo"])?;
    }
    // IPv6 binds to an address only if an interface has it.
    client.run(|| std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"))??;
    Ok(())
}
