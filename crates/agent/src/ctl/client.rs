//! One question to an agent, over its admin socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use switchyard_netlink::NetlinkError;

use super::table::printable;
use super::version;
use crate::flags::{ADMIN_SOCKET, own_admin_socket};

/// Longer than the agent itself is patient.
const PATIENCE: Duration = Duration::from_secs(90);

/// Largest answer. A page of the longest list is far smaller.
const BYTES: u64 = 256 << 20;

/// How an agent begins that does not know a path.
pub(crate) const NO_SUCH_PATH: &str = "nothing answers on ";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// No agent.
    #[error("no agent answers on {}; is it running? Its flag --admin-socket says where it answers", path.display())]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not for us.
    #[error("may not use {}; only the user that the agent runs as may, usually root: try sudo", path.display())]
    Forbidden {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the agent on {} did not answer to the end; ask again, and see in its log whether it ended", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The agent said no.
    #[error("{0}")]
    Refused(String),
    /// Services that are asked for by name and are not there.
    #[error(
        "no Service {} is served here; `switchyard get services` lists all, `switchyard get quarantine` what was set aside",
        .0.join(", ")
    )]
    Missing(Vec<String>),
    /// The agent does not know the question yet.
    #[error(
        "the agent on {} is of version {agent} and does not know {what}; this program is of version {}: restart the agent with it",
        socket.display(),
        version::OWN
    )]
    Older {
        /// Its socket.
        socket: PathBuf,
        /// Its version.
        agent: String,
        /// What was asked.
        what: String,
    },
    /// No packet can be sent for this question.
    #[error("{0}")]
    Unprobed(String),
    /// A packet could not be sent.
    #[error(
        "cannot send a packet; `ip route get ADDRESS` shows whether this node has a way there, and --from must be one of its addresses"
    )]
    Unsent(#[source] io::Error),
    /// A packet could not be followed.
    #[error("cannot ask connection tracking who got the packet; only root may, try sudo")]
    Unfollowed(#[source] NetlinkError),
    /// The answer is none that this program knows.
    #[error(
        "the agent answers in a way that this program does not know; are they of the same version? ({0})"
    )]
    Unknown(String),
    /// Standard output failed.
    #[error("cannot print; see whether there is room where the output goes")]
    Print(#[source] io::Error),
}

/// GET, with parameters.
pub(super) fn get(socket: &Path, path: &str, parameters: &[(&str, &str)]) -> Result<Value, CtlError> {
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    // By this version a body ends where the connection does, in however many pieces it comes.
    let head = format!("GET {path}?{} HTTP/1.0\r\nHost: switchyard\r\n\r\n", query.join("&"));
    let answer = exchange(socket, &head)?;
    let broken = || CtlError::Broken { path: socket.to_owned(), source: io::ErrorKind::UnexpectedEof.into() };
    if answer.is_empty() {
        return Err(broken());
    }
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| unknown(&answer))?;
    let status: u16 =
        head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| unknown(head))?;
    let value: Value = match serde_json::from_str(body) {
        Err(error) if error.is_eof() => return Err(broken()),
        read => read.map_err(|_| unknown(body))?,
    };
    if status == 200 {
        return Ok(value);
    }
    let error = value.get("error").and_then(Value::as_str).ok_or_else(|| unknown(body))?;
    if status == 404 && error.starts_with(NO_SUCH_PATH) && path != "/v1" {
        return Err(version::older(socket, path));
    }
    let hint = if (400..500).contains(&status) && path != "/v1" { version::hint(socket) } else { None };
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    Err(CtlError::Refused(format!("{}{hint}", printable(error))))
}

fn exchange(socket: &Path, head: &str) -> Result<String, CtlError> {
    let path = socket.to_owned();
    let own = own_admin_socket().filter(|_| socket == Path::new(ADMIN_SOCKET));
    let connected = UnixStream::connect(socket)
        .or_else(|error| own.and_then(|own| UnixStream::connect(own).ok()).ok_or(error));
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Err(CtlError::Forbidden { path, source });
        }
        Err(source) => return Err(CtlError::NoAgent { path, source }),
    };
    let mut talk = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        (&mut stream).take(BYTES).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    talk().map_err(|source| CtlError::Broken { path, source })
}

pub(super) fn unknown(text: &str) -> CtlError {
    let start: String = text.chars().take(60).collect();
    CtlError::Unknown(printable(&start))
}

/// Percent-encoded: everything but letters, digits and a few marks.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b':' | b'/' => {
                encoded.push(char::from(byte))
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::super::tests::OldAgent;
    use super::*;

    #[test]
    fn everything_odd_is_encoded() {
        assert_eq!(encoded("10.96.0.1:80"), "10.96.0.1:80");
        assert_eq!(encoded("[fd00::1]:80"), "%5Bfd00::1%5D:80");
        assert_eq!(encoded("a&b=c d\r\n"), "a%26b%3Dc%20d%0D%0A");
    }

    #[test]
    fn nonsense_is_no_answer() {
        for (status, body) in [
            (200, "<html>\x1b[31m"),
            (500, "{}"),
            (404, r#"{"error":"no Service x\u001b"}"#),
            (200, r#"{"isEqual":true,"items":["#),
        ] {
            let agent = OldAgent::new(&[("/v1/diff", status, body)]);
            let error = agent.with(|socket| get(socket, "/v1/diff", &[]).unwrap_err().to_string());
            assert!(!error.contains('\x1b') && error.lines().count() == 1, "{error}");
            let is_cut = error.ends_with("ask again, and see in its log whether it ended");
            assert_eq!(is_cut, body.ends_with('['), "{error}");
        }
    }

    #[test]
    fn no_agent_is_said_in_one_line() {
        let error = get(Path::new("/nonexistent/admin.sock"), "/v1", &[]).unwrap_err();
        assert!(matches!(error, CtlError::NoAgent { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
