//! Numbers as a reader wants them.

use crate::measure::{Unit, Value};

/// With its unit.
pub(crate) fn amount(value: Value, unit: Unit) -> String {
    let text = match unit {
        Unit::Seconds => seconds(value.number),
        Unit::Microseconds => format!("{:.1} µs", value.number),
        Unit::Megabytes => format!("{:.0} MB", value.number),
        Unit::Times => format!("{:.2}", value.number),
        Unit::Count => format!("{:.0}", value.number),
        Unit::PerMille => format!("{:.1} ‰", value.number),
    };
    if value.is_at_least { format!("not after {text}") } else { text }
}

/// A ratio.
pub(crate) fn times(value: Value) -> String {
    let text = match value.number {
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    };
    if value.is_at_least { format!("more than {text}") } else { text }
}

fn seconds(number: f64) -> String {
    match number {
        number if number >= 100.0 => format!("{number:.0} s"),
        number if number >= 1.0 => format!("{number:.2} s"),
        number => format!("{:.1} ms", number * 1e3),
    }
}

/// With a comma.
pub(crate) fn thousands(number: u32) -> String {
    match (number / 1000, number % 1000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}
