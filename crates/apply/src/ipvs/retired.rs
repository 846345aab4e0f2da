//! Destinations that get no new connections and wait for their last one to end.
//!
//! In: which ones, and what the kernel says of their connections. Out: which ones can go. Time is an argument. Somebody has to
//! look from time to time, because IPVS tells nobody; nobody looks while the list is empty.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use switchyard_netlink::ipvs::{Listed, ServiceId};

/// How long to wait between two looks.
const REST: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Retired {
    waiting: BTreeMap<ServiceId, BTreeSet<SocketAddr>>,
    looked: Option<Instant>,
}

impl Retired {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if it is time to look again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.is_empty() && self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= REST)
    }

    /// Everything was looked at now.
    pub(super) fn looked(&mut self, now: Instant) {
        self.looked = Some(now);
    }

    pub(super) fn has(&self, of: ServiceId, at: SocketAddr) -> bool {
        self.waiting.get(&of).is_some_and(|list| list.contains(&at))
    }

    pub(super) fn add(&mut self, of: ServiceId, list: impl IntoIterator<Item = SocketAddr>) {
        self.waiting.entry(of).or_default().extend(list);
    }

    /// It is wanted again.
    pub(super) fn forget(&mut self, of: ServiceId, at: SocketAddr) {
        if let Some(list) = self.waiting.get_mut(&of) {
            list.remove(&at);
            if list.is_empty() {
                self.waiting.remove(&of);
            }
        }
    }

    /// The virtual server is gone.
    pub(super) fn forget_all(&mut self, of: ServiceId) {
        self.waiting.remove(&of);
    }

    /// The virtual servers to look at.
    pub(super) fn services(&self) -> Vec<ServiceId> {
        self.waiting.keys().copied().collect()
    }

    /// What the kernel lists of a virtual server: takes those off that can go, or are gone, and says which can.
    pub(super) fn look(&mut self, of: ServiceId, listed: &[Listed]) -> Vec<SocketAddr> {
        let Some(list) = self.waiting.get_mut(&of) else { return Vec::new() };
        let mut can_go = Vec::new();
        list.retain(|at| match listed.iter().find(|listed| listed.destination.at == *at) {
            Some(Listed { active: 0, inactive: 0, .. }) => {
                can_go.push(*at);
                false
            }
            Some(_) => true,
            None => false,
        });
        if list.is_empty() {
            self.waiting.remove(&of);
        }
        can_go
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchyard_netlink::ipvs::{Destination, Forwarding};

    fn listed(at: &str, active: u32, inactive: u32) -> Listed {
        let destination =
            Destination { at: at.parse().unwrap(), weight: 0, forwarding: Forwarding::Masquerade };
        Listed { destination, active, inactive }
    }

    #[test]
    fn each_goes_with_its_last_connection_and_nobody_looks_at_an_empty_list() {
        let of = ServiceId { address: "10.96.0.1".parse().unwrap(), protocol: 6, port: 80 };
        let now = Instant::now();
        let at = |text: &str| text.parse().unwrap();
        let mut retired = Retired::default();
        assert!(!retired.is_due(now));
        retired.add(of, [at("10.1.0.1:80"), at("10.1.0.2:80"), at("10.1.0.3:80"), at("10.1.0.4:80")]);
        assert!(retired.is_due(now));
        retired.forget(of, at("10.1.0.4:80"));
        let first = [listed("10.1.0.1:80", 1, 0), listed("10.1.0.2:80", 0, 0), listed("10.1.0.9:80", 0, 0)];
        assert_eq!(retired.look(of, &first), [at("10.1.0.2:80")]);
        retired.looked(now);
        assert!(!retired.is_due(now + REST / 2) && retired.is_due(now + REST));
        assert!(retired.has(of, at("10.1.0.1:80")) && !retired.has(of, at("10.1.0.3:80")));
        assert_eq!(retired.look(of, &[listed("10.1.0.1:80", 0, 1)]), []);
        assert_eq!(retired.look(of, &[listed("10.1.0.1:80", 0, 0)]), [at("10.1.0.1:80")]);
        assert!(retired.is_empty() && !retired.is_due(now + REST * 9));
    }
}
