//! The explanation in words: one sentence per decision, which names what to look at.

use std::fmt::{Display, Formatter, Result};

use switchyard_model::ServicePortName;

use super::{Exclusion, Reason, Source};
use crate::route::{Client, FrontendKind, Pool};
use crate::trace::Seen;

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Picked(Pool::Cluster) => {
                f.write_str("one of the usable endpoints, each with the same odds")
            }
            Self::Picked(Pool::Local) => f.write_str(
                "one of the usable endpoints on this node, each with the same odds: the policy is Local",
            ),
            Self::NoEndpoints => {
                f.write_str("the Service has no endpoints: do its selector and its port fit any pod?")
            }
            Self::NoneUsable => {
                f.write_str("no endpoint is ready, and none still answers while it shuts down")
            }
            Self::NoneHere => f.write_str("the policy is Local, and no usable endpoint is on this node"),
            Self::SourceNotAllowed => f.write_str("the source is in none of loadBalancerSourceRanges"),
            Self::NoSuchPort(owners) => {
                write!(f, "the address is a cluster IP, but its Service has only {}", Names(owners))
            }
            Self::Unallocated(range) => {
                write!(f, "the address is in the range {range} of cluster IPs, and no Service has it")
            }
            Self::NotOnThisAddress(name) => {
                write!(
                    f,
                    "{name} has this node port, but node ports are not served on this address (nodePortAddresses)"
                )
            }
            Self::NotOurs => f.write_str("no Service has this address, protocol and port"),
        }
    }
}

/// A list of service ports.
struct Names<'a>(&'a [(ServicePortName, u16)]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (number, (name, port)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{port}/{} ({name})", name.protocol)?;
        }
        Ok(())
    }
}

impl Display for Exclusion {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::NotReady => "not ready",
            Self::Ended => "shutting down, and not serving any more",
            Self::Ending => "shutting down, and others are ready",
            Self::OtherNode => "on another node, and the policy is Local",
            Self::HintedForOtherNode => "its hints name another node",
            Self::HintedForOtherZone => "its hints name another zone",
            Self::SenderRefused => "the sender is not in loadBalancerSourceRanges",
        })
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::KeptForLocalPod => "kept: the client is a pod of this node",
            Self::KeptWithoutDetector => {
                "kept: pods are not told from other clients (no cluster CIDR is set)"
            }
            Self::KeptByPolicy => "kept: the external policy is Local",
            Self::KeptOnNode => "kept: the endpoint is in the node's own network",
            Self::ReplacedForAll => "replaced by the node's: all traffic is masqueraded",
            Self::ReplacedForOutsider => "replaced by the node's: the client is not a pod of this node",
            Self::ReplacedForWayBack => "replaced by the node's: the answer must come back through this node",
            Self::ReplacedByRelay => "the node's: the proxy itself dials the endpoint",
            Self::ReplacedForHairpin => "replaced by the node's: the client is the endpoint itself",
        })
    }
}

impl Display for Seen {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Node => "node",
        })
    }
}

impl Display for Client {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::LocalPod => "a pod of this node",
            Self::ThisNode => "this node",
            Self::Anyone => "anyone",
        })
    }
}

impl Display for FrontendKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::ClusterIp => "cluster IP",
            Self::ExternalIp => "external IP",
            Self::LoadBalancerIp => "load-balancer IP",
            Self::NodePort => "node port",
        })
    }
}
