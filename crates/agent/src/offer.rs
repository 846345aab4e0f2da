//! What the command line offers, as shell completions and as a manual page.
//!
//! In: the same table that the arguments are read by. Out: text. So neither can name a flag that is not there, nor miss one that help
//! shows.

mod manual;
mod shells;
#[cfg(test)]
mod tests;

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};

use crate::flags::{Flags, Shell};

/// A flag that help shows.
#[derive(Debug)]
struct Flag {
    long: String,
    short: Option<char>,
    heading: Option<String>,
    help: String,
    /// The name of its value, if it needs one.
    value: Option<String>,
    /// The value may follow `=`, or be left out.
    is_switch: bool,
    choices: Vec<Choice>,
}

/// One of the values that are taken.
#[derive(Debug)]
struct Choice {
    name: String,
    /// May be empty.
    help: String,
}

/// Something that stands without a dash.
#[derive(Debug)]
struct Positional {
    name: String,
    help: String,
    choices: Vec<Choice>,
    /// How it stands in the usage: `NAME`, `[NAME]`, `[NAME]...`.
    usage: String,
}

/// The program itself, or a subcommand of it.
#[derive(Debug)]
struct Offer {
    name: String,
    about: String,
    flags: Vec<Flag>,
    positionals: Vec<Positional>,
    /// How it is called, behind its name.
    usage: String,
}

impl Offer {
    /// Words that may stand without a dash.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.positionals.iter().flat_map(|positional| names(&positional.choices))
    }
}

fn names(choices: &[Choice]) -> impl Iterator<Item = &str> {
    choices.iter().map(|choice| choice.name.as_str())
}

/// The program, and its subcommands.
fn all() -> (Offer, Vec<Offer>) {
    let mut command = Flags::command();
    command.build();
    let subcommands = command.get_subcommands().map(offer).collect();
    (offer(&command), subcommands)
}

fn offer(command: &Command) -> Offer {
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let positionals: Vec<Positional> = shown().filter(|arg| arg.is_positional()).map(positional).collect();
    let usage = positionals.iter().map(|positional| positional.usage.as_str());
    Offer {
        name: command.get_name().to_owned(),
        about: command.get_about().map(ToString::to_string).unwrap_or_default(),
        flags: shown().filter_map(flag).collect(),
        usage: usage.chain(["[FLAGS]"]).collect::<Vec<_>>().join(" "),
        positionals,
    }
}

fn value_name(arg: &Arg) -> String {
    let named = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    named.unwrap_or_else(|| arg.get_id().to_string().to_uppercase())
}

fn positional(arg: &Arg) -> Positional {
    let name = value_name(arg);
    let usage = if arg.is_required_set() { name.clone() } else { format!("[{name}]") };
    let is_many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    Positional {
        name,
        help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        choices: choices(arg),
        usage: if is_many { usage + "..." } else { usage },
    }
}

fn choices(arg: &Arg) -> Vec<Choice> {
    let choice = |value: &PossibleValue| Choice {
        name: value.get_name().to_owned(),
        help: value.get_help().map(ToString::to_string).unwrap_or_default(),
    };
    arg.get_possible_values().iter().map(choice).collect()
}

fn flag(arg: &Arg) -> Option<Flag> {
    let takes = arg.get_num_args();
    let is_switch = takes.is_some_and(|range| range.min_values() == 0);
    let has_value = takes.is_some_and(|range| range.min_values() > 0);
    Some(Flag {
        long: arg.get_long()?.to_owned(),
        short: arg.get_short(),
        heading: arg.get_help_heading().map(str::to_owned),
        help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        value: has_value.then(|| value_name(arg)),
        is_switch,
        // Those of a switch without a value are true and false.
        choices: if has_value { choices(arg) } else { Vec::new() },
    })
}

/// A script that completes for a shell.
pub fn completion(shell: Shell) -> String {
    let (program, subcommands) = all();
    match shell {
        Shell::Bash => shells::bash(&program, &subcommands),
        Shell::Zsh => shells::zsh(&program, &subcommands),
        Shell::Fish => shells::fish(&program, &subcommands),
    }
}

/// The manual page, for `man -l` or a place in `MANPATH`.
pub fn manual() -> String {
    let (program, subcommands) = all();
    manual::page(&program, &subcommands)
}
