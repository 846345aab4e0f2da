//! The addresses of this node, listed when one comes or goes and not before.
//!
//! Node ports may be limited to some addresses; those who plan ask here, and the board is told when the list is another.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use switchyard_netlink::NetlinkError;
use switchyard_netlink::route::{AddressMonitor, Routes};

use crate::board::Board;
use crate::sync::with_causes;

/// A list that fails is tried again after this.
const REST: Duration = Duration::from_secs(5);

/// Names of interfaces and their addresses.
pub type AddressList = Arc<[(String, IpAddr)]>;

/// See the module.
#[derive(Debug)]
pub struct Addresses(Mutex<AddressList>);

impl Addresses {
    /// No address: for those who do not look at them.
    pub fn none() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Arc::default())))
    }

    /// Lists the addresses and keeps the list up to date. The thread ends with the process.
    pub fn watch(board: &Arc<Board>) -> anyhow::Result<Arc<Self>> {
        // Before the first list, so that nothing is missed.
        let monitor = AddressMonitor::open().context("cannot listen to changes of this node's addresses")?;
        let first = list().context("cannot list this node's addresses, which --nodeport-addresses needs")?;
        let addresses = Arc::new(Self(Mutex::new(first)));
        let (kept, board) = (addresses.clone(), board.clone());
        let follow = move || follow(monitor, &kept, &board);
        thread::Builder::new().name("addresses".into()).spawn(follow)?;
        Ok(addresses)
    }

    /// The addresses now.
    pub fn now(&self) -> AddressList {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if the list is another one.
    fn replace(&self, list: AddressList) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *held != list;
        *held = list;
        is_new
    }
}

fn list() -> Result<AddressList, NetlinkError> {
    let listed = Routes::open()?.addresses()?;
    // What ipvs mode puts there is no news.
    let others = listed.into_iter().filter(|a| a.interface != switchyard_apply::ipvs::LINK);
    Ok(others.map(|a| (a.interface, a.address)).collect())
}

fn follow(mut monitor: AddressMonitor, addresses: &Addresses, board: &Board) {
    let mut told = String::new();
    loop {
        match monitor.wait().and_then(|()| list()) {
            Ok(list) => {
                told.clear();
                if addresses.replace(list) {
                    board.look_again();
                }
            }
            Err(error) => {
                let cause = with_causes(&error);
                if told != cause {
                    tracing::warn!(%cause, "cannot follow this node's addresses; node ports stay on those that are known");
                }
                told = cause;
                thread::sleep(REST);
            }
        }
    }
}
