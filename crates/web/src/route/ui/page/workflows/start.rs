//! `/ui/run/workflow/…`: the form of a workflow's arguments. The run goes on in the gateway, whether anyone looks or not,
//! and its page shows each step as it happens.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::RESERVED_ARGUMENTS;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::form::{Form, Submission};
use toolcrib_ui::page::CallPage;
use toolcrib_ui::part::Table;
use toolcrib_view::Operation;

use super::super::call::profiles;
use super::super::json::{rows, text};
use super::super::operation::copies;
use super::super::{Page, name, rendered};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, status_of, write};

const ROOT: &str = "/ui/run/workflow/";
const CALL: &str = "core_tool_call";
/// The argument that begins a run and does not wait for its end.
const DETACH: &str = RESERVED_ARGUMENTS[1];

pub(in crate::route::ui::page) const PAGE: Page = Page {
    path: "/ui/run/workflow/*",
    nav: None,
    needs: "",
    make: |request| {
        Box::pin(async move {
            let mut page = blank(request).await?;
            if let Some(arguments) = request.parameter("arguments") {
                // A link may bring arguments; what is no JSON is left out.
                let _ = page.form.fill(arguments);
            }
            rendered(&page)
        })
    },
    live: None,
};

/// Where a run of a workflow begins.
pub(super) fn path_of(name: &str) -> String {
    format!("{ROOT}{}", encoded(name))
}

/// Whether a form begins a run.
pub(in crate::route::ui) fn is_asked(path: &str) -> bool {
    path.starts_with(ROOT)
}

fn tool(name: &str) -> String {
    format!("workflow/{name}")
}

async fn blank(request: &PageRequest) -> Result<CallPage, Problem> {
    let workflow = name(request);
    let asked = request.in_profile(json!({ "name": tool(&workflow) }));
    let tool = request.operate("core_tool_get", asked).await?.to_value();
    let mut schema = tool["inputSchema"].clone();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !RESERVED_ARGUMENTS.contains(&name.as_str()));
    }
    let own = format!("/ui/workflows/{}", encoded(&workflow));
    Ok(CallPage {
        frame: request.frame(&format!("Run {workflow}")),
        above: vec![("/ui/workflows".to_owned(), "Workflows".to_owned()), (own, workflow)],
        path: request.here(),
        verb: "Run",
        description: text(&tool, "description"),
        destroys: false,
        is_allowed: request.may_change() && request.allows(CALL),
        form: Form::of(&schema),
        problem: None,
        profiles: profiles(request),
        profile: request.parameter("profile").map_or_else(|| request.profile().to_string(), str::to_owned),
        era: "",
        earlier: Table::default(),
        whole: String::new(),
        copies: Vec::new(),
    })
}

/// Begins a run with what the form holds, or with the arguments of another run, and leads to its page.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Response<Body> {
    match Box::pin(begun(request, fields)).await {
        Ok(response) => response,
        Err(problem) => write::problem(request, "No run was begun", &problem),
    }
}

async fn begun(request: &PageRequest, fields: &Fields) -> Result<Response<Body>, Problem> {
    let mut page = blank(request).await?;
    let said = match fields.text("arguments") {
        Some(arguments) => {
            let _ = page.form.fill(arguments);
            arguments.to_owned()
        }
        None => match page.form.read(&fields.0) {
            Submission::Edited => return Ok(write::page(request, StatusCode::OK, &page)),
            Submission::Wrong(errors) => {
                page.problem = Some(write::form_notice(&errors));
                return Ok(write::page(request, StatusCode::BAD_REQUEST, &page));
            }
            Submission::Complete(said) => said,
        },
    };
    if let Some(profile) = fields.text("profile").filter(|name| !name.is_empty()) {
        profile.clone_into(&mut page.profile);
    }
    let Some(mut arguments) = arguments_of(&said) else {
        let problem = Problem::new(Kind::InvalidParams, "the arguments are no JSON object");
        page.problem = Some(write::notice(&problem.hint("Fill in the form.")));
        return Ok(write::page(request, StatusCode::BAD_REQUEST, &page));
    };
    arguments.insert(DETACH.to_owned(), true.into());
    let asked = json!({ "name": tool(&name(request)), "arguments": arguments, "profile": page.profile });
    let operation = request.operation(CALL);
    page.copies = operation.map(|operation| copied(request, operation, &asked)).unwrap_or_default();
    let done = match request.may_change() {
        true => request.operate(CALL, asked).await.and_then(|answer| run_of(&answer.to_value())),
        false => Err(Problem::new(Kind::Forbidden, "these pages only show")),
    };
    match done {
        Ok(run) => Ok(write::see_other(&format!("/ui/workflow-runs/{}", encoded(&run)))),
        Err(problem) => {
            page.problem = Some(write::notice(&problem));
            let status = StatusCode::max(status_of(&problem), StatusCode::BAD_REQUEST);
            Ok(write::page(request, status, &page))
        }
    }
}

/// The arguments that a text says, none where it is blank; `None` of a text that says something else.
fn arguments_of(text: &str) -> Option<Map<String, Value>> {
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    serde_json::from_str::<Option<Map<String, Value>>>(text).ok().map(Option::unwrap_or_default)
}

fn copied(request: &PageRequest, operation: &Operation, asked: &Value) -> Vec<toolcrib_ui::page::operation::Copy> {
    copies(request, operation, asked.as_object().cloned().unwrap_or_default())
}

/// The run that a tool's answer names.
fn run_of(answer: &Value) -> Result<String, Problem> {
    let content = rows(answer, "content").iter().find_map(|block| block["text"].as_str()).unwrap_or_default();
    let said: Value = serde_json::from_str(content).unwrap_or_default();
    match said["execution_id"].as_str() {
        Some(id) => Ok(id.to_owned()),
        None => Err(Problem::new(Kind::BadServer, content.chars().take(500).collect::<String>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_nothing() {
        for text in ["", " ", "null", "{}"] {
            assert_eq!(arguments_of(text), Some(Map::new()), "{text:?}");
        }
        assert_eq!(Value::from(arguments_of(r#"{"n":1}"#)), json!({ "n": 1 }));
        for text in ["[1]", "7", "{", "words"] {
            assert_eq!(arguments_of(text), None, "{text:?}");
        }
    }
}
