//! Flows of a real kernel, found and deleted with its filter and with ours; and bytes that lie.

use std::net::{SocketAddr, UdpSocket};

use proptest::prelude::*;

use super::*;
use crate::message::Frames;
use crate::testing::{exec, namespace_or_skip};

const UDP: u8 = 17;

/// Rules that make the kernel track flows; loopback traffic is enough then.
fn track() {
    exec("nft", &["table inet t { chain c { type filter hook output priority 0; ct state new accept; }; }"]);
}

fn send(to: &str) -> SocketAddr {
    let to: SocketAddr = to.parse().unwrap();
    let socket = UdpSocket::bind((if to.is_ipv4() { "127.0.0.1" } else { "::1" }, 0)).unwrap();
    socket.send_to(b"x", to).unwrap();
    socket.local_addr().unwrap()
}

fn list(conntrack: &mut Conntrack, filter: &Filter) -> Vec<Flow> {
    let mut flows = Vec::new();
    conntrack.dump(filter, &mut |flow| flows.push(flow)).unwrap();
    flows.sort();
    flows
}

fn filter(to: &str) -> Filter {
    let to: SocketAddr = to.parse().unwrap();
    Filter {
        family: Family::of(to.ip()),
        protocol: Some(UDP),
        orig_dst: Some(to.ip()),
        orig_dst_port: Some(to.port()),
    }
}

fn check_both_families(filtering: Filtering) {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            track();
            let _sinks = ["127.0.0.1:5300", "127.0.0.1:5301", "[::1]:5300", "[::1]:5301"]
                .map(|at| UdpSocket::bind(at).unwrap());
            let mut conntrack = Conntrack::open_with(filtering).unwrap();
            for (to, other) in [("127.0.0.1:5300", "127.0.0.1:5301"), ("[::1]:5300", "[::1]:5301")] {
                let sources = [send(to), send(to)];
                send(other);
                let found = list(&mut conntrack, &filter(to));
                assert_eq!(found.len(), 2, "{to}: {found:?}");
                for flow in &found {
                    let source = SocketAddr::new(flow.orig.src, flow.orig.src_port);
                    assert!(sources.contains(&source));
                    assert_eq!(SocketAddr::new(flow.reply.src, flow.reply.src_port), to.parse().unwrap());
                    assert_eq!((flow.protocol, flow.zone), (UDP, Zone::Both(0)));
                    assert!(flow.id.is_some());
                }
                let address_only = Filter { orig_dst_port: None, protocol: None, ..filter(to) };
                assert_eq!(list(&mut conntrack, &address_only).len(), 3);
                let port_only = Filter { orig_dst: None, protocol: None, ..filter(to) };
                assert_eq!(list(&mut conntrack, &port_only), found);
                let protocol_only = Filter { orig_dst: None, orig_dst_port: None, ..filter(to) };
                assert_eq!(list(&mut conntrack, &protocol_only).len(), 3);
                assert_eq!(list(&mut conntrack, &Filter { protocol: Some(6), ..filter(to) }), []);
                check_delete(&mut conntrack, &found[0], &filter(to));
            }
            assert_eq!(conntrack.filtering(), filtering);
        })
        .unwrap();
}

fn check_delete(conntrack: &mut Conntrack, flow: &Flow, filter: &Filter) {
    let successor = Flow { id: flow.id.map(|id| !id), ..*flow };
    assert_eq!(conntrack.delete(&successor).unwrap(), Deleted::AlreadyGone, "a reused tuple must survive");
    assert_eq!(list(conntrack, filter).len(), 2);
    assert_eq!(conntrack.delete(flow).unwrap(), Deleted::Yes);
    assert_eq!(conntrack.delete(flow).unwrap(), Deleted::AlreadyGone);
    assert_eq!(list(conntrack, filter).len(), 1);
}

#[test]
fn the_kernels_filter() {
    check_both_families(Filtering::InKernel);
}

#[test]
fn the_filter_here() {
    check_both_families(Filtering::HereOnly);
}

#[test]
fn the_kernel_really_filters() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            track();
            let _sink = UdpSocket::bind("127.0.0.1:5300").unwrap();
            send("127.0.0.1:5300");
            send("127.0.0.1:5301");
            let mut socket = Socket::open(Protocol::Netfilter).unwrap();
            let mut frames = 0;
            let message = dump_message(&filter("127.0.0.1:5300"), Filtering::InKernel);
            socket
                .dump("test", message, &mut |_| {
                    frames += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(frames, 1);
        })
        .unwrap();
}

#[test]
fn a_table_of_many_datagrams_is_read_whole() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            track();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for port in 1..=5000u16 {
                let _ = socket.send_to(b"x", ("127.0.0.2", port)); // Refusals of earlier ones come back here.
            }
            let mut conntrack = Conntrack::open().unwrap();
            let flows = list(&mut conntrack, &filter("127.0.0.2:77"));
            assert_eq!(flows.len(), 1);
            let all = list(&mut conntrack, &Filter { orig_dst_port: None, ..filter("127.0.0.2:77") });
            let ports: std::collections::BTreeSet<u16> = all.iter().map(|flow| flow.orig.dst_port).collect();
            assert!(ports.len() > 4900, "{}", ports.len());
        })
        .unwrap();
}

#[test]
fn a_flow_in_a_zone_is_found_and_deleted() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let zone = "chain c { type filter hook output priority raw; udp dport 5300 ct zone set 7; }";
            exec("nft", &[&format!("table ip z {{ {zone}; }}")]);
            track();
            let _sink = UdpSocket::bind("127.0.0.1:5300").unwrap();
            send("127.0.0.1:5300");
            let mut conntrack = Conntrack::open().unwrap();
            // The input side has no zone rule and sees a second flow in the default zone.
            let flows = list(&mut conntrack, &filter("127.0.0.1:5300"));
            let zoned = flows.iter().find(|flow| flow.zone == Zone::Both(7)).unwrap();
            assert_eq!(
                conntrack.delete(&Flow { zone: Zone::Both(8), ..*zoned }).unwrap(),
                Deleted::AlreadyGone
            );
            assert_eq!(conntrack.delete(zoned).unwrap(), Deleted::Yes);
        })
        .unwrap();
}

#[test]
#[cfg(target_endian = "little")]
fn the_bytes_of_a_filtered_dump() {
    let bytes = dump_message(&filter("10.96.0.10:53"), Filtering::InKernel).finish(1, 0x300).unwrap();
    #[rustfmt::skip]
    let wanted = [
        76, 0, 0, 0, 1, 1, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
        36, 0, 1, 0x80,
            12, 0, 1, 0x80, 8, 0, 2, 0, 10, 96, 0, 10,
            20, 0, 2, 0x80, 5, 0, 1, 0, 17, 0, 0, 0, 6, 0, 3, 0, 0, 53, 0, 0,
        20, 0, 25, 0x80, 8, 0, 1, 0, 0x2a, 0, 0, 0, 8, 0, 2, 0, 0, 0, 0, 0,
    ];
    assert_eq!(bytes, wanted);
}

proptest! {
    #[test]
    fn random_replies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200), family in 0u8..12) {
        let mut body = body;
        body.splice(0..0, [family, 0, 0, 0]);
        let bytes = Message::new(0x0100, 0, &body).finish(1, 0).unwrap();
        for frame in Frames::new(&bytes).flatten() {
            let _ = bytes::read_flow(&frame);
        }
    }

    #[test]
    fn a_flow_cut_anywhere_is_an_error(cut in 0usize..200) {
        let tuple = Tuple { src: "10.0.0.1".parse().unwrap(), dst: "10.0.0.2".parse().unwrap(), src_port: 1, dst_port: 2 };
        let flow = Flow { family: Family::V4, protocol: UDP, orig: tuple, reply: tuple, zone: Zone::Both(3), id: Some(9) };
        let whole = delete_message(&flow).finish(1, 0).unwrap();
        let body = &whole[16..][..cut.min(whole.len() - 16)];
        let frame = crate::message::Frame { kind: 0x0100, flags: 0, sequence: 1, port: 0, body };
        // A request has no reply tuple, so even the whole of it is not a flow.
        prop_assert!(bytes::read_flow(&frame).is_err());
    }
}
