//! `/ui/operations`: everything that can be done, and each operation as a form.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_gateway::UiMode;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Notice;
use toolcrib_ui::page::operation::{Copy, Input, OperationField};
use toolcrib_ui::page::operations::{OperationGroup, OperationRow};
use toolcrib_ui::page::{OperationPage, OperationsPage};
use toolcrib_view::{Effect, Operation};

use super::{Page, name, rendered};
use crate::route::ui::act::{self, ARGUMENT};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, sign_in, status_of, write};

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
    make: |request| Box::pin(async move { rendered(&one(request)?) }),
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

fn one(request: &PageRequest) -> Result<OperationPage, Problem> {
    let tool = name(request);
    let operation = request.operation(&tool).ok_or_else(|| {
        Problem::new(Kind::NotFound, format!("there is no operation `{tool}`"))
            .hint("See all operations at `/ui/operations`.")
    })?;
    let next = request.parameter("return").filter(|place| sign_in::is_page(place)).unwrap_or_default().to_owned();
    Ok(form(request, operation, &request.query, next))
}

/// The form again, with what was put in, after a try that failed.
pub(in crate::route::ui) fn again(
    request: &PageRequest,
    operation: &'static Operation,
    fields: &Fields,
    problem: &Problem,
) -> Response<Body> {
    let given =
        fields.0.iter().filter_map(|(key, value)| Some((key.strip_prefix(ARGUMENT)?.to_owned(), value.clone())));
    let given: Vec<(String, String)> = given.collect();
    let next = fields.text("return").map_or_else(String::new, |_| fields.next().to_owned());
    let hint = problem.hint.as_deref().map(write::sentence);
    let notice = Notice { is_ok: false, text: write::sentence(&problem.message), hint };
    let shown = OperationPage { problem: Some(notice), ..form(request, operation, &given, next) };
    write::page(request, StatusCode::max(status_of(problem), StatusCode::BAD_REQUEST), &shown)
}

fn form(
    request: &PageRequest,
    operation: &'static Operation,
    given: &[(String, String)],
    next: String,
) -> OperationPage {
    let schema = operation.input_schema();
    let value = |name: &str| given.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|it| it == name));
    let properties = schema["properties"].as_object();
    let fields = properties.into_iter().flatten().map(|(name, property)| {
        let default = &property["default"];
        let default = if default.is_null() { String::new() } else { format!(" Without it: {default}.") };
        OperationField {
            name: name.clone(),
            note: format!("{}{default}", property["description"].as_str().unwrap_or_default()),
            is_required: is_required(name),
            input: input(operation, property),
            value: value(name).unwrap_or_default(),
        }
    });
    let is_allowed = request.allows(operation.tool)
        && (request.site.gateway.ui == UiMode::Full || operation.effect == Effect::Reads);
    let typed: Vec<(String, String)> =
        given.iter().map(|(name, value)| (format!("{ARGUMENT}{name}"), value.clone())).collect();
    let known: Vec<(String, String)> = typed
        .into_iter()
        .filter(|(key, _)| properties.is_some_and(|known| known.contains_key(&key[ARGUMENT.len()..])))
        .collect();
    let arguments = if operation.is_secret { Map::new() } else { act::arguments(&known, &schema).unwrap_or_default() };
    OperationPage {
        tool: operation.tool.to_owned(),
        description: operation.description.to_owned(),
        destroys: matches!(operation.effect, Effect::Destroys { .. }),
        is_allowed,
        fields: fields.collect(),
        next,
        problem: None,
        copies: copies(request, operation, arguments),
        frame: request.frame(operation.summary),
    }
}

fn input(operation: &Operation, property: &Value) -> Input {
    if let Some(options) = property["enum"].as_array() {
        let text = |option: &Value| option.as_str().map_or_else(|| option.to_string(), str::to_owned);
        return Input::Choice(options.iter().map(text).collect());
    }
    match property["type"].as_str() {
        Some("boolean") => Input::Choice(vec!["true".to_owned(), "false".to_owned()]),
        Some("array") if property["items"]["type"] == "string" => Input::Lines("One for each line."),
        Some("object") | None => Input::Lines("As JSON."),
        Some("array") => Input::Lines("As a JSON array."),
        Some("string") if operation.is_secret => Input::Secret,
        _ => Input::Line,
    }
}

/// The same as a command, with curl, and as a call of MCP. A secret is not among the arguments.
fn copies(request: &PageRequest, operation: &Operation, arguments: Map<String, Value>) -> Vec<Copy> {
    let json = Value::Object(arguments.clone()).to_string();
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
            let body = quoted(&Value::Object(body).to_string());
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
    let call = serde_json::to_string_pretty(&call).unwrap_or_default();
    vec![
        Copy { id: "copy-command", label: "Command", text: command },
        Copy { id: "copy-curl", label: "curl, in the home folder", text: curl },
        Copy { id: "copy-mcp", label: "JSON-RPC", text: call },
    ]
}
