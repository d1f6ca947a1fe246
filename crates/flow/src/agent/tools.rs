//! The tools of a run: what both its profile and its caller may use, under names that models accept, sorted and fixed.

use std::collections::HashSet;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use toolcrib_agent::{Hints, ToolSpec};
use toolcrib_base::Glob;
use toolcrib_catalog::Dialect;
use toolcrib_view::dialect::{self, Act};
use toolcrib_view::{Tool, View};

/// What finds tools.
pub(super) const FIND: &str = "find_tools";
/// What reads more of a long result: it is the run's own, and no tool of the gateway.
pub(super) const READER: &str = "read_result";
const READER_SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"result":{"type":"string","description":"The call, such as 3.1"},"#,
    r#""offset":{"type":"integer","minimum":0,"default":0,"description":"The byte to begin at"}},"#,
    r#""required":["result"],"additionalProperties":false}"#
);
/// What describes a tool that was found.
pub(super) const DESCRIBE: &str = "describe_tool";
/// What calls a tool that was found.
pub(super) const CALL: &str = "call_tool";
/// The longest name of a tool that every provider accepts.
const NAME: usize = 64;
/// The source whose tools are agents.
pub(super) const SOURCE: &str = "agent";
/// Up to so many tools are shown as they are, whatever the window is.
const FEW: usize = 20;
/// Tools may take so large a part of the window.
const WINDOW_PARTS: u64 = 8;
/// The window of a model that does not say its own.
const WINDOW: u64 = 128_000;
const BYTES_PER_TOKEN: u64 = 4;

/// How tools are shown to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolDisplay {
    /// All, with their schemas.
    All,
    /// What finds, describes and calls them.
    Menu,
    /// All, deferred: the provider shows those that a search has found.
    Native,
}

/// Which tools a run has.
pub(super) struct ToolChoice<'a> {
    /// What the run's profile shows its caller.
    pub(super) view: &'a View,
    /// What the caller's own profile shows it, where that is another one.
    pub(super) own: Option<&'a View>,
    /// What the agent's definition allows; `None` is all.
    pub(super) patterns: Option<&'a [Glob]>,
    /// The agent itself, which it may not call.
    pub(super) agent: &'a str,
}

impl ToolChoice<'_> {
    /// Whether the run may use a tool, as far as lists say.
    pub(super) fn allows(&self, tool: &Tool) -> bool {
        let (server, name) = (tool.id.server.as_str(), &*tool.id.tool);
        let is_itself = server == SOURCE && name == self.agent;
        let is_allowed = self.patterns.is_none_or(|patterns| is_named(patterns, tool));
        !is_itself && is_allowed && self.own.is_none_or(|own| own.tool_by_id(&tool.id).is_some())
    }

    /// The tools that it may use, as all of them are shown.
    fn all(&self, deferred: bool) -> Vec<ToolSpec> {
        let mut taken = HashSet::new();
        let allowed = self.view.tools.iter().filter(|tool| self.allows(tool));
        allowed.map(|tool| spec(tool, &mut taken, deferred)).collect()
    }

    /// The tools of a run, and how they are shown.
    pub(super) fn choose(&self, wanted: Option<ToolDisplay>, window: Option<u64>, searches: bool) -> Vec<ToolSpec> {
        let all = self.all(false);
        let bytes: u64 = all.iter().map(|tool| (tool.schema.get().len() + tool.description.len()) as u64).sum();
        let room = window.unwrap_or(WINDOW) / WINDOW_PARTS * BYTES_PER_TOKEN;
        let fits = all.len() <= FEW || bytes <= room;
        let shown = wanted.unwrap_or(match (fits, searches) {
            (true, _) => ToolDisplay::All,
            (false, true) => ToolDisplay::Native,
            (false, false) => ToolDisplay::Menu,
        });
        match shown {
            ToolDisplay::All => all,
            // Where nothing may be used there is nothing to find.
            _ if all.is_empty() => all,
            ToolDisplay::Native if searches => {
                let mut tools = self.all(true);
                tools.retain(|tool| tool.name != FIND);
                tools.extend(menu(&[Act::Find]));
                tools
            }
            ToolDisplay::Menu | ToolDisplay::Native => menu(&[Act::Find, Act::Describe, Act::Call]),
        }
    }
}

/// What reads more of a long result.
pub(super) fn reader() -> ToolSpec {
    ToolSpec {
        name: READER.to_owned(),
        id: READER.to_owned(),
        description: "Read more of a result that was too long to be shown whole.".to_owned(),
        schema: raw(READER_SCHEMA),
        hints: Hints { read_only: true, idempotent: true, destructive: false },
        agent: false,
        deferred: false,
    }
}

fn menu(acts: &[Act]) -> Vec<ToolSpec> {
    let names =
        acts.iter().filter_map(|act| dialect::own_name(dialect::name_of(*act, Dialect::Native), Dialect::Native));
    names
        .map(|meta| ToolSpec {
            name: meta.name.to_owned(),
            id: meta.name.to_owned(),
            description: meta.description.to_owned(),
            schema: raw(meta.schema),
            hints: Hints { read_only: meta.read_only == Some(true), ..Hints::default() },
            agent: false,
            deferred: false,
        })
        .collect()
}

/// Whether patterns name a tool, by its id or by the name that its profile gives it.
pub(super) fn is_named(patterns: &[Glob], tool: &Tool) -> bool {
    let (server, name) = (tool.id.server.as_str(), &*tool.id.tool);
    patterns.iter().any(|pattern| pattern.matches_id(server, name) || pattern.matches(&tool.name))
}

/// Whether a tool is an agent.
pub(super) fn is_agent(tool: &Tool) -> bool {
    tool.id.server.as_str() == SOURCE
}

/// The effects of a tool, as far as its server is believed.
pub(super) fn hints(tool: &Tool) -> Hints {
    let annotations = &tool.annotations;
    Hints {
        read_only: annotations.read_only == Some(true),
        // A run of an agent that was begun for a call is found again by the call.
        idempotent: annotations.idempotent == Some(true) || is_agent(tool),
        destructive: annotations.destructive != Some(false),
    }
}

fn spec(tool: &Tool, taken: &mut HashSet<String>, deferred: bool) -> ToolSpec {
    let input = tool.entry.input_schema();
    ToolSpec {
        name: model_name(&tool.name, taken),
        id: tool.id.to_string(),
        description: tool.description().to_owned(),
        schema: raw(input.as_ref().map_or(r#"{"type":"object"}"#, |schema| schema.as_str())),
        hints: hints(tool),
        agent: is_agent(tool),
        deferred,
    }
}

fn raw(text: &str) -> std::sync::Arc<RawValue> {
    let value = RawValue::from_string(text.to_owned());
    value.unwrap_or_else(|_| RawValue::from_string("{}".to_owned()).expect("an object")).into()
}

/// A name that every provider accepts, and that is no other tool's: the same for the same tools.
fn model_name(name: &str, taken: &mut HashSet<String>) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let mut candidate = if plain.len() <= NAME && !plain.is_empty() { plain.clone() } else { hashed(&plain, name, 0) };
    let mut attempt = 0;
    while !taken.insert(candidate.clone()) {
        attempt += 1;
        candidate = hashed(&plain, name, attempt);
    }
    candidate
}

fn hashed(plain: &str, name: &str, attempt: u32) -> String {
    let digest = Sha256::digest(format!("{attempt}{name}"));
    let tail: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{tail}", &plain[..plain.len().min(NAME - 9)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_every_provider_and_are_no_other_tools() {
        let mut taken = HashSet::new();
        assert_eq!(model_name("files_read", &mut taken), "files_read");
        assert_eq!(model_name("files.read", &mut taken).len(), "files_read".len() + 9);
        let long = "x".repeat(90);
        let first = model_name(&long, &mut taken);
        assert_eq!(first.len(), NAME);
        let second = model_name(&long, &mut taken);
        assert!(first != second && second.len() == NAME, "{second}");
        assert_eq!(model_name("größe/ß", &mut HashSet::new()), "gr__e__");
    }
}
