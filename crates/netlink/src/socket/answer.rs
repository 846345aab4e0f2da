//! What the kernel's answers mean: replies, acknowledgements, refusals with their explanation, ends of dumps.

use nix::errno::Errno;

use crate::attribute::Attributes;
use crate::message::{Frame, Frames};
use crate::{Malformed, NetlinkError};

const NLMSG_NOOP: u16 = 1;
pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;
pub(super) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const NLM_F_CAPPED: u16 = 0x100;
pub(super) const NLM_F_ACK_TLVS: u16 = 0x200;
pub(super) const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

/// What one datagram means for the exchange.
pub(super) enum Step {
    /// More datagrams follow.
    More,
    /// The exchange is over.
    End,
    /// The end cannot be recognised any more.
    Lost(NetlinkError),
}

pub(super) fn read_datagram(
    datagram: &[u8],
    what: &'static str,
    sequence: u32,
    each: &mut dyn FnMut(&Frame<'_>) -> Result<(), NetlinkError>,
    first_error: &mut Option<NetlinkError>,
) -> Step {
    for frame in Frames::new(datagram) {
        let frame = match frame {
            Ok(frame) => frame,
            Err(malformed) => return Step::Lost(malformed.into()),
        };
        if frame.sequence != sequence {
            continue;
        }
        if frame.flags & NLM_F_DUMP_INTR != 0 && first_error.is_none() {
            *first_error = Some(NetlinkError::Interrupted { request: what });
        }
        let ended = match frame.kind {
            NLMSG_NOOP => continue,
            NLMSG_ERROR => Some(read_error(&frame, what)),
            NLMSG_DONE => Some(read_done(&frame, what)),
            NLMSG_OVERRUN => return Step::Lost(NetlinkError::Overrun),
            _ => None,
        };
        let result = match ended {
            Some(ref end) if end.is_ok() => return Step::End,
            Some(end) => end,
            None if first_error.is_none() => each(&frame),
            None => Ok(()),
        };
        if let Err(error) = result {
            let over = matches!(frame.kind, NLMSG_ERROR | NLMSG_DONE);
            first_error.get_or_insert(error);
            if over {
                return Step::End;
            }
        }
    }
    Step::More
}

/// The answer to one message of a batch.
pub(crate) struct Answer {
    /// Zero, or a negative error number.
    pub(crate) code: i32,
    /// The kernel's own explanation.
    pub(crate) extack: Option<String>,
    /// Where in the message, counted from its header, the attribute is that the kernel does not like.
    pub(crate) offset: Option<usize>,
}

/// Reads an answer; `None` if the frame is none.
pub(crate) fn read_answer(frame: &Frame<'_>) -> Result<Option<Answer>, Malformed> {
    if frame.kind != NLMSG_ERROR {
        return Ok(None);
    }
    let (code, explanation) = split_error(frame)?;
    let explanation = if frame.flags & NLM_F_ACK_TLVS == 0 { &[][..] } else { explanation };
    let offset = Attributes::new(explanation)
        .flatten()
        .find(|attribute| attribute.kind == NLMSGERR_ATTR_OFFS)
        .and_then(|attribute| usize::try_from(attribute.u32().ok()?).ok());
    Ok(Some(Answer { code, extack: explained(explanation), offset }))
}

/// The answer in an error message; zero is success.
fn read_error(frame: &Frame<'_>, what: &'static str) -> Result<(), NetlinkError> {
    let (code, explanation) = split_error(frame)?;
    verdict(code, frame.flags, explanation, what)
}

/// The error number, and the explanation behind the (perhaps cut) original message.
fn split_error<'a>(frame: &Frame<'a>) -> Result<(i32, &'a [u8]), Malformed> {
    const ORIGINAL_HEADER: usize = 16;
    let (code, rest) = frame.body.split_first_chunk::<4>().ok_or(Malformed::Message)?;
    let (original, after) = rest.split_first_chunk::<ORIGINAL_HEADER>().ok_or(Malformed::Message)?;
    let [l0, l1, l2, l3, ..] = *original;
    let payload =
        usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).unwrap_or(0).saturating_sub(ORIGINAL_HEADER);
    let skip = if frame.flags & NLM_F_CAPPED == 0 { payload.next_multiple_of(4) } else { 0 };
    Ok((i32::from_ne_bytes(*code), after.get(skip..).unwrap_or_default()))
}

/// The end of a dump carries an error number too.
fn read_done(frame: &Frame<'_>, what: &'static str) -> Result<(), NetlinkError> {
    // Some subsystems send an empty end.
    let Some((code, rest)) = frame.body.split_first_chunk::<4>() else { return Ok(()) };
    verdict(i32::from_ne_bytes(*code), frame.flags, rest, what)
}

fn verdict(code: i32, flags: u16, explanation: &[u8], what: &'static str) -> Result<(), NetlinkError> {
    if code >= 0 {
        return Ok(());
    }
    let extack = if flags & NLM_F_ACK_TLVS == 0 { None } else { explained(explanation) };
    match Errno::from_raw(code.saturating_neg()) {
        Errno::EINTR => Err(NetlinkError::Interrupted { request: what }),
        errno => Err(NetlinkError::Refused { request: what, extack, errno }),
    }
}

fn explained(bytes: &[u8]) -> Option<String> {
    Attributes::new(bytes)
        .flatten()
        .find(|attribute| attribute.kind == NLMSGERR_ATTR_MSG)
        .map(|text| text.text())
}
