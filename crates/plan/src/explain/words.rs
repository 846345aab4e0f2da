//! The explanation in words: one sentence per decision, which names what to look at.

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter, Result};

use super::manners::Method;
use super::{Chooser, Exclusion, Named, Pick, Reason, Source};
use crate::route::{Client, FrontendKind, Pool};
use crate::trace::Seen;

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Picked(pick) => write!(f, "{pick}"),
            Self::NoEndpoints => {
                f.write_str("the Service has no endpoints: do its selector and its port fit any pod?")
            }
            Self::NoneUsable => {
                f.write_str("no endpoint is ready, and none still answers while it shuts down")
            }
            Self::NoneHere => f.write_str("the policy is Local, and no usable endpoint is on this node"),
            Self::SourceNotAllowed => f.write_str("the source is in none of loadBalancerSourceRanges"),
            Self::NoSuchPort(named) => write!(f, "{named}"),
            Self::Unallocated(range) => {
                write!(f, "the address is in the range {range} of cluster IPs, and no Service has it")
            }
            Self::NotRelayed(protocol) => {
                write!(f, "userspace mode cannot relay {protocol}; use another mode")
            }
            Self::NotOnThisAddress(name, ip) => {
                let place =
                    if ip.is_loopback() { "loopback addresses" } else { "this address (nodePortAddresses)" };
                write!(f, "{name} has this node port, but node ports are not served on {place}")
            }
            Self::DialInstead(name, at) => {
                write!(f, "no rule leads to {name} here; on this host dial {at} instead")
            }
            Self::NoListener(name) => write!(
                f,
                "no rule leads to {name} here, and nothing listens for it: `switchyard get quarantine` says why"
            ),
            Self::OnlyFromThisNode => f.write_str("only this host can dial its loopback addresses"),
            Self::HealthCheck(service) => {
                write!(f, "the node itself answers health checks of {service} on this port")
            }
            Self::NotOurs => f.write_str("no Service has this address, protocol and port"),
        }
    }
}

impl Display for Pick {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let place = match self.pool {
            Pool::Cluster => "",
            Pool::Local => " on this node (the policy is Local)",
        };
        write!(f, "one of the usable endpoints{place}, {}", self.chooser)?;
        match self.affinity {
            Some(seconds) => {
                write!(f, "; a client that was here in the last {seconds} s goes back to the same one")
            }
            None => Ok(()),
        }
    }
}

impl Display for Chooser {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = match self {
            Self::Lot => return f.write_str("each with the same odds"),
            Self::Turns => return f.write_str("which take turns"),
            Self::Scheduler(name) => name,
        };
        let how = match Method::of(name) {
            Method::Turns => "which take turns",
            Method::LeastBusy => "the one with the fewest connections",
            Method::Client => "for each client address always the same",
            Method::ClientAndPort => "for each client address and port always the same",
            Method::Dialled => "for each address that is dialled always the same",
            Method::Own => "as IPVS decides",
        };
        write!(f, "{how} (scheduler {name})")
    }
}

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let article = if self.kind == FrontendKind::ExternalIp { "an" } else { "a" };
        let services: BTreeSet<_> = self.owners.iter().map(|(name, _)| &name.service).collect();
        let have = if services.len() > 1 { "its Services have" } else { "its Service has" };
        write!(f, "the address is {article} {}, but {have} only ", self.kind)?;
        for (number, (name, port)) in self.owners.iter().enumerate() {
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
            Self::NotRelayed => "the proxy does not speak its protocol",
        })
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::KeptForLocalPod => "kept: the client is a pod of this node",
            Self::KeptWithoutDetector => {
                "kept: pods are not told from other clients (detectLocalMode has no range of pods to go by)"
            }
            Self::KeptByPolicy => "kept: the external policy is Local",
            Self::KeptOnNode => "kept: the endpoint is in the node's own network",
            Self::ReplacedForAll => "replaced by the node's: all traffic is masqueraded",
            Self::ReplacedForVirtualAddress => {
                "replaced by the node's: the node would send from the address that it dials"
            }
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
