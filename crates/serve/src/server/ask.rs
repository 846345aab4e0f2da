//! Requests, and their paths as kube-proxy's two kinds of path matching see them.
//!
//! In: a request from the wire. Out: [`Ask`], or the answer to a request that no page gets to see.
//!
//! Invariants
//! - A body is read only if a page asks for it, and then at most [`BODY_BYTES`] of it.
//! - `%2F` never separates: it is decoded after a path was split.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, StatusCode, Version, header};

use super::reply::{PLAIN, Reply};

/// Largest body that a page reads.
const BODY_BYTES: usize = 4096;

/// A request that pages may look at.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    /// As on the wire, percent-encoded.
    raw_path: String,
    query: String,
    body: Option<Incoming>,
}

/// Where a path leads after `.`, `..` and empty parts are resolved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// It is what it should be: its parts, decoded.
    Clean(Vec<String>),
    /// The client should ask for this one.
    Elsewhere(String),
}

impl Ask {
    /// Refuses what kube-proxy's server refuses before any page is asked.
    pub(crate) fn new(request: Request<Incoming>) -> Result<Self, Reply> {
        let (head, body) = request.into_parts();
        let hosts = head.headers.get_all(header::HOST).iter().count();
        if head.version == Version::HTTP_11 && hosts == 0 {
            return Err(bad_request("400 Bad Request: missing required Host header"));
        }
        let raw_path = head.uri.path().to_owned();
        if hosts > 1 || decoded(&raw_path).is_none() {
            return Err(bad_request("400 Bad Request"));
        }
        let expects = head.headers.get(header::EXPECT).map(|v| v.as_bytes().to_ascii_lowercase());
        if expects.is_some_and(|value| !value.is_empty() && value != b"100-continue") {
            return Err(Reply::hang_up(StatusCode::EXPECTATION_FAILED));
        }
        if head.method == Method::OPTIONS && raw_path == "*" {
            return Err(Reply::empty());
        }
        let query = head.uri.query().unwrap_or_default().to_owned();
        Ok(Self { method: head.method, headers: head.headers, raw_path, query, body: Some(body) })
    }

    /// The path, decoded as a whole and otherwise as it came: what the metrics server matches.
    pub(crate) fn path(&self) -> String {
        decoded(&self.raw_path).unwrap_or_default()
    }

    /// The path as the health server matches it.
    pub(crate) fn resolved(&self) -> Resolved {
        let clean = cleaned(&self.raw_path);
        if clean == self.raw_path || self.method == Method::CONNECT {
            let parts = self.raw_path.split('/').skip(1);
            return Resolved::Clean(parts.map(|part| decoded(part).unwrap_or_default()).collect());
        }
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        Resolved::Elsewhere(clean + &query)
    }

    /// True for `*`, which is no path.
    pub(crate) fn is_for_nothing(&self) -> bool {
        self.raw_path == "*"
    }

    /// The values of a query parameter, one for each time it is there; empty where it has none.
    pub(crate) fn parameters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let named = pairs.filter(move |(key, _)| decoded(key).as_deref() == Some(name));
        named.map(|(_, value)| decoded(&value.replace('+', " ")).unwrap_or_default())
    }

    /// All query parameters, decoded; one whose escapes are broken is left out.
    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let text = |text: &str| decoded(&text.replace('+', " "));
        pairs.filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect()
    }

    /// The media ranges that the client takes, as one text.
    pub(crate) fn accept(&self) -> &str {
        self.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The program that asks, as it calls itself.
    pub(crate) fn user_agent(&self) -> &str {
        self.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body, if it is small enough.
    pub(crate) async fn body(&mut self) -> Option<Bytes> {
        let body = Limited::new(self.body.take()?, BODY_BYTES);
        Some(body.collect().await.ok()?.to_bytes())
    }
}

fn bad_request(text: &'static str) -> Reply {
    Reply::new(StatusCode::BAD_REQUEST, [PLAIN, (header::CONNECTION, "close")], text)
}

/// Percent-decoded; nothing if an escape is broken or the result is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).ok()
}

/// A path without `.`, `..` and empty parts; a slash at the end stays.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let end = if path.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    format!("/{}{end}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_kube_proxys_server_does() {
        for (path, want) in [
            ("/", "/"),
            ("", "/"),
            ("/healthz", "/healthz"),
            ("//healthz", "/healthz"),
            ("/a/../healthz", "/healthz"),
            ("/../../healthz/", "/healthz/"),
            ("/./healthz/.", "/healthz"),
            ("/a/%2e%2e/b", "/a/%2e%2e/b"),
        ] {
            assert_eq!(cleaned(path), want, "{path}");
        }
    }

    #[test]
    fn escapes_are_decoded_or_refused() {
        assert_eq!(decoded("/%68ealthz%2F").as_deref(), Some("/healthz/"));
        for broken in ["%", "%6", "%zz", "%+1", "%ff"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
    }
}
