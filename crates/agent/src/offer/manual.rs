//! The manual page, in the language of man(7).

use super::{Choice, Flag, Offer, Positional, names};

/// Text as it should be read: no letter of it is a command.
fn plain(text: &str) -> String {
    let text = text.replace('\\', r"\e").replace('-', r"\-");
    let lines = text.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!(r"\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Help texts are half sentences; here they stand beside whole ones.
fn sentence(text: &str) -> String {
    let is_ended = text.is_empty() || text.ends_with(['.', '?', '!']);
    plain(text) + if is_ended { "" } else { "." }
}

/// What may stand there: in a line, or a list if there is something to say about each.
fn choices(choices: &[Choice]) -> String {
    if choices.iter().any(|choice| !choice.help.is_empty()) {
        let items =
            choices.iter().map(|c| format!(".TP\n\\fB{}\\fR\n{}\n", plain(&c.name), sentence(&c.help)));
        return format!("\n.RS\n{}.RE\n", items.collect::<String>());
    }
    match names(choices).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "\n".to_owned(),
        list => format!(" One of: {}.\n", plain(&list)),
    }
}

fn flag(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!(r"\fB\-{short}\fR, ")).unwrap_or_default();
    let value = match &flag.value {
        Some(value) => format!(r" \fI{}\fR", plain(value)),
        None if flag.is_switch && flag.heading.is_some() => r"[=\fItrue\fR|\fIfalse\fR]".to_owned(),
        None => String::new(),
    };
    let (long, help) = (plain(&flag.long), sentence(&flag.help));
    format!(".TP\n{short}\\fB\\-\\-{long}\\fR{value}\n{help}{}", choices(&flag.choices))
}

fn positional(positional: &Positional) -> String {
    let (name, help) = (plain(&positional.name), sentence(&positional.help));
    format!(".TP\n\\fI{name}\\fR\n{help}{}", choices(&positional.choices))
}

/// What the exit code says, for each command: of 0, of 1, and of 2 where 1 is an answer.
const EXITS: [(&str, &[&str]); 9] = [
    (
        "switchyard",
        &[
            "it was asked to end by SIGTERM, or did what a flag such as \\-\\-cleanup asks for",
            "it could not",
        ],
    ),
    ("switchyard demo", &["every packet went where it should", "one did not, or it could not be shown"]),
    ("switchyard explain", &["the answer is printed", "there is none"]),
    (
        "switchyard explain \\-\\-probe",
        &["the packet went where it should", "it went elsewhere", "it cannot be said"],
    ),
    (
        "switchyard get",
        &[
            "the list is printed, also if it is empty",
            "a Service that was asked for by name is not there, or there is no answer",
        ],
    ),
    ("switchyard diff", &["nothing differs", "something differs", "it cannot be said"]),
    ("switchyard check", &["the mode can work here", "it cannot", "it cannot be said"]),
    (
        "switchyard cleanup",
        &["everything is removed, or listed", "something is left, or could not be looked at"],
    ),
    ("switchyard completion, switchyard man", &["it is printed", "it cannot be printed"]),
];

fn exit_status() -> String {
    let mut text = ".SH EXIT STATUS\n".to_owned();
    for (command, codes) in EXITS {
        text.push_str(&format!(".TP\n.B {command}\n"));
        let codes: Vec<String> =
            codes.iter().enumerate().map(|(code, what)| format!("\\fB{code}\\fR: {what}")).collect();
        text.push_str(&format!("{}.\n", codes.join("; ")));
    }
    text
}

pub(super) fn page(program: &Offer, subcommands: &[Offer]) -> String {
    let mut text = format!(
        ".TH SWITCHYARD 8 \"\" \"Switchyard {}\" \"System administration\"\n\
         .SH NAME\nswitchyard \\- a Kubernetes Service proxy\n\
         .SH SYNOPSIS\n.B switchyard\n[\\fIFLAGS\\fR]\n",
        env!("CARGO_PKG_VERSION")
    );
    for offer in subcommands {
        text.push_str(&format!(".br\n.B switchyard {}\n{}\n", offer.name, plain(&offer.usage)));
    }
    text.push_str(&format!(".SH DESCRIPTION\n{}\n", sentence(&program.about)));
    text.push_str(
        "It watches Services, EndpointSlices and its own Node, and programs the kernel so that packets for a Service go to its \
         endpoints. Rules stay when it ends; \\fB\\-\\-cleanup\\fR removes them.\n.SH FLAGS\n",
    );
    let mut heading = None;
    for own in &program.flags {
        if own.heading != heading {
            heading.clone_from(&own.heading);
            text.push_str(&format!(".SS {}\n", plain(heading.as_deref().unwrap_or("Other"))));
        }
        text.push_str(&flag(own));
    }
    text.push_str(".SH SUBCOMMANDS\n");
    for offer in subcommands {
        let usage = plain(&offer.usage);
        text.push_str(&format!(".SS switchyard {} {usage}\n{}\n", offer.name, sentence(&offer.about)));
        text.extend(offer.positionals.iter().map(positional));
        text.extend(offer.flags.iter().map(flag));
    }
    text.push_str(
        ".SH FILES\n.TP\n.I /run/switchyard/admin.sock\nWhere subcommands ask the agent of this node.\n",
    );
    text.push_str(&exit_status());
    text.push_str(".SH SEE ALSO\n.BR nft (8),\n.BR iptables (8),\n.BR ipvsadm (8)\n");
    text
}
