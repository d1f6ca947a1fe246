//! `/api/v1/…`: operations by REST. GET with the arguments in the query; it takes the same path as a `core_*` tool.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_gateway::{Caller, Principal, by_route};
use toolcrib_protocol::{Id, Raw, Revision, method};
use toolcrib_store::Door;
use toolcrib_transport::http::body::Body;

use crate::{Site, respond};

pub(super) async fn answer(site: &Arc<Site>, principal: Principal, request: &Request<Incoming>) -> Response<Body> {
    let route = request.uri().path().trim_start_matches("/api/v1");
    let Some(operation) = by_route(route) else {
        return respond::refusal(&Problem::new(Kind::NotFound, "no operation has this route"));
    };
    if request.method() != Method::GET {
        return respond::not_allowed("GET");
    }
    let arguments = match arguments(request.uri().query().unwrap_or_default(), &operation.schema()) {
        Ok(arguments) => arguments,
        Err(problem) => return respond::refusal(&problem),
    };
    let caller = Caller {
        principal,
        profile: ProfileName::new("default").expect("`default` is a name"),
        door: Door::REST,
        revision: Revision::LATEST_LEGACY,
        session: None,
    };
    let call = toolcrib_protocol::Request {
        id: Id::from_number(0),
        method: method::TOOLS_CALL.to_owned(),
        params: Raw::from_value(&json!({ "name": operation.tool, "arguments": arguments })),
    };
    let answer = site.gateway.request(&caller, call, None).await;
    match answer.map_or_else(|| Err(Kind::Cancelled.into()), |answer| answer.outcome) {
        Ok(result) => {
            let result = result.to_value();
            if result["isError"] == true {
                return failed(&result);
            }
            respond::json(StatusCode::OK, Body::full(result["structuredContent"].to_string()))
        }
        Err(error) => respond::refusal(&Problem::new(Kind::InvalidRequest, error.message)),
    }
}

/// The query as an object, numbers and truth values where the schema wants them.
fn arguments(query: &str, schema: &Value) -> Result<Value, Problem> {
    let mut arguments = serde_json::Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        let value = match schema["properties"][&name]["type"].as_str() {
            Some("integer" | "number" | "boolean") => serde_json::from_str(&value).unwrap_or(Value::String(value)),
            _ => Value::String(value),
        };
        if arguments.insert(name.clone(), value).is_some() {
            return Err(Problem::new(Kind::InvalidParams, format!("`{name}` stands twice in the query")));
        }
    }
    Ok(Value::Object(arguments))
}

/// Percent-decoding, `+` as a blank.
fn decoded(text: &str) -> Result<String, Problem> {
    let wrong = || Problem::new(Kind::InvalidParams, "the query is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(wrong);
                let value = digit(rest.next())? * 16 + digit(rest.next())?;
                bytes.push(u8::try_from(value).map_err(|_| wrong())?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

fn failed(result: &Value) -> Response<Body> {
    let kinds = [Kind::Forbidden, Kind::InvalidParams, Kind::NotFound, Kind::Busy, Kind::Unavailable];
    let name = result["_meta"]["toolcrib/error"].as_str().unwrap_or_default();
    let kind = kinds.into_iter().find(|kind| kind.name() == name).unwrap_or(Kind::Internal);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    respond::refusal(&Problem::new(kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_arguments() {
        let schema = json!({ "properties": { "limit": { "type": "integer" }, "target": { "type": "string" } } });
        let got = arguments("limit=5&target=files%2F*+x", &schema).unwrap();
        assert_eq!(got, json!({ "limit": 5, "target": "files/* x" }));
        assert_eq!(arguments("", &schema).unwrap(), json!({}));
        assert_eq!(arguments("limit=x", &schema).unwrap(), json!({ "limit": "x" }));
        for bad in ["a=%4", "a=%zz", "a=%ff", "a=1&a=2"] {
            assert!(arguments(bad, &schema).is_err(), "{bad}");
        }
    }
}
