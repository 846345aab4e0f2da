//! One network namespace of the lab: a node, a pod, the client or the router.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use switchyard_netlink::Family;
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::route::{NextHop, Route, Routes};

use crate::LabError;
use crate::address::Node;

/// A namespace with a name and one address of each family. Copies are handles on the same namespace.
#[derive(Debug, Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    namespace: Arc<Namespace>,
    v4: IpAddr,
    v6: IpAddr,
    /// Held for its drop.
    _cable: Option<Cable>,
}

/// What a pod occupies on its node. Given back when the pod goes.
#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) node: Arc<Namespace>,
    pub(crate) addresses: [IpAddr; 2],
    pub(crate) number: (Node, u8),
    pub(crate) taken: Arc<Mutex<BTreeSet<(Node, u8)>>>,
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The kernel removes wire and namespace some time later; removing the wire here would take it 40 ms. A failure only means
        // that packets for the pod get an answer until then.
        let _ = self.node.run(|| {
            let mut routes = Routes::open()?;
            self.addresses.iter().try_for_each(|address| {
                let prefix = Family::of(*address).bits();
                routes.add_route(&Route { destination: *address, prefix, next_hop: NextHop::Blackhole })
            })
        });
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Host {
    pub(crate) fn new(
        name: &str,
        namespace: Namespace,
        v4: IpAddr,
        v6: IpAddr,
        cable: Option<Cable>,
    ) -> Self {
        let namespace = Arc::new(namespace);
        Self { inner: Arc::new(Inner { name: name.to_owned(), namespace, v4, v6, _cable: cable }) }
    }

    pub(crate) fn namespace(&self) -> &Arc<Namespace> {
        &self.inner.namespace
    }

    /// Its name: `n1`, `n2`, `client`, `router`, or `pod-<node>-<index>`. Echo servers answer with it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its address; the router's is the one towards n1.
    pub fn ip(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.inner.v4,
            Family::V6 => self.inner.v6,
        }
    }

    /// Runs `body` on a fresh thread inside the namespace and waits for it. Sockets that it opens stay in the namespace.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.inner.namespace.run(body).map_err(|source| LabError::Network {
            action: "enter the network namespace",
            host: self.inner.name.clone(),
            source,
        })
    }

    /// Runs a program inside the namespace to its end, whatever its exit status.
    pub fn exec<A: AsRef<OsStr> + Sync>(&self, program: &str, arguments: &[A]) -> Result<Output, LabError> {
        self.feed(program, arguments, &[])
    }

    /// As [`Self::exec`], with `input` on the program's standard input.
    pub fn feed<A: AsRef<OsStr> + Sync>(
        &self,
        program: &str,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Output, LabError> {
        self.run(|| -> std::io::Result<Output> {
            let mut child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let stdin = child.stdin.take();
            // Writing beside reading: a program that answers before it has read everything must not block us.
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    // A program that does not want its input is no error; its exit status tells.
                    let _ = stdin.map(|mut stdin| stdin.write_all(input));
                });
                child.wait_with_output()
            })
        })?
        .map_err(|source| LabError::Io {
            action: format!("run {program}"),
            host: self.name().to_owned(),
            source,
        })
    }

    /// Runs a program that must succeed; returns what it printed.
    pub fn exec_ok<A: AsRef<OsStr> + Sync>(
        &self,
        program: &str,
        arguments: &[A],
    ) -> Result<String, LabError> {
        let output = self.exec(program, arguments)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let arguments: Vec<_> = arguments.iter().map(|a| a.as_ref().to_string_lossy()).collect();
        Err(LabError::Failed {
            program: format!("{program} {}", arguments.join(" ")),
            host: self.name().to_owned(),
            status: output.status,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
