//! Names for completion, asked of the running gateway: fast, silent, and nothing when nothing runs.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::{Value, json};
use toolcrib_base::ProfileName;

use crate::client::{Client, ClientFlags, locate};
use crate::contexts::Contexts;
use crate::home::{Environment, Home};
use crate::kind::{self, Row, listing};
use crate::output::table::field;

/// How long someone who pressed a key waits.
const TIMEOUT: Duration = Duration::from_millis(800);
/// How many names are offered; more no one reads.
const MOST: usize = 1_000;

/// A name and its description.
type Suggestion = (String, String);

/// The names of the kind that is before on the command line; without one the names of tools.
pub(crate) fn of_kind() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let words = typed();
        let row = words.get(2).and_then(|word| kind::named(word.split('/').next().unwrap_or_default()));
        let row = row.unwrap_or(&kind::rows::TOOLS);
        if let Some(name) = workflow_before(&words) {
            let schema = schema_of(&format!("workflow_{name}"), &flags_of(&words), &Environment::of_process());
            return fitting(current, pairs_of(&schema, &current.to_string_lossy()));
        }
        fitting(current, of_gateway(row, &words, &Environment::of_process()))
    })
}

/// The workflow whose input is being typed: `start workflow NAME key=`, `start workflow/NAME key=`.
fn workflow_before(words: &[String]) -> Option<&str> {
    let (kind, name) = words.get(2).map(|word| word.split_once('/').unwrap_or((word.as_str(), "")))?;
    let is_one = words.get(1).is_some_and(|verb| verb == "start") && kind::named(kind)?.one == "workflow";
    let mut rest = words.iter().skip(3).filter(|word| !word.starts_with('-'));
    let name = if name.is_empty() { rest.next()?.as_str() } else { name };
    (is_one && rest.next().is_some()).then_some(name)
}

/// The names of tools.
pub(crate) fn tools() -> ArgValueCompleter {
    named_after(&kind::rows::TOOLS)
}

/// The names of prompts.
pub(crate) fn prompts() -> ArgValueCompleter {
    named_after(&kind::rows::PROMPTS)
}

/// The names of servers.
pub(crate) fn servers() -> ArgValueCompleter {
    named_after(&kind::rows::SERVERS)
}

fn named_after(row: &'static Row) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        fitting(current, of_gateway(row, &typed(), &Environment::of_process()))
    })
}

/// The names of contexts: a file of the home, no one is asked.
pub(crate) fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let environment = Environment::of_process();
        let home = Home::find(flags_of(&typed()).home(), &environment);
        let contexts = home.and_then(|home| Contexts::load(&home)).unwrap_or_default();
        fitting(current, contexts.all.into_iter().map(|context| (context.name, context.endpoint)).collect())
    })
}

/// The arguments of the tool that is before, `key=`, and behind it the values that its schema knows.
pub(crate) fn arguments() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let words = typed();
        let Some(tool) = words.get(2) else { return Vec::new() };
        let schema = schema_of(tool, &flags_of(&words), &Environment::of_process());
        fitting(current, pairs_of(&schema, &current.to_string_lossy()))
    })
}

/// What may be written for an argument, by a schema.
pub(crate) fn pairs_of(schema: &Value, current: &str) -> Vec<Suggestion> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .flat_map(|(key, property)| {
            let about = field(property, "description");
            let known: Vec<String> = match (&property["enum"], property["type"].as_str()) {
                (Value::Array(values), _) => values.iter().map(crate::output::table::shown).collect(),
                (_, Some("boolean")) => vec!["true".to_owned(), "false".to_owned()],
                _ => Vec::new(),
            };
            let is_at_value = current.split_once('=').is_some_and(|(name, _)| name == key);
            if is_at_value {
                known.into_iter().map(|value| (format!("{key}={value}"), String::new())).collect()
            } else {
                vec![(format!("{key}="), about)]
            }
        })
        .collect()
}

thread_local! {
    /// The words that are being completed where they are not those of this process.
    static TYPED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Completes other words than those that a shell passes.
pub(crate) fn instead_of_arguments<T>(words: Vec<String>, complete: impl FnOnce() -> T) -> T {
    TYPED.set(Some(words));
    let completed = complete();
    TYPED.set(None);
    completed
}

/// The words of the command line that is being completed.
fn typed() -> Vec<String> {
    if let Some(words) = TYPED.with_borrow(Clone::clone) {
        return words;
    }
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    words.by_ref().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The flags that say which gateway is meant.
fn flags_of(words: &[String]) -> ClientFlags {
    let value = |name: &str| {
        let at = words.iter().position(|word| word.split('=').next() == Some(name))?;
        match words[at].split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None => words.get(at + 1).cloned(),
        }
    };
    let profile = value("--profile").and_then(|name| ProfileName::new(&name).ok());
    let path = |name: &str| value(name).map(PathBuf::from);
    ClientFlags::of_completion(value("--endpoint"), value("--context"), profile, path("--token-file"), path("--home"))
        .within(TIMEOUT)
}

fn of_gateway(row: &'static Row, words: &[String], environment: &Environment) -> Vec<Suggestion> {
    of(row, &flags_of(words), environment)
}

/// The names of a kind as this gateway has them.
pub(crate) fn of(row: &'static Row, flags: &ClientFlags, environment: &Environment) -> Vec<Suggestion> {
    let listed = asked(flags, environment, async |client| listing::fetch(row, client, &json!({})).await.ok());
    let Some(answer) = listed else { return Vec::new() };
    let entries = listing::sorted(row, listing::entries(row, &answer.to_value()));
    let about = |entry: &Value| {
        ["description", "title", "state", "workflow_name"]
            .iter()
            .map(|key| field(entry, key))
            .find(|text| !text.is_empty())
    };
    entries
        .iter()
        .take(MOST)
        .map(|entry| (field(entry, row.names[0]), about(entry).unwrap_or_default()))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// The schema of a tool's arguments.
pub(crate) fn schema_of(tool: &str, flags: &ClientFlags, environment: &Environment) -> Value {
    let asking = async |client: &Client| client.obtain("core_tool_get", &json!({ "name": tool })).await.ok();
    asked(flags, environment, asking).map_or(Value::Null, |tool| tool.to_value()["inputSchema"].clone())
}

/// Asks the gateway, if one is there, and waits no longer than someone who pressed a key.
fn asked<T>(
    flags: &ClientFlags,
    environment: &Environment,
    question: impl AsyncFnOnce(&Client) -> Option<T>,
) -> Option<T> {
    let located = locate(flags, environment).ok()?;
    // No one is waited for who is not there.
    if !located.is_named && !located.is_running {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, async {
            let client = Client::open(flags, environment).await.ok()?;
            let answer = question(&client).await;
            client.close().await;
            answer
        })
        .await
        .ok()
        .flatten()
    });
    runtime.shutdown_background();
    answer
}

fn fitting(current: &OsStr, names: Vec<Suggestion>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fits = names.into_iter().filter(|(name, _)| name.starts_with(&*current));
    fits.map(|(name, about)| {
        let about = about.lines().next().map(|line| crate::text::line(line).chars().take(80).collect::<String>());
        // A name that would steer the terminal is offered to no one.
        CompletionCandidate::new(crate::text::line(&name).into_owned())
            .help(about.filter(|about| !about.is_empty()).map(Into::into))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_offered_and_then_their_values() {
        let schema = json!({ "properties": {
            "path": { "type": "string", "description": "Where" }, "mode": { "enum": ["text", "bytes"] }, "all": { "type": "boolean" },
        }});
        let names = |current: &str| pairs_of(&schema, current).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(""), ["path=", "mode=", "all="]);
        assert_eq!(names("mode="), ["path=", "mode=text", "mode=bytes", "all="]);
        assert_eq!(names("all=t"), ["path=", "mode=", "all=true", "all=false"]);
        assert!(pairs_of(&Value::Null, "").is_empty());
    }

    #[test]
    fn the_workflow_is_found_whose_input_is_typed() {
        let name = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            workflow_before(&words).map(str::to_owned)
        };
        assert_eq!(name("toolcrib start workflow say mode=").as_deref(), Some("say"));
        assert_eq!(name("toolcrib start wf/say ").as_deref(), Some("say"));
        assert_eq!(name("toolcrib start workflow say --home=/h a=1 b").as_deref(), Some("say"));
        for line in [
            "toolcrib start workflow sa",
            "toolcrib start wf/sa",
            "toolcrib start server a b",
            "toolcrib get workflow a b",
        ] {
            assert_eq!(name(line), None, "{line}");
        }
    }

    #[test]
    fn the_gateway_that_is_meant_is_found_in_the_words() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let flags = flags_of(&words("toolcrib list tools --home=/h --context c x"));
        assert_eq!(flags.home(), Some(std::path::Path::new("/h")));
        assert!(format!("{flags:?}").contains("Some(\"c\")"));
    }
}
