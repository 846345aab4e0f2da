//! Any configuration: print, parse, print; and numbers at and past their limits.

use proptest::prelude::*;

use super::*;
use crate::slot::Slot;

/// Texts that are hard on a printer of YAML.
fn hard_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9./:-]{0,12}",
        "[-?:,\\[\\]{}#&*!|>'\"%@`=<~+._ 0-9a-fyntoE]{0,6}",
        any::<String>(),
        Just("null".to_owned()),
        Just("0x1f".to_owned()),
        Just("1:30".to_owned()),
        Just("2024-01-01".to_owned()),
        Just("a\nb\n".to_owned()),
        Just("\u{85}\u{2028}\u{feff}".to_owned()),
    ]
}

/// Fills every field with something.
fn fill(configuration: &mut Configuration, texts: &[String], numbers: &[i64], switches: u64) {
    let mut texts = texts.iter().cycle().cloned();
    let mut numbers = numbers.iter().cycle().copied();
    let mut text = || texts.next().unwrap_or_default();
    let mut number = || numbers.next().unwrap_or_default();
    for (n, (_, slot)) in configuration.slots().into_iter().enumerate() {
        let switch = switches >> (n % 64) & 1 == 1;
        let int = i32::try_from(number() >> 32).expect("32 bits are left");
        match slot {
            Slot::Text(slot) => *slot = text(),
            Slot::Switch(slot) => *slot = switch,
            Slot::MaybeSwitch(slot) => *slot = Some(switch),
            Slot::Number(slot) => *slot = int,
            Slot::MaybeNumber(slot) => *slot = Some(int),
            Slot::Float(slot) => *slot = f32::from_bits(int.cast_unsigned()),
            Slot::Level(slot) => *slot = int.cast_unsigned(),
            Slot::Duration(slot) => *slot = GoDuration::from_nanos(number()),
            Slot::MaybeDuration(slot) => *slot = Some(GoDuration::from_nanos(number())),
            Slot::Flush(slot) => {
                slot.duration = GoDuration::from_nanos(number());
                slot.written =
                    if switch { configuration::Written::AsNanos } else { configuration::Written::AsText };
            }
            Slot::Texts(slot) => *slot = switch.then(|| vec![text(), text()]),
            Slot::Gates(slot) => *slot = [(text(), switch), (text(), !switch)].into(),
            Slot::Modules(slot) => {
                *slot = vec![configuration::ModuleVerbosity {
                    file_pattern: text(),
                    verbosity: int.cast_unsigned(),
                }];
            }
            Slot::Size(slot) => *slot = quantity::Quantity::parse(&format!("{int}Ki")).expect("a size"),
        }
    }
    if !configuration.client_connection.qps.is_finite() {
        configuration.client_connection.qps = 0.25;
    }
}

proptest! {
    /// Also with fields that the checks would refuse: what can be held can be printed and read.
    #[test]
    fn what_is_printed_is_read_back(
        texts in proptest::collection::vec(hard_text(), 1..40),
        numbers in proptest::collection::vec(any::<i64>(), 1..40),
        switches: u64,
        mode in "(|iptables|ipvs|nftables|x)",
    ) {
        let mut first = Configuration::default();
        fill(&mut first, &texts, &numbers, switches);
        first.mode = mode;
        first.fill_in();
        first.keep_only_the_mode();
        let page = first.to_yaml();
        let second = decode(&page).map_err(|problems| TestCaseError::fail(format!("{problems:?} in\n{page}")))?;
        prop_assert_eq!(second.complaints, Vec::<String>::new());
        prop_assert_eq!(second.configuration.to_yaml(), page);
        prop_assert_eq!(&second.configuration, &first);
        prop_assert_eq!(second.configuration.check(), first.check());
    }

    #[test]
    fn no_text_panics_the_reader(text in any::<String>(), key in "[a-zA-Z.]{0,20}", value in hard_text()) {
        let _ = decode(&text);
        let _ = decode(&format!("{HEAD}{key}: {value}\n"));
        let _ = decode(&format!("{HEAD}iptables:\n  {key}: {value}\nmode: {value}\n"));
    }

    #[test]
    fn no_file_value_is_lost_or_bent(number in any::<i32>(), nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        let got = decoded(&format!("oomScoreAdj: {number}\nconntrack: {{tcpEstablishedTimeout: {duration}}}\n"));
        prop_assert_eq!(got.configuration.oom_score_adj, Some(number));
        prop_assert_eq!(got.configuration.conntrack.tcp_established_timeout, Some(duration));
    }
}

/// Numbers with a range: path, least, most. Whole 32-bit numbers end where the type does.
#[test]
fn every_number_is_taken_at_its_limits_and_refused_past_them() {
    let (min, max) = (i64::from(i32::MIN), i64::from(i32::MAX));
    for (path, least, most, beside) in [
        ("oomScoreAdj", -1000, 1000, ""),
        ("iptables: {masqueradeBit", 0, 31, ""),
        ("nftables: {masqueradeBit", 0, 31, "mode: nftables"),
        ("conntrack: {maxPerCore", 0, max, ""),
        ("conntrack: {min", 0, max, ""),
        ("clientConnection: {burst", 0, max, ""),
        ("logging: {verbosity", 0, max, ""),
        ("logging: {flushFrequency", 0, i64::MAX, ""),
    ] {
        let closing = if path.contains('{') { "}" } else { "" };
        let found = |number: i128| problems(&format!("{path}: {number}{closing}\n{beside}\n"));
        for good in [least, most] {
            assert_eq!(found(good.into()), [""; 0], "{path}: {good}");
        }
        for bad in [i128::from(least) - 1, i128::from(most) + 1, min.into(), i128::from(u64::MAX), i128::MAX]
        {
            assert!(!found(bad).is_empty(), "{path}: {bad}");
        }
    }
    let longest = "2562047h47m16.854775807s";
    assert_eq!(problems(&format!("configSyncPeriod: {longest}")), [""; 0]);
    assert_eq!(problems("configSyncPeriod: 2562047h47m16.854775808s").len(), 1);
}
