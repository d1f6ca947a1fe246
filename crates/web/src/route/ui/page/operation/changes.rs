//! What an operation would write: shown first, refused with both changes where a file was changed meanwhile, and
//! given as a patch where the disk does not take it.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_catalog::FileChange;
use toolcrib_gateway::is_previewed;
use toolcrib_ui::diff::{self, Diff};
use toolcrib_ui::page::operation::{BothChanges, FilePreview, Preview, SeenFile, UnwrittenChanges};
use toolcrib_view::Operation;

use super::current;
use crate::route::ui::PageRequest;
use crate::route::ui::page::json::{pretty, rows, text};
use crate::route::ui::request::Fields;

/// The argument of operations that set several secrets.
const SECRETS: &str = "secrets";
/// The argument that says which version of a file is meant.
const REVISION: &str = "revision";
/// What stands before the path of a file in the name of the field with the text that it had.
const SEEN_FILE: &str = "file:";

/// What an operation would write; `None` for one that is not shown first, and where it would write nothing.
pub(super) async fn preview(
    request: &PageRequest,
    operation: &Operation,
    arguments: &str,
) -> Result<Option<Preview>, Problem> {
    let mut given: Value = serde_json::from_str(arguments).unwrap_or_default();
    if !is_previewed(operation.tool) || given.get(SECRETS).is_some() {
        // A page with secrets in it would send them back.
        return Ok(None);
    }
    // What is written is what is shown: of a file that is there, this version.
    let takes_revision = !operation.input_schema()["properties"][REVISION].is_null();
    let arguments = match given.as_object().filter(|given| takes_revision && !given.contains_key(REVISION)) {
        Some(known) => match current(request, operation, known).await {
            Some(now) if now[REVISION].is_string() => {
                given[REVISION] = now[REVISION].clone();
                with_revision(arguments, &now[REVISION])
            }
            _ => arguments.to_owned(),
        },
        None => arguments.to_owned(),
    };
    let asked = json!({ "operation": operation.tool, "arguments": given });
    let answer = request.operate("core_write_preview", asked).await?.to_value();
    let files: Vec<FilePreview> = rows(&answer, "files").iter().map(previewed).collect();
    let seen = rows(&answer, "files").iter().filter_map(|file| {
        let text = file["before"].as_str()?.to_owned();
        Some(SeenFile { field: format!("{SEEN_FILE}{}", file["file"].as_str()?), text })
    });
    let (seen, fingerprint) = (seen.collect(), text(&answer, "fingerprint"));
    Ok((!files.is_empty()).then_some(Preview { files, arguments, fingerprint, seen }))
}

/// An object with one member more. Numbers in it keep their digits.
fn with_revision(arguments: &str, revision: &Value) -> String {
    let members = arguments.trim_start().strip_prefix('{').unwrap_or("}");
    let comma = if members.trim_start().starts_with('}') { "" } else { "," };
    format!("{{\"{REVISION}\":{revision}{comma}{members}")
}

/// A file that would be written, as `core_write_preview` answers it.
pub(in crate::route::ui::page) fn previewed(file: &Value) -> FilePreview {
    FilePreview {
        file: text(file, "file"),
        change: text(file, "change"),
        difference: diff::unified(&text(file, "difference")),
    }
}

/// Both changes of what was changed since it was shown, and the revision now, where there is one.
pub(super) async fn both(
    request: &PageRequest,
    operation: &Operation,
    fields: &Fields,
    arguments: &Value,
) -> Option<(BothChanges, Option<Value>)> {
    let now = match arguments.as_object() {
        Some(known) => current(request, operation, known).await,
        None => None,
    };
    let revision = now.as_ref().map(|now| now[REVISION].clone()).filter(Value::is_string);
    let seen: Vec<(&str, String)> = fields
        .0
        .iter()
        .filter_map(|(name, text)| Some((name.strip_prefix(SEEN_FILE)?, text.replace("\r\n", "\n"))))
        .collect();
    if !seen.is_empty() {
        return Some((of_files(request, operation, &seen, arguments, revision.as_ref()).await?, revision));
    }
    let base = super::base_of(fields);
    let (now, ours) = (pretty(&now?["definition"]), arguments.get("definition").map(pretty).unwrap_or_default());
    let theirs = Diff::of(&base, &now).to_string();
    let changes = BothChanges { theirs, ours: Diff::of(&base, &ours).to_string() };
    (!base.is_empty()).then_some((changes, revision))
}

/// What the files were when the change was shown, and what the same change would be now.
async fn of_files(
    request: &PageRequest,
    operation: &Operation,
    seen: &[(&str, String)],
    arguments: &Value,
    revision: Option<&Value>,
) -> Option<BothChanges> {
    let mut arguments = if arguments.is_null() { json!({}) } else { arguments.clone() };
    if let Some(revision) = revision {
        arguments[REVISION] = revision.clone();
    }
    let asked = json!({ "operation": operation.tool, "arguments": arguments });
    let answer = request.operate("core_write_preview", asked).await.ok()?.to_value();
    let files = rows(&answer, "files");
    let mut theirs = String::new();
    for (path, before) in seen {
        let now = files.iter().find(|file| file["file"] == *path).map(|file| text(file, "before"));
        let now = now.unwrap_or_default().replace("\r\n", "\n");
        theirs.push_str(&Diff::of(before, &now).to_string());
    }
    let ours = files.iter().map(|file| diff::unified(&text(file, "difference"))).collect();
    Some(BothChanges { theirs, ours })
}

/// What the disk did not take.
pub(in crate::route::ui) fn unwritten(changes: &[FileChange]) -> Option<UnwrittenChanges> {
    let files = changes.iter().map(|change| FilePreview {
        file: change.file.to_string_lossy().into_owned(),
        change: change.word().to_owned(),
        difference: diff::unified(&change.difference()),
    });
    let patch: Option<String> = changes.iter().map(FileChange::patch).collect();
    (!changes.is_empty()).then(|| UnwrittenChanges { files: files.collect(), patch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_added_and_numbers_keep_their_digits() {
        for (arguments, expected) in
            [(r#"{"name":"a","n":1.10}"#, r#"{"revision":"r","name":"a","n":1.10}"#), (" { }", r#"{"revision":"r" }"#)]
        {
            assert_eq!(with_revision(arguments, &"r".into()), expected);
        }
    }
}
