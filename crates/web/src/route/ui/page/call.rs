//! The playground: `/ui/call/<tool>`, `/ui/read` of a resource and `/ui/prompts/<prompt>`. A form made of a schema, the
//! path of every call, and what came of it; what the server asks then is answered on the page.

mod questions;

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_gateway::OperationRound;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, ask};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::form::{Form, Submission};
use toolcrib_ui::page::CallPage;
use toolcrib_ui::page::call::{Block, CallResult};
use toolcrib_view::Operation;

use questions::AnswerForm;

use super::json::{pretty, rows, text};
use super::operation::copies;
use super::{Page, name, rendered};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, status_of, write};

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

/// What browsers draw in an `img`, apart from pictures that hold programs.
const PICTURES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
/// How much of a text a page shows, in characters.
const SHOWN: usize = 200_000;
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
    /// The page without a form and a result.
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
    Ok(page)
}

async fn tool(request: &PageRequest) -> Result<ServerQuery, Problem> {
    let id = name(request);
    let tool = request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await?;
    // The very text of the schema: a value has lost the digits of large numbers.
    let schema = tool.get("inputSchema").map_or_else(|| "{}".to_owned(), |schema| schema.as_str().to_owned());
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
        description: text(&tool, "description"),
        destroys: tool["annotations"]["destructiveHint"] == true,
        above,
        ..page(request, CALL, &title, form)
    };
    Ok(ServerQuery { operation: CALL, name: Some(id), page })
}

fn resource(request: &PageRequest) -> ServerQuery {
    let mut form = Form::of(&request.operation(READ_RESOURCE).map(Operation::input_schema).unwrap_or_default());
    if let Some(uri) = request.parameter("uri") {
        let _ = form.fill(&json!({ "uri": uri }).to_string());
    }
    let above = vec![("/ui/resources".to_owned(), "Resources".to_owned())];
    let page = CallPage { verb: "Read", above, ..page(request, READ_RESOURCE, "Read a resource", form) };
    ServerQuery { operation: READ_RESOURCE, name: None, page }
}

async fn prompt(request: &PageRequest) -> Result<ServerQuery, Problem> {
    let id = name(request);
    let listed = request.operate("core_prompt_list", request.in_profile(json!({}))).await?.to_value();
    let unknown = || Problem::new(Kind::NotFound, format!("prompt `{id}` not found")).hint("See `/ui/prompts`.");
    let prompt = rows(&listed, "prompts").iter().find(|it| it["name"] == id.as_str()).ok_or_else(unknown)?;
    let above = vec![("/ui/prompts".to_owned(), "Prompts".to_owned())];
    let page = CallPage {
        verb: "Get",
        description: text(prompt, "description"),
        above,
        ..page(request, GET_PROMPT, &id, Form::of(&arguments_schema(prompt)))
    };
    Ok(ServerQuery { operation: GET_PROMPT, name: Some(id), page })
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
    CallPage {
        frame: request.frame(title),
        above: Vec::new(),
        path: request.here(),
        verb: "",
        description: String::new(),
        destroys: false,
        is_allowed: request.may_change() && request.allows(operation),
        form,
        problem: None,
        questions: None,
        result: None,
        copies: Vec::new(),
    }
}

/// Asks the server with what the form holds.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Response<Body> {
    match Box::pin(called(request, fields)).await {
        Ok((status, page)) => write::page(request, status, &page),
        Err(problem) => write::problem(request, "This cannot be asked here", &problem),
    }
}

async fn called(request: &PageRequest, fields: &Fields) -> Result<(StatusCode, CallPage), Problem> {
    let ServerQuery { operation, name, mut page } = asked(request).await?;
    let (arguments, answered) = match questions::answered(fields, request.site.limits.depth)? {
        AnswerForm::Again(questions) => {
            let status = if questions.problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            let _ = page.form.fill(fields.text(questions::ARGUMENTS).unwrap_or_default());
            return Ok((status, CallPage { questions: Some(*questions), ..page }));
        }
        AnswerForm::Complete(answered) => {
            let arguments = fields.text(questions::ARGUMENTS).unwrap_or_default().to_owned();
            let _ = page.form.fill(&arguments);
            (arguments, answered)
        }
        AnswerForm::Nothing => match page.form.read(&fields.0) {
            Submission::Edited => return Ok((StatusCode::OK, page)),
            Submission::Wrong(errors) => {
                page.problem = Some(write::form_notice(&errors));
                return Ok((StatusCode::BAD_REQUEST, page));
            }
            Submission::Complete(arguments) => (arguments, Raw::empty_object()),
        },
    };
    let unknown = || Problem::new(Kind::NotFound, format!("there is no operation `{operation}`"));
    let operation = request.operation(operation).ok_or_else(unknown)?;
    let profile = request.profile_named(request.parameter("profile"))?;
    let arguments_of_form = Raw::parse(arguments.clone().into(), Rules::relayed(request.site.limits.depth))
        .map_err(|fault| Problem::new(Kind::Parse, format!("the arguments cannot be used: {fault}")))?;
    let asked = match &name {
        Some(name) => Raw::from_value(&json!({ "name": name })).edit(&[("arguments", Edit::Set(&arguments))]),
        None => arguments_of_form,
    };
    page.copies = copies(request, operation, serde_json::from_str(asked.as_str()).unwrap_or_default());
    let started = Instant::now();
    let answer = request.call_round(operation, profile, OperationRound { arguments: asked, answered: &answered }).await;
    let took = started.elapsed();
    match answer {
        Ok(answer) if ask::is_input_required(&answer) => {
            page.questions = Some(questions::of(&answer, &arguments)?);
            Ok((StatusCode::OK, page))
        }
        Ok(answer) => {
            let took = format!("{}.{} ms", took.as_millis(), took.as_micros() % 1_000 / 100);
            page.result = Some(result(&answer.to_value(), took));
            Ok((StatusCode::OK, page))
        }
        Err(problem) => {
            page.problem = Some(write::notice(&problem));
            Ok((status_of(&problem), page))
        }
    }
}

fn result(answer: &Value, took: String) -> CallResult {
    let structured = &answer["structuredContent"];
    // The text for clients that read no structured content says the same.
    let is_same = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|text| text == *structured);
    let repeats = |block: &Value| !structured.is_null() && block["text"].as_str().is_some_and(is_same);
    CallResult {
        is_error: answer["isError"] == true,
        took,
        blocks: rows(answer, "content").iter().filter(|it| !repeats(it)).map(block).collect(),
        structured: if structured.is_null() { String::new() } else { clipped(pretty(structured)) },
    }
}

fn block(block: &Value) -> Block {
    let media = text(block, "mimeType");
    match block["type"].as_str() {
        Some("text") => Block::Text(clipped(text(block, "text"))),
        Some("image") if PICTURES.contains(&media.as_str()) && is_base64(&block["data"]) => {
            Block::Image(format!("data:{media};base64,{}", text(block, "data")))
        }
        Some("audio") if is_sound(&media) && is_base64(&block["data"]) => {
            Block::Audio(format!("data:{media};base64,{}", text(block, "data")))
        }
        Some("resource") => {
            let resource = &block["resource"];
            let media = text(resource, "mimeType");
            if PICTURES.contains(&media.as_str()) && is_base64(&resource["blob"]) {
                return Block::Image(format!("data:{media};base64,{}", text(resource, "blob")));
            }
            let what = format!("{} {}", text(resource, "uri"), text(resource, "mimeType"));
            Block::Resource(what, clipped(text(resource, "text")))
        }
        Some("resource_link") => {
            Block::Resource(format!("{} {}", text(block, "uri"), text(block, "name")), String::new())
        }
        _ => Block::Raw(clipped(pretty(block))),
    }
}

fn is_sound(media: &str) -> bool {
    media
        .strip_prefix("audio/")
        .is_some_and(|kind| kind.bytes().all(|it| it.is_ascii_alphanumeric() || b"-.+".contains(&it)))
}

/// Whether it is base64, so that it can stand in a URL.
fn is_base64(data: &Value) -> bool {
    data.as_str().is_some_and(|data| STANDARD.decode(data).is_ok())
}

/// The beginning of a text that is longer than a page shows.
fn clipped(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}\n… {} bytes more", &text[..end], text.len() - end),
        None => text,
    }
}
