//! Exchanges with the kernel: sequence numbers, interrupted dumps, refusals, retries and cut messages.

use proptest::prelude::*;

use super::answer::*;
use super::*;

fn frame(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Message::new(kind, 0, body).finish(sequence, 0).unwrap();
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

/// Reads one datagram as an exchange with sequence number 7; tells the outcome and how many replies were passed on.
fn read(datagram: &[u8]) -> (&'static str, usize, Option<NetlinkError>) {
    let mut seen = 0;
    let mut error = None;
    let mut each = |_: &Frame<'_>| {
        seen += 1;
        Ok(())
    };
    match read_datagram(datagram, "test", 7, &mut each, &mut error) {
        Step::More => ("more", seen, error),
        Step::End => ("end", seen, error),
        Step::Lost(lost) => ("lost", seen, Some(lost)),
    }
}

#[test]
fn only_our_sequence_number_counts() {
    let datagram = [frame(40, 0, 6, &[]), frame(40, 0, 7, &[]), frame(NLMSG_DONE, 0, 6, &[0; 4])].concat();
    assert!(matches!(read(&datagram), ("more", 1, None)));
}

#[test]
fn an_interrupted_dump_is_read_to_its_end_and_reported() {
    let datagram =
        [frame(40, NLM_F_DUMP_INTR, 7, &[]), frame(40, 0, 7, &[]), frame(NLMSG_DONE, 0, 7, &[0; 4])].concat();
    assert!(matches!(read(&datagram), ("end", 0, Some(NetlinkError::Interrupted { .. }))));
    let at_the_end = frame(NLMSG_DONE, NLM_F_DUMP_INTR, 7, &[0; 4]);
    assert!(matches!(read(&at_the_end), ("end", 0, Some(NetlinkError::Interrupted { .. }))));
}

#[test]
fn a_refusal_carries_errno_and_the_kernels_text() {
    let mut body = (-(Errno::EPERM as i32)).to_ne_bytes().to_vec();
    body.extend_from_slice(&16u32.to_ne_bytes());
    body.extend_from_slice(&[0; 12]);
    let mut text = Message::new(0, 0, &[]);
    text.put_text(NLMSGERR_ATTR_MSG, "no way");
    body.extend_from_slice(&text.finish(0, 0).unwrap()[16..]);
    let (step, _, error) = read(&frame(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, 7, &body));
    let error = error.unwrap();
    assert_eq!(step, "end");
    assert_eq!(error.errno(), Some(Errno::EPERM));
    assert_eq!(error.to_string(), "the kernel refused to test (no way)");
}

#[test]
fn a_cut_message_is_an_error() {
    let datagram = frame(40, 0, 7, &[1, 2, 3, 4]);
    assert!(matches!(read(&datagram[..18]), ("lost", 0, Some(NetlinkError::Malformed(_)))));
    assert!(matches!(read(&frame(NLMSG_ERROR, 0, 7, &[0; 8])), ("end", 0, Some(NetlinkError::Malformed(_)))));
}

#[test]
fn retry_gives_up_after_five_tries() {
    let mut tries = 0;
    let result: Result<(), _> = retry(|| {
        tries += 1;
        Err(NetlinkError::Overrun)
    });
    assert!(result.is_err());
    assert_eq!(tries, DUMP_TRIES);
}

#[test]
fn a_real_refusal_names_the_request() {
    let mut socket = Socket::open(Protocol::Route).unwrap();
    // Asking for a link by an index that does not exist needs no privileges.
    let mut header = [0u8; 16];
    header[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
    let error = socket.request("look at a link", Message::new(18, 0, &header)).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENODEV), "{error}");
}

proptest! {
    #[test]
    fn random_datagrams_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256), sequence: bool) {
        let mut datagram = bytes;
        if sequence && datagram.len() >= 16 {
            let length = u32::try_from(datagram.len()).unwrap();
            datagram[..4].copy_from_slice(&length.to_ne_bytes());
            datagram[8..12].copy_from_slice(&7u32.to_ne_bytes());
            let kind = u16::from(datagram[4]) % 5;
            datagram[4..6].copy_from_slice(&kind.to_ne_bytes());
        }
        let _ = read(&datagram);
    }
}
