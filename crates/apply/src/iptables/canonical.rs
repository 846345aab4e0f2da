//! A rule in a form that does not depend on who wrote it down: we for `iptables-restore`, or `iptables-save` of either variant.
//!
//! In: a line, or words. Out: what the rule asks for, sorted. What is understood by default is left out, numbers have one form, and comments
//! are dropped. A word that is not known stays as it is, so an unknown rule equals only itself.

use std::net::IpAddr;

use ipnet::IpNet;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Canonical(Vec<String>);

/// Odds are kept by the kernel as a fraction of this.
const ODDS: f64 = 2_147_483_648.0;

impl Canonical {
    /// Of a line, with or without `-A CHAIN` in front.
    pub(super) fn of_line(line: &str) -> Self {
        let words = words(line);
        let mut rest = words.iter().map(String::as_str);
        if words.first().is_some_and(|word| word == "-A") {
            rest.nth(1);
        }
        Self::of_words(rest)
    }

    /// Of arguments, one word each.
    pub(super) fn of_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut facts = Vec::new();
        let mut is_negated = false;
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            match word {
                "!" => {
                    is_negated = true;
                    continue;
                }
                // Which module an option belongs to, its name says.
                "-m" => _ = words.next(),
                "--comment" => _ = words.next(),
                "--rsource" => {}
                option => {
                    let value = words.next_if(|next| !next.starts_with('-') && *next != "!");
                    let sign = if is_negated { "! " } else { "" };
                    facts.extend(fact(option, value.unwrap_or_default()).map(|fact| format!("{sign}{fact}")));
                }
            }
            is_negated = false;
        }
        facts.sort_unstable();
        Self(facts)
    }
}

/// One option with its value; nothing if it says what would be so anyway.
fn fact(option: &str, value: &str) -> Option<String> {
    let plain = |value: String| Some(format!("{option} {value}"));
    match option {
        "-s" | "-d" => plain(range(value)),
        "--mark" => plain(mark(value)),
        "--or-mark" => Some(format!("--set-xmark {}", mark(&format!("{value}/{value}")))),
        "--xor-mark" => Some(format!("--set-xmark {}", mark(&format!("{value}/0")))),
        "--set-xmark" => plain(mark(value)),
        "--probability" => plain(odds(value)),
        "--ctstate" => plain(sorted(value)),
        "--mask" if is_host_mask(value) => None,
        "--reject-with" if value.ends_with("-port-unreachable") => None,
        _ => plain(value.to_owned()),
    }
}

fn range(value: &str) -> String {
    let alone = || value.parse::<IpAddr>().ok().map(IpNet::from);
    match value.parse::<IpNet>().ok().or_else(alone) {
        Some(range) => range.trunc().to_string(),
        None => value.to_owned(),
    }
}

/// Value and mask, in one of the forms that iptables takes.
fn mark(value: &str) -> String {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (mark, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
    match (number(mark), number(mask)) {
        (Some(mark), Some(mask)) => format!("{mark:#x}/{mask:#x}"),
        _ => value.to_owned(),
    }
}

/// As near as the kernel can tell.
fn odds(value: &str) -> String {
    value.parse::<f64>().map_or_else(|_| value.to_owned(), |odds| format!("{:.0}", odds * ODDS))
}

fn sorted(value: &str) -> String {
    let mut parts: Vec<&str> = value.split(',').collect();
    parts.sort_unstable();
    parts.join(",")
}

fn is_host_mask(value: &str) -> bool {
    match value.parse::<IpAddr>() {
        Ok(IpAddr::V4(mask)) => mask.is_broadcast(),
        Ok(IpAddr::V6(mask)) => mask.octets() == [0xff; 16],
        Err(_) => false,
    }
}

/// Words apart by spaces, with double quotes and backslashes as `iptables-save` uses them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let (mut is_quoted, mut characters) = (false, line.chars());
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            ' ' if !is_quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_of_a_rule_are_one() {
        for (ours, saved) in [
            (
                " -m comment --comment \"a/b cluster IP\" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j KUBE-SVC-A",
                "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"a/b cluster IP\" -m tcp --dport 80 -j KUBE-SVC-A",
            ),
            (" -j MARK --or-mark 0x00004000", "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000"),
            (" -j MARK --xor-mark 0x00004000", "-A X -j MARK --set-xmark 0x4000/0x0"),
            (
                " -m mark ! --mark 0x00004000/0x00004000 -j RETURN",
                "-A X -m mark ! --mark 0x4000/0x4000 -j RETURN",
            ),
            (
                " -m statistic --mode random --probability 0.3333333333 -j A",
                "-A X -m statistic --mode random --probability 0.33333333349 -j A",
            ),
            (" -j REJECT", "-A X -j REJECT --reject-with icmp6-port-unreachable"),
            (
                " -m recent --name A --rcheck --seconds 60 --reap -j B",
                "-A X -m recent --rcheck --seconds 60 --reap --name A --mask 255.255.255.255 --rsource -j B",
            ),
            (
                " -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
                "-A X -m conntrack ! --ctstate RELATED,DNAT,ESTABLISHED -j DROP",
            ),
        ] {
            assert_eq!(Canonical::of_line(ours), Canonical::of_line(saved), "{ours}");
        }
    }

    #[test]
    fn rules_that_differ_stay_different() {
        let lines = [
            "-d 10.0.0.1 -j A",
            "-d 10.0.0.2 -j A",
            "! -d 10.0.0.1 -j A",
            "-s 10.0.0.1 -j A",
            "-d 10.0.0.1 -j B",
            "-m mark --mark 0x1/0x1 -j A",
            "-m statistic --mode random --probability 0.5 -j A",
            "-m statistic --mode random --probability 0.25 -j A",
            "-j REJECT --reject-with tcp-reset",
            "-j REJECT",
        ];
        for (a, one) in lines.iter().enumerate() {
            for other in &lines[a + 1..] {
                assert_ne!(Canonical::of_line(one), Canonical::of_line(other));
            }
        }
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line: String) {
            Canonical::of_line(&line);
        }
    }
}
