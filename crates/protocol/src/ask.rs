//! What a server may ask of a client: as a request of its own (legacy) or inside an `input_required` result (modern).

use std::collections::BTreeMap;

use crate::capability::Capabilities;
use crate::error::{CAPABILITY_MISSING, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};
use crate::json::{self, Outline};
use crate::meta;
use crate::method;
use crate::raw::{Edit, Raw, Writer};
use crate::revision::{Era, Revision};

/// The value of `resultType` for a result that needs answers first.
pub const INPUT_REQUIRED: &str = "input_required";
/// The member of a retry that carries the answers.
pub const INPUT_RESPONSES: &str = "inputResponses";
/// The member that a retry must give back as it was.
pub const REQUEST_STATE: &str = "requestState";
/// How many questions one result may carry.
pub const QUESTIONS: usize = 32;
/// How long the opaque state of one call may be, in bytes.
pub const STATE_MAX: usize = 64 * 1024;

/// What kind of input a server asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A form for the user.
    Form,
    /// A page for the user to open.
    Url,
    /// Something for the client's model.
    Sample {
        /// With tools.
        tools: bool,
    },
    /// The client's roots: the folders that it works in.
    Roots,
}

/// One request for input: a method that only clients answer, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// The method.
    pub method: String,
    /// Its parameters.
    pub params: Raw,
}

/// A result that needs answers before the call can go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputRequired {
    /// The questions by the server's own keys, in its order.
    pub questions: Vec<(String, InputRequest)>,
    /// What must be given back unchanged.
    pub state: Option<Raw>,
}

impl InputKind {
    /// What a request of a server asks; `None` for methods that no client answers.
    pub fn of(method: &str, params: &Raw) -> Option<Self> {
        match method {
            method::ELICITATION_CREATE if params.text("mode").as_deref() == Some("url") => Some(Self::Url),
            method::ELICITATION_CREATE => Some(Self::Form),
            method::SAMPLING_CREATE => {
                let tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
                Some(Self::Sample { tools })
            }
            method::ROOTS_LIST => Some(Self::Roots),
            _ => None,
        }
    }

    /// Whether a client with these capabilities can be asked.
    pub fn fits(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Form => capabilities.form,
            Self::Url => capabilities.url,
            Self::Sample { tools } => capabilities.sampling && (!tools || capabilities.sampling_tools),
            Self::Roots => capabilities.roots,
        }
    }

    /// The capability that the client would have to declare, as a `ClientCapabilities` object.
    pub fn required(self) -> Raw {
        Raw::from_value(&match self {
            Self::Form => serde_json::json!({ "elicitation": { "form": {} } }),
            Self::Url => serde_json::json!({ "elicitation": { "url": {} } }),
            Self::Sample { tools: false } => serde_json::json!({ "sampling": {} }),
            Self::Sample { tools: true } => serde_json::json!({ "sampling": { "tools": {} } }),
            Self::Roots => serde_json::json!({ "roots": {} }),
        })
    }

    /// The capability by name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Form => "elicitation",
            Self::Url => "elicitation.url",
            Self::Sample { tools: false } => "sampling",
            Self::Sample { tools: true } => "sampling.tools",
            Self::Roots => "roots",
        }
    }

    /// The error for a legacy server that asks for what its client does not offer.
    pub fn refused(self) -> RpcError {
        let message = format!("the client behind this call does not offer `{}`", self.name());
        match self {
            // The capability is there, the mode is not (2025-11-25, client/elicitation, error handling).
            Self::Url | Self::Sample { tools: true } => RpcError::new(INVALID_PARAMS, message),
            Self::Form | Self::Sample { tools: false } | Self::Roots => RpcError::new(METHOD_NOT_FOUND, message),
        }
    }

    /// The error for a modern client whose request lacks the capability that its answer needs.
    pub fn missing(self) -> RpcError {
        let message = format!("this call needs a client that offers `{}`", self.name());
        let required = self.required();
        let mut data = Writer::object(64);
        data.member("requiredCapabilities", required.as_str());
        RpcError { data: Some(data.finish()), ..RpcError::new(CAPABILITY_MISSING, message) }
    }
}

/// Whether a result says that it needs answers first.
pub fn is_input_required(result: &Raw) -> bool {
    result.text("resultType").as_deref() == Some(INPUT_REQUIRED)
}

impl InputRequired {
    /// Reads such a result. The error says what is wrong with it.
    pub fn read(result: &Raw) -> Result<Self, String> {
        let state = state(result);
        if state.as_ref().is_some_and(|state| state.bytes().len() > STATE_MAX) {
            return Err(format!("its `{REQUEST_STATE}` has more than {STATE_MAX} bytes"));
        }
        let mut questions = Vec::new();
        if let Some(asked) = result.get("inputRequests") {
            let Outline::Object(members) = asked.outline() else {
                return Err("its `inputRequests` is not an object".into());
            };
            if members.len() > QUESTIONS {
                return Err(format!("it asks more than {QUESTIONS} questions at once"));
            }
            for member in members {
                let question = asked.part(member.value);
                let method = question.text("method").ok_or("a question without a `method`")?;
                let params = question.get("params").unwrap_or_else(Raw::empty_object);
                if !params.is_object() {
                    return Err("a question whose `params` are not an object".into());
                }
                questions.push((member.key.to_string(), InputRequest { method, params }));
            }
        }
        if questions.is_empty() && state.is_none() {
            return Err("it needs input but asks nothing and gives no state".into());
        }
        Ok(Self { questions, state })
    }

    /// Writes such a result.
    pub fn to_raw(&self) -> Raw {
        let mut out = Writer::object(256);
        out.text("resultType", INPUT_REQUIRED);
        if !self.questions.is_empty() {
            let mut all = Writer::object(256);
            for (key, asked) in &self.questions {
                let mut one = Writer::object(64 + asked.params.bytes().len());
                one.text("method", &asked.method);
                one.member("params", asked.params.as_str());
                all.member(key, one.finish().as_str());
            }
            out.member("inputRequests", all.finish().as_str());
        }
        if let Some(state) = &self.state {
            out.member(REQUEST_STATE, state.as_str());
        }
        out.finish()
    }
}

/// The pages that a legacy server wants opened first, from its error (2025-11-25, client/elicitation).
pub fn pages(error: &RpcError) -> Vec<InputRequest> {
    let listed = error.data.as_ref().and_then(|data| data.get("elicitations"));
    let Some(Outline::Array(items)) = listed.as_ref().map(Raw::outline) else { return Vec::new() };
    let pages = items.into_iter().take(QUESTIONS).filter_map(|item| {
        let params = listed.as_ref()?.part(item);
        let is_page = params.is_object() && params.text("url").is_some();
        is_page.then(|| InputRequest {
            method: method::ELICITATION_CREATE.to_owned(),
            params: params.edit(&[("mode", Edit::Set("\"url\"")), ("elicitationId", Edit::Remove)]),
        })
    });
    pages.collect()
}

/// The answers that a retry carries, by key; `None` when the request is not a retry.
///
/// Errors: [`INVALID_PARAMS`] when they are not an object of objects, or too many.
pub fn answers(params: &Raw) -> Result<Option<BTreeMap<String, Raw>>, RpcError> {
    let Some(given) = params.get(INPUT_RESPONSES).filter(|given| given.as_str() != "null") else { return Ok(None) };
    let Outline::Object(members) = given.outline() else {
        return Err(RpcError::new(INVALID_PARAMS, format!("`params.{INPUT_RESPONSES}` must be an object")));
    };
    if members.len() > QUESTIONS {
        return Err(RpcError::new(
            INVALID_PARAMS,
            format!("`params.{INPUT_RESPONSES}` has more than {QUESTIONS} members"),
        ));
    }
    if let Some(wrong) = members.iter().find(|member| !member.value.starts_with('{')) {
        let key: String = wrong.key.chars().take(100).collect();
        return Err(RpcError::new(INVALID_PARAMS, format!("`params.{INPUT_RESPONSES}.{key}` must be an object")));
    }
    Ok(Some(members.iter().map(|member| (member.key.to_string(), given.part(member.value))).collect()))
}

/// The state that a retry gives back; `None` when there is none.
pub fn state(params: &Raw) -> Option<Raw> {
    params.get(REQUEST_STATE).filter(|state| state.as_str() != "null")
}

/// The parameters of a retry: the same as before with the answers and the state.
pub fn retry(params: &Raw, answers: &[(String, Raw)], state: Option<&Raw>) -> Raw {
    let mut given = Writer::object(256);
    for (key, answer) in answers {
        given.member(key, answer.as_str());
    }
    let given = given.finish();
    let responses = if answers.is_empty() { Edit::Remove } else { Edit::Set(given.as_str()) };
    params.edit(&[
        (INPUT_RESPONSES, responses),
        (REQUEST_STATE, state.map_or(Edit::Remove, |state| Edit::Set(state.as_str()))),
    ])
}

/// A question of a server as a client that speaks `revision` reads it.
///
/// `fresh` is an id that no one has used, for what older revisions want named; `from` is the server's name where the
/// user could not tell otherwise who asks.
pub fn question_for(revision: Revision, asked: &InputRequest, fresh: &str, from: Option<&str>) -> InputRequest {
    let mut params = asked.params.clone();
    if asked.method == method::ELICITATION_CREATE {
        let fresh = Raw::from_value(&fresh);
        let message = from.and_then(|from| {
            let message = params.text("message")?;
            Some(Raw::from_value(&format!("[{from}] {message}")))
        });
        let is_url = params.text("mode").as_deref() == Some("url");
        let mut edits = Vec::new();
        if let Some(message) = &message {
            edits.push(("message", Edit::Set(message.as_str())));
        }
        match revision.era() {
            Era::Modern => edits.push(("elicitationId", Edit::Remove)),
            Era::Legacy if is_url && params.get("elicitationId").is_none() => {
                edits.push(("elicitationId", Edit::Set(fresh.as_str())));
            }
            // Before there were modes, none was named.
            Era::Legacy if !revision.has_url_elicitation() => edits.push(("mode", Edit::Remove)),
            Era::Legacy => {}
        }
        params = params.edit(&edits);
    }
    // What belongs to the hop behind does not reach the client.
    InputRequest { method: asked.method.clone(), params: meta::for_legacy_server(&params, None, None) }
}

/// `inner` with the answers and the state that a retry through another tool carries in `outer`.
pub fn carried(outer: &Raw, inner: &Raw) -> Raw {
    let (answers, state) = (outer.get(INPUT_RESPONSES), outer.get(REQUEST_STATE));
    let mut edits = Vec::new();
    edits.extend(answers.as_ref().map(|answers| (INPUT_RESPONSES, Edit::Set(answers.as_str()))));
    edits.extend(state.as_ref().map(|state| (REQUEST_STATE, Edit::Set(state.as_str()))));
    if edits.is_empty() { inner.clone() } else { inner.edit(&edits) }
}

/// The parameters of a call without what only a retry adds and without `_meta`: what a retry must have in common with
/// the call that it belongs to. Members in a fixed order.
pub fn identity(params: &Raw) -> Vec<u8> {
    let mut members = params.members();
    members.retain(|member| ![INPUT_RESPONSES, REQUEST_STATE, "_meta"].contains(&&*member.key));
    members.sort_by(|a, b| a.key.cmp(&b.key));
    let mut out = Vec::new();
    for member in members {
        out.extend_from_slice(&(member.key.len() as u64).to_be_bytes());
        out.extend_from_slice(member.key.as_bytes());
        // Insignificant blanks may differ when a client writes the same call again.
        let value = json::compact(member.value);
        out.extend_from_slice(&(value.len() as u64).to_be_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value)
    }

    #[test]
    fn questions_need_their_capability() {
        let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}});
        let all = Capabilities::read(&raw(&all), Revision::LATEST);
        let few = Capabilities::read(&raw(&json!({"elicitation": {}, "sampling": {}})), Revision::LATEST);
        for (method, params, expect, in_few) in [
            ("elicitation/create", json!({"message": "m"}), InputKind::Form, true),
            ("elicitation/create", json!({"mode": "url"}), InputKind::Url, false),
            ("sampling/createMessage", json!({}), InputKind::Sample { tools: false }, true),
            ("sampling/createMessage", json!({"tools": []}), InputKind::Sample { tools: true }, false),
            ("roots/list", json!({}), InputKind::Roots, false),
        ] {
            let question = InputKind::of(method, &raw(&params)).unwrap();
            assert_eq!((question, question.fits(&all), question.fits(&few)), (expect, true, in_few), "{method}");
            assert!(!question.fits(&Capabilities::NONE));
            assert_eq!(question.missing().code, CAPABILITY_MISSING);
            let data = question.missing().data.unwrap().get("requiredCapabilities").unwrap();
            assert!(question.fits(&Capabilities::read(&data, Revision::LATEST)), "what is named would do");
        }
        assert_eq!(InputKind::of("tools/call", &raw(&json!({}))), None);
    }

    #[test]
    fn what_needs_input_survives_a_round_trip() {
        let result = json!({
            "resultType": "input_required",
            "inputRequests": {"a": {"method": "roots/list", "params": {}}, "b": {"method": "x", "params": {"n": 1.50}}},
            "requestState": "s",
        });
        let read = InputRequired::read(&raw(&result)).unwrap();
        assert_eq!(read.questions.len(), 2);
        assert_eq!(read.to_raw().to_value(), result);
        assert!(is_input_required(&raw(&result)) && !is_input_required(&raw(&json!({"content": "input_required"}))));
        for wrong in [
            json!({"resultType": "input_required"}),
            json!({"inputRequests": []}),
            json!({"inputRequests": {"a": {"params": {}}}}),
            json!({"inputRequests": {"a": {"method": "x", "params": 1}}}),
            json!({"requestState": "x".repeat(STATE_MAX)}),
        ] {
            assert!(InputRequired::read(&raw(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn questions_are_written_for_their_reader() {
        let check = |revision, params: &Value, from, expect: &Value| {
            let asked = InputRequest { method: "elicitation/create".into(), params: raw(params) };
            assert_eq!(&question_for(revision, &asked, "e1", from).params.to_value(), expect, "{params}");
        };
        let form = json!({"mode": "form", "message": "m", "requestedSchema": {}});
        let url = json!({"mode": "url", "message": "m", "url": "https://x"});
        let legacy_url = json!({"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e1"});
        check(Revision::LATEST, &form, None, &form);
        check(Revision::V2025_11_25, &form, None, &form);
        check(Revision::V2025_06_18, &form, None, &json!({"message": "m", "requestedSchema": {}}));
        check(Revision::V2025_11_25, &url, None, &legacy_url);
        check(Revision::LATEST, &legacy_url, None, &url);
        check(
            Revision::LATEST,
            &url,
            Some("Files"),
            &json!({"mode": "url", "message": "[Files] m", "url": "https://x"}),
        );
    }

    #[test]
    fn a_retry_is_the_same_call_with_answers() {
        let call = raw(&json!({"name": "t", "arguments": {"a": 1}, "_meta": {"progressToken": 1}}));
        let again = retry(&call, &[("k".into(), raw(&json!({"action": "accept"})))], Some(&raw(&json!("s"))));
        assert_eq!(answers(&again).unwrap().unwrap()["k"].as_str(), r#"{"action":"accept"}"#);
        assert_eq!(again.text(REQUEST_STATE).as_deref(), Some("s"));
        assert_eq!(identity(&call), identity(&again));
        let blanks = Raw::parse(r#"{"arguments": { "a" : 1 }, "name":"t"}"#.into(), json::Rules::strict(8)).unwrap();
        assert_eq!(identity(&call), identity(&blanks));
        let other = raw(&json!({"name": "t", "arguments": {"a": 2}}));
        assert_ne!(identity(&call), identity(&other));
        assert_eq!(answers(&call).unwrap(), None);
        for wrong in [json!([]), json!({"k": 1}), json!({"k": null}), json!({"k": "{}"})] {
            assert!(answers(&raw(&json!({"inputResponses": wrong}))).is_err(), "{wrong}");
        }
        let carried_on = carried(&again, &raw(&json!({"uri": "a:b"})));
        assert_eq!(
            carried_on.to_value(),
            json!({"uri": "a:b", "inputResponses": {"k": {"action": "accept"}}, "requestState": "s"})
        );
        assert_eq!(retry(&again, &[], None).as_str(), call.as_str());
    }
}
