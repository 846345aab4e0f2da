//! From the texts of all flags, and the file, to one checked configuration, with every problem found on the way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchyard_config::decode::Pacing;
use switchyard_config::defaults::FlagsOfMode;
use switchyard_config::slot::Slot;
use switchyard_config::{Configuration, Problem, address, gates, number};

use super::given::Given;
use super::own::Own;
use super::table::{FLAGS, Flag, Target, flag_of};
use super::{Config, Flags, Mode, file, typed};

/// Fields that are accepted and change nothing here.
const WITHOUT_EFFECT: [&str; 12] = [
    "clientConnection.burst",
    "clientConnection.qps",
    "configSyncPeriod",
    "logging.flushFrequency",
    "logging.options.json.infoBufferSize",
    "logging.options.json.splitStream",
    "logging.options.text.infoBufferSize",
    "logging.options.text.splitStream",
    "logging.vmodule",
    "portRange",
    "showHiddenMetricsForVersion",
    "windowsRunAsService",
];

/// Flags for which the file has no field, which change nothing here either.
const FLAGS_WITHOUT_EFFECT: [&str; 2] = ["boot-id-file", "machine-id-file"];

/// Flags that kube-proxy wants to get rid of, and what it has instead.
const DEPRECATED: [(&str, &str); 2] =
    [("healthz-port", "healthz-bind-address"), ("metrics-port", "metrics-bind-address")];

/// Flags that an empty text leaves at their default.
const EMPTY_IS_DEFAULT: [&str; 3] = ["bind-address", "healthz-bind-address", "metrics-bind-address"];

/// What is wrong, one line per problem: flag or field, value, what is allowed.
#[derive(Default)]
pub(super) struct Problems(pub(super) Vec<String>);

impl Problems {
    /// Notes a problem with the text of a flag.
    pub(super) fn flag(&mut self, name: &str, problem: &Problem) {
        self.0.push(format!("--{name}: {}", Problem { path: String::new(), ..problem.clone() }));
    }
}

/// Where the fields came from, for messages.
pub(super) enum Origin {
    Flags,
    File(PathBuf),
}

impl Origin {
    /// A problem of a field, under the name that the operator knows it by.
    pub(super) fn line(&self, problem: &Problem) -> String {
        match (self, flag_of(problem.field())) {
            (Self::File(path), _) => format!("{}: {problem}", path.display()),
            (Self::Flags, Some(flag)) => {
                let rest = Problem { path: String::new(), ..problem.clone() };
                format!("--{flag}: {rest}")
            }
            (Self::Flags, None) => problem.to_string(),
        }
    }

    fn name(&self, field: &str) -> String {
        match (self, flag_of(field)) {
            (Self::Flags, Some(flag)) => format!("--{flag}"),
            _ => field.to_owned(),
        }
    }
}

impl Flags {
    /// Types and checks everything. An error is one line per problem; nothing of the command line is used then.
    pub fn check(self) -> Result<Config, Vec<String>> {
        let mut problems = Problems::default();
        if !self.given.stray.is_empty() {
            let text = "takes no arguments but flags and subcommands (a boolean's value follows =); got";
            problems.0.push(format!("\"switchyard\" {text} {:?}", self.given.stray));
        }
        let mut notes = Vec::new();
        let (own, from_flags) = read_flags(&self.given, &mut problems);
        let mut told = from_flags.clone();
        let loaded = match own.config.as_str() {
            "" => Some((from_flags, Origin::Flags, pacing_of_flags(&self.given))),
            path => load(Path::new(path), &self.given, &mut problems, &mut notes),
        };
        let Some((mut configuration, origin, pacing)) = loaded else { return Err(problems.0) };
        configuration.fill_in_for_linux();
        override_host_name(&own, &mut configuration, &mut problems);
        problems.0.extend(configuration.check().iter().map(|problem| origin.line(problem)));
        notes.extend(no_effect(&self.given, &configuration, &origin));
        if matches!(origin, Origin::Flags) {
            told.clone_from(&configuration);
        }
        let flags = flag_values(own.clone(), told);
        let typed = typed::config(&own, configuration, &origin, &mut problems);
        match typed.map(|config| paced(config, pacing)) {
            Some(config) if problems.0.is_empty() => Ok(Config { notes, flags, ..config }),
            _ => Err(problems.0),
        }
    }
}

fn pacing_of_flags(given: &Given) -> Pacing {
    given.last("iptables-min-sync-period").map_or(Pacing::Default, |_| Pacing::Given)
}

/// In nftables mode a write costs what its change costs, so nothing waits unless the operator said so.
fn paced(config: Config, pacing: Pacing) -> Config {
    match (config.mode, pacing) {
        (Mode::Nftables | Mode::Userspace, Pacing::Default) => {
            Config { min_sync_period: Duration::ZERO, ..config }
        }
        _ => config,
    }
}

/// Every flag with its value, as text.
fn flag_values(mut own: Own, mut configuration: Configuration) -> BTreeMap<String, String> {
    let (own, fields) = (own.slots(), configuration.slots());
    let value = |flag: &Flag| match flag.target {
        Target::Field(path) => fields.get(path).map(Slot::flag_text),
        Target::Own => own.get(flag.name).map(Slot::flag_text),
    };
    let help = ("help".to_owned(), "false".to_owned());
    FLAGS.iter().filter_map(|flag| Some((flag.name.to_owned(), value(flag)?))).chain([help]).collect()
}

/// The flags over kube-proxy's defaults.
fn read_flags(given: &Given, problems: &mut Problems) -> (Own, Configuration) {
    let (mut own, mut configuration) = (Own::default(), Configuration::defaulted());
    let (mut own_slots, mut slots) = (own.slots(), configuration.slots());
    for (flag, mut texts) in given.flags() {
        if EMPTY_IS_DEFAULT.contains(&flag.name) {
            texts.retain(|text| !text.is_empty());
        }
        let slot = match flag.target {
            Target::Field(path) => slots.get_mut(path),
            Target::Own => own_slots.get_mut(flag.name),
        };
        if let Some(Err(problem)) = slot.map(|slot| slot.read_flag(&texts)) {
            problems.flag(flag.name, &problem);
        }
    }
    if number::boolean(&own.version).is_none() && !own.version.starts_with('v') {
        problems.flag(
            "version",
            &Problem::text("", &own.version, "must be true, false, raw or a version such as v1.2.3"),
        );
    }
    if own.config.is_empty() && own.write_config_to.is_empty() {
        for (address, port) in [
            (&mut configuration.healthz_bind_address, own.healthz_port),
            (&mut configuration.metrics_bind_address, own.metrics_port),
        ] {
            *address = if port == 0 { String::new() } else { address::with_port(address, port) };
        }
    }
    configuration.take_flags_of_mode(of_mode(&own, &configuration.mode));
    (own, configuration)
}

fn of_mode(own: &Own, mode: &str) -> FlagsOfMode {
    let (sync_period, min_sync_period) = match mode {
        "ipvs" => (own.ipvs_sync_period, own.ipvs_min_sync_period),
        _ => (own.iptables_sync_period, own.iptables_min_sync_period),
    };
    FlagsOfMode {
        sync_period: Some(sync_period),
        min_sync_period: Some(min_sync_period),
        masquerade_all: Some(own.masquerade_all),
    }
}

/// The file, with the logging flags over it. kube-proxy ignores all other flags for which the file has a field.
fn load(
    path: &Path,
    given: &Given,
    problems: &mut Problems,
    notes: &mut Vec<String>,
) -> Option<(Configuration, Origin, Pacing)> {
    let decoded = match file::read(path) {
        Ok(decoded) => decoded,
        Err(lines) => {
            problems.0.extend(lines);
            return None;
        }
    };
    for complaint in decoded.complaints {
        notes.push(format!(
            "{}: strict decoding failed, so it is read leniently: {complaint}",
            path.display()
        ));
    }
    let mut configuration = decoded.configuration;
    let of_file = std::mem::take(&mut configuration.logging.vmodule);
    let mut slots = configuration.slots();
    for (flag, texts) in given.flags() {
        if let Target::Field(field) = flag.target
            && field.starts_with("logging.")
        {
            // A text that is wrong was reported with the other flags.
            let _ = slots.get_mut(field).map(|slot| slot.read_flag(&texts));
        }
    }
    configuration.logging.vmodule.extend(of_file);
    Some((configuration, Origin::File(path.to_owned()), decoded.pacing))
}

fn override_host_name(own: &Own, configuration: &mut Configuration, problems: &mut Problems) {
    let given = &own.hostname_override;
    if given.is_empty() {
        return;
    }
    let name = given.trim().to_lowercase();
    if name.is_empty() {
        let allowed = "must not be only blanks; leave it out to use the host name";
        problems.flag("hostname-override", &Problem::text("", given, allowed));
    }
    configuration.hostname_override = name;
}

/// What was asked for and changes nothing, or will go, as notes.
fn no_effect(given: &Given, configuration: &Configuration, origin: &Origin) -> Vec<String> {
    let (mut mine, mut default) = (configuration.clone(), Configuration::defaulted());
    let (mine, default) = (mine.slots(), default.slots());
    let differs = |path: &&&str| match (mine.get(**path), default.get(**path)) {
        (Some(mine), Some(default)) => format!("{mine:?}") != format!("{default:?}"),
        _ => false,
    };
    let fields = WITHOUT_EFFECT.iter().filter(differs).map(|path| origin.name(path));
    let flags = given.flags().map(|(flag, _)| flag.name).filter(|name| FLAGS_WITHOUT_EFFECT.contains(name));
    let names: Vec<String> = fields.chain(flags.map(|name| format!("--{name}"))).collect();
    let gates = gates::without_effect(&configuration.feature_gates);
    let is_given = |name: &str| given.last(name).is_some();
    let deprecated = DEPRECATED.iter().filter(|(name, _)| is_given(name));
    let mut notes: Vec<String> = deprecated
        .map(|(name, instead)| format!("--{name} is deprecated and will go; use --{instead}"))
        .collect();
    if !names.is_empty() {
        notes.push(format!("accepted without effect: {}", names.join(", ")));
    }
    if !gates.is_empty() {
        notes.push(format!("feature gates without effect here: {}", gates.join(", ")));
    }
    notes
}
