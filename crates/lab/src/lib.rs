//! A small cluster of network namespaces: two nodes, their pods, an outside client and a router between them.
//!
//! ```text
//!   pod 1.0   pod 1.1 ...          pod 2.0   pod 2.1 ...
//!      │         │                    │         │         one veth per pod, host routes (/32, /128), no bridge:
//!   ┌──┴─────────┴──┐             ┌───┴─────────┴──┐      also traffic between pods of one node is routed by the node
//!   │      n1       │             │       n2       │
//!   └───────┬───────┘             └───────┬────────┘
//!           └───────────┬─────────────────┘
//!                    router ─────────── client
//! ```
//!
//! In: calls from tests, the demo and benchmarks. Out: who answered, and from which address they saw the question come. Everything
//! is made over netlink and held by file descriptors: when the [`Lab`] is dropped, or the process dies, the kernel removes it all.
//! (A program started with [`Host::start`] outlives a *killed* lab process, and its namespace with it.)
//!
//! Addresses are in [`address`]. Both families are always there; nothing waits for duplicate address detection. The router sends
//! cluster IPs, load-balancer IPs and external IPs to n1, so the client can dial them. Nothing tracks connections until a rule on a
//! node asks for it. An address of a service range that no rule translates, and that of a pod that does not exist, is
//! dropped silently: an [`Answer::Timeout`].
//!
//! A node reaches its own pods from the pods' gateway address, which its side of every veth carries. So does masqueraded traffic to a
//! local pod; to a pod of the other node it comes from the node's own address.

pub mod address;
mod dial;
mod echo;
mod held;
mod host;
mod process;
pub mod scenario;
mod topology;

pub use address::Node;
pub use dial::{Answer, Dial, Tally, Transport};
pub use echo::Echo;
pub use held::Held;
pub use host::Host;
pub use process::Process;
pub use switchyard_netlink::Family;
pub use topology::Lab;

/// Why the lab cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refused a part of the network.
    #[error("cannot {action} for {host}")]
    Network {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The namespace that it was for.
        host: String,
        /// The kernel's answer.
        #[source]
        source: switchyard_netlink::NetlinkError,
    },
    /// A file, a socket or a program failed.
    #[error("cannot {action} on {host}")]
    Io {
        /// What was tried, as a verb phrase.
        action: String,
        /// The namespace that it was for.
        host: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A program ran and reported failure.
    #[error("{program} failed on {host} ({status}): {stderr}")]
    Failed {
        /// The program with its arguments.
        program: String,
        /// The namespace that it ran in.
        host: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it said.
        stderr: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen in time; the log ends with: {log_end}")]
    Late {
        /// What was waited for.
        what: String,
        /// The end of the log.
        log_end: String,
    },
    /// A pod with this number runs already.
    #[error("{name} exists; drop it before adding it again")]
    PodExists {
        /// The pod.
        name: String,
    },
    /// A link of the lab did not come up.
    #[error("a link of {host} did not come up in time")]
    Carrier {
        /// The namespace with the link.
        host: String,
    },
    /// There is no address for this pod.
    #[error("pod number {index} has no address: numbers go from 0 to {}", address::LAST_POD)]
    PodIndex {
        /// The number.
        index: u8,
    },
}
