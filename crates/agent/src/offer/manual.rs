//! The manual page, in the language of man(7).

use super::{Flag, Offer};

/// Text as it should be read: no letter of it is a command.
fn plain(text: &str) -> String {
    let text = text.replace('\\', r"\e").replace('-', r"\-");
    let lines = text.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!(r"\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn flag(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!(r"\fB\-{short}\fR, ")).unwrap_or_default();
    let value = match &flag.value {
        Some(value) => format!(r" \fI{}\fR", plain(value)),
        None if flag.is_switch && flag.heading.is_some() => r"[=\fItrue\fR|\fIfalse\fR]".to_owned(),
        None => String::new(),
    };
    let choices = match flag.choices.as_slice() {
        [] => String::new(),
        choices => format!(" One of: {}.", plain(&choices.join(", "))),
    };
    format!(".TP\n{short}\\fB\\-\\-{}\\fR{value}\n{}{choices}\n", plain(&flag.long), plain(&flag.help))
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
    text.push_str(&format!(".SH DESCRIPTION\n{}\n", plain(&program.about)));
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
        text.push_str(&format!(
            ".SS switchyard {} {}\n{}\n",
            offer.name,
            plain(&offer.usage),
            plain(&offer.about)
        ));
        text.extend(offer.flags.iter().map(flag));
    }
    text.push_str(
        ".SH FILES\n.TP\n.I /run/switchyard/admin.sock\nWhere subcommands ask the agent of this node.\n\
         .SH EXIT STATUS\n0 if what was asked for was done, 1 otherwise. A proxy ends with 0 when it is asked to by SIGTERM.\n\
         .SH SEE ALSO\n.BR nft (8),\n.BR iptables (8),\n.BR ipvsadm (8)\n",
    );
    text
}
