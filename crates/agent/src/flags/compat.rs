//! Flags of kube-proxy that do nothing here yet.
//!
//! In: a table of names. Out: the same flags on the command line, hidden from help, and which of them were given.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::boolean;

/// What may follow a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A value, as `--name=value` or `--name value`.
    Value,
    /// Nothing or `=true` and the like.
    Boolean,
}
use Takes::{Boolean, Value};

/// Accepted without effect, but for those in [`REFUSED`]. Values are not looked at.
const KNOWN: [(&str, Takes); 34] = [
    ("boot-id-file", Value),
    ("config", Value),
    ("config-sync-period", Value),
    ("conntrack-max-per-core", Value),
    ("conntrack-min", Value),
    ("conntrack-tcp-be-liberal", Boolean),
    ("conntrack-tcp-timeout-close-wait", Value),
    ("conntrack-tcp-timeout-established", Value),
    ("conntrack-udp-timeout", Value),
    ("conntrack-udp-timeout-stream", Value),
    ("feature-gates", Value),
    ("init-only", Boolean),
    ("ipvs-exclude-cidrs", Value),
    ("ipvs-min-sync-period", Value),
    ("ipvs-scheduler", Value),
    ("ipvs-strict-arp", Boolean),
    ("ipvs-sync-period", Value),
    ("ipvs-tcp-timeout", Value),
    ("ipvs-tcpfin-timeout", Value),
    ("ipvs-udp-timeout", Value),
    ("kube-api-burst", Value),
    ("kube-api-content-type", Value),
    ("kube-api-qps", Value),
    ("log-flush-frequency", Value),
    ("log-json-info-buffer-size", Value),
    ("log-json-split-stream", Boolean),
    ("log-text-info-buffer-size", Value),
    ("log-text-split-stream", Boolean),
    ("machine-id-file", Value),
    ("oom-score-adj", Value),
    ("profiling", Boolean),
    ("show-hidden-metrics-for-version", Value),
    ("vmodule", Value),
    ("write-config-to", Value),
];

/// Refused if they ask for something, each with the reason and the way out: without them the process would do something
/// else than it was told.
const REFUSED: [(&str, &str); 3] = [
    ("config", "configuration files are not yet supported; pass flags instead"),
    ("init-only", "is not yet supported, and the proxy would never exit; run it without an init container"),
    ("write-config-to", "configuration files are not yet supported, so none can be written; leave it out"),
];

/// Which of the flags were given, with their last values.
#[derive(Clone, Debug, Default)]
pub(super) struct Given(Vec<(&'static str, String)>);

impl Given {
    /// Those without effect, as `--name`.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let given = self.0.iter().filter(|(name, _)| refusal(name).is_none());
        given.map(|(name, _)| format!("--{name}")).collect()
    }

    /// Those that are refused: name, value and reason.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        let asking = self.0.iter().filter(|(name, value)| asks(name, value));
        asking.filter_map(|(name, value)| Some((*name, value.as_str(), refusal(name)?)))
    }
}

/// True unless the value says "leave it": an empty text, or false where a boolean is meant.
fn asks(name: &str, value: &str) -> bool {
    let is_boolean = KNOWN.iter().any(|(known, takes)| *known == name && *takes == Boolean);
    let is_off = is_boolean && boolean::read(value) == Some(false);
    !value.is_empty() && !is_off
}

fn refusal(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, reason)| *reason)
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        KNOWN.iter().fold(command, |command, (name, takes)| {
            let arg = Arg::new(*name).long(*name).hide(true);
            command.arg(match takes {
                // Go's parser takes whatever follows as the value, and -999 is what kube-proxy gives one of them.
                Value => arg.allow_negative_numbers(true),
                Boolean => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for (name, _) in KNOWN {
            if matches.value_source(name) == Some(ValueSource::CommandLine) {
                let value = matches.try_get_one::<String>(name).ok().flatten();
                given.push((name, value.cloned().unwrap_or_default()));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
