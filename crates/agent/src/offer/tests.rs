//! What is offered is what is read; where the tools are there, they agree that it is well-formed.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// Runs a checker with a text as its input; `None` if this machine does not have it.
fn check(program: &str, arguments: &[&str], text: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take().unwrap();
    // Whoever stops reading has found something.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// What bash would offer for a line.
fn offered(line: &str) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    let script = format!(
        "{}\nCOMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _switchyard; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        completion(Shell::Bash),
        words.join(" ")
    );
    let (is_fine, said) = check("bash", &["-s"], &script).unwrap();
    assert!(is_fine, "{said}");
    said.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_offers_flags_subcommands_and_values() {
    assert_eq!(offered("switchyard --proxy-m"), ["--proxy-mode"]);
    assert_eq!(offered("switchyard exp"), ["explain"]);
    assert_eq!(offered("switchyard get serv"), ["services"]);
    assert_eq!(offered("switchyard get services -o "), ["table", "wide", "json", "yaml", "name"]);
    assert_eq!(offered("switchyard explain -o "), ["table", "json", "yaml"], "nothing is wider there");
    assert!(offered("switchyard explain --proxy-m").is_empty());
    assert!(offered("switchyard --kubeconfig ").is_empty(), "bash completes files then");
}

#[test]
fn every_flag_that_help_shows_is_everywhere() {
    let (program, subcommands) = all();
    assert!(program.flags.len() > 30 && subcommands.len() > 3);
    let texts = [completion(Shell::Bash), completion(Shell::Zsh), completion(Shell::Fish)];
    let manual = manual();
    for flag in program.flags.iter().chain(subcommands.iter().flat_map(|offer| &offer.flags)) {
        let long = &flag.long;
        assert!(
            texts
                .iter()
                .all(|text| text.contains(&format!("--{long}")) || text.contains(&format!("-l {long}"))),
            "{long}"
        );
        assert!(manual.contains(&long.replace('-', r"\-")), "{long}");
        assert!(!flag.help.is_empty(), "{long}");
    }
    assert!(!manual.contains("stray"));
}

#[test]
fn scripts_and_manual_are_well_formed() {
    let checks = [
        ("bash", vec!["-n"], completion(Shell::Bash)),
        ("zsh", vec!["-n"], completion(Shell::Zsh)),
        ("fish", vec!["--no-execute"], completion(Shell::Fish)),
        ("groff", vec!["-man", "-Tutf8", "-ww", "-z"], manual()),
    ];
    for (program, arguments, text) in checks {
        if let Some((is_fine, said)) = check(program, &arguments, &text) {
            assert!(is_fine && said.is_empty(), "{program}: {said}");
        }
    }
}
