//! Which endpoint has which slot.
//!
//! In: the endpoints of one service port by who may use them. Out: a slot number for each, the same for all frontends
//! of the port.
//!
//! A random number picks a slot, so the slots of a pool are a [`Window`]: consecutive, without gaps. Ports that only
//! ever use the cluster pool count from 0. For Local policy both pools share their slots around [`MIDDLE`], so that an
//! endpoint in both pools costs one element:
//!
//! ```text
//!            MIDDLE
//!   far far far | both both | near          far: cluster pool only; near: local pool only (hints, last resort)
//!   ^------ cluster ------^
//!               ^---- local -----^
//! ```
//!
//! Invariants
//! - An endpoint keeps its slot for as long as its pool's slots allow: a change of one endpoint alters two slots, three
//!   if some endpoints are near.
//! - A pool has at most [`MAX`] slots; endpoints beyond that are left out and counted.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use crate::route::{Pool, PortRoutes};

/// Slots of the local pool begin here.
pub const MIDDLE: u16 = 1 << 15;

/// Slots that a pool can have.
pub const MAX: usize = 1 << 15;

/// Consecutive slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The first one.
    pub start: u16,
    /// How many.
    pub count: u32,
}

impl Window {
    /// True if the slot is one of them.
    pub fn contains(self, slot: u16) -> bool {
        slot.checked_sub(self.start).is_some_and(|index| u32::from(index) < self.count)
    }

    /// All of them, in order.
    pub fn slots(self) -> impl Iterator<Item = u16> {
        let start = u32::from(self.start);
        (start..start.saturating_add(self.count)).filter_map(|slot| u16::try_from(slot).ok())
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// By slot.
    placed: Vec<(u16, SocketAddr)>,
    cluster: Window,
    local: Window,
    left_out: usize,
}

/// Endpoints by the pools that they are in.
struct Classes {
    far: Vec<SocketAddr>,
    both: Vec<SocketAddr>,
    near: Vec<SocketAddr>,
    left_out: usize,
}

impl Slots {
    /// No slots.
    pub(super) const NONE: Self = Self {
        placed: Vec::new(),
        cluster: Window { start: 0, count: 0 },
        local: Window { start: 0, count: 0 },
        left_out: 0,
    };

    /// Slots as an earlier run left them. Good for nothing but [`Self::settle`].
    pub fn left_behind(placed: impl IntoIterator<Item = (u16, SocketAddr)>) -> Self {
        Self { placed: placed.into_iter().collect(), ..Self::default() }
    }

    /// Endpoints by slot.
    pub fn placed(&self) -> &[(u16, SocketAddr)] {
        &self.placed
    }

    /// The slots of a pool.
    pub fn window(&self, pool: Pool) -> Window {
        match pool {
            Pool::Cluster => self.cluster,
            Pool::Local => self.local,
        }
    }

    /// Endpoints for which no slot was left.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The slots for what the routes pick from, with as few moves as possible.
    #[must_use]
    pub fn settle(&self, routes: &PortRoutes<'_>) -> Self {
        let is_split = routes.port.uses_local_endpoints();
        let classes = Classes::new(routes, is_split);
        let start = if is_split { before_middle(classes.far.len()) } else { 0 };
        let count = |one: &[SocketAddr], other: &[SocketAddr]| {
            u32::try_from(one.len() + other.len()).unwrap_or_default()
        };
        let cluster = Window { start, count: count(&classes.far, &classes.both) };
        let local = Window { start: MIDDLE, count: count(&classes.both, &classes.near) };
        let both = Window { start: MIDDLE, count: count(&classes.both, &[]) };
        let mut placed = self.place(Window { start, count: count(&classes.far, &[]) }, &classes.far);
        placed.extend(self.place(both, &classes.both));
        let near = local.slots().nth(classes.both.len()).unwrap_or(MIDDLE);
        placed.extend(self.place(Window { start: near, count: count(&classes.near, &[]) }, &classes.near));
        Self { placed, cluster, local, left_out: classes.left_out }
    }

    /// Puts as many endpoints as the window has slots: each where it was if that is in the window, else into a gap.
    fn place(&self, window: Window, endpoints: &[SocketAddr]) -> Vec<(u16, SocketAddr)> {
        if self.placed.is_empty() {
            return window.slots().zip(endpoints.iter().copied()).collect();
        }
        let wanted: HashSet<SocketAddr> = endpoints.iter().copied().collect();
        let stays =
            |(slot, endpoint): &&(u16, SocketAddr)| window.contains(*slot) && wanted.contains(endpoint);
        let staying: HashMap<u16, SocketAddr> = self.placed.iter().filter(stays).copied().collect();
        let settled: HashSet<SocketAddr> = staying.values().copied().collect();
        let mut others = endpoints.iter().copied().filter(|e| !settled.contains(e));
        let occupant = |slot: u16| Some((slot, staying.get(&slot).copied().or_else(|| others.next())?));
        window.slots().filter_map(occupant).collect()
    }
}

impl Classes {
    fn new(routes: &PortRoutes<'_>, is_split: bool) -> Self {
        let addresses = |pool| routes.pool(pool).iter().map(|e| e.address);
        let mut far: Vec<SocketAddr> = addresses(Pool::Cluster).collect();
        let (mut both, mut near) = (Vec::new(), Vec::new());
        if is_split {
            let local: HashSet<SocketAddr> = addresses(Pool::Local).collect();
            let cluster: HashSet<SocketAddr> = far.iter().copied().collect();
            (both, far) = far.into_iter().partition(|e| local.contains(e));
            near = addresses(Pool::Local).filter(|e| !cluster.contains(e)).collect();
        }
        let wanted = far.len() + both.len() + near.len();
        far.truncate(MAX);
        both.truncate(MAX);
        near.truncate(MAX - both.len());
        let left_out = wanted - far.len() - both.len() - near.len();
        Self { far, both, near, left_out }
    }
}

fn before_middle(count: usize) -> u16 {
    u16::try_from(count).map_or(0, |count| MIDDLE.saturating_sub(count))
}

#[cfg(test)]
mod tests;
