//! What would come of an edit that a page shows beside its form: the lines that change, and the button that writes them;
//! or both changes, where the file is not as it was opened any more.

use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::diff::{self, Diff};
use toolcrib_ui::page::PreviewEditorPage;
use toolcrib_ui::page::operation::BothChanges;
use toolcrib_ui::page::preview_editor::{Outcome, WriteForm};
use toolcrib_ui::part::Section;

use super::json::{rows, text};
use super::operation::{copies, unwritten};
use crate::route::ui::act::{self, FailedAct};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, status_of, write};

/// The fields that say which version of the file is meant, and what it said then.
const REVISION: &str = "revision";
const BASE: &str = "base";
/// The field that says what is done, and what it is where the edit is written.
const STEP: &str = "step";
const WRITE: &str = "write";
/// The field with the fingerprint of the changes that were shown.
const SEEN: &str = "seen";

/// A file as it was opened, or as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EditedFile {
    pub(super) revision: String,
    pub(super) text: String,
}

/// What an edit would do.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) tool: &'static str,
    /// The arguments of the operation, without the revision.
    pub(super) arguments: Value,
    /// Where to go on once it is written.
    pub(super) next: String,
    /// The file as it was opened; `None` for a new one.
    pub(super) opened: Option<EditedFile>,
    /// The file as it is now; `None` where there is none.
    pub(super) now: Option<EditedFile>,
}

impl EditedFile {
    /// As an operation shows it.
    pub(super) fn of(answer: &Value, key: &str) -> Option<Self> {
        let revision = answer[REVISION].as_str()?.to_owned();
        Some(Self { revision, text: text(answer, key) })
    }

    /// As the form says that it was opened.
    pub(super) fn sent(fields: &Fields) -> Option<Self> {
        let text = fields.text(BASE)?.replace("\r\n", "\n");
        Some(Self { revision: fields.text(REVISION)?.to_owned(), text })
    }

    /// What the form sends of it.
    pub(super) fn hidden(self) -> Vec<(&'static str, String)> {
        vec![(REVISION, self.revision), (BASE, self.text)]
    }
}

impl Change {
    /// Whether the file is another one than was opened, or is gone.
    fn is_stale(&self) -> bool {
        let revision = |file: &Option<EditedFile>| file.as_ref().map(|file| file.revision.clone());
        self.opened.is_some() && revision(&self.opened) != revision(&self.now)
    }

    /// The arguments, with the revision of a file.
    fn arguments_for(&self, file: Option<&EditedFile>) -> Value {
        let mut arguments = self.arguments.clone();
        if let Some(file) = file {
            arguments[REVISION] = file.revision.as_str().into();
        }
        arguments
    }
}

/// Whether the form asks that its edit is written.
pub(super) fn is_write(fields: &Fields) -> bool {
    fields.text(STEP) == Some(WRITE)
}

/// That nothing can be written, and why.
pub(super) fn failed(problem: &Problem) -> Outcome {
    let summary = "Nothing can be written.".to_owned();
    Outcome { summary, problem: Some(write::notice(problem)), ..Outcome::default() }
}

/// Puts first the lines that an operation would change, with the button that does it; or why it cannot. Where the file was
/// changed since it was opened, both changes: what is shown next is about the file as it is now.
pub(super) fn add_change<'a>(
    request: &'a PageRequest,
    outcome: &'a mut Outcome,
    change: &'a Change,
    sent: &'a Fields,
) -> BoxFuture<'a, ()> {
    // Boxed here: a page is made of several futures in each other.
    Box::pin(async move {
        if change.is_stale() {
            return add_conflict(request, outcome, change).await;
        }
        let arguments = change.arguments_for(change.opened.as_ref());
        match previewed(request, change.tool, &arguments).await {
            Ok(shown) => {
                let lines = rows(&shown, "files").iter().map(|file| Section::Difference {
                    title: format!("`{}`", text(file, "file")),
                    note: String::new(),
                    text: text(file, "difference"),
                });
                outcome.sections.splice(0..0, lines);
                let fingerprint = text(&shown, "fingerprint");
                outcome.write =
                    request.may_change().then(|| write_form(request, change.tool, &arguments, sent, fingerprint));
            }
            Err(problem) => outcome.problem = Some(write::notice(&problem)),
        }
    })
}

async fn previewed(request: &PageRequest, tool: &str, arguments: &Value) -> Result<Value, Problem> {
    let asked = json!({ "operation": tool, "arguments": arguments });
    Ok(request.operate("core_write_preview", asked).await?.to_value())
}

async fn add_conflict(request: &PageRequest, outcome: &mut Outcome, change: &Change) {
    let before = change.opened.as_ref().map(|file| file.text.as_str()).unwrap_or_default();
    let now = change.now.as_ref().map(|file| file.text.as_str()).unwrap_or_default();
    let what = if change.now.is_some() { "the file has changed since it was read" } else { "the file is gone" };
    let problem = Problem::new(Kind::Stale, what)
        .hint("Nothing was written. Look at both changes, then show again what would change.");
    outcome.problem = Some(write::notice(&problem));
    let ours = previewed(request, change.tool, &change.arguments_for(change.now.as_ref())).await;
    let ours = ours.map(|shown| {
        rows(&shown, "files").iter().map(|file| diff::unified(&text(file, "difference"))).collect::<String>()
    });
    outcome.conflict = Some(BothChanges {
        theirs: Diff::of(before, now).to_string(),
        ours: ours.unwrap_or_else(|problem| format!("<p>{}</p>", toolcrib_ui::text::Visible(problem.message))),
    });
    outcome.hidden = change.now.clone().map(EditedFile::hidden).unwrap_or_default();
}

/// The button that writes an edit, and the same to copy.
fn write_form(
    request: &PageRequest,
    tool: &'static str,
    arguments: &Value,
    sent: &Fields,
    fingerprint: String,
) -> WriteForm {
    let given = arguments.as_object().cloned().unwrap_or_default();
    let copies = request.operation(tool).map(|operation| copies(request, operation, given)).unwrap_or_default();
    let fields = sent.0.iter().filter(|(name, _)| ![STEP, SEEN].contains(&name.as_str())).cloned().collect();
    WriteForm { fields, fingerprint, copies }
}

/// Writes what was shown, and goes on to its page.
pub(super) async fn write_change(
    request: &PageRequest,
    change: &Change,
    sent: &Fields,
) -> Result<Response<Body>, FailedAct> {
    let Some(operation) = request.operation(change.tool) else {
        let problem = Problem::new(Kind::NotFound, format!("there is no operation `{}`", change.tool));
        return Err(FailedAct { problem, unwritten: Vec::new() });
    };
    let arguments = change.arguments_for(change.opened.as_ref()).to_string();
    let seen = sent.text(SEEN).filter(|seen| !seen.is_empty());
    act::carry_out(request, operation, arguments, Some(&change.next), seen).await
}

/// The page again, with what was put in, after a try that failed.
pub(super) fn again(request: &PageRequest, mut page: PreviewEditorPage, failed: &FailedAct) -> Response<Body> {
    if page.outcome.conflict.is_none() {
        page.outcome.problem = Some(write::notice(&failed.problem));
    }
    page.outcome.unwritten = unwritten(&failed.unwritten);
    write::page(request, StatusCode::max(status_of(&failed.problem), StatusCode::BAD_REQUEST), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_another_one_where_it_changed_or_went_away() {
        let file = |revision: &str| Some(EditedFile { revision: revision.to_owned(), text: String::new() });
        for (opened, now, expected) in [
            (file("1"), file("1"), false),
            (file("1"), file("2"), true),
            (file("1"), None, true),
            (None, file("2"), false),
            (None, None, false),
        ] {
            let (arguments, next) = (json!({ "name": "a" }), String::new());
            let change = Change { tool: "core_policy_file_write", arguments, next, opened, now };
            assert_eq!(change.is_stale(), expected, "{change:?}");
        }
    }
}
