//! `toolcrib help`, and the order in which the help shows the commands: [`GROUPS`] has one heading for each.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::home::Environment;
use crate::output;

/// The commands by heading, in the order of a user's day. A new command gets its place here; a test asks for it.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Set up",
        &["init", "import", "connect", "disconnect", "login", "logout", "service", "context", "demo", "example"],
    ),
    ("Run", &["serve", "ui", "stdio", "standalone", "bridge", "runner"]),
    ("Use tools", &["list", "get", "find", "describe", "call", "run", "prompt", "workflow", "repl", "agent"]),
    (
        "Configure",
        &[
            "server",
            "profile",
            "registry",
            "secret",
            "create",
            "apply",
            "update",
            "delete",
            "start",
            "stop",
            "restart",
            "model",
            "connector",
            "embedding",
        ],
    ),
    ("Troubleshoot", &["status", "doctor", "logs", "events", "figures", "check", "explain"]),
    ("Review", &["verify", "approve", "reject", "approval", "policy", "halt", "canary", "audit", "tokens", "learning"]),
    ("Automate", &["api", "auth", "test", "eval", "completion", "man", "self-update", "version", "help"]),
];

/// The commands that people need first.
const FIRST: [&str; 10] =
    ["init", "serve", "connect", "list", "find", "describe", "call", "server", "status", "doctor"];

/// The column in which descriptions begin.
const COLUMN: usize = 14;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The command
    #[arg(value_name = "COMMAND", add = ArgValueCandidates::new(candidates))]
    words: Vec<OsString>,
    /// Describe all commands
    #[arg(long, conflicts_with = "words")]
    all: bool,
}

/// Prints the help of all commands, of one, or the short help.
pub(super) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    if arguments.all {
        let mut command = super::definition().help_template(template(&super::definition(), Length::All));
        output::print(&command.render_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = std::iter::once("toolcrib".into()).chain(arguments.words).chain(["--help".into()]);
    Ok(super::parse_and_run(words.collect(), environment))
}

/// The command line with its commands under headings.
pub(super) fn with_headings(command: clap::Command) -> clap::Command {
    let template = template(&command, Length::Short);
    command.help_template(template)
}

/// How many commands the help describes.
#[derive(Clone, Copy)]
enum Length {
    /// The first ones; the others by name.
    Short,
    All,
}

/// clap's template of the help, with our lists of commands.
fn template(command: &clap::Command, length: Length) -> StyledStr {
    let mut lists = String::new();
    match length {
        Length::Short => {
            let heading = "Start here";
            group(&mut lists, command, heading, &FIRST);
            lists.push_str(&styled(command, "More commands"));
            lists.push_str(" (`toolcrib help --all` describes them)\n");
            for (heading, names) in GROUPS {
                let rest: Vec<&str> = names.iter().filter(|name| !FIRST.contains(name)).copied().collect();
                let _ = writeln!(lists, "  {heading:COLUMN$}{}", rest.join(", "));
            }
            lists.push('\n');
        }
        Length::All => {
            for (heading, names) in GROUPS {
                group(&mut lists, command, heading, names);
            }
        }
    }
    let options = styled(command, "Options:");
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{lists}{options}\n{{options}}{{after-help}}").into()
}

/// A heading and a line for each of its commands.
fn group(out: &mut String, command: &clap::Command, heading: &str, names: &[&str]) {
    let _ = writeln!(out, "{}", styled(command, &format!("{heading}:")));
    for name in names {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about).map(ToString::to_string);
        let style = command.get_styles().get_literal();
        let _ = writeln!(out, "  {style}{name:COLUMN$}{style:#}{}", about.unwrap_or_default());
    }
    out.push('\n');
}

/// A heading as clap shows its own; a terminal without colours shows the bare text.
fn styled(command: &clap::Command, heading: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{heading}{style:#}")
}

/// The commands, for completion.
fn candidates() -> Vec<CompletionCandidate> {
    let command = super::definition();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    commands.map(|command| CompletionCandidate::new(command.get_name()).help(command.get_about().cloned())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_command_has_exactly_one_heading() {
        let mut headings: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (heading, names) in GROUPS {
            for name in names {
                headings.entry(name).or_default().push(heading);
            }
        }
        let definition = super::super::definition();
        let commands = definition.get_subcommands().filter(|command| !command.is_hide_set());
        let commands: Vec<&str> = commands.map(clap::Command::get_name).collect();
        for command in &commands {
            let found = headings.remove(command).unwrap_or_default();
            assert_eq!(found.len(), 1, "`{command}` stands under {found:?}: give it one heading in `GROUPS`");
        }
        assert!(headings.is_empty(), "no such commands: {headings:?}");
        assert!(FIRST.iter().all(|name| commands.contains(name)), "{FIRST:?}");
    }

    #[test]
    fn both_lengths_name_every_command_once() {
        let definition = super::super::definition();
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        for length in [Length::Short, Length::All] {
            let text = template(&definition, length).to_string();
            let listed: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
            for (_, names) in GROUPS {
                for name in names {
                    // The name at the start of a line, or in a line of names without descriptions.
                    let count = listed.iter().filter(|line| {
                        let rest = line.get(2 + COLUMN..).unwrap_or_default();
                        let is_described = line[2..].split(|letter| !is_word(letter)).next() == Some(*name);
                        let is_named =
                            line[2..].starts_with(char::is_uppercase) && rest.split(", ").any(|one| one == *name);
                        is_described || is_named
                    });
                    assert_eq!(count.count(), 1, "`{name}` in:\n{text}");
                }
            }
        }
    }

    #[test]
    fn descriptions_fit_a_line() {
        for command in super::super::definition().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((1..=80).contains(&about.len()), "`{}`: {about}", command.get_name());
        }
    }
}
