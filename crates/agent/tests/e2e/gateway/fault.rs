//! What can be wrong on the way to an API server, and answers that are not the API server's.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A client that says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client's request is not longer.
const MAX_REQUEST: usize = 64 * 1024;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Nothing is.
    None,
    /// Connections are accepted and end at once.
    Closed,
    /// Connections are accepted, and nothing ever comes.
    Mute,
    /// Answers begin late and come in small pieces.
    Slow,
    /// After a proper handshake, these bytes are the answer to every request.
    Answer(Vec<u8>),
}

impl Fault {
    /// A status with these further headers, as a load balancer or an overloaded API server says it: without a body that a client of
    /// Kubernetes could read.
    pub(crate) fn status(code: u16, headers: &str) -> Self {
        let body = "not now";
        let length = body.len();
        let head =
            format!("HTTP/1.1 {code} Spoilt\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n");
        Self::Answer(format!("{head}{headers}Connection: close\r\n\r\n{body}").into_bytes())
    }

    /// A page in place of the API, as a captive portal has it.
    pub(crate) fn page() -> Self {
        let body = "<html><body>Please log in</body></html>";
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n");
        Self::Answer(format!("{head}Connection: close\r\n\r\n{body}").into_bytes())
    }

    /// No HTTP.
    pub(crate) fn garbage() -> Self {
        Self::Answer((0..=255).rev().cycle().take(3000).collect())
    }
}

/// The API server's own certificate: clients trust it.
pub(super) fn tls(certificate: &Path, key: &Path) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

/// Reads one request and answers it; a client that ends earlier is none of our business.
pub(super) fn answer(client: TcpStream, tls: Arc<ServerConfig>, answer: &[u8]) {
    let _ = client.set_read_timeout(Some(PATIENCE));
    let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), client);
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => request.extend_from_slice(buffer.get(..count).unwrap()),
            _ => return,
        }
    }
    let _ = stream.write_all(answer);
    stream.conn.send_close_notify();
    let _ = stream.flush();
}
