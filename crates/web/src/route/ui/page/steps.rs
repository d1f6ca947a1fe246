//! The steps of a workflow's definition, drawn and as a table.

use std::collections::BTreeMap;

use serde_json::Value;
use toolcrib_ui::graph::{Graph, GraphNode, GraphStep};
use toolcrib_ui::part::{Cell, Column, Level, Section, Table};

use super::json::{level, rows, text};

/// How each step went, by its id.
pub(super) type Outcomes = BTreeMap<String, Level>;

/// How the steps of a run went. One that is repeated stands there once for each item, with a number: what went worst
/// counts.
pub(super) fn outcomes(run: &Value) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for step in rows(run, "steps") {
        let (id, level) = (text(step, "step_id"), level(&text(step, "status")));
        let number = id.rsplit_once('_').filter(|(_, number)| number.bytes().all(|it| it.is_ascii_digit()));
        for id in [Some(id.as_str()), number.map(|(id, _)| id)].into_iter().flatten() {
            let known = outcomes.entry(id.to_owned()).or_insert(level);
            if weight(level) > weight(*known) {
                *known = level;
            }
        }
    }
    outcomes
}

fn weight(level: Level) -> u8 {
    match level {
        Level::Idle => 0,
        Level::Ok => 1,
        Level::Warn => 2,
        Level::Work => 3,
        Level::Bad => 4,
    }
}

/// The steps of a definition as an operation answers it.
pub(super) fn sections(workflow: &Value, outcomes: &Outcomes) -> Vec<Section> {
    let mut nodes = nodes(rows(workflow, "steps"), outcomes);
    let cleanup = ["onFailure", "on_failure"].into_iter().map(|key| rows(workflow, key)).find(|it| !it.is_empty());
    let cleanup = cleanup.unwrap_or_default();
    if !cleanup.is_empty() {
        nodes.push(GraphNode::Frame { label: "if a step fails".to_owned(), nodes: self::nodes(cleanup, outcomes) });
    }
    let mut table = Vec::new();
    list(rows(workflow, "steps"), "", &mut table);
    list(cleanup, "if a step fails", &mut table);
    let columns = vec![Column::text("Step"), Column::text("What it does"), Column::text("When"), Column::text("Reads")];
    let table = Table { label: "Steps".into(), columns, rows: table };
    let mut sections = vec![Section::Table { title: "Steps".into(), table, empty: "It has no steps.".into() }];
    let graph = Graph { nodes };
    if graph.is_drawn() {
        sections.insert(0, Section::Graph(graph));
    }
    sections
}

fn nodes(steps: &[Value], outcomes: &Outcomes) -> Vec<GraphNode> {
    steps.iter().map(|step| node(step, outcomes)).collect()
}

fn node(step: &Value, outcomes: &Outcomes) -> GraphNode {
    let id = text(step, "id");
    if let Some(each) = repeated(step) {
        let label = format!("{id}: for each {}", text(each, "as"));
        return GraphNode::Frame { label, nodes: nodes(rows(each, "steps"), outcomes) };
    }
    if !rows(step, "parallel").is_empty() {
        return GraphNode::Parallel { id, nodes: nodes(rows(step, "parallel"), outcomes) };
    }
    let when = when(step);
    let about = if when.is_empty() { what(step) } else { format!("{}, {when}", what(step)) };
    GraphNode::Step(GraphStep { level: outcomes.get(&id).copied().unwrap_or_default(), reads: reads(step), about, id })
}

fn repeated(step: &Value) -> Option<&Value> {
    ["forEach", "for_each"].into_iter().map(|key| &step[key]).find(|it| it.is_object())
}

/// The rows of a table, those of a group after it.
fn list(steps: &[Value], group: &str, table: &mut Vec<Vec<Cell>>) {
    for step in steps {
        let inner = match repeated(step) {
            Some(each) => rows(each, "steps"),
            None => rows(step, "parallel"),
        };
        let when = match (group.is_empty(), when(step)) {
            (true, when) => when,
            (false, when) if when.is_empty() => group.to_owned(),
            (false, when) => format!("{group}; {when}"),
        };
        let does = match repeated(step) {
            Some(each) => format!("for each {} of {}", text(each, "as"), text(each, "items")),
            None if !inner.is_empty() => "all of these at once".to_owned(),
            None => what(step),
        };
        let reads = if inner.is_empty() { reads(step).join(", ") } else { String::new() };
        table.push(vec![Cell::Id(text(step, "id")), Cell::Text(does), Cell::Text(when), Cell::Text(reads)]);
        list(inner, &format!("in {}", text(step, "id")), table);
    }
}

/// What a step calls.
fn what(step: &Value) -> String {
    match text(step, "agent") {
        agent if agent.is_empty() => text(step, "tool"),
        agent => format!("agent {agent}"),
    }
}

/// Under which conditions a step runs, in words.
fn when(step: &Value) -> String {
    let mut words = Vec::new();
    if !step["condition"].is_null() {
        words.push("if its condition holds");
    }
    if !step["retry"].is_null() {
        words.push("tried again");
    }
    if ["allowFailure", "allow_failure"].into_iter().any(|key| step[key] == true) {
        words.push("may fail");
    }
    words.join(", ")
}

/// The ids of the steps whose results the templates of a step name.
fn reads(step: &Value) -> Vec<String> {
    let mut found = Vec::new();
    names(step, &mut found);
    found
}

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            for rest in text.split("results.").skip(1) {
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && !"_-".contains(it)).unwrap_or(rest.len());
                let id = &rest[..end];
                if !id.is_empty() && !found.iter().any(|known| known == id) {
                    found.push(id.to_owned());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        Value::Object(members) => members.values().for_each(|member| names(member, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_repeated_shows_what_went_worst() {
        let step = |id: &str, status: &str| json!({"step_id": id, "status": status});
        let run = json!({"steps": [step("put_0", "completed"), step("put_1", "failed"), step("put_2", "completed")]});
        let outcomes = outcomes(&run);
        assert_eq!((outcomes["put"], outcomes["put_2"]), (Level::Bad, Level::Ok));
    }

    #[test]
    fn a_definition_becomes_a_graph_and_a_table() {
        let workflow = json!({
            "steps": [
                {"id": "find", "tool": "a/find", "args": {"q": "{{ .input.q }}"}},
                {"id": "all", "forEach": {"items": "{{ .results.find }}", "as": "row", "steps": [
                    {"id": "put", "tool": "a/put", "args": {"row": ["{{ .vars.row }} {{ .results.find.id }}"]}},
                ]}},
                {"id": "both", "parallel": [{"id": "x", "tool": "a/x"}, {"id": "y", "agent": "clerk", "task": "t"}]},
                {"id": "end", "tool": "a/end", "args": {"y": "{{ .results.y }}{{.results.x}}"}, "allowFailure": true},
            ],
            "onFailure": [{"id": "clean", "tool": "a/clean"}],
        });
        let outcomes = Outcomes::from([("end".to_owned(), Level::Bad)]);
        let sections = sections(&workflow, &outcomes);
        let [Section::Graph(graph), Section::Table { table, .. }] = &sections[..] else { panic!("{sections:?}") };
        let svg = graph.to_string();
        assert!(
            svg.contains("all: for each row") && svg.contains("if a step fails") && svg.contains("step bad"),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"reads\"").count(), 3, "{svg}");
        let first: Vec<String> = table.rows.iter().map(|row| row[0].to_string()).collect();
        let ids = ["find", "all", "put", "both", "x", "y", "end", "clean"];
        assert!(first.len() == ids.len() && first.iter().zip(ids).all(|(cell, id)| cell.contains(id)), "{first:?}");
        assert!(table.rows[5][1].to_string().contains("agent clerk"));
        assert!(table.rows[6][3].to_string().contains("y, x") && table.rows[6][2].to_string().contains("may fail"));
    }
}
