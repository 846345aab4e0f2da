//! From a tree of values to [`Configuration`].
//!
//! In: text. Out: the configuration with kube-proxy's defaults, and what a strict reader would have complained about.
//! A field that is unknown, or there twice, is no failure: kube-proxy logs it and goes on. A value of the wrong type
//! is one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::configuration::{Configuration, ModuleVerbosity, Written};
use crate::document;
use crate::duration::GoDuration;
use crate::problem::{Problem, clip};
use crate::quantity::Quantity;
use crate::slot::Slot;
use crate::{API_VERSION, KIND};

/// A configuration that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// With defaults filled in.
    pub configuration: Configuration,
    /// What strict decoding would have refused, for the log.
    pub complaints: Vec<String>,
    /// Whether the least time between two writes is the operator's word.
    pub pacing: Pacing,
}

/// Where the least time between two writes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Somebody set it.
    Given,
    /// It is kube-proxy's default.
    Default,
}

/// Reads a configuration file.
pub fn decode(text: &str) -> Result<Decoded, Vec<Problem>> {
    let document = document::read(text).map_err(|problem| vec![problem])?;
    let Value::Object(mut object) = document.value else {
        return Err(vec![Problem::new(
            "",
            "",
            format!("is no object; it must have apiVersion {API_VERSION} and kind {KIND}"),
        )]);
    };
    let problems: Vec<Problem> = [("apiVersion", API_VERSION), ("kind", KIND)]
        .into_iter()
        .filter_map(|(key, want)| expect(&mut object, key, want))
        .collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut configuration = Configuration::default();
    let mut reading = Reading { slots: configuration.slots(), unknown: Vec::new(), problems: Vec::new() };
    reading.object("", &object);
    let Reading { unknown, problems, .. } = reading;
    if !problems.is_empty() {
        return Err(problems);
    }
    let pacing = match configuration.of_mode().min_sync_period {
        GoDuration::ZERO => Pacing::Default,
        _ => Pacing::Given,
    };
    configuration.fill_in();
    configuration.keep_only_the_mode();
    let complaints = document.complaint.into_iter().chain(unknown).collect();
    Ok(Decoded { configuration, complaints, pacing })
}

/// Takes a key out that must have one certain value.
fn expect(object: &mut Map<String, Value>, key: &str, want: &str) -> Option<Problem> {
    match object.remove(key) {
        Some(Value::String(text)) if text == want => None,
        found => Some(wrong(key, &found.unwrap_or_default(), format!("must be {want}"))),
    }
}

/// What is wrong with a value, which is shown if it is short.
fn wrong(path: impl Into<String>, value: &Value, allowed: impl Into<String>) -> Problem {
    match value {
        Value::String(text) => Problem::text(path, text, allowed),
        Value::Object(_) => Problem::new(path, "{…}", allowed),
        Value::Array(_) => Problem::new(path, "[…]", allowed),
        other => Problem::new(path, other, allowed),
    }
}

/// What has been found so far.
struct Reading<'a> {
    slots: BTreeMap<&'static str, Slot<'a>>,
    unknown: Vec<String>,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn object(&mut self, prefix: &str, object: &Map<String, Value>) {
        for (key, value) in object {
            let path = format!("{prefix}{key}");
            let inside = format!("{path}.");
            let slot = self.slots.get_mut(path.as_str()).filter(|_| !key.contains('.'));
            if let Some(slot) = slot {
                if let Err(allowed) = slot.read_value(value) {
                    self.problems.push(wrong(path, value, allowed));
                }
            } else if key.contains('.') || !self.slots.keys().any(|known| known.starts_with(&inside)) {
                self.unknown.push(format!("unknown field \"{}\"", clip(&path)));
            } else {
                match value {
                    Value::Object(object) => self.object(&inside, object),
                    Value::Null => {}
                    other => self.problems.push(wrong(path, other, "must be an object")),
                }
            }
        }
    }
}

impl Slot<'_> {
    /// Takes a value of a document. An error says what is allowed.
    fn read_value(&mut self, value: &Value) -> Result<(), String> {
        if value.is_null() {
            return self.read_null();
        }
        match self {
            Self::Text(slot) => **slot = text(value)?,
            Self::Switch(slot) => **slot = boolean(value)?,
            Self::MaybeSwitch(slot) => **slot = Some(boolean(value)?),
            Self::Number(slot) => **slot = int32(value)?,
            Self::MaybeNumber(slot) => **slot = Some(int32(value)?),
            Self::Float(slot) => **slot = float(value)?,
            Self::Level(slot) => **slot = level(value)?,
            Self::Duration(slot) => **slot = duration(value)?,
            Self::MaybeDuration(slot) => **slot = Some(duration(value)?),
            Self::Flush(slot) => match value.as_i64() {
                Some(nanos) => {
                    (slot.duration, slot.written) = (GoDuration::from_nanos(nanos), Written::AsNanos);
                }
                None => (slot.duration, slot.written) = (duration(value)?, Written::AsText),
            },
            Self::Texts(slot) => {
                **slot = Some(list(value)?.iter().map(text_or_null).collect::<Result<_, _>>()?)
            }
            Self::Gates(slot) => {
                let object = value.as_object().ok_or("must be an object of names with true or false")?;
                let pair = |(name, value): (&String, &Value)| {
                    // A map's value that is null is Go's zero, which is false.
                    let value = if value.is_null() { &Value::Bool(false) } else { value };
                    let value = boolean(value).map_err(|allowed| format!("{}: {allowed}", clip(name)))?;
                    Ok((name.clone(), value))
                };
                **slot = object.iter().map(pair).collect::<Result<_, String>>()?;
            }
            Self::Modules(slot) => **slot = list(value)?.iter().map(module).collect::<Result<_, _>>()?,
            Self::Size(slot) => {
                let text = match value {
                    Value::Number(number) => number.to_string(),
                    other => text(other)?,
                };
                **slot = Quantity::parse(&text).ok_or("must be a size such as 512, 1Ki or 2M")?;
            }
        }
        Ok(())
    }

    /// Null is "not given", but for durations, where kube-proxy refuses it.
    fn read_null(&self) -> Result<(), String> {
        match self {
            Self::Duration(_) => {
                Err("must be a duration such as 30s; leave the field out for its default".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "must be a text; put it in quotes".to_owned())
}

/// A list's element that is null is an empty text, as in Go.
fn text_or_null(value: &Value) -> Result<String, String> {
    if value.is_null() { Ok(String::new()) } else { text(value) }
}

fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".to_owned())
}

/// Whole numbers may be written as `5.0` or `1e2`.
fn whole(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and far inside of 64 bits")]
    let from_float = |float: f64| (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(from_float))
}

fn int32(value: &Value) -> Result<i32, String> {
    whole(value)
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| "must be a whole number from -2147483648 to 2147483647".to_owned())
}

fn level(value: &Value) -> Result<u32, String> {
    whole(value)
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| "must be a number from 0 to 2147483647".to_owned())
}

fn float(value: &Value) -> Result<f32, String> {
    let parsed = value.as_f64().and_then(|_| value.to_string().parse::<f32>().ok());
    parsed
        .filter(|number| number.is_finite())
        .ok_or_else(|| "must be a number such as 5 or 0.5, at most 3.4e38".to_owned())
}

fn duration(value: &Value) -> Result<GoDuration, String> {
    let text = value.as_str().ok_or("must be a duration such as 30s, with its unit")?;
    GoDuration::parse(text).map_err(|error| error.to_string())
}

fn list(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| "must be a list".to_owned())
}

fn module(value: &Value) -> Result<ModuleVerbosity, String> {
    let object = value.as_object().ok_or("must be a list of objects with filePattern and verbosity")?;
    let given = |key: &str| object.get(key).filter(|value| !value.is_null());
    Ok(ModuleVerbosity {
        file_pattern: given("filePattern").map_or_else(|| Ok(String::new()), text)?,
        verbosity: given("verbosity").map_or(Ok(0), level)?,
    })
}
