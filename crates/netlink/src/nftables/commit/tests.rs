//! Answers to a batch, as a kernel could give them: each leads to its operation, and no bytes can do harm.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::Family;
use crate::message::Message;
use crate::nftables::{Element, Table, TableId, Value};
use crate::testing::namespace_or_skip;

const NLMSG_ERROR: u16 = 2;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;

/// More than one message holds.
const ELEMENTS: u32 = 4000;

fn id() -> TableId {
    TableId::new(Family::V4, "t")
}

/// A table, elements that need two messages, and a chain to delete: messages 1 to 4.
fn batch() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(&Table::new(id()));
    let elements: Vec<_> = (0..ELEMENTS).map(|n| Element::new(Value::EMPTY.number(n))).collect();
    batch.add_elements(&id(), "s", &elements);
    batch.delete_chain(&id(), "c");
    assert_eq!(batch.messages(), 4);
    batch
}

/// An answer to message `sequence`, with an explanation if there is one.
fn answer(sequence: u32, code: i32, explanation: Option<(&str, u32)>) -> Vec<u8> {
    let mut body = code.to_ne_bytes().to_vec();
    body.extend(Message::new(0, 0, &[]).finish(sequence, 0).unwrap());
    let mut message = Message::new(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, &body);
    if let Some((text, offset)) = explanation {
        message.put_text(1, text).put_u32(2, offset);
    }
    message.finish(sequence, 0).unwrap()
}

fn outcome(batch: &Batch, datagrams: &[Vec<u8>]) -> Result<(), CommitError> {
    let mut read = Outcome { batch, is_acknowledged: false, refusals: Vec::new() };
    datagrams.iter().try_for_each(|datagram| read.datagram(datagram))?;
    read.result()
}

fn refused(errno: Errno) -> i32 {
    -(errno as i32)
}

#[test]
fn only_the_acknowledgement_of_the_last_message_counts() {
    let batch = batch();
    assert!(outcome(&batch, &[answer(4, 0, None)]).is_ok());
    assert!(matches!(outcome(&batch, &[answer(3, 0, None)]), Err(CommitError::Unknown)));
    assert!(matches!(outcome(&batch, &[]), Err(CommitError::Unknown)));
}

#[test]
fn a_refusal_leads_to_operation_element_and_explanation() {
    let batch = batch();
    let Err(CommitError::Refused { refusals, errno }) =
        outcome(&batch, &[answer(4, refused(Errno::EBUSY), Some(("still in use", 0))), answer(4, 0, None)])
    else {
        panic!()
    };
    let operation = refusals.first().operation.as_ref().unwrap();
    assert_eq!((operation.index, operation.element, errno), (OperationIndex(2), None, Errno::EBUSY));
    assert_eq!(refusals.first().extack.as_deref(), Some("still in use"));
    let error = CommitError::Refused { refusals, errno };
    assert_eq!(
        error.to_string(),
        "the kernel refused the transaction: delete chain \"c\" (operation 2) (still in use)"
    );
    // In the second message of the second operation, the elements of the first one count.
    let Err(CommitError::Refused { refusals, .. }) =
        outcome(&batch, &[answer(3, refused(Errno::EINVAL), Some(("", 60)))])
    else {
        panic!()
    };
    let operation = refusals.first().operation.as_ref().unwrap();
    assert_eq!(operation.index, OperationIndex(1));
    assert!((3000..4000).contains(&operation.element.unwrap()), "{operation:?}");
}

#[test]
fn answers_about_the_whole_and_about_nothing() {
    let batch = batch();
    assert!(matches!(outcome(&batch, &[answer(0, refused(Errno::ERESTART), None)]), Err(CommitError::Raced)));
    for (sequence, errno) in [(0, Errno::EPERM), (99, Errno::EINVAL)] {
        let Err(error @ CommitError::Refused { .. }) =
            outcome(&batch, &[answer(sequence, refused(errno), None)])
        else {
            panic!()
        };
        assert_eq!(error.errno(), Some(errno));
    }
}

#[test]
fn refusals_are_kept_in_order_and_not_without_bound() {
    let batch = batch();
    let many: Vec<_> = (0..1000).map(|n| answer(1 + n % 4, refused(Errno::ENOENT), None)).collect();
    let Err(CommitError::Refused { refusals, .. }) = outcome(&batch, &many) else { panic!() };
    assert_eq!(refusals.iter().count(), REFUSALS_KEPT);
    assert_eq!(refusals.first().operation.as_ref().unwrap().index, OperationIndex(0));
}

#[test]
fn a_batch_that_the_socket_does_not_take_is_too_large() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut nft = Nft::open().unwrap();
            nft.socket.allow_sending(4096).unwrap();
            nft.sendable = usize::MAX; // As if more room could not be had.
            let error = nft.commit(&batch()).unwrap_err();
            assert!(matches!(error, CommitError::TooLarge { errno: Errno::EMSGSIZE, .. }), "{error:?}");
            // A smaller one still works.
            let mut small = Batch::new();
            small.add_table(&Table::new(id()));
            nft.commit(&small).unwrap();
        })
        .unwrap();
}

proptest! {
    #[test]
    fn answers_of_any_bytes_never_panic(
        sequence in 0_u32..6,
        code in any::<i32>(),
        offset in any::<u32>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = answer(sequence, code, Some(("why", offset)));
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at.index(length)] = byte;
        }
        let cut = bytes[..cut.index(bytes.len() + 1)].to_vec();
        static BATCH: LazyLock<Batch> = LazyLock::new(batch);
        if let Err(error) = outcome(&BATCH, &[bytes, cut]) {
            let _ = (error.to_string(), error.errno());
        }
    }
}
