//! A way from a lab to the control plane, which is in no lab's network.
//!
//! In: connections to the API server's address and port on the lab's router. Out: the same bytes on connections inside the control plane's
//! namespace. So many labs, one after the other or at the same time, can use one control plane.

use std::io::copy;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use switchyard_lab::{Family, Host, Lab};

use super::control_plane::{ControlPlane, PORT};

/// Ends, with all its connections, when dropped.
pub(crate) struct Gateway {
    router: Host,
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    listening: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Listens on the router of a lab.
    pub(crate) fn open(lab: &Lab, to: &ControlPlane) -> Self {
        let (router, server) = (lab.router().clone(), to.host().clone());
        let address = SocketAddr::new(server.ip(Family::V4), PORT);
        assert_eq!(router.ip(Family::V4), address.ip(), "the certificate is for another address");
        let listener = router.run(|| TcpListener::bind(address)).unwrap().unwrap();
        let (is_over, open) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let (over, connections) = (is_over.clone(), open.clone());
        let listening = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // While there is no API server, a client's connection ends at once.
                if let Ok(Ok(backend)) = server.run(|| TcpStream::connect(address)) {
                    join(&client, &backend, &connections);
                }
            }
        });
        Self { router, address, is_over, open, listening: Some(listening) }
    }

    /// Ends the connections that there are. New ones can be made.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The API server's address, as a client in the lab sees it.
    pub(crate) fn ip(&self) -> IpAddr {
        self.address.ip()
    }
}

/// Copies in both directions until either side ends.
fn join(client: &TcpStream, backend: &TcpStream, open: &Mutex<Vec<TcpStream>>) {
    for (from, to) in [(client, backend), (backend, client)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        open.lock().unwrap().push(from.try_clone().unwrap());
        std::thread::spawn(move || {
            // How a connection ends is the clients' business.
            let _ = copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener up; if it has ended, nobody answers, which is as good.
        let _ = self.router.run(|| TcpStream::connect(self.address));
        let _ = self.listening.take().map(JoinHandle::join);
        self.cut();
    }
}
