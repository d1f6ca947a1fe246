//! What a server offers that differs from what was approved, with the buttons that decide about one, many or all of it.

use std::fmt::Write as _;

use serde_json::Value;
use toolcrib_ui::part::{Action, Cell, Choice, ChoiceForm, Column, Look, OtherButton, Section, Table};

use super::super::json::{pretty, rows, text};
use super::super::{open_page, run};
use crate::route::ui::PageRequest;

/// How many differences a page decides about one by one.
const ENTRIES: usize = 200;
/// How many names are listed that are not decided about alone.
const LISTED: usize = 50;
/// The parameter with the number of the first one.
const FROM: &str = "from";
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
        let (alone, together): (Vec<Choice>, Vec<Choice>) = choices.into_iter().partition(|it| is_one_line(&it.value));
        let page = ChoicePage::of(alone.len(), request.offset());
        let mut hidden = arguments();
        // A list that is not there would mean all; one without names is refused.
        hidden.push(("tools", " ".to_owned()));
        if !alone.is_empty() {
            decide.push(Section::Choices(ChoiceForm {
                title: page.title(),
                tool: "core_mcpserver_approve",
                argument: "tools",
                hidden,
                answers: Vec::new(),
                requirements: Vec::new(),
                are_chosen: false,
                choices: alone.into_iter().skip(page.first).take(ENTRIES).collect(),
                button: "Approve the chosen".to_owned(),
                other: Some(OtherButton { tool: "core_mcpserver_reject", label: "Reject the chosen".to_owned() }),
                next: request.here(),
            }));
        }
        let steps = page
            .steps()
            .into_iter()
            .map(|(label, from)| open_page(&label, &request.with(FROM, &from.to_string()), Look::Plain));
        let steps: Vec<Action> = steps.collect();
        if !steps.is_empty() {
            decide.push(Section::Actions(steps));
        }
        if !together.is_empty() {
            decide.push(only_together(&together));
        }
        decide
    }));
    sections
}

/// The part of the differences that is decided about one by one.
#[derive(Debug, PartialEq, Eq)]
struct ChoicePage {
    first: usize,
    end: usize,
    total: usize,
}

impl ChoicePage {
    /// The page that holds the difference of this number; the last one where there are fewer by now.
    fn of(total: usize, from: usize) -> Self {
        let first = from.min(total.saturating_sub(1)) / ENTRIES * ENTRIES;
        Self { first, end: total.min(first + ENTRIES), total }
    }

    fn title(&self) -> String {
        match self.end - self.first == self.total {
            true => "Decide one by one".to_owned(),
            false => format!("Decide one by one: {} to {} of {}", self.first + 1, self.end, self.total),
        }
    }

    /// The pages before and after it: what leads there, and their first number.
    fn steps(&self) -> Vec<(String, usize)> {
        let before = (self.first > 0).then(|| (format!("The {ENTRIES} before"), self.first - ENTRIES));
        let left = self.total - self.end;
        let after = (left > 0).then(|| (format!("The next {} of {left} not shown", left.min(ENTRIES)), self.end));
        before.into_iter().chain(after).collect()
    }
}

/// What cannot be named in a form, because its name has line breaks or begins or ends with a blank.
fn only_together(choices: &[Choice]) -> Section {
    let rows = choices.iter().take(LISTED).map(|it| vec![Cell::Id(it.value.clone()), Cell::Text(it.note.clone())]);
    let columns = vec![Column::text("Name"), Column::text("What changes")];
    let table = Table { label: "Decided only with all others".to_owned(), columns, rows: rows.collect() };
    let cut = if choices.len() > LISTED { format!(", the first {LISTED} of which are shown") } else { String::new() };
    let title =
        format!("Decided only with all others, because of blanks or line breaks at names: {}{cut}", choices.len());
    Section::Table { title, table, empty: String::new() }
}

/// One thing that differs.
fn choice(word: &str, entry: &Value, rejected: &[Value]) -> Choice {
    let kind = text(entry, "kind");
    let name = text(entry, if word == "renamed" { "to" } else { "name" });
    let by = rejected.iter().find(|it| text(it, "kind") == kind && text(it, "name") == name);
    let warnings = by.map(|it| format!("rejected by {}", text(it, "by"))).into_iter().collect();
    let difference = difference(entry);
    let note = match word {
        "renamed" => format!("renamed, was {}", text(entry, "from")),
        word => word.to_owned(),
    };
    let value = if kind == INSTRUCTIONS { kind } else { format!("{kind}:{name}") };
    Choice { value, note, warnings, text: difference, file: "What changes".to_owned() }
}

/// What changes of something, field by field.
pub(in crate::route::ui::page) fn difference(entry: &Value) -> String {
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
    difference
}

/// Whether a form can send a name among others, each on its line.
pub(in crate::route::ui::page) fn is_one_line(name: &str) -> bool {
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
    fn differences_are_paged_and_what_is_not_shown_is_counted() {
        let check = |total: usize, from: usize, title: &str, steps: &[(&str, usize)]| {
            let page = ChoicePage::of(total, from);
            let shown: Vec<(String, usize)> = page.steps();
            let shown: Vec<(&str, usize)> = shown.iter().map(|(label, from)| (label.as_str(), *from)).collect();
            assert_eq!((page.title().as_str(), shown.as_slice()), (title, steps), "{total} from {from}");
        };
        check(3, 0, "Decide one by one", &[]);
        check(200, 0, "Decide one by one", &[]);
        check(450, 0, "Decide one by one: 1 to 200 of 450", &[("The next 200 of 250 not shown", 200)]);
        let middle = [("The 200 before", 0), ("The next 50 of 50 not shown", 400)];
        check(450, 200, "Decide one by one: 201 to 400 of 450", &middle);
        check(450, 9_999, "Decide one by one: 401 to 450 of 450", &[("The 200 before", 200)]);
        // What was decided meanwhile is gone: the page before is shown.
        check(200, 200, "Decide one by one", &[]);
    }

    #[test]
    fn a_name_that_reads_as_two_is_not_decided_about_alone() {
        for (name, expected) in [("tool:a", true), ("tool:a b", true), ("tool:a\nb", false), ("tool:a ", false)] {
            assert_eq!(is_one_line(name), expected, "{name:?}");
        }
    }
}
