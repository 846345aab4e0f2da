//! The API server with its objects: Services by number, of which a few are alive, and a few more that the measurements change.
//!
//! The endpoints of a Service that is alive are pods that every lab has; those of all others are addresses that nobody has, which is the
//! same work for a proxy. Sizes only grow.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use switchyard_lab::Family;
use switchyard_lab::Node;
use switchyard_lab::address;

use crate::e2e::bulk::Crowd;
use crate::e2e::control_plane::ControlPlane;
use crate::progress::Progress;
use crate::seed::Template;

/// Endpoints of each Service.
const ENDPOINTS: u32 = 5;

/// Numbers of the pods on n1 that answer for Services that are alive.
pub(crate) const PODS: [u8; 5] = [1, 2, 3, 4, 5];

/// Numbers of the pods on n1 that replace each other.
pub(crate) const ROLLING: [u8; 5] = [11, 12, 13, 14, 15];

/// The Service of one endpoint, which is replaced again and again.
pub(crate) const SWITCHED: u32 = 0;

/// The Service whose pods replace each other.
pub(crate) const ROLLED: u32 = 1;

/// Longer than any run.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// See the module.
pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    pub(crate) objects: Objects,
    services: u32,
}

/// Which objects there are, for any thread.
pub(crate) struct Objects {
    pub(crate) crowd: Crowd,
    /// Beside the Services that are counted.
    pub(crate) special: Crowd,
    alive: BTreeSet<u32>,
    /// Services whose endpoints are not those of the first generation, but of the second.
    second: Mutex<BTreeSet<u32>>,
    /// Which of [`PODS`] is the endpoint of [`SWITCHED`].
    switched: AtomicUsize,
}

impl Cluster {
    /// With no Service but the special ones; prints why there can be none. `sizes` are those that it may have later.
    pub(crate) fn start(sizes: &[u32]) -> Option<Self> {
        let control_plane = ControlPlane::start_or_skip()?;
        control_plane.renew_token(TOKEN_LIFETIME);
        make_node(&control_plane);
        let crowd = Crowd::new(&control_plane, "crowd", 100);
        let special = Crowd::new(&control_plane, "special", 101);
        let first = |n| vec![pod(if n == SWITCHED { PODS[0] } else { ROLLING[0] })];
        special.create(SWITCHED..ROLLED + 1, first).unwrap();
        let alive = sizes.iter().flat_map(|size| alive_of(*size)).collect();
        let (second, switched) = Default::default();
        Some(Self {
            control_plane,
            objects: Objects { crowd, special, alive, second, switched },
            services: 0,
        })
    }

    /// Adds Services until there are this many.
    pub(crate) fn grow(&mut self, services: u32, progress: &Progress) -> anyhow::Result<()> {
        if services > self.services {
            let (begin, more) = (Instant::now(), services - self.services);
            progress.tell(&format!("creating {more} Services with their slices"));
            let objects = &self.objects;
            let template = Template::of(&self.control_plane.api(), &objects.special, SWITCHED)?;
            let endpoints = |n| objects.endpoints(n, Generation::First);
            template.copy(&self.control_plane, &objects.crowd, self.services..services, endpoints)?;
            let rate = f64::from(more * 2) / begin.elapsed().as_secs_f64();
            progress.tell(&format!("created, {rate:.0} objects a second"));
            self.services = services;
        }
        Ok(())
    }
}

impl Objects {
    /// The endpoints of a Service. Those of the other generation have other addresses, unless they are alive.
    fn endpoints(&self, n: u32, generation: Generation) -> Vec<String> {
        if self.is_alive(n) {
            return PODS.map(pod).to_vec();
        }
        let address = |endpoint: u32| {
            let before = if generation == Generation::First { 0 } else { Crowd::MOST * ENDPOINTS };
            let [_, high, middle, low] = (before + n * ENDPOINTS + endpoint).to_be_bytes();
            format!("10.{}.{middle}.{low}", 128 + high)
        };
        (0..ENDPOINTS).map(address).collect()
    }

    /// Endpoints of a Service that it does not have now, whichever proxy the last ones were written for.
    pub(crate) fn other_endpoints(&self, n: u32) -> Vec<String> {
        let mut second = self.second.lock().unwrap();
        let generation = if second.remove(&n) { Generation::First } else { Generation::Second };
        if generation == Generation::Second {
            second.insert(n);
        }
        self.endpoints(n, generation)
    }

    /// Which of [`PODS`] is not the endpoint of [`SWITCHED`], and is from now on.
    pub(crate) fn switch(&self) -> usize {
        1 - self.switched.fetch_xor(1, Ordering::Relaxed)
    }

    /// True if its endpoints are pods.
    pub(crate) fn is_alive(&self, n: u32) -> bool {
        self.alive.contains(&n)
    }

    /// Services of this size that answer, the last first.
    pub(crate) fn answering(&self, services: u32) -> Vec<SocketAddr> {
        alive_of(services).into_iter().rev().map(|n| at(&self.crowd, n)).collect()
    }
}

/// What clients of a Service dial.
pub(crate) fn at(crowd: &Crowd, n: u32) -> SocketAddr {
    SocketAddr::new(crowd.cluster_ip(n).parse().unwrap(), 80)
}

/// Which endpoints a Service has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    First,
    Second,
}

/// First, last, and some between.
fn alive_of(services: u32) -> [u32; 5] {
    [0, services / 4, services / 2, services / 4 * 3, services.saturating_sub(1)]
}

/// The address of a pod on n1.
pub(crate) fn pod(index: u8) -> String {
    address::pod(Node::N1, index, Family::V4).unwrap().to_string()
}

/// kube-proxy reads the addresses of its node there.
fn make_node(control_plane: &ControlPlane) {
    let address = |family| json!({ "type": "InternalIP", "address": address::node(Node::N1, family) });
    let addresses = [address(Family::V4), address(Family::V6)];
    let node = json!({ "metadata": { "name": "n1" }, "status": { "addresses": addresses } });
    control_plane.api().create("/api/v1/nodes", &node).unwrap();
}
