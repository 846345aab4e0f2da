//! Completions for bash, zsh and fish.
//!
//! Everything from the table stands in single quotes, with the one escape that each shell needs there.

use super::{Choice, Flag, Offer, names};

/// Text in single quotes, for bash and zsh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Values with spaces between.
fn listed(choices: &[Choice]) -> String {
    names(choices).collect::<Vec<_>>().join(" ")
}

fn spellings(flag: &Flag) -> Vec<String> {
    let short = flag.short.map(|short| format!("-{short}"));
    short.into_iter().chain([format!("--{}", flag.long)]).collect()
}

pub(super) fn bash(program: &Offer, subcommands: &[Offer]) -> String {
    let names: Vec<&str> = subcommands.iter().map(|offer| offer.name.as_str()).collect();
    let mut text = format!(
        "# bash completion of switchyard. Use: source <(switchyard completion bash)\n\
         _switchyard() {{\n  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n  \
         local word command='' words=''\n  \
         for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n    \
         case \"$word\" in {}) command=\"$word\"; break ;; esac\n  done\n  \
         case \"$command $previous\" in\n",
        names.join("|")
    );
    for (command, offer) in
        [("", program)].into_iter().chain(subcommands.iter().map(|o| (o.name.as_str(), o)))
    {
        for flag in offer.flags.iter().filter(|flag| flag.value.is_some()) {
            let cases: Vec<String> =
                spellings(flag).iter().map(|spelling| quoted(&format!("{command} {spelling}"))).collect();
            // Without choices a file is the best guess, which is what bash completes when nothing matches.
            text.push_str(&format!(
                "    {}) COMPREPLY=($(compgen -W {} -- \"$current\")); return ;;\n",
                cases.join("|"),
                quoted(&listed(&flag.choices))
            ));
        }
    }
    text.push_str("  esac\n  case \"$command\" in\n");
    let of = |offer: &Offer| -> Vec<String> {
        offer.flags.iter().flat_map(spellings).chain(offer.words().map(str::to_owned)).collect()
    };
    let own: Vec<String> =
        of(program).into_iter().chain(names.iter().map(|name| (*name).to_owned())).collect();
    text.push_str(&format!("    '') words={} ;;\n", quoted(&own.join(" "))));
    for offer in subcommands {
        text.push_str(&format!("    {}) words={} ;;\n", offer.name, quoted(&of(offer).join(" "))));
    }
    text.push_str(
        "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n\
         complete -o default -F _switchyard switchyard\n",
    );
    text
}

/// One argument of zsh's `_arguments`.
fn zsh_flag(flag: &Flag) -> String {
    let help = flag.help.replace('\\', r"\\").replace('[', r"\[").replace(']', r"\]");
    let action = match flag.choices.as_slice() {
        [] => "_files".to_owned(),
        choices => format!("({})", listed(choices)),
    };
    let value = flag.value.as_ref().map(|value| format!(":{}:{action}", value.replace(':', r"\:")));
    let sign = if flag.value.is_some() { "=" } else { "" };
    let long = quoted(&format!("--{}{sign}[{help}]{}", flag.long, value.clone().unwrap_or_default()));
    match flag.short {
        Some(short) => {
            let sign = if flag.value.is_some() { "+" } else { "" };
            format!("{long} {}", quoted(&format!("-{short}{sign}[{help}]{}", value.unwrap_or_default())))
        }
        None => long,
    }
}

pub(super) fn zsh(program: &Offer, subcommands: &[Offer]) -> String {
    let mut text = "#compdef switchyard\n# zsh completion of switchyard. Use: switchyard completion zsh > \"${fpath[1]}/_switchyard\"\n\
         _switchyard() {\n  local -a commands\n  commands=("
        .to_owned();
    for offer in subcommands {
        text.push_str(&format!(" {}", quoted(&format!("{}:{}", offer.name, offer.about))));
    }
    text.push_str(" )\n  case \"${words[2]}\" in\n");
    for offer in subcommands {
        let flags: Vec<String> = offer.flags.iter().map(zsh_flag).collect();
        let words = quoted(&format!("*:word:({})", offer.words().collect::<Vec<_>>().join(" ")));
        text.push_str(&format!(
            "    {}) shift words; (( CURRENT-- )); _arguments {} {words} ;;\n",
            offer.name,
            flags.join(" ")
        ));
    }
    let flags: Vec<String> = program.flags.iter().map(zsh_flag).collect();
    text.push_str(&format!(
        "    *)\n      (( CURRENT == 2 )) && _describe 'subcommand' commands\n      _arguments {} ;;\n  esac\n}}\n\
         compdef _switchyard switchyard\n",
        flags.join(" ")
    ));
    text
}

pub(super) fn fish(program: &Offer, subcommands: &[Offer]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"));
    let mut text = "# fish completion of switchyard. Use: switchyard completion fish > ~/.config/fish/completions/switchyard.fish\n".to_owned();
    let flag = |condition: &str, flag: &Flag| {
        let short = flag.short.map(|short| format!(" -s {short}")).unwrap_or_default();
        let value = match (&flag.value, flag.choices.as_slice()) {
            (None, _) => String::new(),
            (Some(_), []) => " -r".to_owned(),
            (Some(_), choices) => format!(" -x -a {}", quoted(&listed(choices))),
        };
        let help = quoted(&flag.help);
        format!("complete -c switchyard -n {condition} -l {}{short}{value} -d {help}\n", flag.long)
    };
    text.extend(program.flags.iter().map(|own| flag("__fish_use_subcommand", own)));
    for offer in subcommands {
        let about = quoted(&offer.about);
        text.push_str(&format!(
            "complete -c switchyard -n __fish_use_subcommand -f -a {} -d {about}\n",
            offer.name
        ));
        let condition = quoted(&format!("__fish_seen_subcommand_from {}", offer.name));
        text.extend(offer.flags.iter().map(|own| flag(&condition, own)));
        for word in offer.words() {
            text.push_str(&format!("complete -c switchyard -n {condition} -f -a {}\n", quoted(word)));
        }
    }
    text
}
