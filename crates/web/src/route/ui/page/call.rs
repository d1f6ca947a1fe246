//! The playground: `/ui/call/<tool>`, `/ui/read` of a resource and `/ui/prompts/<prompt>`. A form made of a schema, which
//! begins a call as a profile and as a client of either era; [`super::calls`] shows how it goes.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ServerName, nearest};
use toolcrib_protocol::Era;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::form::{Form, Submission};
use toolcrib_ui::page::CallPage;
use toolcrib_ui::text::clipped;
use toolcrib_view::Operation;

use super::json::{rows, text};
use super::operation::copies;
use super::{Page, calls, name, rendered, tools};
use crate::route::ui::calls::{CallInputs, KeptArguments, OutputPromise, without_secrets};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, write};

pub(super) const ONE: Page = of("/ui/call/*");
pub(super) const READ: Page = of("/ui/read");
pub(super) const PROMPT: Page = of("/ui/prompts/*");

const fn of(path: &'static str) -> Page {
    Page {
        path,
        nav: None,
        needs: "",
        make: |request| Box::pin(async move { rendered(&blank(request).await?) }),
        live: None,
    }
}

/// How much of a description the form shows, in characters; the page of the tool has more.
const DESCRIPTION: usize = 1_000;
const CALL: &str = "core_tool_call";
const READ_RESOURCE: &str = "core_resource_read";
const GET_PROMPT: &str = "core_prompt_get";

/// Whether a form of this path asks something of a server.
pub(in crate::route::ui) fn is_asked(path: &str) -> bool {
    path == READ.path || ["/ui/call/", "/ui/prompts/"].iter().any(|root| path.starts_with(root))
}

/// What a form asks of a server.
struct ServerQuery {
    /// The operation that asks it.
    operation: &'static str,
    /// The arguments of the operation beside those of the form, which are in `arguments` then.
    name: Option<String>,
    /// What people read.
    title: String,
    /// The schema of the form.
    schema: Value,
    /// What the tool promises of its structured content.
    promise: Option<OutputPromise>,
    /// The page.
    page: CallPage,
}

/// What the path names.
async fn asked(request: &PageRequest) -> Result<ServerQuery, Problem> {
    match request.path().as_str() {
        path if path == READ.path => Ok(resource(request)),
        path if path.starts_with("/ui/prompts/") => prompt(request).await,
        _ => tool(request).await,
    }
}

async fn blank(request: &PageRequest) -> Result<CallPage, Problem> {
    let mut page = asked(request).await?.page;
    if let Some(arguments) = request.parameter("arguments") {
        // A link may bring arguments; what is no JSON is left out.
        let _ = page.form.fill(arguments);
    }
    if let Some(kept) = request.parameter("again").and_then(|id| calls::kept(request, id)) {
        let _ = page.form.fill(&kept);
    }
    Ok(page)
}

async fn tool(request: &PageRequest) -> Result<ServerQuery, Problem> {
    let id = name(request);
    let tool = request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await?;
    let schema = tools::schema_text(request, &tool, "inputSchema");
    let schema = schema.map_or_else(|| "{}".to_owned(), |schema| schema.as_str().to_owned());
    let promised = tools::schema_text(request, &tool, "outputSchema");
    let form = Form::parse(&schema)
        .map_err(|error| Problem::new(Kind::BadServer, format!("its schema is no JSON: {error:?}")))?;
    let tool = tool.to_value();
    let own = text(&tool, "id");
    let title = match text(&tool, "title") {
        title if title.is_empty() => own.clone(),
        title => title,
    };
    let above = vec![("/ui/tools".to_owned(), "Tools".to_owned()), (format!("/ui/tools/{}", encoded(&own)), own)];
    let page = CallPage {
        verb: "Call",
        description: clipped(&text(&tool, "description"), DESCRIPTION),
        destroys: tool["annotations"]["destructiveHint"] == true,
        above,
        ..page(request, CALL, &title, form)
    };
    let server = ServerName::new(&text(&tool, "server")).ok();
    let promise = server.zip(promised).map(|(server, schema)| OutputPromise { server, schema });
    let schema = serde_json::from_str(&schema).unwrap_or_default();
    Ok(ServerQuery { operation: CALL, name: Some(id.clone()), title: id, schema, promise, page })
}

fn resource(request: &PageRequest) -> ServerQuery {
    let schema = request.operation(READ_RESOURCE).map(Operation::input_schema).unwrap_or_default();
    let mut form = Form::of(&schema);
    if let Some(uri) = request.parameter("uri") {
        let _ = form.fill(&json!({ "uri": uri }).to_string());
    }
    let above = vec![("/ui/resources".to_owned(), "Resources".to_owned())];
    let page = CallPage { verb: "Read", above, ..page(request, READ_RESOURCE, "Read a resource", form) };
    ServerQuery {
        operation: READ_RESOURCE,
        name: None,
        title: "Read a resource".to_owned(),
        schema,
        promise: None,
        page,
    }
}

async fn prompt(request: &PageRequest) -> Result<ServerQuery, Problem> {
    let id = name(request);
    let listed = request.operate("core_prompt_list", request.in_profile(json!({}))).await?.to_value();
    let unknown = || {
        let known = rows(&listed, "prompts").iter().filter_map(|it| it["name"].as_str());
        let hint = match nearest::similar(&id, known).first() {
            Some(near) => format!("Did you mean `{near}`? See `/ui/prompts`."),
            None => "See `/ui/prompts`.".to_owned(),
        };
        Problem::new(Kind::NotFound, format!("prompt `{id}` not found")).hint(hint)
    };
    let prompt = rows(&listed, "prompts").iter().find(|it| it["name"] == id.as_str()).ok_or_else(unknown)?;
    let above = vec![("/ui/prompts".to_owned(), "Prompts".to_owned())];
    let schema = arguments_schema(prompt);
    let page = CallPage {
        verb: "Get",
        description: clipped(&text(prompt, "description"), DESCRIPTION),
        above,
        ..page(request, GET_PROMPT, &id, Form::of(&schema))
    };
    Ok(ServerQuery { operation: GET_PROMPT, name: Some(id.clone()), title: id, schema, promise: None, page })
}

/// The schema of a prompt's arguments: texts.
fn arguments_schema(prompt: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for argument in rows(prompt, "arguments") {
        let name = text(argument, "name");
        if argument["required"] == true {
            required.push(name.clone());
        }
        properties.insert(name, json!({ "type": "string", "description": text(argument, "description") }));
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A page of an operation that says nothing of what it asks yet.
fn page(request: &PageRequest, operation: &str, title: &str, form: Form) -> CallPage {
    let is_cut = request.parameter("all").is_none() && write::is_large(&form.to_string());
    let (form, whole) = match is_cut {
        true => (form.with_few_words(), request.with("all", "1")),
        false => (form, String::new()),
    };
    CallPage {
        frame: request.frame(title),
        above: Vec::new(),
        path: request.here(),
        verb: "",
        description: String::new(),
        destroys: false,
        is_allowed: request.may_change() && request.allows(operation),
        whole,
        form,
        problem: None,
        profiles: profiles(request),
        profile: request.parameter("profile").map_or_else(|| request.profile().to_string(), str::to_owned),
        era: calls::era_name(era(request.parameter("era"))),
        earlier: calls::earlier(request, &request.path()),
        copies: Vec::new(),
    }
}

/// The profiles that the person may use.
pub(super) fn profiles(request: &PageRequest) -> Vec<String> {
    let loaded = request.site.gateway.loaded();
    loaded.profiles.keys().filter(|name| request.caller((*name).clone()).is_ok()).map(ToString::to_string).collect()
}

/// The era of a name; the newest for any other.
fn era(name: Option<&str>) -> Era {
    if name == Some(calls::era_name(Era::Legacy)) { Era::Legacy } else { Era::Modern }
}

/// Asks the server with what the form holds.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Response<Body> {
    match Box::pin(called(request, fields)).await {
        Ok(response) => response,
        Err(problem) => write::problem(request, "This cannot be asked here", &problem),
    }
}

async fn called(request: &PageRequest, fields: &Fields) -> Result<Response<Body>, Problem> {
    let ServerQuery { operation, name, title, schema, promise, mut page } = asked(request).await?;
    let chosen = fields.text("profile").filter(|name| !name.is_empty()).or_else(|| request.parameter("profile"));
    let era = era(fields.text("era").or_else(|| request.parameter("era")));
    (page.profile, page.era) = (chosen.map_or(page.profile, str::to_owned), calls::era_name(era));
    let arguments = match page.form.read(&fields.0) {
        Submission::Edited => return Ok(write::page(request, StatusCode::OK, &page)),
        Submission::Wrong(errors) => {
            page.problem = Some(write::form_notice(&errors));
            return Ok(write::page(request, StatusCode::BAD_REQUEST, &page));
        }
        Submission::Complete(arguments) => arguments,
    };
    let unknown = || Problem::new(Kind::NotFound, format!("there is no operation `{operation}`"));
    let KeptArguments { text: kept, is_whole, secrets } = without_secrets(&arguments, &schema);
    let operation = request.operation(operation).ok_or_else(unknown)?;
    let (profile, form) = (request.profile_named(chosen)?, request.path());
    let inputs = CallInputs { operation, name, title, form, profile, era, kept, is_whole, promise };
    // A gateway that only shows says so before anything runs.
    if !request.may_change() {
        let arguments = calls::operation_arguments(request, &inputs, &arguments)?;
        page.copies = copies(request, operation, serde_json::from_str(arguments.as_str()).unwrap_or_default());
        page.problem = Some(write::notice(&Problem::new(Kind::Forbidden, "these pages only show")));
        return Ok(write::page(request, StatusCode::FORBIDDEN, &page));
    }
    calls::start(request, inputs, secrets, &arguments).await
}
