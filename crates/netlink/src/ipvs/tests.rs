//! Bytes of requests against `linux/ip_vs.h`, replies that are right, cut, flipped or random, and the running kernel.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::bytes::*;
use super::*;
use crate::message::Frame;
use crate::testing::namespace_or_skip;

const V4: ServiceId =
    ServiceId { address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1)), protocol: 6, port: 80 };

fn v6() -> ServiceId {
    ServiceId { address: "fd00:96::1".parse().unwrap(), protocol: 17, port: 53 }
}

fn service(id: ServiceId) -> Service {
    Service {
        id,
        scheduler: "mh".into(),
        flags: ServiceFlags::MH_PORT,
        persistence: Persistence::Seconds(NonZeroU32::new(10_800).unwrap()),
    }
}

fn to(text: &str, weight: u32) -> Destination {
    Destination { at: text.parse().unwrap(), weight, forwarding: Forwarding::Masquerade }
}

/// Everything after the netlink header.
fn body(sent: &Command) -> Vec<u8> {
    let bytes = command(33, sent).finish(7, NLM_F_ACK).unwrap();
    assert_eq!(bytes.get(4..8), Some(&[33, 0, 5, 0][..]), "family, request and acknowledgement");
    bytes[16..].to_vec()
}

#[rustfmt::skip]
const ID_V4: [u8; 44] = [
    6, 0, 1, 0, 2, 0, 0, 0,             // AF: AF_INET
    6, 0, 2, 0, 6, 0, 0, 0,             // PROTOCOL: TCP
    20, 0, 3, 0, 10, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // ADDR
    6, 0, 4, 0, 0, 80, 0, 0,            // PORT
];

#[test]
#[cfg(target_endian = "little")]
fn a_virtual_server_in_bytes() {
    #[rustfmt::skip]
    let rest = [
        7, 0, 6, 0, b'm', b'h', 0, 0,                       // SCHED_NAME
        12, 0, 7, 0, 0x11, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, // FLAGS: persistent, mh-port; all of them
        8, 0, 8, 0, 0x30, 0x2a, 0, 0,                       // TIMEOUT
        8, 0, 9, 0, 0xff, 0xff, 0xff, 0xff,                 // NETMASK
    ];
    let nested = [&[84, 0, 1, 0x80][..], &ID_V4, &rest].concat();
    assert_eq!(body(&Command::AddService(service(V4))), [&[1, 1, 0, 0][..], &nested].concat());
    assert_eq!(body(&Command::SetService(service(V4))), [&[2, 1, 0, 0][..], &nested].concat());
    assert_eq!(body(&Command::DeleteService(V4)), [&[3, 1, 0, 0, 48, 0, 1, 0x80][..], &ID_V4].concat());
    let plain = Service { flags: ServiceFlags::NONE, persistence: Persistence::None, ..service(v6()) };
    let bytes = body(&Command::AddService(plain));
    assert_eq!(bytes[bytes.len() - 28..], {
        [
            [12, 0, 7, 0, 0, 0, 0, 0, 255, 255, 255, 255].as_slice(),
            &[8, 0, 8, 0, 0, 0, 0, 0],
            &[8, 0, 9, 0, 128, 0, 0, 0],
        ]
        .concat()
    });
}

#[test]
#[cfg(target_endian = "little")]
fn a_destination_in_bytes() {
    #[rustfmt::skip]
    let place = [
        20, 0, 1, 0, 10, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // ADDR
        6, 0, 2, 0, 0x1f, 0x90, 0, 0,                                // PORT
        6, 0, 11, 0, 2, 0, 0, 0,                                     // ADDR_FAMILY
    ];
    #[rustfmt::skip]
    let rest = [
        8, 0, 3, 0, 0, 0, 0, 0, // FWD_METHOD: masquerading
        8, 0, 4, 0, 1, 0, 0, 0, // WEIGHT
        8, 0, 5, 0, 0, 0, 0, 0, // U_THRESH
        8, 0, 6, 0, 0, 0, 0, 0, // L_THRESH
    ];
    let of = |number: u8| [&[number, 1, 0, 0, 48, 0, 1, 0x80][..], &ID_V4].concat();
    let full = [&[72, 0, 2, 0x80][..], &place, &rest].concat();
    let destination = to("10.1.0.2:8080", 1);
    assert_eq!(body(&Command::AddDestination(V4, destination)), [of(5), full.clone()].concat());
    assert_eq!(body(&Command::SetDestination(V4, destination)), [of(6), full].concat());
    let gone = [&[40, 0, 2, 0x80][..], &place].concat();
    assert_eq!(body(&Command::DeleteDestination(V4, destination.at)), [of(7), gone].concat());
}

#[test]
#[cfg(target_endian = "little")]
fn timeouts_in_bytes() {
    let mut sent = message(33, SET_CONFIG);
    put_timeouts(&mut sent, Timeouts { tcp: 900, tcp_fin: 120, udp: 0 });
    let bytes = sent.finish(1, 0).unwrap();
    #[rustfmt::skip]
    let wanted = [12, 1, 0, 0, 8, 0, 4, 0, 132, 3, 0, 0, 8, 0, 5, 0, 120, 0, 0, 0, 8, 0, 6, 0, 0, 0, 0, 0];
    assert_eq!(bytes[16..], wanted);
    let frame = Frame { kind: 33, flags: 0, sequence: 1, port: 0, body: &bytes[16..] };
    assert_eq!(read_timeouts(&frame), Ok(Timeouts { tcp: 900, tcp_fin: 120, udp: 0 }));
}

fn frame(body: &[u8]) -> Frame<'_> {
    Frame { kind: 33, flags: 0, sequence: 1, port: 0, body }
}

/// Lists use the attributes that requests have, with a few more.
#[test]
fn what_is_written_can_be_read() {
    for id in [V4, v6()] {
        let bytes = body(&Command::AddService(service(id)));
        assert_eq!(read_service(&frame(&bytes)), Ok(Some(service(id))));
        let destination = if id == V4 { to("10.1.0.2:8080", 0) } else { to("[fd00:1::2]:8080", 7) };
        let bytes = body(&Command::AddDestination(id, destination));
        let listed = Listed { destination, active: 0, inactive: 0 };
        assert_eq!(read_destination(&frame(&bytes), id), Ok(Some(listed)));
    }
}

#[test]
fn virtual_servers_with_a_mark_are_not_ours_to_see() {
    let mut marked = message(33, 1);
    marked.nest(1, |body| {
        body.put(1, &2_u16.to_ne_bytes()).put_u32(5, 77).put_text(6, "rr");
    });
    let bytes = marked.finish(1, 0).unwrap();
    assert_eq!(read_service(&frame(&bytes[16..])), Ok(None));
    assert_eq!(read_service(&frame(&[1, 1, 0, 0])), Ok(None));
}

fn read_everything(bytes: &[u8]) {
    let frame = frame(bytes);
    let _ = (read_service(&frame), read_info(&frame), read_timeouts(&frame));
    let _ = (read_destination(&frame, V4), read_destination(&frame, v6()));
}

#[test]
fn cut_replies_are_errors_or_nothing() {
    for sent in [Command::AddService(service(V4)), Command::AddDestination(V4, to("10.1.0.2:8080", 1))] {
        let bytes = body(&sent);
        for length in 0..bytes.len() {
            read_everything(&bytes[..length]);
            assert!(!matches!(read_destination(&frame(&bytes[..length]), V4), Ok(Some(_))), "{length}");
            let is_whole = matches!(read_service(&frame(&bytes[..length])), Ok(Some(_)));
            assert!(!is_whole || matches!(sent, Command::AddDestination(..)), "{length}");
        }
    }
}

proptest! {
    #[test]
    fn flipped_and_random_replies_never_panic(
        at in any::<prop::sample::Index>(), byte in any::<u8>(),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        for sent in [Command::AddService(service(v6())), Command::AddDestination(V4, to("10.1.0.2:8080", 1))] {
            let mut bytes = body(&sent);
            *at.get_mut(&mut bytes) = byte;
            read_everything(&bytes);
        }
        read_everything(&noise);
    }
}

#[test]
fn the_answer_is_whether_the_kernel_has_ipvs() {
    let Some(namespace) = namespace_or_skip() else { return };
    // The namespace is this test's own: there is nothing to lose where IPVS exists.
    let (flushed, has_ipvs) =
        namespace.run(|| (flush().unwrap(), std::path::Path::new("/proc/net/ip_vs").exists())).unwrap();
    assert_eq!(flushed == Flushed::Yes, has_ipvs);
}

#[test]
fn messages_have_the_form_of_generic_netlink() {
    let family = family_message().finish(7, 5).unwrap();
    assert_eq!(family.get(4..6), Some(&GENL_ID_CTRL.to_ne_bytes()[..]));
    assert_eq!(family.get(16..), Some(&b"\x03\x01\0\0\x09\0\x02\0IPVS\0\0\0\0"[..]));
    let flush = message(33, FLUSH).finish(8, 5).unwrap();
    assert_eq!(
        (flush.get(4..6), flush.get(16..)),
        (Some(&33u16.to_ne_bytes()[..]), Some(&[17, 1, 0, 0][..]))
    );
}

/// Where the kernel has IPVS: what is sent comes back, refusals are told one by one.
#[test]
fn a_real_kernel_holds_what_it_was_sent() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let Some(mut ipvs) = Ipvs::open().unwrap() else {
                assert!(std::env::var("VM").as_deref() != Ok("require"), "VM=require, but there is no IPVS");
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"SKIPPED: this kernel has no IPVS; `make vm` boots one that has\n",
                );
                return;
            };
            assert!(ipvs.info().unwrap().version >= (1, 2, 1));
            let sticky = Service { scheduler: "rr".into(), flags: ServiceFlags::NONE, ..service(V4) };
            let plain = Service { persistence: Persistence::None, ..Service { id: v6(), ..sticky.clone() } };
            let (one, two) = (to("10.1.0.2:8080", 1), to("[fd00:1::2]:53", 1));
            let commands = [
                Command::AddService(sticky.clone()),
                Command::AddService(sticky.clone()),
                Command::AddDestination(V4, one),
                Command::AddService(plain.clone()),
                Command::AddDestination(v6(), two),
                Command::DeleteDestination(v6(), "[fd00:1::9]:53".parse().unwrap()),
            ];
            let answers = ipvs.send(&commands).unwrap();
            assert_eq!(answers, [None, Some(Errno::EEXIST), None, None, None, Some(Errno::ENOENT)]);
            assert_eq!(ipvs.services().unwrap(), [sticky.clone(), plain.clone()]);
            assert_eq!(ipvs.destinations(V4).unwrap()[0].destination, one);
            assert_eq!(ipvs.destinations(v6()).unwrap()[0].destination, two);
            let (draining, changed) = (to("10.1.0.2:8080", 0), Service { scheduler: "wlc".into(), ..sticky });
            let commands = [
                Command::SetDestination(V4, draining),
                Command::SetService(changed.clone()),
                Command::DeleteService(v6()),
            ];
            assert_eq!(ipvs.send(&commands).unwrap(), [None, None, None]);
            assert_eq!(ipvs.services().unwrap(), [changed]);
            assert_eq!(ipvs.destinations(V4).unwrap()[0].destination, draining);
            assert!(ipvs.destinations(v6()).unwrap().is_empty());
            let timeouts = Timeouts { tcp: 901, tcp_fin: 121, udp: 301 };
            ipvs.set_timeouts(timeouts).unwrap();
            ipvs.set_timeouts(Timeouts::default()).unwrap();
            assert_eq!(ipvs.timeouts().unwrap(), timeouts);
            ipvs.flush().unwrap();
            assert!(ipvs.services().unwrap().is_empty());
        })
        .unwrap();
}
