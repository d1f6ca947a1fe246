//! What a scenario is, whichever form its file has.

mod identity;
mod muster;
mod references;
mod scooter;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use toolcrib_catalog::yaml::Node;

pub(crate) use identity::IdentitySetup;

use crate::document;
use crate::drive::Speaker;
use crate::form;
use crate::mock::{Mock, Protection};
use crate::value::text;
use crate::wrong::Wrong;

/// The form of the file, which decides the dialect of its default profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// muster's.
    Muster,
    /// MCP Scooter's: steps have an `action`.
    Scooter,
}

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name in reports.
    pub name: String,
    /// Where it stands.
    pub file: PathBuf,
    /// The form of the file.
    pub form: Form,
    /// For `--category`.
    pub category: Option<String>,
    /// For `--concept`.
    pub concept: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// For `--tag`.
    pub tags: Vec<String>,
    /// How long all steps may take.
    pub timeout: Option<Duration>,
    /// Why it is not run.
    pub skip: Option<String>,
    /// What people should know of the file, although it is not wrong.
    pub remarks: Vec<String>,
    pub(crate) needs: Needs,
    pub(crate) setup: Setup,
    pub(crate) steps: Vec<Step>,
    pub(crate) cleanup: Vec<Step>,
}

/// What must be on the machine, else the scenario is skipped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    pub(crate) env: Vec<String>,
    pub(crate) programs: Vec<String>,
    /// Registry entries that the default profile may find.
    pub(crate) registry: Vec<String>,
}

/// What is there before the gateway starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    pub(crate) servers: Vec<Server>,
    /// Folder of the home, name, content.
    pub(crate) definitions: Vec<(&'static str, String, Value)>,
    pub(crate) profiles: Vec<(String, Map<String, Value>)>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) identity: IdentitySetup,
}

/// A mock server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) transport: Transport,
    pub(crate) prefix: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) family: Option<Value>,
    /// Further keys of its definition.
    pub(crate) definition: Map<String, Value>,
    /// A program or an address of the scenario's own in place of the mock.
    pub(crate) is_real: bool,
    pub(crate) mock: Mock,
    /// What it asks of its callers.
    pub(crate) protection: Option<Protection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
    Sse,
}

/// One step.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) line: u32,
    pub(crate) act: Act,
    pub(crate) profile: Option<String>,
    pub(crate) speaker: Speaker,
    /// Who calls; the current user without it.
    pub(crate) user: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) expected: Expectation,
    pub(crate) continues: bool,
    pub(crate) cleanup: Vec<Step>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Call { tool: String, args: Map<String, Value> },
    Open,
    List,
    Wait(Duration),
}

/// How often a step is tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Retry {
    pub(crate) count: u32,
    pub(crate) delay: Duration,
    pub(crate) factor: f64,
}

/// What must be true of an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expectation {
    /// No one said anything about the answer.
    pub(crate) nothing: bool,
    pub(crate) success: Option<bool>,
    pub(crate) contains: Vec<String>,
    pub(crate) not_contains: Vec<String>,
    pub(crate) error_contains: Vec<String>,
    pub(crate) json_path: Vec<(String, Value)>,
    pub(crate) status_code: Option<u16>,
    pub(crate) wait_for_state: Option<Duration>,
    pub(crate) tools_contain: Vec<String>,
    pub(crate) tools_not_contain: Vec<String>,
    pub(crate) result_contains: Vec<String>,
    pub(crate) result_not_contains: Vec<String>,
    /// Whether the result has content.
    pub(crate) has_content: Option<bool>,
}

/// Reads a scenario from the text of its file.
///
/// # Errors
/// Everything that is wrong with it, with lines.
pub fn read(file: &Path, text: &str) -> Result<Scenario, Vec<Wrong>> {
    let wrong =
        |line, message: String| vec![Wrong { file: file.to_owned(), line, path: String::new(), message, hint: None }];
    let root = document::parse(file, text).map_err(|wrong| vec![wrong])?;
    if root.is_null() {
        return Err(wrong(1, "expected a scenario, got nothing: the file is empty".to_owned()));
    }
    let steps = root.get("steps").map(Node::items).unwrap_or_default();
    let is_scooter = root.get("requires").is_some() || steps.iter().any(|step| step.get("action").is_some());
    let table = if is_scooter { &form::SCOOTER } else { &form::SCENARIO };
    let mut found = form::check(&root, table, file);
    found.extend(references::arguments(&root, file));
    if is_scooter {
        found.extend(scooter::misplaced(&root, file));
    }
    if steps.is_empty() && found.is_empty() {
        found.extend(wrong(root.at.line, "expected at least one step, got none".to_owned()));
    }
    if !found.is_empty() {
        return Err(found);
    }
    let scenario = if is_scooter { scooter::scenario(&root, file) } else { muster::scenario(&root, file) };
    let mut found = references::check(&scenario);
    found.extend(identity::check(&scenario));
    if found.is_empty() { Ok(scenario) } else { Err(found) }
}

// === impl Scenario ===

impl Scenario {
    /// One without any content.
    pub(crate) fn bare(name: &str, file: &Path) -> Self {
        Self {
            name: name.to_owned(),
            file: file.to_owned(),
            form: Form::Muster,
            category: None,
            concept: None,
            description: None,
            tags: Vec::new(),
            timeout: None,
            skip: None,
            remarks: Vec::new(),
            needs: Needs::default(),
            setup: Setup::default(),
            steps: Vec::new(),
            cleanup: Vec::new(),
        }
    }

    /// Every step, those of every kind of cleanup included.
    pub(crate) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter().flat_map(|step| std::iter::once(step).chain(&step.cleanup));
        steps.chain(self.cleanup.iter().flat_map(|step| std::iter::once(step).chain(&step.cleanup)))
    }
}

// === impl Step ===

impl Step {
    /// The tool that it calls.
    pub(crate) fn tool(&self) -> Option<&str> {
        if let Act::Call { tool, .. } = &self.act { Some(tool) } else { None }
    }
}

/// What kind of client a step or a scenario names.
fn speaker(node: &Node) -> Option<Speaker> {
    Speaker::of_word(&text(node, "client")?)
}

/// `skip: true` or `skip: "why"`.
fn skip(root: &Node) -> Option<String> {
    let node = root.get("skip")?;
    match node.as_flag() {
        Some(false) => None,
        Some(true) => Some("the file says `skip`".to_owned()),
        None => Some(format!("the file says `skip`: {}", node.text().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
