//! `toolcrib api`: any operation of the control API, by its name. What there is is in the gateway's own OpenAPI
//! document, so operations of a newer gateway are known too.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Outline;
use toolcrib_protocol::raw::Edit;

use super::call::arguments;
use crate::client::{ClientFlags, Rest, encoded};
use crate::output::table::{Column, field};
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The operation, such as `core_mcpserver_get` or `mcpserver_get` [default: list all]
    operation: Option<String>,
    #[command(flatten)]
    given: arguments::ArgumentFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("OPERATION", |it| field(it, "operationId")),
    Column::new("METHOD", |it| field(it, "method")),
    Column::new("PATH", |it| field(it, "path")),
    Column::new("SUMMARY", |it| field(it, "summary")),
];

impl Arguments {
    /// The arguments, before any request is sent.
    pub(crate) fn gather(&self) -> Result<Raw, Problem> {
        self.given.gather()
    }
}

pub(crate) async fn run(arguments: &Arguments, given: &Raw, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let document = rest.get("/openapi.json").await?.to_value();
    let operations = operations(&document);
    let Some(wanted) = &arguments.operation else {
        let answer = Raw::from_value(&json!({ "operations": operations, "total": operations.len() }));
        if output.is_for_programs() {
            output.answer(&answer)?;
        } else {
            output.rows("operations", COLUMNS, &operations)?;
        }
        return Ok(());
    };
    let plain = wanted.replace('-', "_");
    let named = |id: &str| id == plain || id.strip_prefix("core_") == Some(&plain);
    let operation = operations.iter().find(|it| it["operationId"].as_str().is_some_and(named)).ok_or_else(|| {
        Problem::new(Kind::NotFound, format!("no operation `{wanted}`")).hint("see all with `toolcrib api`")
    })?;
    let request = request(operation, given, rest.profile().map(toolcrib_base::ProfileName::as_str))?;
    let answer = rest.ask(request.method, &request.path, request.body.as_ref()).await?;
    let format = if output.format == Format::Yaml { Format::Yaml } else { Format::Json };
    Ok(Output { format, ..output }.answer(&answer)?)
}

/// Every operation that answers JSON, with its method and path beside what the document says.
fn operations(document: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, entry) in methods.as_object().into_iter().flatten() {
            if entry["operationId"] == "events" {
                continue;
            }
            let mut entry = entry.clone();
            entry["path"] = path.as_str().into();
            entry["method"] = method.to_uppercase().into();
            all.push(entry);
        }
    }
    all.sort_by(|a, b| a["operationId"].as_str().cmp(&b["operationId"].as_str()));
    all
}

struct Request {
    method: Method,
    path: String,
    body: Option<Raw>,
}

/// Puts each argument where the document says it belongs; what is in no other place goes into the body or the query,
/// where the gateway says what is wrong with it.
fn request(operation: &Value, given: &Raw, profile: Option<&str>) -> Result<Request, Problem> {
    let method = operation["method"].as_str().unwrap_or_default();
    let mut path = operation["path"].as_str().unwrap_or_default().to_owned();
    let has_body = matches!(method, "POST" | "PUT" | "PATCH");
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_in_path = |name: &str| parameters.iter().any(|it| it["in"] == "path" && it["name"] == name);
    let mut body = given.clone();
    let mut query = Vec::new();
    let Outline::Object(members) = given.outline() else {
        return Err(Problem::new(Kind::InvalidParams, "the arguments are not an object"));
    };
    for member in members {
        let (name, value) = (member.key.as_ref(), member.value);
        let text = |value: &str| match serde_json::from_str(value) {
            Ok(Value::String(text)) => text,
            _ => value.to_owned(),
        };
        if is_in_path(name) {
            path = path.replace(&format!("{{{name}}}"), &encoded(&text(value)));
            body = body.edit(&[(name, Edit::Remove)]);
        } else if !has_body {
            query.push(format!("{}={}", encoded(name), encoded(&text(value))));
        }
    }
    if let Some(missing) = path.split('/').find(|part| part.starts_with('{')) {
        let name = missing.trim_matches(['{', '}']);
        return Err(Problem::new(Kind::InvalidParams, format!("the argument `{name}` is missing"))
            .hint(format!("add `--arg {name}=…`")));
    }
    let takes_profile = parameters.iter().any(|it| it["in"] == "query" && it["name"] == "profile");
    query.extend(profile.filter(|_| takes_profile).map(|profile| format!("profile={profile}")));
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| Problem::new(Kind::BadServer, format!("unknown method `{method}`")))?;
    Ok(Request { method, path, body: has_body.then_some(body) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_where_they_belong() {
        let parameters = json!([{ "in": "path", "name": "name" }, { "in": "query", "name": "profile" }]);
        let operation =
            |method: &str| json!({ "method": method, "path": "/tools/{name}/call", "parameters": parameters });
        let given = Raw::from_value(&json!({ "name": "a/b", "x": [1], "y": "ä" }));
        let posted = request(&operation("POST"), &given, Some("work")).unwrap();
        assert_eq!(posted.path, "/tools/a%2Fb/call?profile=work");
        assert_eq!(posted.body.unwrap().to_value(), json!({ "x": [1], "y": "ä" }));
        let got = request(&operation("GET"), &given, None).unwrap();
        assert_eq!((got.path.as_str(), got.body.is_none()), ("/tools/a%2Fb/call?x=%5B1%5D&y=%C3%A4", true));
        let missing = request(&operation("GET"), &Raw::empty_object(), None).err().unwrap();
        assert!(missing.message.contains("`name` is missing"));
    }
}
