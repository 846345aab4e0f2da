//! An agent and a program of different versions: after an update of one of them, until the other one is started again.
//!
//! In: an agent, of which something was asked in vain. Out: what to do, if that may be why.

use std::cmp::Ordering;
use std::path::Path;

use serde_json::Value;

use super::client::{self, CtlError};
use super::table::printable;

/// The version of this program.
pub(super) const OWN: &str = env!("CARGO_PKG_VERSION");

/// The error that says of which version the agent is that does not know something.
pub(super) fn older(socket: &Path, what: &str) -> CtlError {
    match of_agent(socket) {
        Ok(agent) => CtlError::Older { socket: socket.to_owned(), agent, what: what.to_owned() },
        Err(error) => error,
    }
}

/// What to say beside a refusal if the agent is of another version; nothing if that cannot be known.
pub(super) fn hint(socket: &Path) -> Option<String> {
    let agent = of_agent(socket).ok()?;
    let (order, advice) = match compare(&agent, OWN)? {
        Ordering::Less => ("older", "restart it with this version"),
        Ordering::Greater => ("newer", "use the program of its version"),
        Ordering::Equal => return None,
    };
    let versions = format!("the agent is {order} than this program, {agent} beside {OWN}");
    Some(format!("{versions}: if it does not know this yet, {advice}"))
}

fn of_agent(socket: &Path) -> Result<String, CtlError> {
    let agent = client::get(socket, "/v1", &[])?;
    let version = agent.get("version").and_then(Value::as_str);
    version.map(printable).ok_or_else(|| client::unknown("no version"))
}

/// By numbers; nothing if one of them is no version.
fn compare(one: &str, other: &str) -> Option<Ordering> {
    let numbers = |version: &str| -> Option<Vec<u64>> {
        let numbers = version.split(['-', '+']).next()?;
        numbers.split('.').map(|number| number.parse().ok()).collect()
    };
    Some(numbers(one)?.cmp(&numbers(other)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::OldAgent;
    use super::*;

    /// What is said when an agent refuses, and says that of itself.
    fn refused(status: u16, error: &str, agent: &str) -> String {
        let error = format!(r#"{{"error":"{error}"}}"#);
        let agent = OldAgent::new(&[("/v1/explain", status, &error), ("/v1", 200, agent)]);
        let said = agent.with(|socket| client::get(socket, "/v1/explain", &[]).unwrap_err().to_string());
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    #[test]
    fn an_agent_that_does_not_know_a_path_is_older() {
        let agent = OldAgent::new(&[("/v1", 200, r#"{"version":"0.0.9\u001b"}"#)]);
        let said = agent.with(|socket| client::get(socket, "/v1/diff", &[]).unwrap_err().to_string());
        assert!(said.contains("is of version 0.0.9\\u{1b} and does not know /v1/diff"), "{said}");
        assert!(said.ends_with("restart the agent with it"), "{said}");
    }

    #[test]
    fn a_refusal_of_an_agent_of_another_version_says_so() {
        let old = refused(400, "from must be an IP address", r#"{"version":"0.0.9"}"#);
        let begin = "from must be an IP address (the agent is older than this program, 0.0.9 beside ";
        assert!(old.starts_with(begin), "{old}");
        assert!(old.ends_with("if it does not know this yet, restart it with this version)"), "{old}");
        let new = refused(400, "no", r#"{"version":"99.0.0-rc.1"}"#);
        assert!(new.contains("is newer than this program"), "{new}");
        let same = format!(r#"{{"version":"{OWN}"}}"#);
        for unclear in [&same, r#"{"version":"x"}"#, r#"{"version":1}"#, "{}", "x"] {
            assert_eq!(refused(400, "no", unclear), "no", "{unclear}");
        }
        // It is busy, whatever its version.
        assert_eq!(refused(503, "busy", r#"{"version":"0.0.9"}"#), "busy");
    }

    #[test]
    fn versions_are_compared_by_numbers() {
        assert_eq!(compare("0.9.0", "0.10.0"), Some(Ordering::Less));
        assert_eq!(compare("1.0.0+build", "1.0.0"), Some(Ordering::Equal));
        assert_eq!(compare("main", "1.0.0"), None);
    }
}
