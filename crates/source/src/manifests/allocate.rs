//! Cluster IPs for Services that name none.
//!
//! In: all Services, and which of them want addresses. Out: the same Services with addresses out of the ranges.
//!
//! Invariants
//! - An address follows from namespace and name, so it mostly survives a restart; a collision takes the next free one.
//! - An address that was given once stays, until its Service goes or another Service names that address explicitly.
//! - Network and (IPv4) broadcast addresses are never given.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::{Family, Service, ServiceName};

use crate::convert::FamilyWish;

/// Addresses that are tried before a range counts as full.
const MAX_PROBES: u128 = 1 << 17;

/// A Service, and which addresses it still needs.
pub(super) struct Applicant<'a> {
    pub(super) service: Arc<Service>,
    pub(super) wish: Option<&'a FamilyWish>,
}

/// Gives addresses out of ranges.
#[derive(Debug)]
pub(super) struct Allocator {
    ranges: Vec<IpNet>,
    given: BTreeMap<(ServiceName, Family), IpAddr>,
}

impl Allocator {
    /// Nothing is given yet.
    pub(super) fn new(ranges: Vec<IpNet>) -> Self {
        Self { ranges, given: BTreeMap::new() }
    }

    /// Completes the Services with a wish, which must be in the order of their names; returns for whom there was no
    /// address, and why.
    pub(super) fn assign(&mut self, services: &mut [Applicant<'_>]) -> Vec<(ServiceName, &'static str)> {
        if self.given.is_empty() && services.iter().all(|s| s.wish.is_none()) {
            return Vec::new();
        }
        let named = services.iter().flat_map(|s| s.service.cluster_ips.iter().copied());
        let named: BTreeSet<IpAddr> = named.collect();
        self.given.retain(|(name, family), address| {
            let known = services.binary_search_by(|s| s.service.name.cmp(name)).ok();
            let wish = known.and_then(|at| services.get(at)).and_then(|s| s.wish);
            let is_wanted = wish.is_some_and(|wish| families(wish, &self.ranges).contains(family));
            is_wanted && !named.contains(address)
        });
        let mut taken: BTreeSet<IpAddr> = named.iter().chain(self.given.values()).copied().collect();
        let mut refused = Vec::new();
        for Applicant { service, wish } in services {
            let Some(wish) = wish else { continue };
            let service = Arc::make_mut(service);
            let name = &service.name;
            for family in families(wish, &self.ranges) {
                match self.address(name, family, &taken) {
                    Some(address) => {
                        taken.insert(address);
                        service.cluster_ips.push(address);
                    }
                    None => refused.push((name.clone(), self.reason(family))),
                }
            }
            if service.cluster_ips.is_empty() && self.ranges.is_empty() {
                refused.push((name.clone(), "no range for cluster IPs is configured"));
            }
            service.cluster_ips.sort_by_key(|&address| Family::of(address));
        }
        refused
    }

    fn reason(&self, family: Family) -> &'static str {
        let has_range = self.ranges.iter().any(|&range| family_of(range) == family);
        if has_range { "the range for cluster IPs is full" } else { "no range of its family is configured" }
    }

    fn address(&mut self, name: &ServiceName, family: Family, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        let key = (name.clone(), family);
        if let Some(&address) = self.given.get(&key) {
            return Some(address);
        }
        let hash = fingerprint(name);
        let ranges = self.ranges.iter().filter(|&&range| family_of(range) == family);
        let address = ranges.filter_map(|&range| free_address(range, hash, taken)).next()?;
        self.given.insert(key, address);
        Some(address)
    }
}

fn family_of(range: IpNet) -> Family {
    Family::of(range.addr())
}

/// The families in which a Service gets an address: those it names, else the first range's; both if it prefers both and
/// there are ranges.
fn families(wish: &FamilyWish, ranges: &[IpNet]) -> Vec<Family> {
    let mut wanted = wish.families.clone();
    if wanted.is_empty() {
        wanted.extend(ranges.first().map(|&range| family_of(range)));
    }
    if wish.is_dual_stack {
        let others = Family::ALL.into_iter().filter(|&f| ranges.iter().any(|&range| family_of(range) == f));
        for family in others {
            if !wanted.contains(&family) {
                wanted.push(family);
            }
        }
    }
    wanted
}

/// FNV-1a: small, and the same in every build.
fn fingerprint(name: &ServiceName) -> u64 {
    name.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The first free address from the one that the hash points at.
fn free_address(range: IpNet, hash: u64, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let host_bits = u32::from(range.max_prefix_len() - range.prefix_len());
    let size = 1_u128.checked_shl(host_bits).unwrap_or(u128::MAX);
    let (first, count) = match (range, host_bits) {
        (_, 0) => (0, 1),
        (IpNet::V4(_), 1) => (0, 2),
        (IpNet::V4(_), _) => (1, size - 2),
        (IpNet::V6(_), _) => (1, size - 1),
    };
    let start = u128::from(hash) % count;
    (0..count.min(MAX_PROBES))
        .map(|n| nth_address(range, first + (start + n) % count))
        .find(|address| !taken.contains(address))
}

fn nth_address(range: IpNet, n: u128) -> IpAddr {
    match range.network() {
        IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits() | u32::try_from(n).unwrap_or(0)).into(),
        IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits() | n).into(),
    }
}
