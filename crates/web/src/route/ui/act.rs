//! What forms ask for: `POST /ui/do/<operation>`. Its fields are `arg.<name>`, typed by the operation's own schema;
//! with `return` the browser goes on to that page, without it sees what the operation answered.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{FileChange, WriteScope};
use toolcrib_gateway::in_write_scope;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Notice;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ResultPage;
use toolcrib_ui::part::{Action, Look, Target};
use toolcrib_view::Operation;

use super::page::operation::FailedTry;
use super::request::{Fields, PageRequest};
use super::{page, write};

/// Below which an operation is asked for.
pub(super) const ROOT: &str = "/ui/do/";
/// The operation that begins a login to a server.
const LOGIN: &str = "core_auth_login";
/// What stands before the name of an argument.
pub(super) const ARGUMENT: &str = "arg.";

/// Does an operation that a form asks for: by a button with its arguments, by a form made of the schema, or by the form
/// that showed what would change.
pub(super) async fn post(page: &PageRequest, tool: &str, fields: &Fields) -> Response<Body> {
    let Some(operation) = page.operation(tool) else {
        let problem = Problem::new(Kind::NotFound, format!("there is no operation `{tool}`"));
        return write::problem(page, "Nothing was done", &problem.hint("See all operations at `/ui/operations`."));
    };
    let is_button = fields.0.iter().any(|(key, _)| key.starts_with(ARGUMENT));
    let arguments = match fields.text("arguments") {
        Some(text) => Ok(text.to_owned()),
        None if is_button => {
            arguments(&fields.0, &operation.input_schema()).map(|arguments| Value::Object(arguments).to_string())
        }
        None => match page::operation::read(page, operation, fields).await {
            Ok(arguments) => Ok(arguments),
            Err(shown) => return *shown,
        },
    };
    let returns = fields.text("return").is_some();
    if fields.text("preview").is_some()
        && let Ok(arguments) = &arguments
    {
        // What many lines would become is shown before.
        return page::operation::confirm(page, operation, fields, arguments).await;
    }
    let done = match arguments {
        Ok(arguments) => {
            let next = returns.then(|| fields.next());
            carry_out(page, operation, arguments, next, fields.text("seen")).await
        }
        Err(problem) => Err(FailedAct { problem, unwritten: Vec::new() }),
    };
    match done {
        Ok(response) => response,
        Err(failed) if is_button && failed.unwritten.is_empty() && returns => {
            page.leave(write::notice(&failed.problem));
            write::see_other(fields.next())
        }
        Err(FailedAct { problem, unwritten }) => {
            let failed = FailedTry { problem: &problem, unwritten: &unwritten };
            page::operation::again(page, operation, fields, failed).await
        }
    }
}

/// An operation that failed.
pub(super) struct FailedAct {
    /// Why.
    pub(super) problem: Problem,
    /// What the disk did not take.
    pub(super) unwritten: Vec<FileChange>,
}

/// Does an operation and goes on to a page, which says what was done and offers to undo it; without one it shows what the
/// operation answered. Only the changes of the fingerprint `seen` are written, where there is one.
///
/// # Errors
/// What the operation says.
pub(super) async fn carry_out(
    page: &PageRequest,
    operation: &'static Operation,
    arguments: String,
    next: Option<&str>,
    seen: Option<&str>,
) -> Result<Response<Body>, FailedAct> {
    let scope = Arc::new(WriteScope::of_seen(seen));
    let done = in_write_scope(&scope, done(page, operation, arguments)).await;
    let (subject, answer) = done.map_err(|problem| FailedAct { problem, unwritten: scope.failed() })?;
    if page::profiles::makes_key(operation) {
        return Ok(page::profiles::key_page(page, operation, &answer.to_value()));
    }
    let Some(next) = next else {
        let text = serde_json::to_string_pretty(&answer.to_value()).unwrap_or_default();
        let shown = ResultPage { frame: page.frame(operation.summary), tool: operation.tool.to_owned(), text };
        return Ok(write::page(page, StatusCode::OK, &shown));
    };
    let done = match &subject {
        Some(subject) => format!("{}: `{subject}`", operation.summary),
        None => operation.summary.to_owned(),
    };
    page.leave(told(operation, &done, &answer, &scope.kept(), next));
    Ok(write::see_other(next))
}

/// What came of an operation, with the button that undoes it. `writes` are those that it made itself.
fn told(operation: &Operation, done: &str, answer: &Raw, writes: &[String], next: &str) -> Notice {
    let mut notice = Notice::done(format!("Done. {done}."));
    let says_it = matches!(operation.tag, "clients" | "logins");
    if let Some(message) = answer.text("message").filter(|_| says_it) {
        let mut lines = message.lines();
        notice.text = write::sentence(lines.next().unwrap_or_default());
        let rest: Vec<String> = lines.map(write::sentence).collect();
        notice.hint = (!rest.is_empty()).then(|| rest.join(" "));
    }
    if operation.tool == LOGIN {
        goes_on(&mut notice, answer);
    }
    let undo = |tool, argument| Target::Operation { tool, arguments: vec![argument], next: next.to_owned() };
    let step = match (operation.tool, answer.text("name"), writes) {
        ("core_client_connect", Some(name), _) => Some(("Undo", undo("core_client_undo", ("name", name)))),
        (_, _, [id]) => Some(("Undo", undo("core_write_undo", ("id", id.clone())))),
        (_, _, []) => None,
        _ => Some(("See what was written", Target::Page("/ui/writes".to_owned()))),
    };
    if let Some((label, target)) = step {
        notice.action = Some(Action { label: label.to_owned(), about: String::new(), target, look: Look::Plain });
    }
    notice
}

/// How a login goes on: at the provider's page, or with values that the server needs from its user.
fn goes_on(notice: &mut Notice, answer: &Raw) {
    let server = answer.text("server").unwrap_or_default();
    let (text, label, target) = match (answer.text("status").as_deref(), answer.text("authUrl")) {
        (_, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            let text = format!("Log in to `{server}` at its provider. The link counts once, for ten minutes.");
            (text, "Go to the login", Target::Elsewhere(url))
        }
        (Some("values_required"), _) => {
            let page = format!("/ui/operations/{LOGIN}?server={}&return=/ui/logins", encoded(&server));
            (format!("`{server}` needs values of yours."), "Give them", Target::Page(page))
        }
        _ => return,
    };
    notice.text = text;
    notice.action = Some(Action { label: label.to_owned(), about: String::new(), target, look: Look::Primary });
}

/// What it was about, and what it answered.
async fn done(
    page: &PageRequest,
    operation: &'static Operation,
    arguments: String,
) -> Result<(Option<String>, Raw), Problem> {
    let arguments = Raw::parse(arguments.into(), Rules::strict(page.site.limits.depth))
        .map_err(|fault| Problem::new(Kind::Parse, format!("the arguments cannot be used: {fault}")))?;
    let subject = arguments.text("name").or_else(|| arguments.text("id"));
    let profile = page.profile();
    Ok((subject, page.operate_in(operation, profile, arguments).await?))
}

/// The arguments of a form, typed by the schema. What is empty is left out, except texts that the schema requires.
///
/// # Errors
/// A field that its type does not fit.
pub(super) fn arguments(fields: &[(String, String)], schema: &Value) -> Result<Map<String, Value>, Problem> {
    let mut arguments = Map::new();
    let required = schema["required"].as_array();
    for (name, text) in fields.iter().filter_map(|(key, text)| Some((key.strip_prefix(ARGUMENT)?, text))) {
        if let Some((object, member)) =
            name.split_once('.').filter(|(name, _)| schema["properties"][*name]["type"] == "object")
        {
            // A member of an object of texts; one that is empty is left out.
            if !text.is_empty() {
                let object = arguments.entry(object).or_insert_with(|| Value::Object(Map::new()));
                object[member] = text.clone().into();
            }
            continue;
        }
        let wrong = |what: &str| Problem::new(Kind::InvalidParams, format!("`{name}` must be {what}"));
        let property = &schema["properties"][name];
        let is_required = required.is_some_and(|required| required.iter().any(|it| it == name));
        if text.is_empty() && !is_required {
            continue;
        }
        let parsed = || serde_json::from_str::<Value>(text).ok();
        let value = match property["type"].as_str() {
            Some("integer") => {
                parsed().filter(|it| it.is_i64() || it.is_u64()).ok_or_else(|| wrong("a whole number"))?
            }
            Some("number") => parsed().filter(Value::is_number).ok_or_else(|| wrong("a number"))?,
            Some("boolean") => parsed().filter(Value::is_boolean).ok_or_else(|| wrong("`true` or `false`"))?,
            Some("object") => parsed().filter(Value::is_object).ok_or_else(|| wrong("a JSON object"))?,
            Some("array") if property["items"]["type"] == "string" => lines(text, arguments.remove(name)),
            Some("array") => parsed().filter(Value::is_array).ok_or_else(|| wrong("a JSON array"))?,
            Some(_) => Value::String(text.clone()),
            // Of any type: JSON where it is that, else text.
            None => parsed().unwrap_or_else(|| Value::String(text.clone())),
        };
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

/// One text for each line, after those of the same name before.
fn lines(text: &str, before: Option<Value>) -> Value {
    let mut all = match before {
        Some(Value::Array(before)) => before,
        _ => Vec::new(),
    };
    all.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Value::from));
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(pairs: &[(&str, &str)], expected: Result<Value, &str>) {
        let schema = json!({
            "properties": {
                "name": {"type": "string"}, "limit": {"type": "integer"}, "on": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}}, "env": {"type": "object"}, "any": {},
            },
            "required": ["name"],
        });
        let fields: Vec<(String, String)> = pairs.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
        let got = arguments(&fields, &schema).map(Value::Object).map_err(|problem| problem.message);
        assert_eq!(got, expected.map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn fields_become_arguments_of_their_types() {
        check(&[("arg.name", ""), ("arg.limit", ""), ("other", "x")], Ok(json!({"name": ""})));
        check(
            &[("arg.name", "a"), ("arg.limit", "9007199254740993"), ("arg.on", "true")],
            Ok(json!({"name": "a", "limit": 9_007_199_254_740_993_u64, "on": true})),
        );
        check(&[("arg.tags", "a\r\nb"), ("arg.tags", "c")], Ok(json!({"tags": ["a", "b", "c"]})));
        check(&[("arg.env", "{\"A\":1}"), ("arg.any", "[1]")], Ok(json!({"env": {"A": 1}, "any": [1]})));
        check(
            &[("arg.env.A", "1"), ("arg.env.B", ""), ("arg.env.C.D", "x")],
            Ok(json!({"env": {"A": "1", "C.D": "x"}})),
        );
        check(&[("arg.any", "plain")], Ok(json!({"any": "plain"})));
        check(&[("arg.limit", "1.5")], Err("`limit` must be a whole number"));
        check(&[("arg.on", "yes")], Err("`on` must be `true` or `false`"));
        check(&[("arg.env", "[]")], Err("`env` must be a JSON object"));
    }
}
