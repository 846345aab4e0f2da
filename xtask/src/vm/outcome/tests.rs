//! Accounts that are complete, and every way in which one can fall short.

use super::*;

const WORD: &str = "w0rd";
const RELEASE: &str = "6.1.0-54-cloud-amd64";

/// A run of two programs in which all is well.
const GOOD: &str = "@vm w0rd boot 6.1.0-54-cloud-amd64
@vm w0rd begin 0

running 2 tests
test a ... ok
lab nftables, flags: 54 scenarios
test b ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.08s

@vm w0rd end 0 0
@vm w0rd begin 1
running 1 test
test c ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
@vm w0rd end 1 0
@vm w0rd done
";

fn steps() -> Vec<Step> {
    ["lab_scenarios", "lab_probe"].map(Step::named).into()
}

fn judge(text: &str, console: &str, end: End) -> Verdict {
    let steps = steps();
    let mut account = Account::new(WORD, RELEASE, &steps);
    text.lines().for_each(|line| account.line(line));
    account.finish(console, end)
}

/// The complaints about an account that ends normally, on one line.
fn complaints(text: &str) -> String {
    judge(text, "", End::Normal).complaints.join(" | ")
}

fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?}");
    GOOD.replace(from, to)
}

#[test]
fn a_complete_account_is_a_success() {
    let verdict = judge(GOOD, "[    0.1] all is well\n", End::Normal);
    assert_eq!(
        verdict,
        Verdict { counts: Counts { passed: 3, failed: 0 }, complaints: Vec::new(), figures: Vec::new() }
    );
}

#[test]
fn no_beginning_of_an_account_is_a_success() {
    let lines: Vec<&str> = GOOD.lines().collect();
    for count in 0..lines.len() {
        let start: String = lines.iter().take(count).map(|line| format!("{line}\n")).collect();
        assert!(!complaints(&start).is_empty(), "{start}");
    }
}

#[test]
fn no_account_that_lacks_a_line_of_the_guest_is_a_success() {
    let own = |line: &&str| {
        line.starts_with(MARK) || line.starts_with("test result") || line.starts_with("running")
    };
    for missing in GOOD.lines().filter(own) {
        assert!(!complaints(&changed(&format!("{missing}\n"), "")).is_empty(), "{missing}");
    }
}

#[test]
fn failures_are_named() {
    let text = changed("test b ... ok", "test b ... FAILED")
        .replace("ok. 2 passed; 0 failed", "FAILED. 1 passed; 1 failed")
        .replace("end 0 0", "end 0 101");
    let verdict = judge(&text, "", End::Normal);
    assert_eq!(verdict.counts, Counts { passed: 2, failed: 1 });
    assert_eq!(verdict.complaints, ["lab_scenarios: 1 failed, status 101: b"]);
}

#[test]
fn a_status_counts_even_where_the_summary_is_good() {
    assert_eq!(complaints(&changed("end 0 0", "end 0 139")), "lab_scenarios: 0 failed, status 139: ");
}

#[test]
fn the_announced_number_of_tests_must_have_run() {
    assert_eq!(
        complaints(&changed("running 2 tests", "running 4 tests")),
        "lab_scenarios: 4 tests were announced, 2 ran"
    );
    assert!(
        complaints(&changed("1 passed; 0 failed; 0 ignored", "0 passed; 0 failed; 1 ignored"))
            .contains("ignored")
    );
    let none =
        changed("running 1 test", "running 0 tests").replace("1 passed; 0 failed", "0 passed; 0 failed");
    assert_eq!(complaints(&none), "lab_probe: no test ran");
}

#[test]
fn skipped_tests_and_other_kernels_are_no_success() {
    assert_eq!(complaints(&changed("test c ... ok", "SKIPPED: no lab")), "SKIPPED: no lab");
    assert!(complaints(&changed("boot 6.1.0-54", "boot 6.1.0-53")).contains("6.1.0-53"));
}

#[test]
fn another_runs_lines_do_not_count() {
    assert!(complaints(&GOOD.replace(WORD, "other")).contains("closing line"));
}

#[test]
fn crashes_and_hangs_are_no_success() {
    let crash = "[    5.043] BUG: kernel NULL pointer dereference, address: 0000000000000008\n";
    assert!(judge(GOOD, crash, End::Normal).complaints.concat().contains("NULL pointer"));
    assert!(!judge(GOOD, "", End::Deadline).complaints.is_empty());
    assert!(!judge(GOOD, "", End::Failed).complaints.is_empty());
    assert!(judge(GOOD, "[    0.0] DEBUG: BUG: is only a word here\n", End::Normal).complaints.is_empty());
}

#[test]
fn whoever_waits_is_told_what_runs() {
    let steps = steps();
    let mut account = Account::new(WORD, RELEASE, &steps);
    assert_eq!(account.stage(), "boot");
    GOOD.lines().take(4).for_each(|line| account.line(line));
    assert_eq!(account.stage(), "lab_scenarios");
}

#[test]
fn a_benchmark_must_print_figures_and_succeed() {
    let step = Step { judged: Judged::Figures, ..Step::named("benchmark") };
    let judge = |output: &str, status: &str| {
        let mut account = Account::new(WORD, RELEASE, std::slice::from_ref(&step));
        let text = format!(
            "@vm w0rd boot {RELEASE}\n@vm w0rd begin 0\n{output}\n@vm w0rd end 0 {status}\n@vm w0rd done"
        );
        text.lines().for_each(|line| account.line(line));
        account.finish("", End::Normal)
    };
    let good = judge("@figures {}", "0");
    assert_eq!(
        (good.complaints.as_slice(), good.figures.as_slice()),
        (&[][..], &["@figures {}".to_owned()][..])
    );
    assert!(!judge("@figures {}", "1").complaints.is_empty());
    assert!(!judge("nothing", "0").complaints.is_empty());
}
