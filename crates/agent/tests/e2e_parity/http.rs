//! Answers of HTTP servers, made comparable.
//!
//! In: a request to an address, from a host of a lab. Out: status, headers and body. What differs between two answers that mean the same
//! is taken out: dates, the length and its form, and moments in the body.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use switchyard_lab::Host;

use crate::common::looking::joined;

/// An answer comes before this.
const PATIENCE: Duration = Duration::from_secs(10);

/// Headers that say when, or how long an answer is; the length has another form here, see docs/differences.md.
const IGNORED: [&str; 4] = ["date", "process-start-time-unix", "content-length", "transfer-encoding"];

/// A normalised answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Answer {
    /// What a server says to `METHOD PATH`; an error, as text, if it says nothing.
    pub(crate) fn to(request: &str, from: &Host, server: SocketAddr) -> Result<Self, String> {
        let exchange = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let head = format!("{request} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        match from.run(exchange) {
            Ok(Ok(answer)) => Ok(Self::parse(&String::from_utf8_lossy(&answer))),
            Ok(Err(error)) => Err(error.kind().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().unwrap_or_default().to_owned();
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_lowercase();
        let mut headers: Vec<String> =
            lines.filter(|line| !IGNORED.contains(&name(line).as_str())).map(str::to_owned).collect();
        headers.sort();
        let body = if is_chunked { joined(body) } else { body.to_owned() };
        Self { status, headers, body: without_moments(&body) }
    }

    /// The code alone.
    pub(crate) fn code(&self) -> &str {
        self.status.split(' ').nth(1).unwrap_or_default()
    }

    /// What differs; empty if nothing does. Two servers that do not answer are not the same: nobody knows what they would say.
    pub(crate) fn difference(theirs: &Result<Self, String>, ours: &Result<Self, String>) -> String {
        if theirs.is_ok() && theirs == ours {
            return String::new();
        }
        format!("    kube-proxy: {theirs:?}\n    switchyard: {ours:?}\n")
    }
}

/// With `TIME` in place of every moment in RFC 3339, whatever its fraction.
fn without_moments(body: &str) -> String {
    let is_moment = |word: &str| {
        let form: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        form.starts_with("0000-00-00T00:00:00")
    };
    body.split('"').map(|word| if is_moment(word) { "TIME" } else { word }).collect::<Vec<_>>().join("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: now\r\nContent-Length: 9\r\n\r\n\
        {\"lastUpdated\":\"2026-11-16T01:02:03.123456789Z\",\"healthy\": true}";

    fn difference(ours: &str) -> String {
        Answer::difference(&Ok(Answer::parse(PAGE)), &Ok(Answer::parse(ours)))
    }

    #[test]
    fn moments_and_lengths_are_no_difference() {
        assert_eq!(difference(&PAGE.replace("03.123456789Z", "59Z").replace("Date: now", "Date: then")), "");
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n2\r\n, \r\n0\r\n\r\n";
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhello, ";
        assert_eq!(Answer::parse(chunked), Answer::parse(plain));
        assert_eq!(Answer::parse(PAGE).code(), "200");
    }

    #[test]
    fn every_mutation_is_noticed() {
        for (from, to) in [
            ("200 OK", "503 Service Unavailable"),
            ("application/json", "text/plain"),
            ("Content-Type: application/json\r\n", ""),
            ("true", "false"),
            ("lastUpdated", "updated"),
            ("2026-11-16T01:02:03.123456789Z", "never"),
        ] {
            assert!(PAGE.contains(from) && !difference(&PAGE.replace(from, to)).is_empty(), "{from} -> {to}");
        }
        let refused = Err("connection refused".to_owned());
        assert!(!Answer::difference(&Ok(Answer::parse(PAGE)), &refused).is_empty());
        assert!(!Answer::difference(&refused, &refused).is_empty(), "nobody was asked");
    }
}
