//! The admin socket: questions of the operator, over HTTP on a Unix socket.
//!
//! In: a path, and somebody who answers. Out: JSON, until the future is dropped. Nothing here can be reached from the network.
//!
//! Invariants
//! - The socket is for its owner alone (mode 0600), and so is its directory if it is made here (0700).
//! - A socket that somebody answers on is never taken over; one that a dead process left behind is.
//! - Only GET: nothing that is asked here changes anything.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

use crate::server::{Ask, Connections, JSON, NOSNIFF, Reply, Site, serve_listener};

/// Connections at a time. Each is a person, or a program of one.
const CONNECTIONS: usize = 32;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The path, decoded.
    pub path: String,
    /// Query parameters, decoded, in order.
    pub query: Vec<(String, String)>,
}

impl Question {
    /// The last value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The answer to a question.
#[derive(Debug)]
pub struct Answer {
    /// An HTTP status.
    pub status: u16,
    /// JSON.
    pub body: Body,
}

/// JSON.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(String),
    /// As it is made.
    Flow(Flow),
}

/// What of a body is still to come. A body whose pieces nobody sends any more is over.
#[derive(Debug)]
pub struct Flow(mpsc::Receiver<Bytes>);

/// Sends the pieces of a body.
#[derive(Debug)]
pub struct Pieces(mpsc::Sender<Bytes>);

/// Nobody reads any more.
#[derive(Debug)]
pub struct HungUp;

impl Body {
    /// In pieces, each of which waits until the one before was taken: no more than two are held.
    pub fn in_pieces() -> (Self, Pieces) {
        let (send, receive) = mpsc::channel(1);
        (Self::Flow(Flow(receive)), Pieces(send))
    }
}

impl Pieces {
    /// The next piece.
    pub async fn send(&self, piece: String) -> Result<(), HungUp> {
        self.0.send(piece.into()).await.map_err(|_| HungUp)
    }
}

/// An answer that comes later.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Who knows.
pub trait Responder: Send + Sync + 'static {
    /// Answers.
    fn respond(&self, question: Question) -> Answering;
}

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another process answers there.
    #[error("another process answers on {}; give this one another path with --admin-socket", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket is there.
    #[error("{} is there and is no socket; move it away, or give another path with --admin-socket", path.display())]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot make the admin socket {}; give another path with --admin-socket, or an empty one for none", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// A socket that listens, and is removed when this is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    listener: Option<UnixListener>,
    path: PathBuf,
    inode: u64,
}

impl AdminError {
    /// True if this user may not listen there, and another might.
    pub fn is_for_others(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl AdminSocket {
    /// Listens. Must be called within a runtime.
    pub fn bind(path: &Path) -> Result<Self, AdminError> {
        let refused = |source| AdminError::Refused { path: path.to_owned(), source };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(refused)?;
        }
        make_room(path)?;
        // Made beside its place and moved there: nobody can connect before the mode is set.
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        let listener = UnixListener::bind(&draft).map_err(refused)?;
        let placed = std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::metadata(&draft))
            .and_then(|made| std::fs::rename(&draft, path).map(|()| made.ino()));
        match placed {
            Ok(inode) => Ok(Self { listener: Some(listener), path: path.to_owned(), inode }),
            Err(error) => {
                // It may not even be there.
                let _ = std::fs::remove_file(&draft);
                Err(refused(error))
            }
        }
    }

    /// Answers for as long as the future lives.
    pub async fn serve(mut self, responder: Arc<dyn Responder>) -> Infallible {
        let site = Arc::new(AdminSite { responder });
        match self.listener.take() {
            Some(listener) => serve_listener(listener, Connections::new(CONNECTIONS), site).await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Another process may have its own socket there by now.
        if std::fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Refuses if somebody answers, or if the file is no socket.
fn make_room(path: &Path) -> Result<(), AdminError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(AdminError::NoSocket { path: path.to_owned() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(AdminError::Taken { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

struct AdminSite {
    responder: Arc<dyn Responder>,
}

impl Site for AdminSite {
    async fn answer(&self, ask: Ask) -> Reply {
        if ask.method != Method::GET {
            return Reply::error(StatusCode::METHOD_NOT_ALLOWED, "only GET: nothing is changed here");
        }
        let answer = self.responder.respond(Question { path: ask.path(), query: ask.query() }).await;
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        match answer.body {
            Body::Whole(body) => Reply::new(status, [JSON, NOSNIFF], body),
            Body::Flow(Flow(pieces)) => Reply::flow([JSON, NOSNIFF], pieces),
        }
    }
}

#[cfg(test)]
mod tests;
