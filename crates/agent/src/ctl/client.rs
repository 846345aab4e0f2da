//! One question to an agent, over its admin socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use switchyard_netlink::NetlinkError;

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
    #[error("the agent on {} did not answer to the end", path.display())]
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
    /// The agent does not know the question yet.
    #[error(
        "the agent on {} is of version {agent} and does not know {path}; this program is of version {}: restart the agent with it",
        socket.display(),
        env!("CARGO_PKG_VERSION")
    )]
    Older {
        /// Its socket.
        socket: PathBuf,
        /// Its version.
        agent: String,
        /// What was asked.
        path: String,
    },
    /// No packet can be sent for this question.
    #[error("{0}")]
    Unprobed(String),
    /// A packet could not be sent.
    #[error("cannot send a packet")]
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
    #[error("cannot print")]
    Print(#[source] io::Error),
}

/// GET, with parameters.
pub(super) fn get(socket: &Path, path: &str, parameters: &[(&str, &str)]) -> Result<Value, CtlError> {
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    // By this version a body ends where the connection does, in however many pieces it comes.
    let head = format!("GET {path}?{} HTTP/1.0\r\nHost: switchyard\r\n\r\n", query.join("&"));
    let answer = exchange(socket, &head)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| unknown(&answer))?;
    let status: u16 =
        head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| unknown(head))?;
    let value: Value = match serde_json::from_str(body) {
        Err(error) if error.is_eof() => {
            let source = io::ErrorKind::UnexpectedEof.into();
            return Err(CtlError::Broken { path: socket.to_owned(), source });
        }
        read => read.map_err(|_| unknown(body))?,
    };
    if status == 200 {
        return Ok(value);
    }
    let error = value.get("error").and_then(Value::as_str).ok_or_else(|| unknown(body))?;
    if status == 404 && error.starts_with(NO_SUCH_PATH) && path != "/v1" {
        return Err(older(socket, path));
    }
    Err(CtlError::Refused(super::table::printable(error)))
}

/// The error that says of which version the agent is that does not know something.
pub(super) fn older(socket: &Path, what: &str) -> CtlError {
    let agent = match get(socket, "/v1", &[]) {
        Ok(agent) => agent,
        Err(error) => return error,
    };
    match agent.get("version").and_then(Value::as_str) {
        Some(version) => CtlError::Older {
            socket: socket.to_owned(),
            agent: super::table::printable(version),
            path: what.to_owned(),
        },
        None => unknown("no version"),
    }
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
    CtlError::Unknown(super::table::printable(&start))
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
    use super::*;

    #[test]
    fn everything_odd_is_encoded() {
        assert_eq!(encoded("10.96.0.1:80"), "10.96.0.1:80");
        assert_eq!(encoded("[fd00::1]:80"), "%5Bfd00::1%5D:80");
        assert_eq!(encoded("a&b=c d\r\n"), "a%26b%3Dc%20d%0D%0A");
    }

    /// Answers questions as an agent that knows nothing but who it is.
    fn old_agent(socket: &Path, answers: &'static [(u16, &'static str)]) -> std::thread::JoinHandle<()> {
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 2048];
                assert!(stream.read(&mut head).unwrap() > 0);
                stream.write_all(format!("HTTP/1.1 {status} X\r\n\r\n{body}").as_bytes()).unwrap();
            }
        })
    }

    fn asked(answers: &'static [(u16, &'static str)]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("admin.sock");
        let agent = old_agent(&socket, answers);
        let error = get(&socket, "/v1/diff", &[]).unwrap_err().to_string();
        agent.join().unwrap();
        error
    }

    #[test]
    fn an_older_agent_is_said_in_one_line() {
        const UNKNOWN: &str =
            r#"{"error":"nothing answers on /v1/diff; this agent knows version 1 of the API"}"#;
        let old = asked(&[(404, UNKNOWN), (200, r#"{"version":"0.0.9\u001b"}"#)]);
        assert!(old.contains("is of version 0.0.9\\u{1b} and does not know /v1/diff"), "{old}");
        assert!(old.ends_with("restart the agent with it") && old.lines().count() == 1, "{old}");
    }

    #[test]
    fn nonsense_is_no_answer() {
        const ANSWERS: [&[(u16, &str)]; 3] =
            [&[(200, "<html>\x1b[31m")], &[(500, "{}")], &[(404, r#"{"error":"no Service x"}"#)]];
        for answers in ANSWERS {
            let error = asked(answers);
            assert!(!error.contains('\x1b') && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn no_agent_is_said_in_one_line() {
        let error = get(Path::new("/nonexistent/admin.sock"), "/v1", &[]).unwrap_err();
        assert!(matches!(error, CtlError::NoAgent { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
