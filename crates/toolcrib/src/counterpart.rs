//! Flags that people of muster know. What means the same here is done; what does not is refused with the counterpart.
//!
//! To add one: a row in [`ROWS`]. A flag that a command has itself is never looked up.

use std::ffi::OsString;

use clap::Command;
use toolcrib_base::{Kind, Problem};

/// The outcome of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// These words are in its place; `{}` is its value.
    Words(&'static [&'static str]),
    /// It changes nothing here: that is how it is.
    Nothing,
    /// It changes nothing here, and a person should know.
    Note(&'static str),
    /// What to do instead.
    Refuse(&'static str),
}

/// One flag.
struct Row {
    /// The commands that know it in muster.
    commands: &'static [&'static str],
    /// Without its dashes.
    flag: &'static str,
    /// Whether a value follows.
    has_value: bool,
    /// By its value.
    act: fn(&str) -> Act,
}

/// Commands that run a gateway.
const SERVING: &[&str] = &["serve", "stdio", "standalone"];
/// Commands that ask one.
const ASKING: &[&str] = &[
    "agent", "list", "get", "create", "apply", "start", "stop", "restart", "check", "events", "call", "auth",
    "context", "repl",
];
/// The same without those that log in.
const SERVED: &[&str] = &[
    "agent", "list", "get", "create", "apply", "start", "stop", "restart", "check", "events", "call", "context", "repl",
];
const EVERY: &[&str] = &[
    "serve",
    "stdio",
    "standalone",
    "agent",
    "list",
    "get",
    "create",
    "apply",
    "start",
    "stop",
    "restart",
    "check",
    "events",
    "call",
    "auth",
    "context",
    "repl",
    "version",
];
const TEST: &[&str] = &["test"];

const OAUTH_SERVER: &str = "set `[identity]` in `config.toml`: `url` is where clients reach the gateway, each `[[identity.issuer]]` a \
                            provider of logins, `[identity.server]` the built-in authorization server";
const OAUTH_CLIENT: &str = "leave it out: `toolcrib login SERVER` works without a setting; `identity.url` in `config.toml` is the \
                            gateway's public URL, `auth: {client_id: …}` in a definition the client of one server";
const QUIET: &str =
    "has no effect here: `toolcrib logs SERVER` shows a server's log, `toolcrib serve --log debug` logs more";

const fn flag(commands: &'static [&'static str], flag: &'static str, act: fn(&str) -> Act) -> Row {
    Row { commands, flag, has_value: false, act }
}

const fn valued(commands: &'static [&'static str], flag: &'static str, act: fn(&str) -> Act) -> Row {
    Row { commands, flag, has_value: true, act }
}

const ROWS: &[Row] = &[
    valued(EVERY, "config-path", |_| {
        Act::Refuse(
            "use `--home DIR` for Toolcrib's own folder; `toolcrib import muster --file DIR` imports what is in \
             muster's",
        )
    }),
    valued(TEST, "config-path", |_| Act::Refuse("use `--config PATH` for scenarios; each has its own home")),
    flag(SERVING, "debug", |_| Act::Words(&["--log", "debug"])),
    flag(TEST, "debug", |_| Act::Words(&["--verbose"])),
    flag(ASKING, "debug", |_| Act::Note(QUIET)),
    flag(&["list", "get"], "verbose", |_| Act::Words(&["--output", "wide"])),
    flag(&["list", "get"], "show-details", |_| Act::Words(&["--output", "wide"])),
    flag(SERVING, "verbose", |_| Act::Words(&["--log", "debug"])),
    flag(ASKING, "verbose", |_| Act::Note(QUIET)),
    flag(SERVING, "silent", |_| Act::Words(&["--log", "error"])),
    flag(&["agent"], "silent", |_| Act::Words(&["--quiet"])),
    // Everything is listed, what failed too.
    flag(&["list"], "all", |_| Act::Nothing),
    valued(&["agent", "serve", "standalone"], "transport", |value| match value {
        "streamable-http" => Act::Nothing,
        "stdio" => Act::Refuse("use `toolcrib stdio`, which serves one client over stdin and stdout"),
        _ => Act::Refuse(
            "leave it out and give the address that ends in `/mcp`; older clients find the gateway at `/sse`",
        ),
    }),
    flag(&["agent", "standalone"], "no-color", |_| Act::Nothing),
    flag(&["agent", "standalone"], "disable-auto-sso", |_| {
        Act::Note(
            "has no effect here: the gateway signs its callers on to servers whose definition says so with \
             `auth: {forwardToken: true}` or `tokenExchange`",
        )
    }),
    flag(&["agent", "standalone"], "json-rpc", |_| {
        Act::Refuse(
            "use `toolcrib call TOOL -o json` for complete responses, or `toolcrib serve --log debug` to log requests",
        )
    }),
    flag(&["serve", "standalone"], "yolo", |_| {
        Act::Refuse(
            "leave it out: there is no list of forbidden tools to switch off; profiles decide which tools can be \
             called",
        )
    }),
    flag(&["serve", "standalone"], "enable-events", |_| Act::Nothing),
    valued(&["serve", "standalone"], "port", |_| Act::Words(&["--listen", "127.0.0.1:{}"])),
    valued(&["serve", "standalone"], "mcp-port", |_| Act::Words(&["--listen", "127.0.0.1:{}"])),
    valued(&["serve", "standalone"], "log-level", |_| Act::Words(&["--log", "{}"])),
    valued(&["serve", "standalone"], "extra-ca-file", |_| {
        Act::Refuse("set the variable `SSL_CERT_FILE` to the file before `toolcrib serve`")
    }),
    flag(&["serve", "standalone"], "oauth-server", |_| Act::Refuse(OAUTH_SERVER)),
    flag(&["serve", "standalone"], "oauth-mcp-client", |_| Act::Refuse(OAUTH_CLIENT)),
    valued(&["serve", "standalone"], "oauth-server-base-url", |_| Act::Refuse(OAUTH_SERVER)),
    valued(&["serve", "standalone"], "oauth-mcp-client-public-url", |_| Act::Refuse(OAUTH_CLIENT)),
    valued(&["serve", "standalone"], "oauth-mcp-client-id", |_| Act::Refuse(OAUTH_CLIENT)),
    valued(SERVED, "auth", |value| match value {
        // The login that is kept is used; without one the error names the command that logs in, with exit code 2.
        "auto" | "prompt" | "none" => Act::Nothing,
        _ => Act::Refuse("it is one of `auto`, `prompt` and `none`"),
    }),
    valued(TEST, "base-port", |_| Act::Note("has no effect here: the system chooses free ports")),
    flag(TEST, "keep-temp-config", |_| Act::Words(&["--keep-home"])),
    valued(TEST, "schema-input", |_| {
        Act::Refuse("leave it out: `--validate-scenarios` uses the schemas of this program")
    }),
];

/// The command line with every flag of muster as what it means here; what is reported of it goes to `note`.
pub(crate) fn rewrite(
    arguments: Vec<OsString>,
    root: impl FnOnce() -> Command,
    note: &mut dyn FnMut(String),
) -> Result<Vec<OsString>, Problem> {
    let name = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.commands.contains(&name.as_str())).collect();
    let is_one =
        |word: &OsString| word.to_str().and_then(long).is_some_and(|key| rows.iter().any(|row| row.flag == key));
    if !arguments.iter().skip(2).any(is_one) {
        return Ok(arguments);
    }
    let root = root();
    let Some(command) = root.find_subcommand(&name) else { return Ok(arguments) };
    let mut words = arguments.into_iter().peekable();
    let mut out: Vec<OsString> = words.by_ref().take(2).collect();
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            break;
        }
        let Some(key) = word.to_str().and_then(long) else {
            out.push(word);
            continue;
        };
        if let Some(takes_value) = known(command, key) {
            let takes_next = takes_value && word.to_str().is_some_and(|text| !text.contains('='));
            out.push(word);
            // The value of a flag is never taken for a flag.
            out.extend(takes_next.then(|| words.next()).flatten());
            continue;
        }
        let Some(row) = rows.iter().find(|row| row.flag == key) else {
            out.push(word);
            continue;
        };
        let own = word.to_str().and_then(|text| text.split_once('=')).map(|(_, value)| value.to_owned());
        let next = if row.has_value && own.is_none() { words.next() } else { None };
        let value = own.or_else(|| next.and_then(|next| next.into_string().ok())).unwrap_or_default();
        match (row.act)(&value) {
            // A switch that is off says nothing.
            _ if !row.has_value && value == "false" => {}
            Act::Words(more) => add(&mut out, more, &value),
            Act::Nothing => {}
            Act::Note(text) => note(format!("`--{key}` {text}")),
            Act::Refuse(hint) => {
                let message = format!("`--{key}` is a flag of muster that `toolcrib {name}` does not have");
                return Err(Problem::new(Kind::InvalidParams, message).hint(hint));
            }
        }
    }
    out.extend(words);
    Ok(out)
}

/// Puts words instead of a flag, unless their flag is there already.
fn add(out: &mut Vec<OsString>, words: &[&str], value: &str) {
    let first = words.first().copied().unwrap_or_default();
    let short = first.trim_start_matches('-').chars().next().map(|letter| format!("-{letter}")).unwrap_or_default();
    let is_it = |word: &OsString| {
        let text = word.to_string_lossy();
        text == first || text.starts_with(&format!("{first}=")) || text == short
    };
    if !out.iter().skip(2).any(is_it) {
        out.extend(words.iter().map(|word| OsString::from(word.replace("{}", value))));
    }
}

/// The name of a flag; `-v` is `--verbose`.
fn long(word: &str) -> Option<&str> {
    if word == "-v" {
        return Some("verbose");
    }
    let key = word.strip_prefix("--")?;
    Some(key.split('=').next().unwrap_or(key)).filter(|key| !key.is_empty())
}

/// Whether a command, or one below it, has a flag, and whether a value follows it.
fn known(command: &Command, key: &str) -> Option<bool> {
    let own = command.get_arguments().find(|argument| {
        argument.get_long() == Some(key) || argument.get_all_aliases().is_some_and(|names| names.contains(&key))
    });
    own.map(|argument| argument.get_action().takes_values())
        .or_else(|| command.get_subcommands().find_map(|inner| known(inner, key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> (Result<String, Problem>, Vec<String>) {
        let words = line.split(' ').map(OsString::from).collect();
        let mut notes = Vec::new();
        let out = rewrite(words, crate::command::definition, &mut |note| notes.push(note));
        let line = |words: Vec<OsString>| words.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        (out.map(line), notes)
    }

    #[test]
    fn flags_that_mean_the_same_are_taken() {
        for (line, expected) in [
            ("toolcrib serve --debug", "toolcrib serve --log debug"),
            ("toolcrib serve --debug=false --silent", "toolcrib serve --log error"),
            ("toolcrib serve --port 9000 --log-level=warn", "toolcrib serve --listen 127.0.0.1:9000 --log warn"),
            ("toolcrib list mcpservers --all --verbose", "toolcrib list mcpservers --output wide"),
            ("toolcrib list tools -o json -v", "toolcrib list tools -o json"),
            ("toolcrib agent --transport streamable-http --no-color --silent", "toolcrib agent --quiet"),
            ("toolcrib list tools --auth none --filter --all", "toolcrib list tools --filter --all"),
            ("toolcrib list tools --auth prompt", "toolcrib list tools"),
            ("toolcrib call x --auth=auto", "toolcrib call x"),
            ("toolcrib test --config s --debug --keep-temp-config", "toolcrib test --config s --verbose --keep-home"),
            ("toolcrib test --verbose --debug", "toolcrib test --verbose"),
            ("toolcrib find --all", "toolcrib find --all"),
            ("toolcrib serve -- --yolo", "toolcrib serve -- --yolo"),
        ] {
            let (out, notes) = rewritten(line);
            assert_eq!((out.unwrap().as_str(), notes), (expected, Vec::new()), "{line}");
            let words = expected.split(' ').filter(|word| *word != "find" && *word != "--yolo");
            let parsed = crate::command::definition().try_get_matches_from(words);
            // What the command line itself refuses is none of this module's.
            let is_refused = ["find", "yolo", "--filter --all"].iter().any(|part| expected.contains(part));
            assert!(is_refused || parsed.is_ok(), "{expected}: {parsed:?}");
        }
    }

    #[test]
    fn what_changes_nothing_is_reported() {
        let (out, notes) = rewritten("toolcrib check server x --debug");
        assert_eq!(out.unwrap(), "toolcrib check server x");
        assert!(notes[0].contains("`--debug` has no effect") && notes[0].contains("toolcrib logs"), "{notes:?}");
        let (out, notes) = rewritten("toolcrib agent --disable-auto-sso");
        assert_eq!(out.unwrap(), "toolcrib agent");
        assert!(
            notes[0].contains("`--disable-auto-sso` has no effect") && notes[0].contains("tokenExchange"),
            "{notes:?}"
        );
    }

    #[test]
    fn what_is_otherwise_here_is_refused_with_its_counterpart() {
        for (line, hint) in [
            ("toolcrib serve --config-path /etc/muster", "toolcrib import muster --file DIR"),
            ("toolcrib list tools --config-path=x", "use `--home DIR`"),
            ("toolcrib agent --transport sse", "`/mcp`"),
            ("toolcrib standalone --json-rpc", "toolcrib call TOOL -o json"),
            ("toolcrib serve --yolo", "profiles decide which tools can be called"),
            ("toolcrib serve --oauth-server", "`[[identity.issuer]]`"),
            ("toolcrib serve --oauth-mcp-client", "toolcrib login SERVER"),
            ("toolcrib list tools --auth always", "`auto`, `prompt` and `none`"),
            ("toolcrib test --config-path x", "`--config PATH`"),
        ] {
            let problem = rewritten(line).0.unwrap_err();
            assert!(problem.hint.as_deref().is_some_and(|told| told.contains(hint)), "{line}: {problem:?}");
        }
    }

    #[test]
    fn no_row_is_a_flag_of_the_command_itself() {
        let root = crate::command::definition();
        for row in ROWS {
            for name in row.commands {
                let command = root.find_subcommand(name).unwrap_or_else(|| panic!("no command `{name}`"));
                assert!(
                    known(command, row.flag).is_none() || row.flag == "verbose" || row.flag == "all",
                    "{name} --{}",
                    row.flag
                );
            }
        }
    }
}
