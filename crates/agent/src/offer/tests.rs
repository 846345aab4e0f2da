//! What is offered is what is read; where the tools are there, they agree that it is well-formed.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// Runs a checker with a text as its input; `None`, loudly, if this machine does not have it.
fn check(program: &str, arguments: &[&str], text: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but {program}: {error}");
            writeln!(std::io::stderr(), "SKIPPED: no {program}: {error}").unwrap();
            return None;
        }
    };
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

/// The manual page as it is read, without line breaks; nothing if this machine cannot show it.
fn shown_manual() -> Option<String> {
    let (is_fine, shown) = check("groff", &["-man", "-Tascii", "-P-cbou", "-rLL=400n"], &manual())?;
    assert!(is_fine, "{shown}");
    Some(shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn the_manual_tells_what_stands_without_a_dash_and_every_exit_code() {
    let page = manual();
    for part in [
        ".SS switchyard get RESOURCE [NAME]... [FLAGS]\n",
        "\n.TP\n\\fIRESOURCE\\fR\nWhat to list.\n.RS\n.TP\n\\fBservices\\fR\nService ports.\n",
        "\n.TP\n\\fINAME\\fR\nOnly what is of Services with these names",
        "\n.TP\n\\fISHELL\\fR\nFor which shell.\n.RS\n.TP\n\\fBbash\\fR\n",
        "\n.TP\n.B switchyard diff\n\\fB0\\fR: nothing differs; \\fB1\\fR: something differs; \\fB2\\fR: it cannot be said.\n",
    ] {
        assert!(page.contains(part), "{part}\nis not in\n{page}");
    }
    let (program, subcommands) = all();
    let exits = page.split_once(".SH EXIT STATUS\n").unwrap().1;
    for offer in &subcommands {
        assert!(exits.contains(&format!("switchyard {}", offer.name)), "{}", offer.name);
        for choice in offer.positionals.iter().flat_map(|one| &one.choices) {
            assert!(page.contains(&format!(r"\fB{}\fR", choice.name)), "{choice:?}");
        }
    }
    // Every explanation is a sentence: those of flags and of positionals stand two lines below what they explain.
    let lines: Vec<&str> = page.lines().collect();
    let told = lines.windows(3).filter(|three| three[0] == ".TP").map(|three| three[2]);
    let (told, flags) = (told.collect::<Vec<_>>(), program.flags.len());
    assert!(told.len() > flags && told.iter().all(|text| text.ends_with(['.', '?', '!'])), "{told:#?}");
    if let Some(shown) = shown_manual() {
        let get = "switchyard get 0: the list is printed, also if it is empty; 1: a Service that was asked for by name";
        assert!(shown.contains(get), "{shown}");
    }
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
