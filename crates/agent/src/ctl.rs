//! The subcommands that ask a running agent: `explain`, `get` and `diff`.
//!
//! In: their flags, and the agent's admin socket. Out: a table, JSON or YAML on standard output; or one line that says what to do. What the
//! agent answers is text from a cluster, so nothing of it reaches a terminal unescaped.

mod age;
mod client;
mod columns;
mod diff;
mod explain;
mod get;
mod probe;
mod table;
#[cfg(test)]
mod tests;
mod version;
mod yaml;

use std::io::{self, Write};
use std::time::SystemTime;

use serde_json::Value;

pub use client::CtlError;
pub(crate) use client::NO_SUCH_PATH;
pub(crate) use table::table;

use crate::escaped::push_json;
use crate::flags::{Asking, ExplainFlags, GetFlags, Output};

/// What a question that can be answered by yes or no found; the exit code says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// All is as it should be.
    Good,
    /// It is not.
    Bad,
    /// It cannot be said.
    Unknown,
}

/// `switchyard diff`.
pub fn diff(asking: &Asking) -> Result<Finding, CtlError> {
    let answer = client::get(&asking.admin_socket, "/v1/diff", &[])?;
    let finding = diff::finding(&answer)?;
    show(asking.output, &answer, || diff::text(&answer))?;
    Ok(finding)
}

/// `switchyard explain`.
pub fn explain(flags: &ExplainFlags) -> Result<Finding, CtlError> {
    let socket = &flags.asking.admin_socket;
    let ask = || client::get(socket, "/v1/explain", &explain::parameters(flags));
    if !flags.probe {
        let answer = ask()?;
        show(flags.asking.output, &answer, || explain::text(&answer))?;
        return Ok(Finding::Good);
    }
    let mode = client::get(socket, "/v1", &[])?;
    let (mut answer, probed) = probe::probe(&mode, flags.from.as_deref(), ask)?;
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("probe".to_owned(), probed.json());
    }
    show(flags.asking.output, &answer, || explain::text(&answer) + &probed.text())?;
    Ok(probed.finding())
}

/// `switchyard get`.
pub fn get(flags: &GetFlags) -> Result<(), CtlError> {
    let told = get::run(flags, SystemTime::now())?;
    print(&told.found)?;
    if let Some(note) = &told.note {
        // If nobody reads it, nobody misses it.
        let _ = writeln!(io::stderr(), "{note}");
    }
    told.missing.map_or(Ok(()), Err)
}

/// Prints an answer.
pub(crate) fn show(output: Output, answer: &Value, text: impl FnOnce() -> String) -> Result<(), CtlError> {
    print(&match output {
        Output::Table => text(),
        Output::Json => json_text(answer),
        Output::Yaml => yaml::text(answer),
    })
}

fn json_text(value: &Value) -> String {
    safe(&format!("{value:#}\n"), push_json)
}

/// With an escape for what must not reach a terminal; lines stay lines.
fn safe(text: &str, push: fn(&mut String, char)) -> String {
    let mut safe = String::with_capacity(text.len());
    text.chars().for_each(|c| if c == '\n' { safe.push(c) } else { push(&mut safe, c) });
    safe
}

fn print(text: &str) -> Result<(), CtlError> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads has seen enough, as `head` has.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CtlError::Print),
    }
}
