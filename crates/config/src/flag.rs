//! From the texts of one flag to its field, as Go's flag libraries read them.
//!
//! In: the values of all occurrences, in order. Out: the field's new value, or the text that is wrong and what is
//! allowed. Scalars take the last; lists, maps and file verbosities gather.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::configuration::{ModuleVerbosity, Written};
use crate::duration::GoDuration;
use crate::number;
use crate::problem::Problem;
use crate::quantity::Quantity;
use crate::slot::Slot;

impl Slot<'_> {
    /// True if the flag of this field may stand without a value.
    pub fn is_switch(&self) -> bool {
        matches!(self, Self::Switch(_) | Self::MaybeSwitch(_))
    }

    /// Takes the values of a flag. Every value is looked at, also one that a later one replaces. The problem's path is
    /// left empty: the caller knows the flag's name.
    pub fn read_flag(&mut self, texts: &[&str]) -> Result<(), Problem> {
        match self {
            Self::Texts(list) => **list = Some(gather(texts, list_items)?),
            Self::Modules(modules) => **modules = gather(texts, module_items)?,
            Self::Gates(gates) => {
                let pairs: Vec<(String, bool)> = gather(texts, gate_items)?;
                **gates = pairs.into_iter().collect::<BTreeMap<_, _>>();
            }
            _ => {
                for text in texts {
                    self.read_one(text).map_err(|allowed| Problem::text("", text, allowed))?;
                }
            }
        }
        Ok(())
    }

    /// The value as Go's flag libraries print it, for `/flagz`.
    pub fn flag_text(&self) -> String {
        match self {
            Self::Texts(list) => format!("[{}]", list.as_deref().unwrap_or_default().join(",")),
            Self::Modules(modules) => {
                let pairs =
                    modules.iter().map(|module| format!("{}={}", module.file_pattern, module.verbosity));
                pairs.collect::<Vec<_>>().join(",")
            }
            Self::Gates(gates) => {
                let pairs = gates.iter().map(|(name, value)| format!("{name}={value}"));
                pairs.collect::<Vec<_>>().join(",")
            }
            Self::Flush(value) => value.duration.to_string(),
            other => match other.value() {
                Value::String(text) => text,
                Value::Null => String::new(),
                value => value.to_string(),
            },
        }
    }

    fn read_one(&mut self, text: &str) -> Result<(), String> {
        let duration = || GoDuration::parse(text).map_err(|error| error.to_string());
        let boolean = || number::boolean(text).ok_or_else(|| "must be true or false".to_owned());
        match self {
            Self::Text(slot) => text.clone_into(slot),
            Self::Switch(slot) => **slot = boolean()?,
            Self::MaybeSwitch(slot) => **slot = Some(boolean()?),
            Self::Number(slot) => **slot = number::int32(text)?,
            Self::MaybeNumber(slot) => **slot = Some(number::int32(text)?),
            Self::Float(slot) => **slot = number::float(text)?,
            Self::Level(slot) => **slot = number::level(text)?,
            Self::Duration(slot) => **slot = duration()?,
            Self::MaybeDuration(slot) => **slot = Some(duration()?),
            Self::Flush(slot) => (slot.duration, slot.written) = (duration()?, Written::AsText),
            Self::Size(slot) => {
                **slot =
                    Quantity::parse(text).ok_or("must be a size in bytes such as 512, 1K, 2Ki, 3M or 4Mi")?;
            }
            // These gather, in `read_flag`.
            Self::Texts(_) | Self::Modules(_) | Self::Gates(_) => {}
        }
        Ok(())
    }
}

/// The items of all occurrences.
fn gather<T>(texts: &[&str], items: fn(&str) -> Result<Vec<T>, String>) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    for text in texts {
        all.extend(items(text).map_err(|allowed| Problem::text("", text, allowed))?);
    }
    Ok(all)
}

/// Items with commas between them; quotes as in a CSV file.
fn list_items(text: &str) -> Result<Vec<String>, String> {
    let wrong = || "must be a list with commas; quotes only around whole items".to_owned();
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let (mut items, mut rest) = (Vec::new(), line);
    loop {
        let (item, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_item(quoted).ok_or_else(wrong)?,
            None => {
                let (item, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if item.contains('"') {
                    return Err(wrong());
                }
                (item.to_owned(), after)
            }
        };
        items.push(item);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(items),
            None => return Err(wrong()),
        }
    }
}

/// An item up to its closing quote, and what follows; a doubled quote stands for one.
fn quoted_item(text: &str) -> Option<(String, &str)> {
    let (mut item, mut rest) = (String::new(), text);
    loop {
        let (before, after) = rest.split_once('"')?;
        item.push_str(before);
        match after.strip_prefix('"') {
            Some(next) => {
                item.push('"');
                rest = next;
            }
            None => return Some((item, after)),
        }
    }
}

fn gate_items(text: &str) -> Result<Vec<(String, bool)>, String> {
    let pair = |item: &str| {
        let (name, value) =
            item.split_once('=').ok_or("must be name=true or name=false, with commas between")?;
        let (name, value) = (name.trim(), value.trim());
        let value = number::boolean(value)
            .ok_or_else(|| format!("the value of {} must be true or false", name.escape_debug()))?;
        Ok((name.to_owned(), value))
    };
    text.split(',').filter(|item| !item.is_empty()).map(pair).collect()
}

fn module_items(text: &str) -> Result<Vec<ModuleVerbosity>, String> {
    let module = |item: &str| {
        let (pattern, level) =
            item.split_once('=').ok_or("must be pattern=N, with commas between".to_owned())?;
        if pattern.is_empty() || level.is_empty() {
            return Err("must be pattern=N, with commas between".to_owned());
        }
        Ok(ModuleVerbosity { file_pattern: pattern.to_owned(), verbosity: number::level(level)? })
    };
    text.split(',').filter(|item| !item.is_empty()).map(module).collect()
}

#[cfg(test)]
mod tests;
