//! The flags of the command line as they were given, by the table.
//!
//! In: [`FLAGS`]. Out: the texts of every occurrence of every flag. What a text means is decided later; here is only
//! decided what belongs to which flag, as Go's flag library does: a boolean's value follows `=`, any other flag takes
//! whatever comes next.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use switchyard_config::Configuration;

use super::own::Own;
use super::table::{FLAGS, Flag, Target};

/// What stands on the command line and is no flag.
const STRAY: &str = "stray";

/// The texts of the flags that were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    texts: BTreeMap<&'static str, Vec<String>>,
    /// Arguments that belong to no flag.
    pub(super) stray: Vec<String>,
}

impl Given {
    /// Every flag that was given, with its texts in order.
    pub(super) fn flags(&self) -> impl Iterator<Item = (&'static Flag, Vec<&str>)> {
        FLAGS.iter().filter_map(|flag| {
            let texts = self.texts.get(flag.name)?;
            Some((flag, texts.iter().map(String::as_str).collect()))
        })
    }

    /// The last text of a flag, if it was given.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.texts.get(name)?.last().map(String::as_str)
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        let (mut configuration, mut own) = (Configuration::default(), Own::default());
        let (fields, own) = (configuration.slots(), own.slots());
        let stray = Arg::new(STRAY).action(ArgAction::Append).num_args(0..).hide(true);
        FLAGS.iter().fold(command.arg(stray), |command, flag| {
            let slot = match flag.target {
                Target::Field(path) => fields.get(path),
                Target::Own => own.get(flag.name),
            };
            let is_switch = slot.is_some_and(|slot| slot.is_switch()) || flag.name == "version";
            command.arg(arg(flag, is_switch))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(flag: &Flag, is_switch: bool) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).action(ArgAction::Append);
    let arg = if flag.name == "v" { arg.short('v') } else { arg };
    let arg = match is_switch {
        true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        false => arg.num_args(1).allow_hyphen_values(true),
    };
    match flag.help {
        Some((heading, value, help)) => arg.help_heading(heading).value_name(value).help(help),
        None => arg.hide(true),
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        let texts = |name: &str| -> Vec<String> {
            let found = matches.try_get_many::<String>(name).ok().flatten();
            found.map(|texts| texts.cloned().collect()).unwrap_or_default()
        };
        for flag in FLAGS {
            if matches.value_source(flag.name) == Some(ValueSource::CommandLine) {
                given.texts.insert(flag.name, texts(flag.name));
            }
        }
        // kube-proxy does not mind empty arguments: templates leave them behind.
        given.stray = texts(STRAY).into_iter().filter(|text| !text.is_empty()).collect();
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
