//! What would come of an edit that a page shows beside its form: the lines that change, and the button that writes them.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::page::preview_editor::{Outcome, WriteForm};
use toolcrib_ui::part::Section;

use super::json::{rows, text};
use super::operation::copies;
use crate::route::ui::{PageRequest, write};

/// That nothing can be written, and why.
pub(super) fn failed(problem: &Problem) -> Outcome {
    let summary = "Nothing can be written.".to_owned();
    Outcome { summary, problem: Some(write::notice(problem)), ..Outcome::default() }
}

/// Puts first the lines that an operation would change, with the button that does it; or why it cannot.
pub(super) async fn add_change(
    request: &PageRequest,
    outcome: &mut Outcome,
    tool: &'static str,
    arguments: &Value,
    next: String,
) {
    let asked = json!({ "operation": tool, "arguments": arguments });
    match request.operate("core_write_preview", asked).await {
        Ok(shown) => {
            let shown = shown.to_value();
            let lines = rows(&shown, "files").iter().map(|file| Section::Difference {
                title: format!("`{}`", text(file, "file")),
                note: String::new(),
                text: text(file, "difference"),
            });
            outcome.sections.splice(0..0, lines);
            outcome.write = request.may_change().then(|| write_form(request, tool, arguments, next));
        }
        Err(problem) => outcome.problem = Some(write::notice(&problem)),
    }
}

/// The button that writes an edit, and the same to copy.
fn write_form(request: &PageRequest, tool: &'static str, arguments: &Value, next: String) -> WriteForm {
    let given = arguments.as_object().cloned().unwrap_or_default();
    let copies = request.operation(tool).map(|operation| copies(request, operation, given)).unwrap_or_default();
    WriteForm { tool, arguments: arguments.to_string(), next, label: "Write this change", copies }
}
