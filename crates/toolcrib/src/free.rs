//! Flags that no command knows: `toolcrib start workflow deploy --env prod` means the workflow's argument `env`.
//!
//! They are separated before the command line is parsed: what the command itself knows stays a flag wherever it
//! stands, anything else of the form `--key` becomes `--arg key=value`. So a flag of the gateway such as `--endpoint`
//! never gets among a workflow's input, and an argument of that name is written `--arg endpoint=…`.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The commands that take free flags, with the kinds for which they do.
const COMMANDS: [(&str, &[&str]); 3] = [
    ("call", &[]),
    ("start", &["workflow", "workflows", "wf", "wfs"]),
    ("create", &["service", "services", "svc", "svcs"]),
];

/// The command line with every free flag as `--arg key=value`.
pub(crate) fn rewrite(arguments: Vec<OsString>, root: impl FnOnce() -> Command) -> Vec<OsString> {
    let word = |index: usize| arguments.get(index).and_then(|word| word.to_str()).unwrap_or_default();
    let kind = word(2).split('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_free =
        COMMANDS.iter().any(|(name, kinds)| *name == word(1) && (kinds.is_empty() || kinds.contains(&kind.as_str())));
    if !is_free {
        return arguments;
    }
    let root = root();
    let Some(command) = root.find_subcommand(word(1)) else { return arguments };
    let known: Vec<&Arg> = command.get_arguments().collect();
    let mut words = arguments.into_iter().peekable();
    let mut out: Vec<OsString> = words.by_ref().take(2).collect();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        if text == "--" {
            out.push(word);
            break;
        }
        let Some(flag) = text.strip_prefix("--") else {
            out.push(word);
            continue;
        };
        let (key, value) = flag.split_once('=').map_or((flag, None), |(key, value)| (key, Some(value.to_owned())));
        if key == "help" {
            out.push(word);
        } else if let Some(argument) = known.iter().find(|argument| is_called(argument, key)) {
            let takes_next = value.is_none() && argument.get_action().takes_values();
            out.push(word);
            // The value of a flag is never taken for a flag.
            out.extend(takes_next.then(|| words.next()).flatten());
        } else {
            let next = words.next_if(|next| value.is_none() && next.to_str().is_some_and(|next| !is_flag(next)));
            let value = value.or_else(|| next.and_then(|next| next.into_string().ok()));
            out.push("--arg".into());
            out.push(format!("{key}={}", value.as_deref().unwrap_or("true")).into());
        }
    }
    out.extend(words);
    out
}

fn is_called(argument: &Arg, key: &str) -> bool {
    argument.get_long() == Some(key) || argument.get_all_aliases().is_some_and(|names| names.contains(&key))
}

/// `-o` and `--x` are flags, `-` is stdin and `-1.5` a number.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(rewrite(words(line), crate::command::definition), words(expected), "{line}");
    }

    #[test]
    fn flags_of_the_gateway_never_get_among_the_input() {
        check(
            "toolcrib start workflow w --env prod --endpoint http://x --n=-1 --dry -o json --count -2 --timeout 5s -q",
            "toolcrib start workflow w --arg env=prod --endpoint http://x --arg n=-1 --arg dry=true -o json --arg count=-2 --timeout 5s -q",
        );
        check("toolcrib start workflow w --endpoint --x", "toolcrib start workflow w --endpoint --x");
        check("toolcrib start wf/w --arg endpoint=1 --a b", "toolcrib start wf/w --arg endpoint=1 --arg a=b");
        check("toolcrib call t --text hello --token-file f", "toolcrib call t --arg text=hello --token-file f");
        check("toolcrib call t -- --text hello", "toolcrib call t -- --text hello");
        check("toolcrib call t --help", "toolcrib call t --help");
        check("toolcrib create service s c --size big", "toolcrib create service s c --arg size=big");
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in ["toolcrib", "toolcrib start server s --x y", "toolcrib create server s --x y", "toolcrib list --x"]
        {
            check(line, line);
        }
    }
}
