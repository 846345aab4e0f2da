//! Which service port's rules does the kernel refuse?
//!
//! The legacy variant often names no line, only COMMIT. Then the rules of half of the candidates are written where no
//! packet meets them, and so on with the half that is refused: a dozen tries among thousands. Nobody is blamed for
//! trouble that is there without any of them.

use switchyard_model::ServicePortName;
use switchyard_plan::iptables::planner::Planner;

use crate::NextStep;
use crate::iptables::{Iptables, RestoreError, RestoreOptions};
use crate::report::Report;

/// The first service port that is refused by itself, and the refusal.
pub(super) fn find(
    programs: &Iptables,
    planner: &Planner,
    names: &[ServicePortName],
    report: &mut Report,
) -> Option<(ServicePortName, String)> {
    if refused(programs, planner, &[], report).is_some() {
        return None;
    }
    let found = narrow(programs, planner, names, report);
    // Nothing jumps to what is left behind; a failure here says nothing about the culprit.
    let _ = programs.restore(&Planner::end_of_probe().text(), RestoreOptions::default());
    found.map(|(name, refusal)| (name, refusal.to_string()))
}

fn narrow(
    programs: &Iptables,
    planner: &Planner,
    names: &[ServicePortName],
    report: &mut Report,
) -> Option<(ServicePortName, RestoreError)> {
    let mut suspects = names;
    let mut refusal = refused(programs, planner, suspects, report)?;
    while suspects.len() > 1 {
        let (left, right) = suspects.split_at(suspects.len() / 2);
        (suspects, refusal) = match refused(programs, planner, left, report) {
            Some(error) => (left, error),
            None => (right, refused(programs, planner, right, report)?),
        };
    }
    suspects.first().map(|name| (name.clone(), refusal))
}

/// The refusal, if the kernel does not take the rules of these service ports. Any other trouble ends the search.
fn refused(
    programs: &Iptables,
    planner: &Planner,
    names: &[ServicePortName],
    report: &mut Report,
) -> Option<RestoreError> {
    let error = programs.restore(&planner.probe(names).text(), RestoreOptions::default()).err()?;
    report.failed_restores += 1;
    match error.next_step() {
        NextStep::Quarantine { .. } | NextStep::FullSync => Some(error),
        NextStep::Replan | NextStep::Backoff | NextStep::Stop => None,
    }
}
