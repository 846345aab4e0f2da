//! What was compared in one mode, and how it ended. The lines that are printed here are repeated at the end of `make parity`: what follows
//! `passed` and `failed` is for people, and scripts/count-tests sums both.

use std::time::Instant;

use crate::common::variant::{Variant, say};

/// See the module.
pub(crate) struct Tally {
    pub(crate) variant: Variant,
    started: Instant,
    compared: Compared,
    passed: usize,
    failed: usize,
}

/// What was the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) rules: usize,
    pub(crate) flows: usize,
    /// Flows that there are to be tried: some are left out where time is limited.
    pub(crate) known_flows: usize,
}

impl Compared {
    fn is_nothing(&self) -> bool {
        self.rules + self.flows == 0
    }
}

impl Tally {
    pub(crate) fn new(variant: Variant) -> Self {
        Self { variant, started: Instant::now(), compared: Compared::default(), passed: 0, failed: 0 }
    }

    /// Counts a case: what was the same, or what differs, which is printed. Nothing at all is not the same.
    pub(crate) fn add(&mut self, title: &str, result: Result<Compared, String>) {
        match result {
            Ok(compared) if compared.is_nothing() => {
                self.failed += 1;
                say(&format!("{}: {title}: nothing was compared", self.variant));
            }
            Ok(compared) => {
                self.passed += 1;
                self.compared.rules += compared.rules;
                self.compared.flows += compared.flows;
                self.compared.known_flows += compared.known_flows;
            }
            Err(difference) => {
                self.failed += 1;
                say(&format!("{}: {title}:\n{difference}", self.variant));
            }
        }
    }

    /// Prints the sums. Fails if anything differs, or if nothing was compared.
    pub(crate) fn finish(test: &str, tallies: &[Self]) {
        for Self { variant, compared, passed, failed, started } in tallies {
            let Compared { rules, flows, known_flows } = compared;
            let seconds = started.elapsed().as_secs();
            say(&format!(
                "parity {test}, {variant}: {rules} rules and {flows} of {known_flows} flows: {passed} passed, {failed} failed ({seconds} s)"
            ));
        }
        let is_good = |tally: &Self| tally.failed == 0 && !tally.compared.is_nothing();
        assert!(tallies.iter().all(is_good), "kube-proxy and switchyard differ, see above");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_compares_nothing_does_not_pass() {
        let mut tally = Tally::new(Variant::Nftables);
        tally.add("(a test of the tally)", Ok(Compared::default()));
        assert_eq!((tally.passed, tally.failed), (0, 1));
        let compared = Compared { rules: 0, flows: 1, known_flows: 2 };
        tally.add("one flow", Ok(compared));
        assert_eq!((tally.passed, tally.failed, tally.compared), (1, 1, compared));
    }
}
