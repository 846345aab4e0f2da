//! How many rules there are.

/// What the kernel holds once everything planned so far is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Rules in the filter table.
    pub filter: usize,
    /// Rules in the nat table.
    pub nat: usize,
    /// Service ports whose cluster IP is silent because this node has no endpoint.
    pub silent_internal: usize,
    /// The same for all other frontends.
    pub silent_external: usize,
}

impl RuleCounts {
    pub(super) fn add(&mut self, one: &Self) {
        self.filter += one.filter;
        self.nat += one.nat;
        self.silent_internal += one.silent_internal;
        self.silent_external += one.silent_external;
    }

    pub(super) fn subtract(&mut self, one: &Self) {
        self.filter = self.filter.saturating_sub(one.filter);
        self.nat = self.nat.saturating_sub(one.nat);
        self.silent_internal = self.silent_internal.saturating_sub(one.silent_internal);
        self.silent_external = self.silent_external.saturating_sub(one.silent_external);
    }
}
