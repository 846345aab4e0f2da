//! Very many objects of a real API server, quickly: several kept-alive connections of HTTP 1.1 to the socket of the control plane.
//!
//! In: requests, or numbers of Services. Out: what the API server said no to. Requests of one call are made in any order.
//!
//! [`Line`] is one such connection, for requests that must not wait for a connection to be made. [`Crowd`] is Services by number, each with
//! one slice, in a namespace of its own.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::api::{Api, Refused};
use super::control_plane::ControlPlane;

/// As many requests are under way at a time.
const LINES: usize = 8;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request of many.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Request {
    /// POST to a list.
    pub(crate) fn create(list: &str, object: Value) -> Self {
        Self { method: "POST", path: list.to_owned(), body: Some(object) }
    }

    /// PUT without a version: whatever is there is replaced.
    pub(crate) fn replace(list: &str, object: Value) -> Self {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        Self { method: "PUT", path: format!("{list}/{name}"), body: Some(object) }
    }

    /// DELETE.
    pub(crate) fn delete(list: &str, name: &str) -> Self {
        Self { method: "DELETE", path: format!("{list}/{name}"), body: None }
    }
}

/// Makes requests number 0 to `count`; the first refusal ends it, but for those that are under way.
pub(crate) fn send_all(
    socket: &Path,
    count: usize,
    request: impl Fn(usize) -> Request + Sync,
) -> Result<(), Refused> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut line = Line::open(socket).unwrap();
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.take_while(|n| *n < count).try_for_each(|n| line.send(&request(n)).map(drop))
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..LINES.min(count)).map(|_| scope.spawn(work)).collect();
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        ends.into_iter().collect()
    })
}

/// A connection that stays open between requests.
pub(crate) struct Line {
    stream: BufReader<UnixStream>,
}

impl Line {
    pub(crate) fn open(socket: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Makes one request; what the API server answers is not looked at if it agrees.
    pub(crate) fn send(&mut self, request: &Request) -> Result<Vec<u8>, Refused> {
        let (status, body) = self.exchange(request).unwrap();
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = value.get("message").and_then(Value::as_str).unwrap_or_default();
        Err(Refused { status, message: format!("{message} ({} {})", request.method, request.path) })
    }

    fn exchange(&mut self, request: &Request) -> std::io::Result<(u16, Vec<u8>)> {
        let body = request.body.as_ref().map(ToString::to_string).unwrap_or_default();
        let Request { method, path, .. } = request;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        self.stream.get_mut().write_all((head + &body).as_bytes())?;
        let status = self.line()?.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        let mut body = Body::None;
        loop {
            let header = self.line()?.to_ascii_lowercase();
            match header.split_once(':') {
                Some(("content-length", value)) => {
                    body = Body::Length(value.trim().parse().map_err(|_| ErrorKind::InvalidData)?);
                }
                Some(("transfer-encoding", _)) => body = Body::Chunks,
                Some(_) => {}
                None => break,
            }
        }
        Ok((status, self.body(&body)?))
    }

    /// A line without its end.
    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the API server ended the connection")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn body(&mut self, body: &Body) -> std::io::Result<Vec<u8>> {
        match body {
            Body::None => Ok(Vec::new()),
            Body::Length(length) => self.bytes(*length),
            Body::Chunks => {
                let mut all = Vec::new();
                loop {
                    let length =
                        usize::from_str_radix(&self.line()?, 16).map_err(|_| ErrorKind::InvalidData)?;
                    all.append(&mut self.bytes(length)?);
                    self.line()?;
                    if length == 0 {
                        return Ok(all);
                    }
                }
            }
        }
    }

    fn bytes(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// How long the body of an answer is.
enum Body {
    None,
    Length(usize),
    Chunks,
}

/// Services `svc-00000`, `svc-00001`... of IPv4 with port 80, each with one slice of the same name, in a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    socket: PathBuf,
    namespace: String,
    /// The second byte of cluster IPs, which lie in 10.x.0.0/16.
    net: u8,
}

impl Crowd {
    /// At most this many.
    pub(crate) const MOST: u32 = 65_000;

    /// A crowd without members yet. Two crowds need two namespaces and two values of `net`, between 97 and 111.
    pub(crate) fn new(control_plane: &ControlPlane, namespace: &str, net: u8) -> Self {
        let socket = control_plane.path("api.sock");
        Api::new(socket.clone()).ensure_namespace(namespace);
        Self { socket, namespace: namespace.to_owned(), net }
    }

    /// Creates Services, and slices with the endpoints that `endpoints` says: addresses, all ready, port 8080.
    pub(crate) fn create(
        &self,
        numbers: Range<u32>,
        endpoints: impl Fn(u32) -> Vec<String> + Sync,
    ) -> Result<(), Refused> {
        self.send_twice(numbers, |n, is_service| match is_service {
            true => Request::create(&self.services(), self.service(n)),
            false => Request::create(&self.slices(), self.slice(n, &endpoints(n))),
        })
    }

    /// Replaces the endpoints of one Service. The revision of the slice then: a write that changes nothing leaves the old one.
    pub(crate) fn roll(&self, line: &mut Line, n: u32, endpoints: &[String]) -> Result<u64, Refused> {
        let answer = line.send(&Request::replace(&self.slices(), self.slice(n, endpoints)))?;
        let slice: Value = serde_json::from_slice(&answer).unwrap();
        let revision = slice.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Ok(revision.and_then(|revision| revision.parse().ok()).unwrap())
    }

    /// Deletes Services and slices.
    pub(crate) fn delete(&self, numbers: Range<u32>) -> Result<(), Refused> {
        self.send_twice(numbers, |n, is_service| match is_service {
            true => Request::delete(&self.services(), &Self::name(n)),
            false => Request::delete(&self.slices(), &Self::name(n)),
        })
    }

    /// Where the requests of a [`Line`] go.
    pub(crate) fn line(&self) -> Line {
        Line::open(&self.socket).unwrap()
    }

    /// The cluster IP of a Service.
    pub(crate) fn cluster_ip(&self, n: u32) -> String {
        format!("10.{}.{}.{}", self.net, n / 256, n % 256)
    }

    /// One request for the Service and one for the slice of each number.
    fn send_twice(
        &self,
        numbers: Range<u32>,
        request: impl Fn(u32, bool) -> Request + Sync,
    ) -> Result<(), Refused> {
        assert!(numbers.end <= Self::MOST, "a crowd has at most {}", Self::MOST);
        let all: Vec<u32> = numbers.collect();
        send_all(&self.socket, all.len() * 2, |index| {
            request(all.get(index / 2).copied().unwrap(), index % 2 == 0)
        })
    }

    /// Of a Service and its slice.
    pub(crate) fn name(n: u32) -> String {
        format!("svc-{n:05}")
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Where the API server has a Service.
    pub(crate) fn service_path(&self, n: u32) -> String {
        format!("{}/{}", self.services(), Self::name(n))
    }

    /// Where the API server has its slice.
    pub(crate) fn slice_path(&self, n: u32) -> String {
        format!("{}/{}", self.slices(), Self::name(n))
    }

    fn services(&self) -> String {
        format!("/api/v1/namespaces/{}/services", self.namespace)
    }

    fn slices(&self) -> String {
        format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", self.namespace)
    }

    /// What is asked for: the Service.
    pub(crate) fn service(&self, n: u32) -> Value {
        let ip = self.cluster_ip(n);
        json!({
            "metadata": { "name": Self::name(n), "namespace": self.namespace },
            "spec": { "clusterIP": ip, "clusterIPs": [ip], "ports": [{ "port": 80, "targetPort": 8080 }] },
        })
    }

    /// What is asked for: its slice.
    pub(crate) fn slice(&self, n: u32, endpoints: &[String]) -> Value {
        let endpoint =
            |ip: &String| json!({ "addresses": [ip], "conditions": { "ready": true }, "nodeName": "n2" });
        let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
        json!({
            "metadata": {
                "name": Self::name(n), "namespace": self.namespace,
                "labels": { "kubernetes.io/service-name": Self::name(n) },
            },
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{ "name": "", "port": 8080 }],
        })
    }
}
