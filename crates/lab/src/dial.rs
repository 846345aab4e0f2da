//! Dialling: one question to an echo server, and what came of it.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Socket, Type};

use crate::held::Held;
use crate::host::Host;

/// The longest answer of an echo server.
const ANSWER_MAX: usize = 256;

/// How often a connection attempt looks for an error that nobody reports.
const LOOK_AGAIN_MS: u8 = 10;

/// A transport protocol. SCTP is left out: the kernels that the lab runs on have no SCTP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Whom to ask, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dial {
    transport: Transport,
    to: SocketAddr,
    from: Option<SocketAddr>,
    timeout: Duration,
}

impl Dial {
    /// Asks with this transport; waits one second.
    pub fn new(transport: Transport, to: SocketAddr) -> Self {
        Self { transport, to, from: None, timeout: Duration::from_secs(1) }
    }

    /// Asks over TCP; waits one second.
    pub fn tcp(to: SocketAddr) -> Self {
        Self::new(Transport::Tcp, to)
    }

    /// Asks over UDP; waits one second.
    pub fn udp(to: SocketAddr) -> Self {
        Self::new(Transport::Udp, to)
    }

    /// Waits this long in all.
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Asks from this source address; port 0 for any port.
    pub fn from(self, source: SocketAddr) -> Self {
        Self { from: Some(source), ..self }
    }

    /// How long to wait.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Opens the connection. Must run inside the namespace.
    pub(crate) fn connect(&self) -> std::io::Result<Line> {
        let kind = match self.transport {
            Transport::Tcp => Type::STREAM,
            Transport::Udp => Type::DGRAM,
        };
        let socket = Socket::new(Domain::for_address(self.to), kind, None)?;
        if let Some(source) = self.from {
            socket.set_reuse_address(true)?;
            socket.bind(&source.into())?;
        }
        match self.transport {
            Transport::Tcp => {
                if self.from.is_some_and(|source| source.port() != 0) {
                    // The same port must be usable again at once: leave by reset instead of TIME_WAIT.
                    socket.set_linger(Some(Duration::ZERO))?;
                }
                connect_stream(&socket, self.to, self.timeout)?;
                socket.set_tcp_nodelay(true)?;
                Ok(Line::Tcp(socket.into()))
            }
            Transport::Udp => {
                socket.connect(&self.to.into())?;
                Ok(Line::Udp(socket.into()))
            }
        }
    }

    fn once(&self) -> Answer {
        let end = Instant::now() + self.timeout;
        match self.connect() {
            Ok(mut line) => line.ask(end.saturating_duration_since(Instant::now())),
            Err(error) => Answer::of_error(&error),
        }
    }
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An echo server answered.
    Answered {
        /// The host that answered.
        name: String,
        /// The address that the question came from, as the server saw it.
        seen: SocketAddr,
    },
    /// Refused: a TCP reset, or an ICMP "port unreachable".
    Refused,
    /// Told that there is no way: any other ICMP "unreachable", or no route here. UDP hears only of the final kinds.
    Unreachable(ErrorKind),
    /// No answer in time.
    Timeout,
    /// Something else, such as a connection that was reset or closed before the answer.
    Other(ErrorKind),
}

impl Answer {
    /// The name of the host that answered.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Answered { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The source address that the server saw.
    pub fn seen_ip(&self) -> Option<IpAddr> {
        match self {
            Self::Answered { seen, .. } => Some(seen.ip()),
            _ => None,
        }
    }

    pub(crate) fn of_error(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Timeout,
            // An ICMPv6 "administratively prohibited" arrives as EACCES.
            kind @ (ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied) => Self::Unreachable(kind),
            kind => Self::Other(kind),
        }
    }

    /// Reads `<name> <address> <port>\n`.
    fn of_text(text: &[u8]) -> Self {
        let parse = || {
            let text = std::str::from_utf8(text).ok()?;
            let mut words = text.split_whitespace();
            let (name, ip, port) = (words.next()?, words.next()?, words.next()?);
            Some(Self::Answered {
                name: name.to_owned(),
                seen: SocketAddr::new(ip.parse().ok()?, port.parse().ok()?),
            })
        };
        parse().unwrap_or(Self::Other(ErrorKind::InvalidData))
    }
}

/// How often each came up in a series of questions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers by the name of the host.
    pub answered: BTreeMap<String, u32>,
    /// Questions without an answer, by [`Answer`] as text.
    pub failed: BTreeMap<String, u32>,
}

/// An open connection to an echo server.
#[derive(Debug)]
pub(crate) enum Line {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Line {
    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    pub(crate) fn ask(&mut self, timeout: Duration) -> Answer {
        // The socket takes no zero timeout.
        let timeout = timeout.max(Duration::from_millis(1));
        let asked = match self {
            Self::Tcp(stream) => ask_stream(stream, timeout),
            Self::Udp(socket) => ask_datagram(socket, timeout),
        };
        match asked {
            Ok(text) => Answer::of_text(&text),
            Err(error) => Answer::of_error(&error),
        }
    }
}

/// Connects, and takes the first ICMP error for final. The kernel notes an error that arrives while it still sends the first packet (as
/// it does here, where all hosts share one kernel) but tells nobody, and would try again after a second.
fn connect_stream(socket: &Socket, to: SocketAddr, timeout: Duration) -> std::io::Result<()> {
    let end = Instant::now() + timeout;
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => return Err(error),
        _ => {}
    }
    loop {
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        let mut watched = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut watched, PollTimeout::from(LOOK_AGAIN_MS)) {
            Ok(0) | Err(Errno::EINTR) if Instant::now() >= end => return Err(ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return socket.take_error()?.map_or_else(|| socket.set_nonblocking(false), Err),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn ask_stream(stream: &mut TcpStream, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let end = Instant::now() + timeout;
    stream.write_all(b"?\n")?;
    let mut text = Vec::new();
    while text.last() != Some(&b'\n') && text.len() < ANSWER_MAX {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; ANSWER_MAX];
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(chunk.get(..length).unwrap_or_default());
    }
    Ok(text)
}

fn ask_datagram(socket: &UdpSocket, timeout: Duration) -> std::io::Result<Vec<u8>> {
    socket.send(b"?\n")?;
    socket.set_read_timeout(Some(timeout))?;
    let mut text = vec![0; ANSWER_MAX];
    let length = socket.recv(&mut text)?;
    text.truncate(length);
    Ok(text)
}

impl Host {
    /// Asks once, over a new connection.
    pub fn dial(&self, dial: &Dial) -> Answer {
        self.run(|| dial.once()).unwrap_or(Answer::Other(ErrorKind::Other))
    }

    /// Asks `times` times, each over a new connection, and counts.
    pub fn dial_many(&self, dial: &Dial, times: u32) -> Tally {
        let mut tally = Tally::default();
        let count = || {
            for _ in 0..times {
                let (counts, key) = match dial.once() {
                    Answer::Answered { name, .. } => (&mut tally.answered, name),
                    failed => (&mut tally.failed, format!("{failed:?}")),
                };
                *counts.entry(key).or_default() += 1;
            }
        };
        match self.run(count) {
            Ok(()) => tally,
            Err(error) => Tally { failed: BTreeMap::from([(error.to_string(), times)]), ..Tally::default() },
        }
    }

    /// Opens a connection (UDP: a connected socket with a fixed source port) to ask through again and again. The error is what a
    /// failed [`Self::dial`] would have said.
    pub fn hold(&self, dial: &Dial) -> Result<Held, Answer> {
        let line = self.run(|| dial.connect()).map_err(|_| Answer::Other(ErrorKind::Other))?;
        line.map(|line| Held::new(line, dial.timeout())).map_err(|error| Answer::of_error(&error))
    }
}
