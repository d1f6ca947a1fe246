//! Path, query, header and body of a request, put together to the one object of arguments that an operation takes.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, IF_MATCH};
use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::raw::Edit;
use toolcrib_view::Operation;
use toolcrib_view::operation::check_known;

use super::super::mcp::is_json;

/// The parameter that names the profile, for operations that see the gateway through one.
pub(super) const PROFILE: &str = "profile";

/// What a request brings.
#[derive(Debug)]
pub(super) struct RequestParts<'a> {
    /// The parts of the path that are arguments, percent-encoded.
    pub(super) values: &'a [(&'static str, &'a str)],
    pub(super) query: Map<String, Value>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: Bytes,
    /// How deep the body may nest.
    pub(super) depth: usize,
}

impl RequestParts<'_> {
    /// The arguments. Whether they fit is checked where the operation is done, for every door.
    pub(super) fn gather(mut self, operation: &Operation) -> Result<Raw, Problem> {
        let mut schema = operation.input_schema();
        let parameters: Vec<&str> = operation.path_parameters().collect();
        if operation.takes_profile() {
            self.query.remove(PROFILE);
        }
        let properties = schema["properties"].as_object_mut();
        properties.into_iter().for_each(|known| known.retain(|name, _| !parameters.contains(&name.as_str())));
        let mut arguments = if operation.method.has_body() {
            check_known(&Value::Object(Map::new()), &Value::Object(self.query))?;
            let body = body(self.body, self.depth)?;
            check_known(&schema, &body.to_value())?;
            body
        } else {
            let query = Value::Object(self.query);
            check_known(&schema, &query)?;
            Raw::from_value(&typed(query, &schema))
        };
        for (name, text) in self.values {
            let value = Value::from(decoded(text, false)?).to_string();
            arguments = arguments.edit(&[(*name, Edit::Set(&value))]);
        }
        let revision = if schema["properties"].get("revision").is_some() { revision(self.headers)? } else { None };
        match (revision, arguments.text("revision")) {
            (Some(header), Some(other)) if header != other => {
                Err(Problem::new(Kind::InvalidParams, "`If-Match` and `revision` are different revisions"))
            }
            (Some(header), None) => Ok(arguments.edit(&[("revision", Edit::Set(&Value::from(header).to_string()))])),
            _ => Ok(arguments),
        }
    }
}

/// Whether a body says that it is something else than JSON, or nothing at all.
pub(super) fn is_not_json(headers: &HeaderMap, body: &Bytes) -> bool {
    let is_nothing = body.is_empty() && !headers.contains_key(CONTENT_TYPE);
    !(is_json(headers) || is_nothing)
}

fn body(bytes: Bytes, depth: usize) -> Result<Raw, Problem> {
    if bytes.is_empty() {
        return Ok(Raw::empty_object());
    }
    let raw = Raw::parse(bytes, Rules::strict(depth))
        .map_err(|fault| Problem::new(Kind::Parse, format!("the body cannot be used: {fault}")))?;
    if raw.is_object() { Ok(raw) } else { Err(Problem::new(Kind::InvalidParams, "the body must be a JSON object")) }
}

/// The profile that the query names.
pub(super) fn profile(operation: &Operation, query: &Map<String, Value>) -> Result<Option<ProfileName>, Problem> {
    let Some(name) = query.get(PROFILE).and_then(Value::as_str).filter(|_| operation.takes_profile()) else {
        return Ok(None);
    };
    ProfileName::new(name).map(Some).map_err(|error| Problem::new(Kind::NotFound, error.to_string()))
}

/// The revision of `If-Match`; one tag, as there is one text to replace. `*` says nothing that is not checked anyway.
fn revision(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut tags = headers.get_all(IF_MATCH).iter();
    let Some(tag) = tags.next() else { return Ok(None) };
    let text = tag.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(|text| !text.contains('"'));
    match (inner, tags.next()) {
        (Some(revision), None) => Ok(Some(revision.to_owned())),
        _ => Err(Problem::new(Kind::InvalidParams, "`If-Match` must be one tag in quotes")),
    }
}

/// The query as an object of texts.
pub(super) fn query(query: &str) -> Result<Map<String, Value>, Problem> {
    let mut arguments = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name, true)?, decoded(value, true)?);
        if arguments.contains_key(&name) {
            let shown: String = name.chars().take(64).collect();
            return Err(Problem::new(Kind::InvalidParams, format!("`{shown}` appears twice in the query")));
        }
        arguments.insert(name, Value::String(value));
    }
    Ok(arguments)
}

/// Numbers and truth values where the schema wants them.
pub(super) fn typed(mut arguments: Value, schema: &Value) -> Value {
    for (name, value) in arguments.as_object_mut().into_iter().flatten() {
        let wants = schema["properties"][name]["type"].as_str();
        if matches!(wants, Some("integer" | "number" | "boolean"))
            && let Some(parsed) = value.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *value = parsed;
        }
    }
    arguments
}

/// Percent-decoding; `+` is a blank in a query.
pub(super) fn decoded(text: &str, in_query: bool) -> Result<String, Problem> {
    let wrong = || Problem::new(Kind::InvalidParams, "the URL is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' if in_query => bytes.push(b' '),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_become_arguments() {
        let schema = json!({ "properties": { "limit": { "type": "integer" }, "target": { "type": "string" } } });
        let got = |text: &str| query(text).map(|all| typed(Value::Object(all), &schema));
        assert_eq!(got("limit=5&target=files%2F*+x").unwrap(), json!({ "limit": 5, "target": "files/* x" }));
        assert_eq!(got("").unwrap(), json!({}));
        assert_eq!(got("limit=x").unwrap(), json!({ "limit": "x" }));
        for bad in ["a=%4", "a=%zz", "a=%ff", "a=1&a=2"] {
            assert!(got(bad).is_err(), "{bad}");
        }
        assert_eq!(decoded("a+b%2Fc", false).unwrap(), "a+b/c");
    }

    #[test]
    fn a_tag_is_a_revision() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_MATCH, http::HeaderValue::from_static(text));
            revision(&headers)
        };
        assert_eq!(of("\"abc\"").unwrap().as_deref(), Some("abc"));
        assert_eq!(of("*").unwrap(), None);
        for wrong in ["abc", "W/\"a\"", "\"a\", \"b\"", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(revision(&HeaderMap::new()).unwrap(), None);
    }
}
