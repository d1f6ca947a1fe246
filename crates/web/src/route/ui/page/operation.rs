//! `/ui/operations`: everything that can be done, and each operation as a form.

mod changes;

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, nearest};
use toolcrib_catalog::FileChange;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Notice;
use toolcrib_ui::form::{Form, Submission};
use toolcrib_ui::json::Json;
use toolcrib_ui::page::operation::{BothChanges, Copy, Preview, UnwrittenChanges};
use toolcrib_ui::page::operations::{OperationGroup, OperationRow};
use toolcrib_ui::page::{OperationPage, OperationsPage};
use toolcrib_view::{Effect, Operation};

use super::json::{pretty, text};
use super::{Page, name, rendered, runs, services};
use crate::route::ui::act::{self, ARGUMENT};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, sign_in, status_of, write};

pub(super) use changes::{previewed, unwritten};

/// The argument of operations that set a secret.
const SECRET: &str = "value";
/// The operation that answers what a run asks.
const ANSWERING: &str = "core_run_resume";
/// The operation that looks at a server, and the one that writes what it found into the definition.
const VERIFYING: &str = "core_mcpserver_verify";
const TOOLS_WRITING: &str = "core_mcpserver_tools_write";
/// The argument of operations that set several.
const SECRETS: &str = "secrets";

pub(super) const LIST: Page = Page {
    path: "/ui/operations",
    nav: Some(("Gateway", "Operations")),
    needs: "",
    make: |request| Box::pin(async move { rendered(&list(request)) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/operations/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

fn list(request: &PageRequest) -> OperationsPage {
    let query = request.parameter("q").unwrap_or_default();
    let words: Vec<String> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let mut groups: Vec<OperationGroup> = Vec::new();
    let mut total = 0;
    for operation in request.site.gateway.operations.iter().filter(|operation| request.allows(operation.tool)) {
        total += 1;
        let text = format!("{} {} {}", operation.tool, operation.tag, operation.summary).to_lowercase();
        if !words.iter().all(|word| text.contains(word.as_str())) {
            continue;
        }
        let effect = match operation.effect {
            Effect::Reads => "reads",
            Effect::Changes { .. } => "changes",
            Effect::Destroys { .. } => "destroys",
            Effect::Unknown => "calls",
        };
        let row = OperationRow { tool: operation.tool.to_owned(), summary: operation.summary.to_owned(), effect };
        match groups.iter_mut().find(|group| group.tag == operation.tag) {
            Some(group) => group.rows.push(row),
            None => groups.push(OperationGroup { tag: operation.tag.to_owned(), rows: vec![row] }),
        }
    }
    groups.sort_by(|a, b| a.tag.cmp(&b.tag));
    OperationsPage { frame: request.frame("Operations"), query: query.to_owned(), total, groups }
}

async fn one(request: &PageRequest) -> Result<OperationPage, Problem> {
    let tool = name(request);
    let operation = request.operation(&tool).ok_or_else(|| {
        let known = request.site.gateway.operations.iter().map(|operation| operation.tool);
        let hint = match nearest::similar(&tool, known).first() {
            Some(near) => format!("Did you mean `{near}`? See all operations at `/ui/operations`."),
            None => "See all operations at `/ui/operations`.".to_owned(),
        };
        Problem::new(Kind::NotFound, format!("there is no operation `{tool}`")).hint(hint)
    })?;
    let next = request.parameter("return").filter(|place| sign_in::is_page(place)).unwrap_or_default().to_owned();
    let given = given(operation, &request.query);
    let mut filled = Value::Object(given.clone());
    let mut base = String::new();
    if let Some(current) = current(request, operation, &given).await {
        base = current.get("definition").map(pretty).unwrap_or_default();
        merge(&mut filled, &current, operation);
    }
    let mut form = form_for(request, operation, |key| given.get(key)?.as_str().map(str::to_owned)).await;
    // What does not fit a field is shown as JSON.
    let _ = form.fill(&filled.to_string());
    Ok(shown(request, operation, FormState { given, next, base, ..FormState::of(form) }))
}

/// The form of an operation and what stands around it.
struct FormState {
    form: Form,
    given: Map<String, Value>,
    next: String,
    /// The definition as it was when the form was opened.
    base: String,
    problem: Option<Notice>,
    preview: Option<Preview>,
    conflict: Option<BothChanges>,
    unwritten: Option<UnwrittenChanges>,
}

/// A try that failed.
#[derive(Debug, Clone, Copy)]
pub(in crate::route::ui) struct FailedTry<'a> {
    pub(in crate::route::ui) problem: &'a Problem,
    /// What the disk did not take.
    pub(in crate::route::ui) unwritten: &'a [FileChange],
}

// === impl FormState ===

impl FormState {
    fn of(form: Form) -> Self {
        let (given, next, base) = (Map::new(), String::new(), String::new());
        Self { form, given, next, base, problem: None, preview: None, conflict: None, unwritten: None }
    }
}

// === impl FailedTry ===

impl<'a> FailedTry<'a> {
    /// One that came to nothing before anything was to be written.
    pub(in crate::route::ui) fn of(problem: &'a Problem) -> Self {
        Self { problem, unwritten: &[] }
    }
}

/// The arguments of a form made of the schema as JSON text, or the page to show: the form changed, something in it is
/// wrong, or what it would change is shown first.
pub(in crate::route::ui) async fn read(
    request: &PageRequest,
    operation: &'static Operation,
    fields: &Fields,
) -> Result<String, Box<Response<Body>>> {
    let mut form = form_for(request, operation, |key| sent(fields, key)).await;
    let next = fields.text("return").map_or_else(String::new, |_| fields.next().to_owned());
    let base = base_of(fields);
    let page = |form, problem, preview: Option<Preview>| {
        let (next, base) = (next.clone(), base.clone());
        // What is to be copied is what is shown.
        let given = preview.as_ref().and_then(|preview| serde_json::from_str(&preview.arguments).ok());
        let given = given.unwrap_or_default();
        let seen = FormState { given, next, base, problem, preview, ..FormState::of(form) };
        shown(request, operation, seen)
    };
    match form.read(&fields.0) {
        Submission::Edited => Err(Box::new(write::page(request, StatusCode::OK, &page(form, None, None)))),
        Submission::Wrong(errors) => {
            let notice = write::form_notice(&errors);
            Err(Box::new(write::page(request, StatusCode::BAD_REQUEST, &page(form, Some(notice), None))))
        }
        Submission::Complete(arguments) if operation.tool == VERIFYING && writes(&arguments) => {
            Err(Box::new(verified(request, operation, fields, &arguments).await))
        }
        Submission::Complete(arguments) => match changes::preview(request, operation, &arguments).await {
            Ok(Some(preview)) => Err(Box::new(write::page(request, StatusCode::OK, &page(form, None, Some(preview))))),
            Ok(None) => Ok(arguments),
            Err(problem) => Err(Box::new(again(request, operation, fields, FailedTry::of(&problem)).await)),
        },
    }
}

/// Whether the arguments ask that what was found is written, too.
fn writes(arguments: &str) -> bool {
    serde_json::from_str::<Value>(arguments).is_ok_and(|arguments| arguments["write"] == true)
}

/// Verifies a server, and shows what would be written of it before it is.
async fn verified(
    request: &PageRequest,
    operation: &'static Operation,
    fields: &Fields,
    arguments: &str,
) -> Response<Body> {
    let name = serde_json::from_str::<Value>(arguments).unwrap_or_default()["name"].clone();
    let found = match request.operate(operation.tool, json!({ "name": name })).await {
        Ok(found) => found.to_value(),
        Err(problem) => return again(request, operation, fields, FailedTry::of(&problem)).await,
    };
    let Some(writing) = request.operation(TOOLS_WRITING) else {
        let problem = Problem::new(Kind::NotFound, format!("there is no operation `{TOOLS_WRITING}`"));
        return again(request, operation, fields, FailedTry::of(&problem)).await;
    };
    let summary = text(&found, "summary");
    let done = format!(
        "`{}` is verified: {} tools, {summary}. Nothing is written yet.",
        text(&found, "server"),
        found["tools"]
    );
    request.leave(Notice::done(done));
    confirm(request, writing, fields, &json!({ "name": name }).to_string()).await
}

/// The page that shows what a form elsewhere would write, to be confirmed there.
pub(in crate::route::ui) async fn confirm(
    request: &PageRequest,
    operation: &'static Operation,
    fields: &Fields,
    arguments: &str,
) -> Response<Body> {
    let preview = match changes::preview(request, operation, arguments).await {
        Ok(Some(preview)) => preview,
        Ok(None) => {
            request.leave(Notice::done("Nothing would change."));
            return write::see_other(fields.next());
        }
        Err(problem) => return again(request, operation, fields, FailedTry::of(&problem)).await,
    };
    let mut form = form_of(operation);
    _ = form.fill(arguments);
    let given = serde_json::from_str(arguments).unwrap_or_default();
    let (next, base) = (fields.next().to_owned(), String::new());
    let seen = FormState { given, next, base, preview: Some(preview), ..FormState::of(form) };
    write::page(request, StatusCode::OK, &shown(request, operation, seen))
}

/// What an operation that replaces or removes a definition is about, as the operation that shows it answers.
async fn current(request: &PageRequest, operation: &Operation, given: &Map<String, Value>) -> Option<Value> {
    let of = ["_update", "_delete", "_write"].into_iter().find_map(|act| operation.tool.strip_suffix(act))?;
    let get = format!("{of}_get");
    let name = given.get("name")?;
    request.operate(&get, json!({ "name": name })).await.ok().map(|answer| answer.to_value())
}

/// Puts what is there into arguments that are not given: the whole definition where the operation takes one.
fn merge(filled: &mut Value, current: &Value, operation: &Operation) {
    let schema = operation.input_schema();
    let properties = schema["properties"].as_object();
    let takes_whole = properties.is_some_and(|known| known.contains_key("definition"));
    for name in properties.into_iter().flat_map(Map::keys) {
        let is_wanted = if takes_whole { matches!(name.as_str(), "definition" | "revision") } else { true };
        if is_wanted && filled.get(name).is_none() && !current[name].is_null() {
            filled[name] = current[name].clone();
        }
    }
}

/// The form of an operation's arguments; of an answer to a run, with the fields that the run asks for, and of a new
/// service with those of its class. `known` gives the arguments that are there.
async fn form_for(request: &PageRequest, operation: &Operation, known: impl Fn(&str) -> Option<String>) -> Form {
    if operation.tool == ANSWERING
        && let Some((run, to)) = known("run").zip(known("to"))
        && let Some(schema) = runs::waits::answer_schema(request, &run, &to).await
    {
        return Form::of(&schema);
    }
    if operation.tool == services::CREATE {
        return Form::of(&services::creation_schema(request, operation, known(services::CLASS_NAME)).await);
    }
    form_of(operation)
}

/// An argument of a form made of the schema, at its top.
fn sent(fields: &Fields, key: &str) -> Option<String> {
    let name = format!("v:/{key}");
    fields.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

/// A form of an operation's arguments. What is typed for a secret shows as dots.
fn form_of(operation: &Operation) -> Form {
    let mut schema = operation.input_schema();
    if schema["properties"].get(SECRET).is_some() && takes_secret(operation) {
        schema["properties"][SECRET]["format"] = "password".into();
    }
    Form::of(&schema)
}

/// Whether one of its arguments is a secret itself. Definitions refer to secrets.
pub(in crate::route::ui) fn takes_secret(operation: &Operation) -> bool {
    operation.is_secret
        && [SECRET, SECRETS].iter().any(|name| operation.input_schema()["properties"].get(name).is_some())
}

/// The definition as it was when the form was opened. Browsers send their own line ends.
fn base_of(fields: &Fields) -> String {
    fields.text("base").unwrap_or_default().replace("\r\n", "\n")
}

/// The form again, with what was put in, after a try that failed.
pub(in crate::route::ui) async fn again(
    request: &PageRequest,
    operation: &'static Operation,
    fields: &Fields,
    failed: FailedTry<'_>,
) -> Response<Body> {
    let problem = failed.problem;
    let typed =
        fields.0.iter().filter_map(|(key, value)| Some((key.strip_prefix(ARGUMENT)?.to_owned(), value.clone())));
    let typed: Vec<(String, String)> = typed.collect();
    let next = fields.text("return").map_or_else(String::new, |_| fields.next().to_owned());
    let given = given(operation, &typed);
    let known = |key: &str| given.get(key).and_then(Value::as_str).map(str::to_owned).or_else(|| sent(fields, key));
    let mut form = form_for(request, operation, known).await;
    let mut arguments = Value::Null;
    match fields.text("arguments") {
        // A secret is typed again: no page holds it.
        _ if takes_secret(operation) => {}
        Some(text) => {
            arguments = serde_json::from_str(text).unwrap_or_default();
            _ = form.fill(text);
        }
        None if typed.is_empty() => {
            if let Submission::Complete(text) = form.read(&fields.0) {
                arguments = serde_json::from_str(&text).unwrap_or_default();
            }
        }
        None => {
            let texts = typed.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            let all = texts.chain(given.iter().map(|(name, value)| (name.clone(), value.clone())));
            _ = form.fill(&Value::Object(all.collect()).to_string());
        }
    }
    let base = base_of(fields);
    let mut conflict = None;
    if problem.kind == Kind::Stale
        && let Some((both, revision)) = changes::both(request, operation, fields, &arguments).await
    {
        if let Some(revision) = revision {
            // What is written next replaces what is shown here.
            arguments["revision"] = revision;
            _ = form.fill(&arguments.to_string());
        }
        conflict = Some(both);
    }
    // What is to be copied is what was sent.
    let given = arguments.as_object().cloned().unwrap_or(given);
    let (problem_shown, unwritten) = (Some(write::notice(problem)), changes::unwritten(failed.unwritten));
    let seen = FormState { given, next, base, problem: problem_shown, conflict, unwritten, ..FormState::of(form) };
    let status = StatusCode::max(status_of(problem), StatusCode::BAD_REQUEST);
    write::page(request, status, &shown(request, operation, seen))
}

/// The arguments among pairs of names and texts, typed; what does not fit its type is left out.
fn given(operation: &Operation, pairs: &[(String, String)]) -> Map<String, Value> {
    let schema = operation.input_schema();
    let mut all = Map::new();
    for (name, value) in pairs.iter().filter(|(name, _)| schema["properties"].get(name).is_some()) {
        let pair = [(format!("{ARGUMENT}{name}"), value.clone())];
        all.extend(act::arguments(&pair, &schema).unwrap_or_default());
    }
    all
}

fn shown(request: &PageRequest, operation: &'static Operation, seen: FormState) -> OperationPage {
    let is_allowed = request.allows(operation.tool) && (request.may_change() || operation.effect == Effect::Reads);
    let arguments = if operation.is_secret { Map::new() } else { seen.given.clone() };
    OperationPage {
        tool: operation.tool.to_owned(),
        description: operation.description.to_owned(),
        destroys: matches!(operation.effect, Effect::Destroys { .. }),
        is_allowed,
        form: seen.form,
        preview: seen.preview,
        base: seen.base,
        conflict: seen.conflict,
        unwritten: seen.unwritten,
        next: seen.next,
        problem: seen.problem,
        copies: copies(request, operation, arguments),
        frame: request.frame(operation.summary),
    }
}

/// The same as a command, with curl, and as a call of MCP. A secret is not among the arguments.
pub(super) fn copies(request: &PageRequest, operation: &Operation, arguments: Map<String, Value>) -> Vec<Copy> {
    // What no one sees is escaped, so that what is copied says the same.
    let json = Json::of(&Value::Object(arguments.clone())).to_string();
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let command = match arguments.is_empty() {
        true => format!("toolcrib api {}", operation.tool),
        false => format!("toolcrib api {} --json {}", operation.tool, quoted(&json)),
    };
    let mut path = operation.path.to_owned();
    let mut body = arguments;
    for parameter in operation.path_parameters() {
        let value = body.remove(parameter);
        let text = value
            .as_ref()
            .and_then(Value::as_str)
            .map_or_else(|| format!("{{{parameter}}}"), toolcrib_ui::filters::encoded);
        path = path.replace(&format!("{{{parameter}}}"), &text);
    }
    let url = request.own_url(&format!("/api/v1{path}"));
    let token = "-H \"Authorization: Bearer $(cat state/token)\"";
    let method = operation.method.as_str();
    let curl = match operation.method.has_body() {
        true => {
            let body = quoted(&Json::of(&Value::Object(body)).to_string());
            format!("curl -X {method} {token} -H 'Content-Type: application/json' -d {body} {}", quoted(&url))
        }
        false => {
            let query: Vec<String> = body
                .iter()
                .map(|(name, value)| {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    format!("{name}={}", toolcrib_ui::filters::encoded(&text))
                })
                .collect();
            let url = if query.is_empty() { url } else { format!("{url}?{}", query.join("&")) };
            format!("curl -X {method} {token} {}", quoted(&url))
        }
    };
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": operation.tool, "arguments": serde_json::from_str::<Value>(&json).unwrap_or_default() },
    });
    let call = Json::of(&call).pretty();
    vec![
        Copy { id: "copy-command", label: "Command", text: command },
        Copy { id: "copy-curl", label: "curl, in the home folder", text: curl },
        Copy { id: "copy-mcp", label: "JSON-RPC", text: call },
    ]
}
