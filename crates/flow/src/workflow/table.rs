//! The workflows that there are: programs of what the files say, and the tools that they are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_catalog::{Catalog, DefinitionProblem, ObjectName, WorkflowDefinition};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_view::Offer;

use super::program::Program;
use super::{agents, argument};

/// Where clients of muster look for the labels of a workflow.
const LABELS: &str = "muster.giantswarm.io/labels";

/// The name of the source, and what the ids of its tools begin with.
pub(super) const SOURCE: &str = "workflow";

/// What the files say right now.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) programs: BTreeMap<ObjectName, Arc<Program>>,
    /// Workflows that cannot run, and why.
    pub(super) broken: BTreeMap<ObjectName, String>,
    pub(super) offers: Arc<[Offer]>,
    definitions: BTreeMap<ObjectName, Arc<WorkflowDefinition>>,
}

/// What is different between two tables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TableChanges {
    pub(super) created: Vec<ObjectName>,
    pub(super) updated: Vec<ObjectName>,
    pub(super) deleted: Vec<ObjectName>,
}

// === impl Table ===

impl Table {
    /// Makes programs of the definitions; those that are as before stay.
    pub(super) fn of(loaded: &Catalog, before: &Self) -> (Self, Vec<DefinitionProblem>) {
        let mut table = Self { definitions: loaded.workflows.clone(), ..Self::default() };
        let mut problems = Vec::new();
        for (name, definition) in &loaded.workflows {
            if let Some(cycle) = cycle(name, &loaded.workflows) {
                let message = format!("calls itself: {cycle}");
                table.broken.insert(name.clone(), message.clone());
                problems.push(problem(name, "steps", message));
                continue;
            }
            let same = before.programs.get(name).filter(|program| program.definition == *definition);
            match same.cloned().map_or_else(|| Program::compile(definition).map(Arc::new), Ok) {
                Ok(program) => {
                    problems.extend(agents::faults(definition, &loaded.agents));
                    table.programs.insert(name.clone(), program);
                }
                Err(found) => {
                    let told: Vec<String> = found.iter().map(|it| format!("`{}`: {}", it.field, it.message)).collect();
                    table.broken.insert(name.clone(), told.join("; "));
                    problems.extend(found);
                }
            }
        }
        let offers: Arc<[Offer]> = table.programs.values().filter_map(|program| offer(&program.definition)).collect();
        table.offers = if offers == before.offers { Arc::clone(&before.offers) } else { offers };
        (table, problems)
    }

    pub(super) fn changes(&self, before: &Self) -> TableChanges {
        let (now, then) = (&self.definitions, &before.definitions);
        let is_new = |name: &&ObjectName| !then.contains_key(*name);
        let is_changed = |name: &&ObjectName| then.get(*name).is_some_and(|then| *then != now[*name]);
        TableChanges {
            created: now.keys().filter(is_new).cloned().collect(),
            updated: now.keys().filter(is_changed).cloned().collect(),
            deleted: then.keys().filter(|name| !now.contains_key(*name)).cloned().collect(),
        }
    }

    /// The definition of a name, good or broken.
    pub(super) fn definition(&self, name: &str) -> Option<&Arc<WorkflowDefinition>> {
        self.definitions.get(name)
    }

    pub(super) fn definitions(&self) -> impl Iterator<Item = &Arc<WorkflowDefinition>> {
        self.definitions.values()
    }

    /// The tools that a workflow and those within it need and that are not there, each once.
    pub(super) fn missing(&self, name: &str, is_there: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut missing = Vec::new();
        self.add_missing(name, is_there, &mut Vec::new(), &mut missing);
        missing
    }

    /// Whether nothing that a workflow and those within it use is hidden from anyone who may read the names that pass.
    pub(super) fn is_open(&self, name: &str, may_name: &dyn Fn(&str) -> bool) -> bool {
        self.is_open_within(name, may_name, &mut Vec::new())
    }

    fn is_open_within<'t>(&'t self, name: &str, may_name: &dyn Fn(&str) -> bool, within: &mut Vec<&'t str>) -> bool {
        // One that is not there is judged by its name, where it is used.
        let Some(definition) = self.definitions.get(name) else { return true };
        if within.contains(&definition.name.as_str()) {
            return true;
        }
        within.push(definition.name.as_str());
        may_name(&format!("{SOURCE}/{name}"))
            && definition.tools().into_iter().all(|tool| {
                may_name(tool) && named(tool).is_none_or(|inner| self.is_open_within(inner, may_name, within))
            })
    }

    fn add_missing<'t>(
        &'t self,
        name: &str,
        is_there: &dyn Fn(&str) -> bool,
        within: &mut Vec<&'t str>,
        missing: &mut Vec<String>,
    ) {
        let Some(definition) = self.definitions.get(name) else { return };
        if within.contains(&definition.name.as_str()) {
            return;
        }
        within.push(definition.name.as_str());
        for tool in definition.tools() {
            let before = missing.len();
            // One that is there for others may need what is not for this principal.
            if let Some(inner) = named(tool) {
                self.add_missing(inner, is_there, within, missing);
            }
            // A workflow that lacks nothing and is not there is what is missing.
            if missing.len() == before && !is_there(tool) && !missing.iter().any(|known| known == tool) {
                missing.push(tool.to_owned());
            }
        }
    }
}

/// The workflow that a tool's name means, if it may be one.
fn named(tool: &str) -> Option<&str> {
    ["workflow_", "workflow/", "x_workflow_", "action_"].iter().find_map(|prefix| tool.strip_prefix(prefix))
}

/// The way on which a workflow calls itself.
pub(super) fn cycle(start: &ObjectName, all: &BTreeMap<ObjectName, Arc<WorkflowDefinition>>) -> Option<String> {
    // Looked for from the start, each workflow once: what was left without finding it cannot lead there.
    let mut ways: Vec<Vec<&str>> = vec![vec![start.as_str()]];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(way) = ways.pop() {
        let definition = all.get(*way.last()?)?;
        for next in definition.tools().into_iter().filter_map(named) {
            if next == start.as_str() {
                let names: Vec<&str> = way.iter().copied().chain([next]).collect();
                return Some(names.join(" → "));
            }
            if let Some((known, _)) = all.get_key_value(next)
                && seen.insert(known.as_str())
            {
                ways.push(way.iter().copied().chain([known.as_str()]).collect());
            }
        }
    }
    None
}

fn problem(name: &ObjectName, field: &str, message: String) -> DefinitionProblem {
    let file = PathBuf::from(format!("workflows/{name}.yaml"));
    DefinitionProblem {
        file,
        at: None,
        field: field.to_owned(),
        message,
        hint: Some("remove one of the calls".to_owned()),
    }
}

fn offer(definition: &WorkflowDefinition) -> Option<Offer> {
    let name = definition.name.as_str();
    let description = definition.description.clone();
    let description = description.unwrap_or_else(|| format!("Runs the workflow `{name}`"));
    let mut entry = json!({ "name": name, "description": description, "inputSchema": argument::schema(definition) });
    if !definition.labels.is_empty() {
        let labels: Value = json!(definition.labels);
        entry["_meta"] = json!({ LABELS: labels });
    }
    let entry = Entry::from_raw(Listing::Tools, Raw::from_value(&entry)).ok()?;
    let uses = definition.tools().into_iter().map(str::to_owned).collect();
    Some(Offer { entry, uses, checks_arguments: true, slow: true })
}
