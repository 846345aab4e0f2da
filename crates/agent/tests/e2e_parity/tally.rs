//! What was compared in one mode, and how it ended.

use std::time::Instant;

use crate::common::variant::{Variant, say};

/// See the module.
pub(crate) struct Tally {
    pub(crate) variant: Variant,
    started: Instant,
    rules: usize,
    flows: usize,
    passed: usize,
    failed: usize,
}

impl Tally {
    pub(crate) fn new(variant: Variant) -> Self {
        Self { variant, started: Instant::now(), rules: 0, flows: 0, passed: 0, failed: 0 }
    }

    /// Counts a case: how many rules and flows were the same, or what differs, which is printed.
    pub(crate) fn add(&mut self, title: &str, result: Result<(usize, usize), String>) {
        match result {
            Ok((rules, flows)) => {
                self.passed += 1;
                self.rules += rules;
                self.flows += flows;
            }
            Err(difference) => {
                self.failed += 1;
                say(&format!("{}: {title}:\n{difference}", self.variant));
            }
        }
    }

    /// Prints the sums. Fails if anything differs, or if nothing was compared.
    pub(crate) fn finish(tallies: &[Self]) {
        for Self { variant, rules, flows, passed, failed, started } in tallies {
            let seconds = started.elapsed().as_secs();
            say(&format!(
                "parity {variant}: {rules} rules and {flows} flows compared: {passed} passed, {failed} failed ({seconds} s)"
            ));
        }
        let is_good = |tally: &Self| tally.failed == 0 && tally.rules + tally.flows > 0;
        assert!(tallies.iter().all(is_good), "kube-proxy and switchyard differ, see above");
    }
}
