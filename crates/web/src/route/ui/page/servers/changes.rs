//! What a server offers that differs from what was approved, with the buttons that decide about one, many or all of it.

use std::fmt::Write as _;

use serde_json::Value;
use toolcrib_ui::part::{Action, Choice, ChoiceForm, Look, OtherButton, Section};

use super::super::json::{pretty, rows, text};
use super::super::run;
use crate::route::ui::PageRequest;

/// How many differences a page decides about one by one.
const ENTRIES: usize = 200;
/// How an operation names what a server says of itself.
const INSTRUCTIONS: &str = "instructions";

/// The sections; none where nothing differs.
pub(super) fn sections(request: &PageRequest, name: &str, changes: &Value) -> Vec<Section> {
    let choices: Vec<Choice> = ["added", "removed", "renamed", "changed"]
        .iter()
        .flat_map(|word| {
            rows(&changes["difference"], word).iter().map(|entry| choice(word, entry, rows(changes, "rejected")))
        })
        .collect();
    if choices.is_empty() {
        return Vec::new();
    }
    let is_approved = changes["approved"] == true;
    let begin = if is_approved { "Changed since it was approved" } else { "Not approved" };
    let title = format!("{begin}: {}", text(changes, "summary"));
    let mut sections = vec![Section::Pre { title, id: "difference", text: text(changes, "text") }];
    let digest = text(changes, "digest");
    let arguments = || vec![("name", name.to_owned()), ("digest", digest.clone())];
    sections.extend(request.if_changing(|| {
        let approve = Action {
            look: Look::Primary,
            ..run("Approve all", "core_mcpserver_approve", arguments(), &request.here())
        };
        let reject =
            Action { look: Look::Danger, ..run("Reject all", "core_mcpserver_reject", arguments(), &request.here()) };
        let mut decide = vec![Section::Actions(vec![approve, reject])];
        // A name over two lines would be read as two.
        let choices = choices.into_iter().filter(|it| is_one_line(&it.value)).take(ENTRIES);
        let mut hidden = arguments();
        // A list that is not there would mean all; one without names is refused.
        hidden.push(("tools", " ".to_owned()));
        decide.push(Section::Choices(ChoiceForm {
            title: "Decide one by one".to_owned(),
            tool: "core_mcpserver_approve",
            argument: "tools",
            hidden,
            are_chosen: false,
            choices: choices.collect(),
            button: "Approve the chosen".to_owned(),
            other: Some(OtherButton { tool: "core_mcpserver_reject", label: "Reject the chosen".to_owned() }),
            next: request.here(),
        }));
        decide
    }));
    sections
}

/// One thing that differs.
fn choice(word: &str, entry: &Value, rejected: &[Value]) -> Choice {
    let kind = text(entry, "kind");
    let name = text(entry, if word == "renamed" { "to" } else { "name" });
    let by = rejected.iter().find(|it| text(it, "kind") == kind && text(it, "name") == name);
    let warnings = by.map(|it| format!("rejected by {}", text(it, "by"))).into_iter().collect();
    let mut difference = String::new();
    for field in rows(entry, "fields") {
        let side = |key: &str| match &field[key] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value => pretty(value),
        };
        let _ = writeln!(difference, "{}", text(field, "field"));
        for (sign, key) in [("-", "before"), ("+", "after")] {
            side(key).lines().for_each(|line| _ = writeln!(difference, "{sign} {line}"));
        }
    }
    let note = match word {
        "renamed" => format!("renamed, was {}", text(entry, "from")),
        word => word.to_owned(),
    };
    let value = if kind == INSTRUCTIONS { kind } else { format!("{kind}:{name}") };
    Choice { value, note, warnings, text: difference, file: "What changes".to_owned() }
}

fn is_one_line(name: &str) -> bool {
    name.trim() == name && !name.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_difference_is_named_as_the_operation_takes_it() {
        let fields = json!([{ "field": "description", "before": "Adds", "after": "Adds\u{202e}" }]);
        let changed = choice("changed", &json!({ "kind": "tool", "name": "add", "fields": fields }), &[]);
        assert_eq!(changed.value, "tool:add");
        assert!(changed.text.contains("Adds\u{202e}") && changed.text.starts_with("description\n"), "{}", changed.text);
        let rejected = [json!({ "kind": "tool", "name": "b", "by": "ann" })];
        let renamed = choice("renamed", &json!({ "kind": "tool", "from": "a", "to": "b" }), &rejected);
        assert_eq!((renamed.value.as_str(), renamed.note.as_str()), ("tool:b", "renamed, was a"));
        assert_eq!(renamed.warnings, ["rejected by ann"]);
        let own = choice("added", &json!({ "kind": "instructions", "name": "" }), &[]);
        assert_eq!(own.value, "instructions");
    }

    #[test]
    fn a_name_that_reads_as_two_is_not_decided_about_alone() {
        for (name, expected) in [("tool:a", true), ("tool:a b", true), ("tool:a\nb", false), ("tool:a ", false)] {
            assert_eq!(is_one_line(name), expected, "{name:?}");
        }
    }
}
