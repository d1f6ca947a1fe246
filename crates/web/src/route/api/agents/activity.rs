//! `GET /api/v1/agents/{id}/activity`: Valinor's name for the ledger of what one agent did. It is the operation that lists
//! the activity of all, with this agent as its filter, and takes Valinor's names of filters beside its own.

use http::{Response, StatusCode};
use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_transport::http::body::Body;
use toolcrib_view::operation::check_known;

use super::{DoorRequest, arguments, context};
use crate::respond;

const OPERATION: &str = "core_activity_list";
/// Parameters of every door, which are none of the operation's here.
const OF_DOORS: [&str; 2] = ["agent", arguments::PROFILE];

pub(super) async fn answer(request: &DoorRequest) -> Result<Response<Body>, Problem> {
    context::check(request)?;
    let operation = request.site.gateway.operations.by_tool(OPERATION);
    let operation = operation.ok_or_else(|| Problem::new(Kind::NotFound, "there are no agents here"))?;
    let mut schema = operation.input_schema();
    if let Some(known) = schema["properties"].as_object_mut() {
        known.retain(|name, _| !OF_DOORS.contains(&name.as_str()));
    }
    let query = Value::Object(renamed(request.query.clone())?);
    check_known(&schema, &query)?;
    let mut filters = arguments::typed(query, &schema);
    filters["agent"] = request.agent.as_str().into();
    let listed = request.operate(OPERATION, &filters).await?;
    Ok(respond::json(StatusCode::OK, Body::full(listed.to_string())))
}

/// Valinor's filters under our names: `after` and `before` are moments that are not in the answer themselves. A number as
/// `before` is the place of the next page.
fn renamed(mut query: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(after) = query.remove("after") {
        let at = Timestamp::parse(&text(&after))
            .ok_or_else(|| Problem::new(Kind::InvalidParams, "`after` must be a time such as 2026-11-20T12:00:00Z"))?;
        put(&mut query, "since", "after", Timestamp(at.0.saturating_add(1)).to_string())?;
    }
    if let Some(before) = query.remove("before") {
        let before = text(&before);
        let name = if is_number(&before) { "before" } else { "until" };
        put(&mut query, name, "before", before)?;
    }
    if let Some(user) = query.remove("user_id") {
        put(&mut query, "principal", "user_id", text(&user))?;
    }
    Ok(query)
}

fn put(query: &mut Map<String, Value>, name: &str, given: &str, value: String) -> Result<(), Problem> {
    match query.insert(name.to_owned(), value.into()) {
        Some(_) => {
            Err(Problem::new(Kind::InvalidParams, format!("`{given}` and `{name}` say the same: give one of them")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(query: &Value) -> Result<Value, String> {
        renamed(query.as_object().unwrap().clone()).map(Value::Object).map_err(|problem| problem.message)
    }

    #[test]
    fn filters_of_valinor_are_ours_under_other_names() {
        let given = json!({"after": "2026-11-20T12:00:00Z", "before": "2026-11-21T12:00:00Z", "user_id": "ann"});
        let expected =
            json!({"since": "2026-11-20T12:00:00.001Z", "until": "2026-11-21T12:00:00Z", "principal": "ann"});
        assert_eq!(of(&given).unwrap(), expected);
        assert_eq!(of(&json!({"before": "17", "kind": "x"})).unwrap(), json!({"before": "17", "kind": "x"}));
        assert!(of(&json!({"after": "soon"})).unwrap_err().contains("must be a time"));
        assert!(of(&json!({"user_id": "ann", "principal": "bob"})).unwrap_err().contains("say the same"));
    }
}
