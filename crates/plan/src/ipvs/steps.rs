//! What is written, in this order:
//!
//! 1. [`Steps::rules`]: one transaction with all changes of rules but those of step 4. New frontends are known and marked for
//!    masquerading before anything is sent to them; what has nowhere to go is refused before its destinations go.
//! 2. [`Steps::grow`]: virtual servers, each with its destinations; then addresses. A packet that arrives at a new address
//!    finds its virtual server.
//! 3. [`Steps::shrink`]: destinations that go, virtual servers, then addresses.
//! 4. [`Steps::forget`]: what remembered them, see [`super::ownership`].
//!
//! Any prefix leaves every connection that stays wanted where it is, and nothing of ours that the next start would not know.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use switchyard_model::ServicePortName;

use super::{Options, Server};
use crate::nft::ops::Op as RuleOp;

/// One change outside of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes a virtual server.
    AddServer(Server, Options),
    /// Changes one; its destinations stay.
    SetServer(Server, Options),
    /// Removes one with all its destinations.
    DeleteServer(Server),
    /// Adds a destination, or takes one back that was about to go.
    AddDestination(Server, SocketAddr),
    /// No new connections for a destination; it goes once it has no connection, or at once if nobody could tell.
    Retire(Server, SocketAddr),
    /// Gives the link an address.
    AddAddress(IpAddr),
    /// Takes one away.
    RemoveAddress(IpAddr),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = |f: &mut fmt::Formatter<'_>, options: &Options| {
            write!(f, " {}", options.scheduler)?;
            if options.flags != 0 {
                write!(f, " flags {:#x}", options.flags)?;
            }
            options.sticky.map_or(Ok(()), |seconds| write!(f, " sticky {seconds}s"))
        };
        match self {
            Self::AddServer(server, how) => write!(f, "add server {server}").and_then(|()| options(f, how)),
            Self::SetServer(server, how) => write!(f, "set server {server}").and_then(|()| options(f, how)),
            Self::DeleteServer(server) => write!(f, "delete server {server}"),
            Self::AddDestination(server, to) => write!(f, "add destination {to} of {server}"),
            Self::Retire(server, to) => write!(f, "retire destination {to} of {server}"),
            Self::AddAddress(ip) => write!(f, "add address {ip}"),
            Self::RemoveAddress(ip) => write!(f, "remove address {ip}"),
        }
    }
}

/// A step and whose it is, so that a refusal can be blamed on a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub step: Step,
    /// Whose; `None` if nobody wants it any more, or many do.
    pub owner: Option<ServicePortName>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Rules first.
    pub rules: Vec<RuleOp>,
    /// Then what is new.
    pub grow: Vec<Op>,
    /// Then what goes.
    pub shrink: Vec<Op>,
    /// Rules last.
    pub forget: Vec<RuleOp>,
}

impl Steps {
    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.rules.len() + self.grow.len() + self.shrink.len() + self.forget.len()
    }
}
