//! A way from a lab to the control plane, which is in no lab's network.
//!
//! In: connections to the API server's address and port on the lab's router. Out: the same bytes on connections inside the control plane's
//! namespace. So many labs, one after the other or at the same time, can use one control plane. A test can [spoil](Gateway::spoil) the
//! way, as networks, load balancers and overloaded servers do; it counts who comes meanwhile.

mod fault;

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ServerConfig;
use switchyard_lab::{Family, Host, Lab};

use super::control_plane::{ControlPlane, PORT};
pub(crate) use fault::Fault;

/// A slow answer begins after this time, and then comes in pieces.
const SLOW_START: Duration = Duration::from_secs(2);
const SLOW_PIECE: usize = 64;
const SLOW_REST: Duration = Duration::from_millis(10);

/// Ends, with all its connections, when dropped.
pub(crate) struct Gateway {
    way: Arc<Way>,
    address: SocketAddr,
    listener: TcpListener,
    listening: Option<JoinHandle<()>>,
}

/// What the threads of a gateway share.
struct Way {
    server: Host,
    address: SocketAddr,
    is_over: AtomicBool,
    open: Mutex<Vec<Arc<Connection>>>,
    fault: Mutex<Fault>,
    /// Connections since the last fault began.
    came: AtomicU32,
    tls: Arc<ServerConfig>,
}

/// Both ends of a connection.
struct Connection {
    client: TcpStream,
    backend: TcpStream,
    is_slow: bool,
    is_frozen: AtomicBool,
}

impl Gateway {
    /// Listens on the router of a lab.
    pub(crate) fn open(lab: &Lab, to: &ControlPlane) -> Self {
        let (router, server) = (lab.router().clone(), to.host().clone());
        let address = SocketAddr::new(server.ip(Family::V4), PORT);
        assert_eq!(router.ip(Family::V4), address.ip(), "the certificate is for another address");
        let listener = router.run(|| TcpListener::bind(address)).unwrap().unwrap();
        let way = Arc::new(Way {
            server,
            address,
            is_over: AtomicBool::default(),
            open: Mutex::default(),
            fault: Mutex::new(Fault::None),
            came: AtomicU32::default(),
            tls: fault::tls(&to.path("server.crt"), &to.path("server.key")),
        });
        let (incoming, on) = (listener.try_clone().unwrap(), way.clone());
        let listening = std::thread::spawn(move || on.listen(&incoming));
        Self { way, address, listener, listening: Some(listening) }
    }

    /// Ends the connections that there are. New ones can be made.
    pub(crate) fn cut(&self) {
        self.way.cut();
    }

    /// From now on this is what clients meet. The connections that there are end, so that nobody goes on as before.
    pub(crate) fn spoil(&self, fault: Fault) {
        *self.way.fault.lock().unwrap() = fault;
        self.way.came.store(0, Ordering::Relaxed);
        self.cut();
    }

    /// How many connections clients have made since the last [`spoil`](Self::spoil). Where the gateway itself answers, each is a request.
    pub(crate) fn came(&self) -> u32 {
        self.way.came.load(Ordering::Relaxed)
    }

    /// Ends a fault, and the connections that suffer from it.
    pub(crate) fn mend(&self) {
        self.spoil(Fault::None);
    }

    /// Not another byte passes on the connections that there are, and neither side hears of it: as if a firewall in between had
    /// forgotten them. New ones work.
    pub(crate) fn freeze(&self) {
        for connection in self.way.open.lock().unwrap().iter() {
            connection.is_frozen.store(true, Ordering::Relaxed);
        }
    }

    /// The API server's address, as a client in the lab sees it.
    pub(crate) fn ip(&self) -> IpAddr {
        self.address.ip()
    }
}

impl Way {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().map_while(Result::ok) {
            self.came.fetch_add(1, Ordering::Relaxed);
            let fault = self.fault.lock().unwrap().clone();
            let is_slow = matches!(fault, Fault::Slow);
            match fault {
                Fault::None | Fault::Slow => self.join(client, is_slow),
                Fault::Closed => drop(client),
                Fault::Mute => self.hold(client),
                Fault::Answer(answer) => {
                    let tls = self.tls.clone();
                    std::thread::spawn(move || fault::answer(client, tls, &answer));
                }
            }
        }
    }

    /// Keeps a client waiting until it, or the gateway, has enough.
    fn hold(&self, client: TcpStream) {
        let backend = client.try_clone().unwrap();
        let is_frozen = AtomicBool::new(true);
        self.open.lock().unwrap().push(Arc::new(Connection { client, backend, is_slow: false, is_frozen }));
    }

    /// Copies in both directions until either side ends. While there is no API server, a client's connection ends at once.
    fn join(self: &Arc<Self>, client: TcpStream, is_slow: bool) {
        let Ok(Ok(backend)) = self.server.run(|| TcpStream::connect(self.address)) else { return };
        // Both ends send without waiting for an answer to what they sent before, as an API server and its clients do; so must what is in
        // between.
        let _ = (client.set_nodelay(true), backend.set_nodelay(true));
        let is_frozen = AtomicBool::default();
        let connection = Arc::new(Connection { client, backend, is_slow, is_frozen });
        self.open.lock().unwrap().push(connection.clone());
        let (there, back) = (self.clone(), self.clone());
        let other = connection.clone();
        std::thread::spawn(move || there.pump(&connection, &connection.client, &connection.backend, false));
        std::thread::spawn(move || back.pump(&other, &other.backend, &other.client, other.is_slow));
    }

    fn pump(&self, connection: &Arc<Connection>, mut from: &TcpStream, mut to: &TcpStream, is_slow: bool) {
        let mut buffer = vec![0; 64 * 1024];
        // How a connection ends is the clients' business.
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            while connection.is_frozen.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(SLOW_REST);
            }
            let bytes = buffer.get(..count).unwrap();
            let sent = if is_slow { trickle(to, bytes) } else { to.write_all(bytes) };
            if sent.is_err() {
                break;
            }
        }
        if !connection.is_frozen.load(Ordering::Relaxed) {
            connection.end();
            self.open.lock().unwrap().retain(|open| !Arc::ptr_eq(open, connection));
        }
    }

    fn cut(&self) {
        self.open.lock().unwrap().drain(..).for_each(|connection| connection.end());
    }
}

fn trickle(mut to: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    std::thread::sleep(SLOW_START);
    for piece in bytes.chunks(SLOW_PIECE) {
        to.write_all(piece)?;
        std::thread::sleep(SLOW_REST);
    }
    Ok(())
}

impl Connection {
    fn end(&self) {
        // It may have ended by itself.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.backend.shutdown(Shutdown::Both);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.way.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener up. A connection would not do: the lab's links may be gone before.
        let listener = TcpStream::from(OwnedFd::from(self.listener.try_clone().unwrap()));
        let _ = listener.shutdown(Shutdown::Both);
        let _ = self.listening.take().map(JoinHandle::join);
        self.cut();
    }
}
