//! `/ui/edit/…`: a definition as a form and as the text of its file, one made of the other. Before anything is written it
//! is checked, and what would change is shown. What writes, checks and shows are operations; here the two views meet.
//!
//! To add a kind: a row in [`KINDS`] with its two pages.

mod draft;
mod schema;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{DefinitionId, DefinitionKind};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::diff::Diff;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::EditorPage;
use toolcrib_ui::page::editor::EditorFault;
use toolcrib_ui::page::operation::{BothChanges, FilePreview};
use toolcrib_ui::part::Section;

use super::json::{rows, text};
use super::operation::{copies, previewed, unwritten};
use super::steps::{self, Outcomes};
use super::{Page, name, rendered};
use crate::route::ui::act::FailedAct;
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, act, status_of, write};
use draft::{Draft, View};

/// Below which definitions are written.
const ROOT: &str = "/ui/edit/";

/// A kind of definition that is written here.
#[derive(Debug)]
struct EditedKind {
    kind: DefinitionKind,
    /// Its word in paths.
    word: &'static str,
    /// What its operations begin with.
    operations: &'static str,
    /// Its list: the path and the name.
    list: (&'static str, &'static str),
    /// What the text of a new one begins with.
    beginning: &'static str,
}

const KINDS: [EditedKind; 4] = [
    EditedKind {
        kind: DefinitionKind::Workflow,
        word: "workflow",
        operations: "core_workflow",
        list: ("/ui/workflows", "Workflows"),
        beginning: "name: \ndescription: \nargs: {}\nsteps:\n  - id: first\n    tool: \n",
    },
    EditedKind {
        kind: DefinitionKind::Server,
        word: "server",
        operations: "core_mcpserver",
        list: ("/ui/servers", "Servers"),
        beginning: "name: \ncommand: \nargs: []\nstart: lazy\n",
    },
    EditedKind {
        kind: DefinitionKind::ServiceClass,
        word: "service-class",
        operations: "core_serviceclass",
        list: ("/ui/service-classes", "Service classes"),
        beginning: "name: \nserviceConfig:\n  lifecycleTools:\n    start: {tool: }\n    stop: {tool: }\n",
    },
    EditedKind {
        kind: DefinitionKind::Profile,
        word: "profile",
        operations: "core_profile",
        list: ("/ui/profiles", "Profiles"),
        beginning: "name: \nservers: ['*']\n",
    },
];

const fn page(path: &'static str) -> Page {
    Page {
        path,
        nav: None,
        needs: "",
        make: |request| Box::pin(async move { rendered(&opened(request).await?) }),
        live: None,
    }
}

pub(super) const NEW_WORKFLOW: Page = page("/ui/edit/workflow");
pub(super) const WORKFLOW: Page = page("/ui/edit/workflow/*");
pub(super) const NEW_SERVER: Page = page("/ui/edit/server");
pub(super) const SERVER: Page = page("/ui/edit/server/*");
pub(super) const NEW_SERVICE_CLASS: Page = page("/ui/edit/service-class");
pub(super) const SERVICE_CLASS: Page = page("/ui/edit/service-class/*");
pub(super) const PROFILE: Page = page("/ui/edit/profile/*");

/// Where the definition of a kind and a name is written.
pub(super) fn path_of(word: &str, name: &str) -> String {
    format!("{ROOT}{word}/{}", encoded(name))
}

/// Where the text of a definition's file is written, such as `servers/files.yaml`; `None` for what is no definition of
/// these kinds.
pub(super) fn path_of_file(file: &str) -> Option<String> {
    let (folder, name) = file.split_once('/')?;
    let (stem, _) = name.rsplit_once('.')?;
    let kind = KINDS.iter().find(|kind| kind.kind.folder() == folder)?;
    DefinitionId::new(kind.kind, stem).ok()?;
    Some(path_of(kind.word, stem) + "?as=yaml")
}

/// Whether a form is one of these pages.
pub(in crate::route::ui) fn is_asked(path: &str) -> bool {
    path.starts_with(ROOT)
}

/// What the path names: the kind, and the definition that is there already.
#[derive(Debug)]
struct Subject {
    kind: &'static EditedKind,
    name: Option<String>,
}

impl Subject {
    fn of(request: &PageRequest) -> Result<Self, Problem> {
        let path = request.path();
        let rest = path.strip_prefix(ROOT).unwrap_or_default();
        let (word, below) = rest.split_once('/').unwrap_or((rest, ""));
        let kind = KINDS.iter().find(|kind| kind.word == word);
        let kind = kind.ok_or_else(|| Problem::new(Kind::NotFound, format!("there is no page `{path}`")))?;
        Ok(Self { kind, name: (!below.is_empty()).then(|| name(request)) })
    }

    /// The operation that writes it.
    fn tool(&self) -> String {
        let act = if self.name.is_some() { "update" } else { "create" };
        format!("{}_{act}", self.kind.operations)
    }

    /// Where it is shown.
    fn page(&self, name: &str) -> String {
        format!("{}/{}", self.kind.list.0, encoded(name))
    }
}

/// The page as it is opened: with what the file says, or blank.
async fn opened(request: &PageRequest) -> Result<EditorPage, Problem> {
    let subject = Subject::of(request)?;
    let view = View::named(request.parameter("as"));
    let mut draft = match &subject.name {
        None => Draft::blank(&subject, view),
        Some(name) => {
            let (text, revision) = current(request, &subject, name).await?;
            Draft::of_text(&subject, view, text, revision)
        }
    };
    // A file that was never read says at once what is wrong with it.
    let may_be_wrong = subject.name.is_some() && draft.which(&subject).check(&draft.text).is_err();
    if may_be_wrong
        && !draft.is_wrong()
        && let Err(Problem { message, hint, .. }) = check(request, &subject, &mut draft).await
    {
        draft.fault(EditorFault { message, hint: hint.unwrap_or_default(), ..EditorFault::default() });
    }
    Ok(shown(request, &subject, draft))
}

/// The text of the file with its revision.
async fn current(request: &PageRequest, subject: &Subject, name: &str) -> Result<(String, String), Problem> {
    let get = format!("{}_get", subject.kind.operations);
    let answer = request.operate(&get, json!({ "name": name })).await?.to_value();
    let Some(yaml) = answer["yaml"].as_str() else {
        let message = format!("the file of {} `{name}` cannot be shown", subject.kind.kind.noun());
        return Err(Problem::new(Kind::Definition, message).hint("Edit it by hand: it is in the home folder."));
    };
    Ok((yaml.to_owned(), text(&answer, "revision")))
}

/// What a browser sent: another view, a check, what would change, or the change itself.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Response<Body> {
    match Box::pin(answered(request, fields)).await {
        Ok(response) => response,
        Err(problem) => write::problem(request, "This cannot be written here", &problem),
    }
}

async fn answered(request: &PageRequest, fields: &Fields) -> Result<Response<Body>, Problem> {
    let subject = Subject::of(request)?;
    let mut draft = Draft::sent(&subject, fields);
    if !draft.is_complete() {
        let status = if draft.is_wrong() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        return Ok(write::page(request, status, &shown(request, &subject, draft)));
    }
    match fields.text("step") {
        Some("switch") => {
            draft.show(&subject, View::named(request.parameter("as")));
            Ok(write::page(request, StatusCode::OK, &shown(request, &subject, draft)))
        }
        Some("check") => {
            let is_right = check(request, &subject, &mut draft).await?;
            let checked = is_right.then(|| "The definition is valid.".to_owned());
            let page = EditorPage { checked, ..shown(request, &subject, draft) };
            Ok(write::page(request, StatusCode::OK, &page))
        }
        Some("write") => Ok(written(request, &subject, draft, fields.text("seen")).await),
        _ => preview(request, &subject, draft).await,
    }
}

/// Checks the text. Says whether it is right; what is wrong, or may be, stands in the draft then.
async fn check(request: &PageRequest, subject: &Subject, draft: &mut Draft) -> Result<bool, Problem> {
    let Some(name) = draft.name(subject) else {
        draft.fault(EditorFault {
            field: "name".to_owned(),
            message: format!("a {} needs a name", subject.kind.kind.noun()),
            ..EditorFault::default()
        });
        return Ok(false);
    };
    let validate = format!("{}_validate", subject.kind.operations);
    let answer = request.operate(&validate, json!({ "name": name, "yaml": draft.text })).await;
    let answer = match answer {
        Ok(answer) => answer.to_value(),
        // What cannot be said of a line is said of the whole.
        Err(problem) if matches!(problem.kind, Kind::Definition | Kind::InvalidParams) => {
            let Problem { message, hint, .. } = problem;
            draft.fault(EditorFault { message, hint: hint.unwrap_or_default(), ..EditorFault::default() });
            return Ok(false);
        }
        Err(problem) => return Err(problem),
    };
    for row in rows(&answer, "problems") {
        let number = |key: &str| row[key].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
        draft.fault(EditorFault {
            line: number("line"),
            column: number("column"),
            field: text(row, "field"),
            message: text(row, "message"),
            hint: text(row, "hint"),
            is_warning: row["warning"] == true,
            excerpt: Vec::new(),
        });
    }
    Ok(!draft.is_wrong())
}

/// The arguments of the operation that writes it.
fn arguments(subject: &Subject, draft: &Draft) -> Value {
    let mut arguments = json!({ "name": draft.name(subject), "yaml": draft.text });
    if subject.name.is_some() && !draft.revision.is_empty() {
        arguments["revision"] = draft.revision.as_str().into();
    }
    arguments
}

/// The page with what would change.
async fn preview(request: &PageRequest, subject: &Subject, mut draft: Draft) -> Result<Response<Body>, Problem> {
    if !check(request, subject, &mut draft).await? {
        return Ok(write::page(request, StatusCode::BAD_REQUEST, &shown(request, subject, draft)));
    }
    let asked = json!({ "operation": subject.tool(), "arguments": arguments(subject, &draft) });
    let answer = match request.operate("core_write_preview", asked).await {
        Ok(answer) => answer.to_value(),
        Err(problem) => {
            let failed = FailedAct { problem, unwritten: Vec::new() };
            return Ok(refused(request, subject, draft, &failed).await);
        }
    };
    let preview: Vec<FilePreview> = rows(&answer, "files").iter().map(previewed).collect();
    let lost = draft.lost_comments();
    let fingerprint = text(&answer, "fingerprint");
    let is_same = preview.is_empty() || draft.text == draft.base;
    let (tool, arguments) = (subject.tool(), arguments(subject, &draft));
    let mut page = shown(request, subject, draft);
    if is_same {
        page.checked = Some("The file says this already: nothing would change.".to_owned());
    } else {
        (page.preview, page.lost, page.fingerprint) = (preview, lost, fingerprint);
        if let (Some(operation), Value::Object(arguments)) = (request.operation(&tool), arguments) {
            page.copies = copies(request, operation, arguments);
        }
    }
    Ok(write::page(request, StatusCode::OK, &page))
}

/// Writes it, and goes on to its page.
async fn written(request: &PageRequest, subject: &Subject, draft: Draft, seen: Option<&str>) -> Response<Body> {
    let tool = subject.tool();
    let Some(operation) = request.operation(&tool) else {
        let problem = Problem::new(Kind::NotFound, format!("there is no operation `{tool}`"));
        return write::problem(request, "Nothing was done", &problem);
    };
    let next = subject.page(&draft.name(subject).unwrap_or_default());
    let seen = seen.filter(|seen| !seen.is_empty());
    match act::carry_out(request, operation, arguments(subject, &draft).to_string(), Some(&next), seen).await {
        Ok(response) => response,
        Err(failed) => refused(request, subject, draft, &failed).await,
    }
}

/// The page again, with what was put in, after a try that failed; with both changes where the file was changed since.
async fn refused(request: &PageRequest, subject: &Subject, mut draft: Draft, failed: &FailedAct) -> Response<Body> {
    let problem = &failed.problem;
    let mut conflict = None;
    if problem.kind == Kind::Stale
        && let Some(name) = &subject.name
        && let Ok((theirs, revision)) = current(request, subject, name).await
    {
        conflict = Some(BothChanges {
            theirs: Diff::of(&draft.base, &theirs).to_string(),
            ours: Diff::of(&draft.base, &draft.text).to_string(),
        });
        // What is written next replaces what is shown here.
        (draft.base, draft.revision) = (theirs, revision);
    }
    let mut page = shown(request, subject, draft);
    page.problem = Some(write::notice(problem));
    (page.conflict, page.unwritten) = (conflict, unwritten(&failed.unwritten));
    write::page(request, StatusCode::max(status_of(problem), StatusCode::BAD_REQUEST), &page)
}

fn shown(request: &PageRequest, subject: &Subject, draft: Draft) -> EditorPage {
    let EditedKind { kind, list, .. } = subject.kind;
    let tool = subject.tool();
    let title = match &subject.name {
        Some(name) => format!("Edit {name}"),
        None => format!("New {}", kind.noun()),
    };
    let mut above = vec![(list.0.to_owned(), list.1.to_owned())];
    above.extend(subject.name.as_ref().map(|name| (subject.page(name), name.clone())));
    let back = above.last().map_or_else(String::new, |(path, _)| path.clone());
    let value = (*kind == DefinitionKind::Workflow).then(|| draft.value(subject)).flatten();
    let named = value.filter(|value| rows(value, "steps").iter().any(|step| step["id"].is_string()));
    let graph = named.and_then(|value| {
        let drawn = steps::sections(&value, &Outcomes::new());
        drawn.into_iter().find_map(|section| match section {
            Section::Graph(graph) => Some(graph),
            _ => None,
        })
    });
    EditorPage {
        frame: request.frame(&title),
        above,
        path: request.path(),
        back,
        is_allowed: request.may_change() && request.allows(&tool),
        tool,
        faults: draft.placed_faults(),
        form: draft.form,
        text: draft.text,
        base: draft.base,
        revision: draft.revision,
        checked: None,
        lost: Vec::new(),
        preview: Vec::new(),
        conflict: None,
        problem: None,
        fingerprint: String::new(),
        unwritten: None,
        graph,
        copies: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_definition_leads_to_its_editor() {
        for (file, expected) in [
            ("servers/files.yaml", Some("/ui/edit/server/files?as=yaml")),
            ("workflows/letter.yml", Some("/ui/edit/workflow/letter?as=yaml")),
            ("service-classes/web.yaml", Some("/ui/edit/service-class/web?as=yaml")),
            ("profiles/team.yaml", Some("/ui/edit/profile/team?as=yaml")),
            ("servers/No Name.yaml", None),
            ("agents/a.yaml", None),
            ("config.toml", None),
        ] {
            assert_eq!(path_of_file(file).as_deref(), expected, "{file}");
        }
    }
}
