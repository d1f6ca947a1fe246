//! What runs ask people: confirmations, forms and pages of servers, logins. Shown with what a run waits for, put to the
//! person of a client that can be asked, and answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolcrib_agent::{AskingCall, CallId, Event, Run, WaitFor};
use toolcrib_base::{Kind, PrincipalId, Problem};
use toolcrib_call::{ApprovalVerdict, CallPath};
use toolcrib_protocol::Raw;
use toolcrib_protocol::ask::{InputKind, InputRequest, InputRequired};
use toolcrib_protocol::json::Rules;

use super::bridge::Bridge;
use super::keep;
use super::output;
use super::shown;

/// How deep answers may nest.
const DEPTH: usize = 64;
/// The longest answer, in bytes.
const ANSWER_BYTES: usize = 256 * 1024;
/// How often, and how often again, is looked whether a run that was answered goes on.
const STEP: Duration = Duration::from_millis(20);
const STEPS: u32 = 100;
/// The key of our own question.
const CONFIRM: &str = "confirm";
/// How many runs below one are looked at.
const DEEPEST: usize = 4;

/// Something that a person is asked.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The run that asks: the one that was looked at, or one that it waits for.
    pub(super) run: String,
    /// What the run waits for, as it is shown.
    pub(super) what: String,
    asker: Asker,
    /// By the keys of the one who asks.
    pub(super) questions: Vec<(String, InputRequest)>,
}

/// Who asks.
#[derive(Debug, Clone)]
enum Asker {
    /// A rule: this approval is to be given by the caller's own person.
    Confirmation(String),
    /// A call.
    Call(CallId),
}

impl Question {
    /// As operations show it.
    fn shown(&self) -> Value {
        let questions = self
            .questions
            .iter()
            .map(|(key, asked)| (key.clone(), json!({"method": asked.method, "params": asked.params.to_value()})));
        Value::Object(questions.collect::<Map<_, _>>())
    }

    /// Whether these waits of its run are for it.
    pub(super) fn is_awaited_by(&self, waits: &[String]) -> bool {
        let keys = match &self.asker {
            Asker::Confirmation(id) => vec![WaitFor::Approval(id.clone())],
            Asker::Call(call) => vec![WaitFor::Person(call.to_string()), WaitFor::Login(self.what.clone())],
        };
        keys.iter().any(|key| waits.contains(&shown::wait_key(key)))
    }

    /// An example of an answer on the command line.
    fn example(&self) -> String {
        let is_page = self.questions.iter().all(|(_, asked)| kind(asked) == Some(InputKind::Url));
        let answer = match &self.asker {
            Asker::Confirmation(_) => json!({"confirm": true}),
            Asker::Call(_) if is_page => json!({"action": "accept"}),
            Asker::Call(_) => {
                let form = self.questions.first().map(|(_, asked)| asked.params.to_value()).unwrap_or_default();
                let fields = form["requestedSchema"]["properties"].as_object().cloned().unwrap_or_default();
                Value::Object(fields.keys().map(|name| (name.clone(), "…".into())).collect())
            }
        };
        format!("toolcrib run resume {} --answer '{answer}'", self.run)
    }
}

fn kind(asked: &InputRequest) -> Option<InputKind> {
    InputKind::of(&asked.method, &asked.params)
}

/// What a call of a run asks, read from the journal.
fn of_call(run: &Run, call: &AskingCall<'_>) -> Option<Question> {
    let raw = Raw::parse(call.question.asked.get().as_bytes().to_vec().into(), Rules::relayed(DEPTH)).ok()?;
    let result = Raw::from_value(&json!({}));
    let result = result.edit(&[("inputRequests", toolcrib_protocol::raw::Edit::Set(raw.as_str()))]);
    let InputRequired { questions, .. } = InputRequired::read(&result).ok()?;
    let what = match call.on {
        WaitFor::Person(what) | WaitFor::Login(what) => what.clone(),
        _ => call.id.to_string(),
    };
    Some(Question { run: run.id().to_owned(), what, asker: Asker::Call(call.id), questions })
}

impl Bridge {
    /// What a run, and the runs that it waits for, ask people.
    ///
    /// # Errors
    /// A journal or an approval cannot be read.
    pub(super) async fn questions(&self, run: &Run) -> Result<Vec<Question>, Problem> {
        let mut found = self.questions_of(run).await?;
        let mut below = runs_waited_for(run);
        for _ in 0..DEEPEST {
            let mut next = Vec::new();
            for id in std::mem::take(&mut below) {
                let Some((_, entries)) = keep::read(&self.store, &id).await? else { continue };
                let run = folded(&id, &entries)?;
                found.extend(self.questions_of(&run).await?);
                next.extend(runs_waited_for(&run));
            }
            below = next;
        }
        Ok(found)
    }

    async fn questions_of(&self, run: &Run) -> Result<Vec<Question>, Problem> {
        let mut found: Vec<_> = run.asking_calls().iter().filter_map(|call| of_call(run, call)).collect();
        let Some(gateway) = self.gateway() else { return Ok(found) };
        for wait in run.waiting().into_iter().flatten() {
            let WaitFor::Approval(id) = wait else { continue };
            if let Some(asked) = gateway.path.confirmation(id).await? {
                let (asker, questions) = (Asker::Confirmation(id.clone()), vec![(CONFIRM.to_owned(), asked)]);
                found.push(Question { run: run.id().to_owned(), what: id.clone(), asker, questions });
            }
        }
        Ok(found)
    }

    /// What a run waits for, with what people are asked.
    ///
    /// # Errors
    /// As [`Bridge::questions`].
    pub(super) async fn shown_waits(&self, run: &Run) -> Result<Vec<Value>, Problem> {
        let Some(waits) = run.waiting() else { return Ok(Vec::new()) };
        let questions = self.questions(run).await?;
        let mut shown: Vec<Value> = waits.iter().map(shown::wait).collect();
        for question in questions {
            let place = shown.iter().position(|wait| wait["for"] != "run" && wait["what"] == *question.what);
            let place = place.filter(|_| question.run == run.id()).unwrap_or_else(|| {
                let kind = if matches!(question.asker, Asker::Confirmation(_)) { "approval" } else { "person" };
                shown.push(json!({"for": kind, "what": question.what, "run": question.run}));
                shown.len() - 1
            });
            let wait = &mut shown[place];
            wait["questions"] = question.shown();
            wait["next"] = question.example().into();
            if let Some(url) = question.questions.iter().find_map(|(_, asked)| asked.params.text("url")) {
                wait["url"] = url.into();
            }
        }
        Ok(shown)
    }

    /// Waits until a run that was answered waits for that no more, or for a moment.
    pub(super) async fn steps_on(&self, question: &Question) {
        for _ in 0..STEPS {
            let record = self.record(&question.run).await;
            if !record.is_ok_and(|record| record.is_some_and(|it| question.is_awaited_by(&it.state.waits))) {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Takes the answer of a person. `given` are the fields of the form that is asked for, or `{action, content}`, or such
    /// answers by the keys of the questions.
    ///
    /// # Errors
    /// The answer does not fit what is asked, or is not awaited any more.
    pub(super) async fn take_answer(
        &self,
        by: &PrincipalId,
        question: &Question,
        given: &Value,
    ) -> Result<(), Problem> {
        let answers = answers(question, given).await?;
        match &question.asker {
            Asker::Confirmation(id) => {
                let gateway = self.gateway().ok_or_else(toolcrib_call::admission::closing_problem)?;
                let answer = answers.get(CONFIRM).map(Raw::from_value).unwrap_or_else(Raw::empty_object);
                let says_yes = CallPath::confirmed(&answer).ok_or_else(|| {
                    Problem::new(Kind::InvalidParams, "the answer says neither yes nor no")
                        .hint("Answer `{\"confirm\": true}` or `{\"confirm\": false}`.")
                })?;
                let verdict = ApprovalVerdict { id, says_yes, by, reason: None };
                gateway.path.decide_approval(verdict).await.map(drop)
            }
            Asker::Call(call) => {
                let answers: Arc<RawValue> = serde_json::value::to_raw_value(&answers)
                    .map_err(|error| Problem::new(Kind::Internal, error.to_string()))?
                    .into();
                let event = Event::Replied { call: *call, answers, by: by.to_string() };
                let told = self.runs().tell(&question.run, event).await;
                told.map_err(|error| Problem::new(Kind::Conflict, format!("run `{}`: {error}", question.run)))
            }
        }
    }
}

fn runs_waited_for(run: &Run) -> Vec<String> {
    let runs = run.waiting().into_iter().flatten().filter_map(|wait| match wait {
        WaitFor::Run(id) => Some(id.clone()),
        _ => None,
    });
    runs.collect()
}

pub(super) fn folded(id: &str, entries: &[toolcrib_agent::Entry]) -> Result<Run, Problem> {
    Run::fold(entries).map_err(|error| Problem::new(Kind::Internal, format!("run `{id}`: {error}")))
}

fn invalid(what: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParams, what)
}

/// An answer to each question, checked against what is asked.
async fn answers(question: &Question, given: &Value) -> Result<BTreeMap<String, Value>, Problem> {
    let Some(members) = given.as_object() else { return Err(invalid("`answer` must be a JSON object")) };
    if given.to_string().len() > ANSWER_BYTES {
        return Err(invalid(format!("`answer` has more than {ANSWER_BYTES} bytes")));
    }
    let is_by_key = |value: &Value| value["action"].is_string();
    let keys: Vec<&str> = question.questions.iter().map(|(key, _)| key.as_str()).collect();
    let by_key = !members.is_empty() && members.iter().all(|(key, it)| keys.contains(&key.as_str()) && is_by_key(it));
    let mut answers = BTreeMap::new();
    for (key, asked) in &question.questions {
        let answer = match question.questions.len() {
            _ if by_key => members.get(key).cloned(),
            // A dialog that is closed or refused answers them all.
            1 => Some(given.clone()),
            _ if given["action"].is_string() && given["action"] != "accept" => Some(given.clone()),
            _ => None,
        };
        let Some(answer) = answer else {
            return Err(invalid(format!("`answer` lacks `{key}`"))
                .hint(format!("Answer each of {} with {{\"action\": …}}.", keys.join(", "))));
        };
        answers.insert(key.clone(), checked(asked, answer).await?);
    }
    Ok(answers)
}

/// One answer, in the form of MCP.
async fn checked(asked: &InputRequest, given: Value) -> Result<Value, Problem> {
    let answer = match given["action"].as_str() {
        // The fields alone.
        None => json!({"action": "accept", "content": given}),
        Some("accept" | "decline" | "cancel") if given.as_object().is_some_and(is_answer) => given,
        Some(_) if kind(asked) == Some(InputKind::Form) => json!({"action": "accept", "content": given}),
        Some(other) => {
            return Err(invalid(format!("`action` must be accept, decline or cancel, and is `{}`", shortened(other))));
        }
    };
    if answer["action"] != "accept" {
        return Ok(json!({"action": answer["action"]}));
    }
    if kind(asked) != Some(InputKind::Form) {
        return Ok(json!({"action": "accept"}));
    }
    let content = answer.get("content").filter(|content| !content.is_null()).cloned().unwrap_or_else(|| json!({}));
    if let Some(schema) = asked.params.get("requestedSchema")
        && let Some(problem) = output::misfit(schema.as_str(), &content).await
    {
        return Err(invalid(format!("the answer does not fit what is asked: {problem}")));
    }
    Ok(json!({"action": "accept", "content": content}))
}

fn is_answer(members: &Map<String, Value>) -> bool {
    members.iter().all(|(key, value)| key == "action" || key == "content" && value.is_object())
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: &Value) -> InputRequest {
        let params = json!({"mode": "form", "message": "Sure?", "requestedSchema": schema});
        InputRequest { method: "elicitation/create".to_owned(), params: Raw::from_value(&params) }
    }

    fn asked(questions: Vec<(&str, InputRequest)>) -> Question {
        let questions = questions.into_iter().map(|(key, asked)| (key.to_owned(), asked)).collect();
        let asker = Asker::Call(CallId { round: 1, place: 1 });
        Question { run: "r".to_owned(), what: "1.1".to_owned(), asker, questions }
    }

    #[tokio::test]
    async fn an_answer_is_its_fields_or_an_action_and_fits_what_is_asked() {
        let schema = json!({"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]});
        let one = asked(vec![("k", form(&schema))]);
        let taken = async |given: Value| answers(&one, &given).await.map(|answers| answers["k"].clone());
        let accepted = json!({"action": "accept", "content": {"day": "Monday"}});
        assert_eq!(taken(json!({"day": "Monday"})).await.unwrap(), accepted);
        assert_eq!(taken(accepted.clone()).await.unwrap(), accepted);
        assert_eq!(taken(json!({"k": accepted.clone()})).await.unwrap(), accepted);
        assert_eq!(taken(json!({"action": "decline"})).await.unwrap(), json!({"action": "decline"}));
        for (given, part) in [
            (json!({"day": 3}), "day"),
            (json!({}), "day"),
            (json!([1]), "object"),
            (json!({"action": "accept"}), "day"),
        ] {
            let problem = taken(given.clone()).await.unwrap_err();
            assert!(problem.kind == Kind::InvalidParams && problem.message.contains(part), "{given}: {problem:?}");
        }
    }

    #[tokio::test]
    async fn several_questions_are_answered_by_their_keys_or_refused_together() {
        let schema = json!({"type": "object", "properties": {"day": {"type": "string"}}});
        let two = asked(vec![("a", form(&schema)), ("b", form(&schema))]);
        let both = json!({"a": {"action": "accept", "content": {"day": "x"}}, "b": {"action": "cancel"}});
        assert_eq!(answers(&two, &both).await.unwrap().len(), 2);
        assert_eq!(answers(&two, &json!({"action": "decline"})).await.unwrap().len(), 2);
        let problem = answers(&two, &json!({"a": {"action": "decline"}})).await.unwrap_err();
        assert!(problem.message.contains("lacks `b`"), "{problem:?}");
        assert!(answers(&two, &json!({"day": "x"})).await.is_err());
    }
}
