//! What the programs say when they refuse input, in all known forms, and that no text from them is trusted.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use proptest::prelude::*;

const INPUT: &str = "*nat\n:A - [0:0]\n-A A -j B\n-A A -j ACCEPT\n-X C\nCOMMIT\n";

fn fail(code: i32, stderr: &str) -> RestoreError {
    let finished = Finished {
        status: ExitStatus::from_raw(code << 8),
        stdout: vec![],
        stderr: stderr.as_bytes().to_vec(),
    };
    RestoreError::failed(&finished, INPUT, Path::new("/nonexistent"))
}

#[track_caller]
fn check_line(code: i32, stderr: &str, line: usize, step: NextStep) {
    let error = fail(code, stderr);
    assert_eq!(error.line(), Some(line), "{error:?}");
    assert_eq!(error.next_step(), step, "{error:?}");
}

#[test]
fn known_forms_with_a_line() {
    let quarantine = |line| NextStep::Quarantine { line };
    check_line(1, "iptables-restore: line 4 failed\n", 4, quarantine(4));
    check_line(1, "ip6tables-restore: line 5 failed\n", 5, quarantine(5));
    check_line(
        1,
        "iptables-nft-restore: line 3 failed: No chain/target/match by that name.\n",
        3,
        NextStep::FullSync,
    );
    check_line(
        4,
        "iptables-nft-restore v1.8.9 (nf_tables): \nline 5: CHAIN_DEL failed (Device or resource busy): chain C\n",
        5,
        quarantine(5),
    );
    check_line(
        4,
        "iptables-nft-restore v1.8.9 (nf_tables): line 5: CHAIN_USER_DEL failed (Device or resource busy)\n",
        5,
        quarantine(5),
    );
    check_line(
        2,
        "Bad argument `bogus'\nError occurred at line: 4\nTry `iptables-restore -h'\n",
        4,
        quarantine(4),
    );
    check_line(1, "iptables-restore: COMMIT expected at line 9\n", 9, NextStep::FullSync);
    check_line(1, "iptables-restore: line 6 failed\n", 6, NextStep::FullSync);
}

#[test]
fn an_absent_target_reported_at_commit_is_blamed_on_the_jump() {
    let text =
        "iptables-nft-restore v1.8.9 (nf_tables): Chain 'B' does not exist\nError occurred at line: 6\n";
    check_line(2, text, 3, NextStep::FullSync);
    let legacy = "iptables-restore v1.8.9 (legacy): Couldn't load target `B':No such file\n\nError occurred at line: 3\n";
    check_line(2, legacy, 3, NextStep::FullSync);
}

#[test]
fn known_forms_without_a_line() {
    let lock = "Can't lock /run/xtables.lock: Resource temporarily unavailable\n\
                Another app is currently holding the xtables lock. Stopped waiting after 5s.\n";
    assert!(matches!(fail(4, lock), RestoreError::Locked { .. }));
    assert_eq!(fail(4, lock).next_step(), NextStep::Backoff);
    let root = "iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: \
                Permission denied (you must be root)\n";
    assert_eq!(fail(4, root).next_step(), NextStep::Stop);
    let file = "Fatal: can't open lock file /run/xtables.lock: Permission denied\n";
    assert!(matches!(fail(4, file), RestoreError::Permission { .. }));
    let table = "iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\
                 Error occurred at line: 1\n";
    assert!(matches!(fail(2, table), RestoreError::TableUnavailable { number: 1, .. }));
    assert!(matches!(fail(9, "what?\n"), RestoreError::Other { status: Some(9), .. }));
}

#[test]
fn quoted_input_cannot_pass_for_another_error() {
    let quoted =
        "Bad argument `Another app is currently holding the xtables lock'\nError occurred at line: 4\n";
    check_line(2, quoted, 4, NextStep::Quarantine { line: 4 });
    let other_line = "Bad argument `line 2 failed'\nError occurred at line: 4\n";
    check_line(2, other_line, 4, NextStep::Quarantine { line: 4 });
    let root = "Bad argument `(you must be root)'\nError occurred at line: 4\n";
    check_line(2, root, 4, NextStep::Quarantine { line: 4 });
}

proptest! {
    #[test]
    fn any_text_is_survived_and_bounded(code in 0..256, stderr in ".{0,5000}", line: u64) {
        let text = fail(code, &format!("{stderr}\nError occurred at line: {line}")).to_string();
        prop_assert!(text.len() < 4096);
        prop_assert!(!text.chars().any(char::is_control));
    }
}
