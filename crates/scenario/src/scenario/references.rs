//! Names that a scenario uses must be there: a tool for each call, and a step for each `{{ step.field }}`. Two steps
//! may have one name, as in muster's own files: the later result counts.

use std::collections::BTreeSet;
use std::path::Path;

use toolcrib_base::nearest::nearest;
use toolcrib_catalog::yaml::{Content, Node};

use super::{Act, Scenario, Step};
use crate::wrong::Wrong;
use crate::{form, harness, template};

/// Roots of the templates of workflows, which stand in `args` too and are not ours.
const ROOTS_OF_WORKFLOWS: [&str; 8] = ["input", "results", "vars", "context", "item", "args", "service", "name"];

pub(super) fn check(scenario: &Scenario) -> Vec<Wrong> {
    let mut found = Vec::new();
    let mut add = |line, path: &str, message, hint| {
        found.push(Wrong { file: scenario.file.clone(), line, path: path.to_owned(), message, hint });
    };
    let ids: BTreeSet<&str> = scenario.all_steps().map(|step| step.id.as_str()).collect();
    for step in scenario.all_steps() {
        if step.tool().is_some_and(str::is_empty) {
            add(step.line, "tool", format!("the step `{}` names no tool", step.id), None);
        }
        for root in roots(step) {
            if ids.contains(root.as_str()) || ROOTS_OF_WORKFLOWS.contains(&root.as_str()) {
                continue;
            }
            // A name with a dash is none of any template language; one that is near to a step was meant as that step.
            let near = nearest(&root, ids.iter().copied());
            if root.contains('-') || near.is_some() {
                let hint = near.map(|id| format!("did you mean `{id}`?"));
                add(step.line, "args", format!("`{{{{ {root}.… }}}}` names no step"), hint);
            }
        }
    }
    found
}

/// What is wrong with the arguments of the runner's own tools.
pub(super) fn arguments(root: &Node, file: &Path) -> Vec<Wrong> {
    let mut found = Vec::new();
    let mut look = |step: &Node, path: &str| {
        let tool = step.get("tool").and_then(Node::text).and_then(|tool| harness::find(&tool));
        let Some(tool) = tool else { return };
        match step.get("args") {
            Some(args) => found.extend(form::check_at(args, tool, file, &format!("{path}.args"))),
            None => {
                let nothing = Node { at: step.at, content: Content::Map(Vec::new()) };
                found.extend(form::check_at(&nothing, tool, file, path));
            }
        }
    };
    for list in ["steps", "cleanup"] {
        for (index, step) in root.get(list).map(Node::items).unwrap_or_default().iter().enumerate() {
            let path = format!("{list}[{index}]");
            look(step, &path);
            for (index, inner) in step.get("cleanup").map(Node::items).unwrap_or_default().iter().enumerate() {
                look(inner, &format!("{path}.cleanup[{index}]"));
            }
        }
    }
    found
}

fn roots(step: &Step) -> Vec<String> {
    let Act::Call { args, .. } = &step.act else { return Vec::new() };
    let mut roots = Vec::new();
    for value in args.values() {
        template::each_reference(value, &mut |path| {
            if let Some((root, _)) = path.split_once('.') {
                roots.push(root.to_owned());
            }
        });
    }
    roots
}
