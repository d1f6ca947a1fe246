//! `/ui/policies/-/edit`: a file of policies, and beside it the lines that change, what is wrong with them, who would gain or
//! lose what, and what would have been decided otherwise of the calls on record.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::PreviewEditorPage;
use toolcrib_ui::page::preview_editor::{EditorControl, EditorField, Outcome};
use toolcrib_ui::part::{Action, Cell, Column, Level, Look, Section, Table, Target};

use super::edit_outcome::{Change, EditedFile, add_change, again, failed, is_write, write_change};
use super::json::{cell, number, rows, text};
use super::policies::decision;
use super::{Page, rendered};
use crate::route::ui::request::Fields;
use crate::route::ui::write::sentence;
use crate::route::ui::{PageRequest, write};

pub(super) const PATH: &str = "/ui/policies/-/edit";
/// The list of policies.
const LIST: &str = "/ui/policies";

pub(super) const PAGE: Page = Page {
    path: PATH,
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&editor(request, None).await?) }),
    live: None,
};

const NEW: &str = "// A policy permits or forbids. See docs/guides/policies.md.\n";
/// How many rows of changes are shown.
const ROWS: usize = 50;
/// How many names stand in one row.
const NAMED: usize = 6;

/// The path of the editor of a file.
pub(super) fn path_of(name: &str) -> String {
    format!("{PATH}?name={}", encoded(name))
}

/// The editor after the form was sent, or changed.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Result<Response<Body>, Problem> {
    if is_write(fields) {
        let edit = Edit::of(request, Some(fields)).await?;
        return match write_change(request, &edit.change(), fields).await {
            Ok(response) => Ok(response),
            Err(failed) => Ok(again(request, editor(request, Some(fields)).await?, &failed)),
        };
    }
    let text = rendered(&editor(request, Some(fields)).await?)?;
    Ok(write::html(&request.head.headers, StatusCode::OK, text))
}

/// What the form holds, and the file that it is about.
struct Edit {
    name: String,
    text: String,
    since: String,
    opened: Option<EditedFile>,
    now: Option<EditedFile>,
    /// What is wrong with the file as it is now.
    problems: Vec<Value>,
}

impl Edit {
    async fn of(request: &PageRequest, sent: Option<&Fields>) -> Result<Self, Problem> {
        let name = request.value("name");
        let there = match name.is_empty() {
            true => None,
            false => match request.operate("core_policy_file_get", json!({ "name": name })).await {
                Ok(there) => Some(there.to_value()),
                // It went away while it was edited: what was put in stays.
                Err(problem) if problem.kind == Kind::NotFound && sent.is_some() => None,
                Err(problem) => return Err(problem),
            },
        };
        let field = |key: &str| sent.and_then(|sent| sent.text(key)).map(|text| text.replace("\r\n", "\n"));
        let now = there.as_ref().and_then(|there| EditedFile::of(there, "text"));
        let opened = match sent {
            Some(sent) => EditedFile::sent(sent),
            None => now.clone(),
        };
        let before = opened.as_ref().map_or(NEW, |file| &file.text);
        Ok(Self {
            text: field("text").unwrap_or_else(|| before.to_owned()),
            since: field("since").unwrap_or_default().trim().to_owned(),
            problems: there.as_ref().map(|there| rows(there, "problems").to_vec()).unwrap_or_default(),
            name: if name.is_empty() { field("name").unwrap_or_default().trim().to_owned() } else { name },
            opened,
            now,
        })
    }

    fn is_changed(&self) -> bool {
        self.opened.as_ref().is_none_or(|file| file.text != self.text) || self.now != self.opened
    }

    fn change(&self) -> Change {
        Change {
            tool: "core_policy_file_write",
            arguments: json!({ "name": self.name, "text": self.text }),
            next: LIST.to_owned(),
            opened: self.opened.clone(),
            now: self.now.clone(),
        }
    }
}

async fn editor(request: &PageRequest, sent: Option<&Fields>) -> Result<PreviewEditorPage, Problem> {
    let edit = Edit::of(request, sent).await?;
    let mut outcome = match sent {
        Some(sent) if edit.is_changed() => outcome(request, &edit, sent).await,
        _ => Outcome { summary: "Nothing is changed.".to_owned(), ..Outcome::default() },
    };
    if sent.is_none() {
        outcome.sections.extend(problems(&edit.problems, "What is wrong with the file", Level::Bad));
    }
    if outcome.conflict.is_none() {
        outcome.hidden = edit.opened.clone().map(EditedFile::hidden).unwrap_or_default();
    }
    let name = request.value("name");
    let actions = match &edit.now {
        Some(now) if sent.is_none() => request.if_changing(|| vec![remove(&name, &now.revision)]),
        _ => Vec::new(),
    };
    let line = |value: String| EditorControl::Line(value);
    let mut fields = Vec::new();
    if name.is_empty() {
        let note = "Such as `prod.cedar`; files count in the order of their names.";
        fields.push(EditorField { name: "name", label: "Name", note, control: line(edit.name) });
    }
    let note = "Policies in Cedar.";
    fields.push(EditorField { name: "text", label: "Text", note, control: EditorControl::Lines(20, edit.text) });
    let note = "A day or a moment, such as `2026-11-20`: what would have been decided otherwise since. Empty for none.";
    fields.push(EditorField { name: "since", label: "Play the record since", note, control: line(edit.since) });
    let title = if name.is_empty() { "Add a file of policies".to_owned() } else { format!("Edit {name}") };
    Ok(PreviewEditorPage {
        frame: request.frame(&title),
        above: vec![(LIST.to_owned(), "Policies".to_owned())],
        intro: "What is written counts at once, for everyone. A file that is no policy is not written.".to_owned(),
        action: request.here(),
        actions,
        fields,
        outcome,
    })
}

/// The button that removes a file, once its lines were shown.
fn remove(name: &str, revision: &str) -> Action {
    let fields = [("preview", "true"), ("arg.name", name), ("arg.revision", revision), ("return", LIST)];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let target = Target::Send { path: "/ui/do/core_policy_file_delete".to_owned(), fields };
    Action { label: "Remove …".to_owned(), about: name.to_owned(), target, look: Look::Danger }
}

async fn outcome(request: &PageRequest, edit: &Edit, sent: &Fields) -> Outcome {
    let mut outcome = Outcome::default();
    let file = json!({ "name": if edit.name.is_empty() { "new.cedar" } else { &edit.name }, "text": edit.text });
    let checked = request.operate("core_policy_check", json!({ "file": file })).await;
    let checked = match checked {
        Ok(checked) => checked.to_value(),
        Err(problem) => return failed(&problem),
    };
    let faults = rows(&checked, "problems");
    if !faults.is_empty() {
        let count = faults.len();
        outcome.summary =
            format!("Nothing can be written: {count} {}.", if count == 1 { "problem" } else { "problems" });
        outcome.sections = problems(faults, "What is wrong", Level::Bad).into_iter().collect();
        return outcome;
    }
    match request.operate("core_policy_diff", json!({ "file": file })).await {
        Ok(change) => {
            let change = change.to_value();
            let count = |key: &str| change[key].as_u64().unwrap_or_default();
            let others = (rows(&change, "changes").len() as u64).saturating_sub(count("gains") + count("loses"));
            outcome.summary = match rows(&change, "changes").is_empty() {
                true => "No one gains or loses anything.".to_owned(),
                false => {
                    format!("Gains: {}, losses: {}, other changes: {others}.", count("gains"), count("loses"))
                }
            };
            outcome.sections.push(people(&change));
        }
        Err(problem) => return failed(&problem),
    }
    outcome.sections.extend(problems(rows(&checked, "warnings"), "Names that nothing has", Level::Warn));
    if edit.name.is_empty() {
        outcome.summary = format!("Give the file a name. {}", outcome.summary);
    } else {
        add_change(request, &mut outcome, &edit.change(), sent).await;
    }
    if !edit.since.is_empty() {
        match request.operate("core_policy_simulate", json!({ "since": edit.since, "file": file })).await {
            Ok(played) => outcome.sections.extend(record(&played.to_value())),
            Err(problem) => outcome.problem = Some(write::notice(&problem)),
        }
    }
    outcome
}

/// Problems or warnings with their places.
fn problems(faults: &[Value], title: &str, level: Level) -> Option<Section> {
    let word = if level == Level::Bad { "problem" } else { "warning" };
    let table = faults.iter().map(|row| {
        let line = text(row, "line");
        let file = text(row, "file");
        let place = if line.is_empty() { file } else { format!("{file}:{line}") };
        let note = [text(row, "message"), text(row, "hint")].map(|part| sentence(&part)).join(" ");
        vec![Cell::Id(place), Cell::State { level, word: word.to_owned(), note: note.trim().to_owned() }]
    });
    let table = Table {
        label: title.to_owned(),
        columns: vec![Column::text("Where"), Column::text("What")],
        rows: table.collect(),
    };
    (!faults.is_empty()).then(|| Section::Table { title: title.to_owned(), table, empty: String::new() })
}

/// Who gains or loses what.
fn people(change: &Value) -> Section {
    let more = |row: &Value, key: &str, total: &str| {
        let named: Vec<&str> = rows(row, key).iter().filter_map(Value::as_str).take(NAMED).collect();
        let all = row[total].as_u64().unwrap_or_default();
        let rest = all.saturating_sub(named.len() as u64);
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        Cell::Text(named.join(", ") + &more)
    };
    let table = rows(change, "changes").iter().take(ROWS).map(|row| {
        let effect = text(row, "effect");
        let level = if effect == "loses" { Level::Bad } else { Level::Warn };
        vec![
            Cell::state(level, effect),
            more(row, "who", "whoTotal"),
            more(row, "targets", "targetsTotal"),
            Cell::Several(vec![decision(&text(row, "from"), String::new()), decision(&text(row, "to"), String::new())]),
            Cell::Id(text(row, "by")),
        ]
    });
    let columns = ["Effect", "Who", "What", "From, to", "By"].map(Column::text).to_vec();
    let table = Table { label: "Who gains or loses what".into(), columns, rows: table.collect() };
    let title = match change["truncated"] == true {
        true => "Who gains or loses what, as far as it was looked at",
        false => "Who gains or loses what",
    };
    Section::Table { title: title.into(), table, empty: "Everything is decided as before.".into() }
}

/// What would have been decided otherwise of the calls on record.
fn record(played: &Value) -> Vec<Section> {
    let table = rows(played, "changes").iter().take(ROWS).map(|row| {
        let seq = row["seq"].as_u64().unwrap_or_default();
        vec![
            Cell::Id(text(row, "principal")),
            Cell::Id(text(row, "target")),
            Cell::Several(vec![decision(&text(row, "from"), String::new()), decision(&text(row, "to"), String::new())]),
            cell(row, "by"),
            number(row, "count"),
            Cell::link(format!("/ui/audit/{seq}"), format!("event {seq}")),
        ]
    });
    let columns = vec![
        Column::text("Who"),
        Column::text("What"),
        Column::text("From, to"),
        Column::text("By"),
        Column::number("Calls"),
        Column::text("First"),
    ];
    let table =
        Table { label: "Calls on record that would be decided otherwise".into(), columns, rows: table.collect() };
    let count = |key: &str| played[key].as_u64().unwrap_or_default();
    let title = format!(
        "On record: {} calls played, {} as before, {} left out",
        count("played"),
        count("same"),
        count("skipped")
    );
    vec![Section::Table { title, table, empty: "All would have been decided as they were.".into() }]
}
