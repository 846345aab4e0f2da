//! Several datagrams by one call of the kernel, where several wait.
//!
//! In: a socket that may have datagrams. Out: those, or the number of them that were passed on. The buffers belong to the
//! thread.
//!
//! Why also for one datagram? Less than was asked for is all that there was, so nobody has to ask once more: two calls for a datagram
//! that comes alone, and hardly more than one, or much less, for each of many.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use tokio::net::UdpSocket;

use super::LONGEST;

/// Datagrams of one call.
pub(super) const MOST: usize = 16;

thread_local! {
    // Pages that no datagram ever needed are never made.
    static BUFFERS: RefCell<Vec<u8>> = RefCell::new(vec![0; MOST * LONGEST]);
}

/// "Would block" if so many were all that there was: the runtime then asks nobody before there is more.
pub(super) fn is_more(count: usize) -> io::Result<()> {
    if count < MOST { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

/// Receives what waits, up to [`MOST`], and hands each datagram over. "Would block" if nothing does.
pub(super) fn receive(socket: &UdpSocket, mut each: impl FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
    BUFFERS.with_borrow_mut(|buffers| {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            buffers.chunks_mut(LONGEST).map(|buffer| [IoSliceMut::new(buffer)]).collect();
        // Made anew: the kernel leaves the length of an address in them, and those of another family are longer.
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(MOST, None);
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)?;
        let mut count = 0;
        for message in received {
            count += 1;
            let datagram = message.iovs().next().unwrap_or_default();
            if let Some(from) = message.address.as_ref().and_then(address) {
                each(from, datagram);
            }
        }
        Ok(count)
    })
}

/// Passes what waits at one socket on to a client by another, up to [`MOST`]. Says how many there were, and how many of
/// them could not be sent. "Would block" if there was none.
pub(super) fn pass_on(from: &UdpSocket, by: &UdpSocket, to: SocketAddr) -> io::Result<(usize, usize)> {
    BUFFERS.with_borrow_mut(|buffers| {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            buffers.chunks_mut(LONGEST).map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(MOST, None);
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = recvmmsg(from.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)?;
        let lengths: Vec<usize> = received.map(|message| message.bytes).collect();
        let filled = buffers.chunks(LONGEST).zip(&lengths);
        let datagrams: Vec<[IoSlice<'_>; 1]> = filled
            .map(|(buffer, length)| [IoSlice::new(buffer.get(..*length).unwrap_or_default())])
            .collect();
        let addresses = vec![Some(SockaddrStorage::from(to)); datagrams.len()];
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(datagrams.len(), None);
        let sent = sendmmsg(by.as_raw_fd(), &mut headers, &datagrams, &addresses, [], flags);
        let sent = sent.map_or(0, Iterator::count);
        Ok((lengths.len(), lengths.len().saturating_sub(sent)))
    })
}

fn address(found: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = found.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    found.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port())))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{in_time, socket};
    use super::*;

    #[test]
    fn what_waits_is_taken_by_few_calls() {
        in_time(async {
            let ((near, at), (far, from)) = (socket(), socket());
            let (_target, to) = socket();
            for _ in 0..40 {
                far.send_to(b"waits", at).await.unwrap();
            }
            let mut heard = 0;
            let each = |sender, datagram: &[u8]| {
                assert_eq!((sender, datagram), (from, b"waits".as_slice()));
                heard += 1;
            };
            assert_eq!(receive(&near, each).unwrap(), 16);
            assert!(heard == 16 && is_more(16).is_ok());
            assert_eq!(pass_on(&near, &far, to).unwrap(), (16, 0));
            assert_eq!(pass_on(&near, &far, to).unwrap(), (8, 0));
            assert_eq!(is_more(8).unwrap_err().kind(), io::ErrorKind::WouldBlock, "nobody has to ask again");
            assert_eq!(pass_on(&near, &far, to).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        });
    }
}
