//! Echo servers: each line (TCP) or datagram (UDP) is answered with `<name> <client address> <client port>\n`.
//!
//! One thread serves one port in both families; its sockets are bound to the host's own two addresses, so that a UDP answer leaves from the
//! address that was asked. Dropping an [`Echo`] closes its sockets and every connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use switchyard_netlink::Family;

use crate::LabError;
use crate::host::Host;

/// The longest line that a client may send.
const LINE_MAX: usize = 4096;

/// A running echo server.
#[derive(Debug)]
pub struct Echo {
    name: String,
    port: u16,
    /// Closing it stops the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// The name that it answers with: that of its host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port that it listens on, in both families.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn start<S: Service>(host: &Host, port: u16) -> Result<Self, LabError> {
        let failed = |source| LabError::Io {
            action: format!("start an echo server on port {port}"),
            host: host.name().to_owned(),
            source,
        };
        let name = host.name().to_owned();
        let service =
            host.run(|| S::bind([Family::V4, Family::V6].map(|f| SocketAddr::new(host.ip(f), port))))?;
        let service = service.map_err(failed)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name(format!("echo-{name}"))
            .spawn({
                let name = name.clone();
                move || serve(service, &stopped, &name)
            })
            .map_err(failed)?;
        Ok(Self { name, port, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has stopped too.
            let _ = thread.join();
        }
    }
}

impl Host {
    /// Starts a TCP echo server on both addresses of the host.
    pub fn echo_tcp(&self, port: u16) -> Result<Echo, LabError> {
        Echo::start::<Tcp>(self, port)
    }

    /// Starts a UDP echo server on both addresses of the host.
    pub fn echo_udp(&self, port: u16) -> Result<Echo, LabError> {
        Echo::start::<Udp>(self, port)
    }
}

/// Sockets of one server, served by one thread.
trait Service: Sized + Send + 'static {
    fn bind(addresses: [SocketAddr; 2]) -> std::io::Result<Self>;
    fn watched(&self) -> Vec<PollFd<'_>>;
    /// Serves whatever is ready; never waits.
    fn turn(&mut self, name: &str);
}

fn serve(mut service: impl Service, stopped: &UnixStream, name: &str) {
    loop {
        let mut watched = service.watched();
        watched.insert(0, PollFd::new(stopped.as_fd(), PollFlags::POLLIN));
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
        // The other end never writes: anything here means that it was closed.
        if watched.first().and_then(PollFd::any) == Some(true) {
            return;
        }
        drop(watched);
        service.turn(name);
    }
}

fn answer(name: &str, client: SocketAddr) -> Vec<u8> {
    format!("{name} {} {}\n", client.ip(), client.port()).into_bytes()
}

struct Udp(Vec<UdpSocket>);

impl Service for Udp {
    fn bind(addresses: [SocketAddr; 2]) -> std::io::Result<Self> {
        let bind = |address| UdpSocket::bind(address).and_then(|s| s.set_nonblocking(true).map(|()| s));
        addresses.into_iter().map(bind).collect::<std::io::Result<_>>().map(Self)
    }

    fn watched(&self) -> Vec<PollFd<'_>> {
        self.0.iter().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect()
    }

    fn turn(&mut self, name: &str) {
        let mut question = [0; LINE_MAX];
        for socket in &self.0 {
            while let Ok((_, client)) = socket.recv_from(&mut question) {
                // An answer that cannot be sent is a client that will time out, which is what tests look at.
                let _ = socket.send_to(&answer(name, client), client);
            }
        }
    }
}

struct Tcp {
    listeners: Vec<TcpListener>,
    clients: Vec<Client>,
}

struct Client {
    stream: TcpStream,
    address: SocketAddr,
    /// Bytes of the line that has not ended yet.
    pending: usize,
}

impl Service for Tcp {
    fn bind(addresses: [SocketAddr; 2]) -> std::io::Result<Self> {
        let bind = |address| TcpListener::bind(address).and_then(|l| l.set_nonblocking(true).map(|()| l));
        let listeners = addresses.into_iter().map(bind).collect::<std::io::Result<_>>()?;
        Ok(Self { listeners, clients: Vec::new() })
    }

    fn watched(&self) -> Vec<PollFd<'_>> {
        let listeners = self.listeners.iter().map(AsFd::as_fd);
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        listeners.chain(clients).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect()
    }

    fn turn(&mut self, name: &str) {
        for listener in &self.listeners {
            while let Ok((stream, address)) = listener.accept() {
                if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                    self.clients.push(Client { stream, address, pending: 0 });
                }
            }
        }
        self.clients.retain_mut(|client| client.turn(name).is_ok());
    }
}

impl Client {
    /// Answers the lines that have arrived; an error ends the connection.
    fn turn(&mut self, name: &str) -> std::io::Result<()> {
        let mut bytes = [0; LINE_MAX];
        loop {
            let length = match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for byte in bytes.get(..length).unwrap_or_default() {
                self.pending += 1;
                if *byte == b'\n' {
                    self.stream.write_all(&answer(name, self.address))?;
                    self.pending = 0;
                }
            }
            if self.pending > LINE_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}
