//! Measured values as a grid: a row for each thing, a column for each number of Services.
//!
//! In: values in any order of sizes. Out: rows of cells, the first being the head; values that belong to no single size
//! are left out, see [`loose`].

use super::{Goal, Measured, thousands};

/// Rows of equal length.
pub(super) fn rows(measured: &[Measured]) -> Vec<Vec<String>> {
    let mut sizes: Vec<u32> = measured.iter().filter_map(|m| m.services).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = vec!["Services".to_owned()];
    head.extend(sizes.iter().map(|size| thousands(*size)));
    head.extend(["goal".to_owned(), String::new()]);
    let mut rows = vec![head];
    for (n, first) in measured.iter().enumerate() {
        let is_new = !measured.iter().take(n).any(|m| m.services.is_some() && m.what == first.what);
        if first.services.is_some() && is_new {
            rows.push(row(&first.what, &sizes, measured));
        }
    }
    rows
}

fn row(what: &str, sizes: &[u32], measured: &[Measured]) -> Vec<String> {
    let own: Vec<&Measured> = measured.iter().filter(|m| m.services.is_some() && m.what == what).collect();
    let cell = |size: &u32| {
        let values: Vec<&str> =
            own.iter().filter(|m| m.services == Some(*size)).map(|m| m.value.as_str()).collect();
        values.join("; ")
    };
    let mut row = vec![what.to_owned()];
    row.extend(sizes.iter().map(cell));
    row.extend([wanted(&own), verdict(&own)]);
    row
}

/// What is wanted; where, if not everywhere the same.
fn wanted(own: &[&Measured]) -> String {
    let first = own.first().map(|m| m.wanted).unwrap_or_default();
    if own.iter().all(|m| m.wanted == first) {
        return first.to_owned();
    }
    let parts = own.iter().filter(|m| !m.wanted.is_empty());
    parts.map(|m| format!("{}{}", m.wanted, at(m))).collect::<Vec<_>>().join(", ")
}

fn verdict(own: &[&Measured]) -> String {
    let missed: Vec<String> =
        own.iter().filter(|m| m.goal == Goal::Missed).map(|m| format!("MISSED{}", at(m))).collect();
    match missed.as_slice() {
        [] if own.iter().any(|m| m.goal == Goal::Met) => "ok".to_owned(),
        missed => missed.join(", "),
    }
}

fn at(measured: &Measured) -> String {
    measured.services.map(|services| format!(" at {}", thousands(services))).unwrap_or_default()
}

/// Values that belong to no single size, each as a line.
pub(super) fn loose(measured: &[Measured]) -> Vec<String> {
    let line = |m: &Measured| match m.wanted {
        "" => format!("{}: {}", m.what, m.value),
        wanted => {
            let verdict = verdict(&[m]);
            let verdict = if verdict.is_empty() { verdict } else { format!("; {verdict}") };
            format!("{}: {} (goal: {wanted}{verdict})", m.what, m.value)
        }
    };
    measured.iter().filter(|m| m.services.is_none()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(services: u32, what: &str, value: &str, wanted: &'static str, goal: Goal) -> Measured {
        Measured::info(services, what, value).wanting(wanted, goal)
    }

    #[test]
    fn sizes_are_columns_and_goals_say_where() {
        let all = [
            measured(1_000, "memory", "9 MB", "", Goal::None),
            measured(10_000, "memory", "70 MB", "under 60 MB", Goal::Missed),
            measured(10_000, "ratio", "2.0", "under 2.5", Goal::Met),
            Measured { services: None, ..measured(0, "flat", "1.1", "under 1.5", Goal::Met) },
        ];
        let rows: Vec<String> = rows(&all).iter().map(|row| row.join("|")).collect();
        assert_eq!(
            rows,
            [
                "Services|1,000|10,000|goal|",
                "memory|9 MB|70 MB|under 60 MB at 10,000|MISSED at 10,000",
                "ratio||2.0|under 2.5|ok",
            ]
        );
        assert_eq!(loose(&all), ["flat: 1.1 (goal: under 1.5; ok)"]);
    }
}
