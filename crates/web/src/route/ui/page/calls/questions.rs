//! What a server asks in the course of a call, and the form that answers it. All answers are one JSON object, as a retry
//! carries them: a schema of its own makes the form.

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::ask::{InputKind, InputRequired};
use toolcrib_protocol::{Raw, ask};
use toolcrib_ui::form::{Form, Submission};
use toolcrib_ui::page::call::{Question, Questions};

use super::super::json::pretty;
use crate::route::ui::request::Fields;
use crate::route::ui::write;

/// The field that says which question of the call is answered.
const ROUND: &str = "round";
/// Letters before the ids of the form, apart from that of the arguments.
const IDS: &str = "q";

/// What a browser sends for questions.
pub(super) enum AnswerForm {
    /// It answers an earlier question.
    Stale,
    /// The answers are not whole, or the form was changed: show the questions again.
    Again(Box<Questions>),
    /// The members of a retry.
    Complete(Raw),
}

/// The questions of a call's result; `round` counts them.
///
/// # Errors
/// The result does not say what it needs.
pub(super) fn of(result: &Raw, round: usize) -> Result<Questions, Problem> {
    let required = InputRequired::read(result).map_err(|why| Problem::new(Kind::BadServer, why))?;
    let asked = required.questions.iter().map(|(_, input)| question(&input.method, &input.params)).collect();
    let form = Form::of(&schema(&required)).with_ids(IDS);
    Ok(Questions { asked, form, problem: None, carried: vec![(ROUND, round.to_string())] })
}

/// The answers of a form to the questions of `result`.
///
/// # Errors
/// The result does not say what it needs.
pub(super) fn answered(result: &Raw, round: usize, fields: &Fields) -> Result<AnswerForm, Problem> {
    if fields.text(ROUND) != Some(round.to_string().as_str()) {
        return Ok(AnswerForm::Stale);
    }
    let mut questions = of(result, round)?;
    match questions.form.read(&fields.0) {
        Submission::Edited => Ok(AnswerForm::Again(Box::new(questions))),
        Submission::Wrong(errors) => {
            questions.problem = Some(write::form_notice(&errors));
            Ok(AnswerForm::Again(Box::new(questions)))
        }
        Submission::Complete(answers) => {
            let answers: Map<String, Value> = serde_json::from_str(&answers)
                .map_err(|error| Problem::new(Kind::Internal, format!("the answers are no object: {error}")))?;
            let answers: Vec<_> = answers.into_iter().map(|(key, answer)| (key, Raw::from_value(&answer))).collect();
            Ok(AnswerForm::Complete(ask::retry(&Raw::empty_object(), &answers, ask::state(result).as_ref())))
        }
    }
}

fn question(method: &str, params: &Raw) -> Question {
    let message = || params.text("message").unwrap_or_default();
    match InputKind::of(method, params) {
        Some(InputKind::Form) => Question::Form(message()),
        Some(InputKind::Url) => Question::Page(message(), web_address(params.text("url"))),
        Some(InputKind::Sample { .. }) => Question::Model(pretty(&params.to_value())),
        Some(InputKind::Roots) | None => Question::Unknown(pretty(&params.to_value())),
    }
}

/// An address that a browser opens as a page: no `javascript:`, no `data:`.
fn web_address(url: Option<String>) -> String {
    let parsed = url.and_then(|url| url::Url::parse(&url).ok());
    parsed.filter(|url| matches!(url.scheme(), "http" | "https")).map(String::from).unwrap_or_default()
}

/// The schema of all answers.
fn schema(required: &InputRequired) -> Value {
    let mut properties = Map::new();
    let several = required.questions.len() > 1;
    for (number, (key, input)) in required.questions.iter().enumerate() {
        let title = if several { format!("Answer {}", number + 1) } else { "Answer".to_owned() };
        properties.insert(key.clone(), answer_schema(&title, &input.method, &input.params));
    }
    let keys: Vec<&String> = properties.keys().collect();
    json!({ "type": "object", "required": keys, "properties": properties, "additionalProperties": false })
}

fn answer_schema(title: &str, method: &str, params: &Raw) -> Value {
    let action = |title: &str, action: &str| {
        json!({
            "title": title, "type": "object", "required": ["action"], "additionalProperties": false,
            "properties": { "action": { "const": action } },
        })
    };
    let refusals = [action("Decline", "decline"), action("Cancel", "cancel")];
    match InputKind::of(method, params) {
        Some(InputKind::Form) => {
            let wanted = params.get("requestedSchema").map_or_else(|| json!({ "type": "object" }), |it| it.to_value());
            let accept = json!({
                "title": "Answer", "type": "object", "required": ["action", "content"], "additionalProperties": false,
                "properties": { "action": { "const": "accept" }, "content": wanted },
            });
            json!({ "title": title, "anyOf": [accept, refusals[0], refusals[1]] })
        }
        Some(InputKind::Url) => {
            json!({ "title": title, "anyOf": [action("I have opened it", "accept"), refusals[0], refusals[1]] })
        }
        Some(InputKind::Sample { .. }) => json!({
            "title": title, "type": "object", "required": ["role", "model", "content", "stopReason"],
            "properties": {
                "role": { "const": "assistant" },
                "model": { "const": "person" },
                "content": {
                    "type": "object", "required": ["type", "text"],
                    "properties": { "type": { "const": "text" }, "text": { "type": "string", "maxLength": 100_000 } },
                },
                "stopReason": { "const": "endTurn" },
            },
        }),
        Some(InputKind::Roots) | None => json!({ "title": title, "type": "object" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_links() {
        let address = |url: &str| web_address(Some(url.to_owned()));
        assert_eq!(address("https://example.com/a?b"), "https://example.com/a?b");
        for url in ["javascript:alert(1)", "data:text/html,x", "/ui/secrets", "file:///etc/passwd", ""] {
            assert_eq!(address(url), "", "{url}");
        }
        assert_eq!(web_address(None), "");
    }

    #[test]
    fn answers_are_what_a_retry_carries() {
        let result = Raw::from_value(&json!({
            "resultType": "input_required", "requestState": "s",
            "inputRequests": {
                "who": {"method": "elicitation/create", "params": {
                    "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                }},
            },
        }));
        let questions = of(&result, 2).unwrap();
        assert!(matches!(&questions.asked[..], [Question::Form(message)] if message == "Who?"));
        let html = questions.form.to_string();
        let mut names = html.split("name=\"v:").skip(1).map(|part| part.split('"').next().unwrap());
        let name = format!("v:{}", names.find(|name| name.ends_with("content/name")).expect(&html));
        let mut fields: Vec<(String, String)> = Vec::new();
        fields.extend(questions.carried.iter().map(|(name, text)| ((*name).to_owned(), text.clone())));
        fields.push((name, "Ada".to_owned()));
        let fields = Fields(fields);
        assert!(matches!(answered(&result, 3, &fields), Ok(AnswerForm::Stale)), "a form two tabs old");
        let Ok(AnswerForm::Complete(retry)) = answered(&result, 2, &fields) else { panic!("{html}") };
        let expected = json!({
            "inputResponses": {"who": {"action": "accept", "content": {"name": "Ada"}}}, "requestState": "s",
        });
        assert_eq!(retry.to_value(), expected);
    }
}
