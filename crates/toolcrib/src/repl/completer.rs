//! Completion of what is being typed: the same engine that answers shells, with the words of the REPL made commands
//! first.

use std::ffi::OsString;

use clap_complete::engine::CompletionCandidate;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::words;
use crate::client::ClientFlags;
use crate::kind::Verb;
use crate::names;

/// Completes lines with the names of a gateway.
pub(super) struct LineCompleter {
    flags: ClientFlags,
    /// The commands that a line may begin with.
    commands: fn() -> clap::Command,
}

// === impl LineCompleter ===

impl LineCompleter {
    pub(super) fn new(flags: ClientFlags, commands: fn() -> clap::Command) -> Self {
        Self { flags, commands }
    }

    /// Another gateway from now on.
    pub(super) fn switch_gateway(&mut self, flags: ClientFlags) {
        self.flags = flags;
    }

    /// What may stand instead of the last word.
    fn offers(&self, before: &[String], current: &str) -> Vec<(String, String)> {
        let plain = |words: &[&str]| -> Vec<(String, String)> {
            let fitting = words.iter().filter(|word| word.starts_with(current));
            fitting.map(|&word| (word.to_owned(), String::new())).collect()
        };
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        match &before[..] {
            [] => [plain(&words::OWN), self.engine(&[], current)].concat(),
            ["help"] => self.engine(&[], current),
            ["notifications"] => plain(&["on", "off"]),
            ["filter" | "search"] => plain(&["tools"]),
            ["filter" | "search" | "find", "tools", ..] => {
                plain(&["pattern=", "description=", "query=", "limit=", "offset=", "detailed="])
            }
            ["describe"] => [plain(&words::kinds(Verb::Get)), self.engine(&before, current)].concat(),
            ["get"] => {
                let uris = self.engine(&["get", "resource"], current);
                [plain(&words::kinds(Verb::Get)), uris].concat()
            }
            ["workflow", rest @ ..] => self.engine(&[&["start", "workflow"], rest].concat(), current),
            all => self.engine(all, current),
        }
    }

    /// What the command line itself would offer.
    fn engine(&self, before: &[&str], current: &str) -> Vec<(String, String)> {
        let typed = std::iter::once("toolcrib").chain(before.iter().copied()).chain([current]);
        let typed: Vec<OsString> = typed.map(OsString::from).collect();
        let index = typed.len() - 1;
        let words = std::iter::once("toolcrib").chain(before.iter().copied()).map(str::to_owned);
        let words: Vec<String> = words.chain([current.to_owned()]).chain(self.flags.written()).collect();
        let offered = names::instead_of_arguments(words, || {
            clap_complete::engine::complete(&mut (self.commands)(), typed, index, None)
        });
        let offered = offered.unwrap_or_default().into_iter().filter(|offer| !offer.is_hide_set());
        let offered: Vec<_> = offered.collect();
        let is_flag = |offer: &CompletionCandidate| offer.get_value().to_string_lossy().starts_with('-');
        // Anyone who has typed nothing yet looks for names, where there are any.
        let hides_flags = current.is_empty() && !offered.iter().all(is_flag);
        offered
            .into_iter()
            .filter(|offer| !(hides_flags && is_flag(offer)))
            .map(|offer| {
                let help = offer.get_help().map(ToString::to_string).unwrap_or_default();
                (offer.get_value().to_string_lossy().into_owned(), help)
            })
            .collect()
    }
}

impl Completer for LineCompleter {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        let begins = typed.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        // A quote that is still open is not completed.
        let Ok((before, None)) = words::split(&typed[..begins]) else { return Ok((at, Vec::new())) };
        let before = if before.first().is_some_and(|word| word == "toolcrib") { before[1..].to_vec() } else { before };
        let offers = self.offers(&before, &typed[begins..]);
        let pair = |(name, help): (String, String)| {
            let about = help.lines().next().unwrap_or_default();
            let display = if about.is_empty() { name.clone() } else { format!("{name}   {about}") };
            // An argument continues with its value.
            let replacement = if name.ends_with(['=', '/']) { name } else { format!("{name} ") };
            Pair { display, replacement }
        };
        Ok((begins, offers.into_iter().map(pair).collect()))
    }
}

impl Hinter for LineCompleter {
    type Hint = String;
}

impl Highlighter for LineCompleter {}

impl Validator for LineCompleter {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_open = words::is_open(context.input());
        Ok(if is_open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Helper for LineCompleter {}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(before: &str, current: &str) -> Vec<String> {
        let completer =
            LineCompleter::new(ClientFlags::of_endpoint("http://127.0.0.1:1/mcp"), crate::command::definition);
        let before: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
        completer.offers(&before, current).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn words_kinds_and_flags_are_offered() {
        assert_eq!(offers("", "noti"), ["notifications"]);
        assert!(offers("", "li").contains(&"list".to_owned()));
        assert!(!offers("", "").contains(&"guard".to_owned()));
        assert_eq!(offers("notifications", ""), ["on", "off"]);
        assert_eq!(offers("list", "too"), ["tools"]);
        assert_eq!(offers("delete", "serv"), ["server", "service", "serviceclass"]);
        assert!(offers("list tools", "--sort").contains(&"--sort-by".to_owned()));
        assert!(offers("filter tools", "des").contains(&"description=".to_owned()));
        assert!(offers("describe", "pro").contains(&"prompt".to_owned()));
    }
}
