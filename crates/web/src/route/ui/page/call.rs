//! `/ui/call/<tool>`: the playground. A tool is called with a form made of its schema, by the path of every call; what
//! its server asks then is answered on the page.

mod questions;

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_gateway::OperationRound;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, ask};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::form::{Form, Submission};
use toolcrib_ui::page::CallPage;
use toolcrib_ui::page::call::{Block, CallResult};

use questions::Answered;

use super::json::{pretty, rows, text};
use super::operation::copies;
use super::{Page, name, rendered};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, status_of, write};

pub(super) const ONE: Page = Page {
    path: "/ui/call/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&blank(request).await?) }),
    live: None,
};

/// What browsers draw in an `img`, apart from pictures that hold programs.
const PICTURES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
/// How much of a text a page shows, in characters.
const SHOWN: usize = 200_000;
const CALL: &str = "core_tool_call";

async fn blank(request: &PageRequest) -> Result<CallPage, Problem> {
    let id = name(request);
    let tool = request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await?;
    let mut form = form_of(&tool)?;
    if let Some(arguments) = request.parameter("arguments") {
        // A link may bring arguments; what is no JSON is left out.
        let _ = form.fill(arguments);
    }
    Ok(page(request, &tool.to_value(), form))
}

/// The form of the very text of a tool's schema.
fn form_of(tool: &Raw) -> Result<Form, Problem> {
    let schema = tool.get("inputSchema").map_or_else(|| "{}".to_owned(), |schema| schema.as_str().to_owned());
    Form::parse(&schema).map_err(|error| Problem::new(Kind::BadServer, format!("its schema is no JSON: {error:?}")))
}

fn page(request: &PageRequest, tool: &Value, form: Form) -> CallPage {
    let title = match text(tool, "title") {
        title if title.is_empty() => text(tool, "id"),
        title => title,
    };
    CallPage {
        frame: request.frame(&title),
        tool: text(tool, "id"),
        profile: request.value("profile"),
        description: text(tool, "description"),
        destroys: tool["annotations"]["destructiveHint"] == true,
        is_allowed: request.may_change() && request.allows(CALL),
        form,
        problem: None,
        questions: None,
        result: None,
        copies: Vec::new(),
    }
}

/// Calls the tool with what the form holds.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Response<Body> {
    match Box::pin(called(request, fields)).await {
        Ok((status, page)) => write::page(request, status, &page),
        Err(problem) => write::problem(request, "This tool cannot be called here", &problem),
    }
}

async fn called(request: &PageRequest, fields: &Fields) -> Result<(StatusCode, CallPage), Problem> {
    let id = name(request);
    let tool = request.operate("core_tool_get", request.in_profile(json!({ "name": id }))).await?;
    let mut form = form_of(&tool)?;
    let tool = tool.to_value();
    let (arguments, answered) = match questions::answered(fields, request.site.limits.depth)? {
        Answered::Again(questions) => {
            let status = if questions.problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            let _ = form.fill(fields.text(questions::ARGUMENTS).unwrap_or_default());
            return Ok((status, CallPage { questions: Some(questions), ..page(request, &tool, form) }));
        }
        Answered::Complete(answered) => {
            let arguments = fields.text(questions::ARGUMENTS).unwrap_or_default().to_owned();
            let _ = form.fill(&arguments);
            (arguments, answered)
        }
        Answered::Nothing => match form.read(&fields.0) {
            Submission::Edited => return Ok((StatusCode::OK, page(request, &tool, form))),
            Submission::Wrong(errors) => {
                let problem = Some(write::form_notice(&errors));
                return Ok((StatusCode::BAD_REQUEST, CallPage { problem, ..page(request, &tool, form) }));
            }
            Submission::Complete(arguments) => (arguments, Raw::empty_object()),
        },
    };
    let operation = request.operation(CALL).ok_or_else(|| Problem::new(Kind::NotFound, "tools are not called here"))?;
    let profile = request.profile_named(request.parameter("profile"))?;
    let asked = Raw::from_value(&json!({ "name": id })).edit(&[("arguments", Edit::Set(&arguments))]);
    let started = Instant::now();
    let round = OperationRound { arguments: asked, answered: &answered };
    let answer = request.call_round(operation, profile, round).await;
    let took = started.elapsed();
    let mut given = Map::new();
    given.insert("name".to_owned(), id.into());
    given.insert("arguments".to_owned(), serde_json::from_str(&arguments).unwrap_or_default());
    let copies = copies(request, operation, given);
    let mut page = CallPage { copies, ..page(request, &tool, form) };
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
    CallResult {
        is_error: answer["isError"] == true,
        took,
        blocks: rows(answer, "content").iter().map(block).collect(),
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
