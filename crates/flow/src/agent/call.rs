//! Calls tools for runs: what the rules say before a turn begins, and the call itself, both by the gateway's one path.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use serde_json::value::RawValue;
use toolcrib_agent::driver::{CallOutcome, CallTool};
use toolcrib_agent::{Call, CallId, CallResult, Cost, Decision, Event, InnerTool, OpenCall};
use toolcrib_agent::{Question, Refusal, RefusalKind, WaitFor};
use toolcrib_base::nearest::{prefix, similar};
use toolcrib_base::{Kind, PrincipalId, Problem, ServerName, ToolId};
use toolcrib_call::{ApprovalOutcome, CallDecision, CallPlace, CallQuestion, CallReply, LOGIN_QUESTION, LoginPlace};
use toolcrib_call::{MAY_HAVE_RUN, RunCallOutcome, name_at_servers};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_view::schema::CheckOutcome;
use toolcrib_view::{Tool, View};

use super::bridge::Bridge;
use super::context::RunContext;
use super::keep;
use super::source::WAITS;
use super::tools;
use super::tools::{CALL, DESCRIBE, FIND, READER};

/// How deep arguments may nest.
const DEPTH: usize = 64;
/// What the ids of agents begin with.
const AGENT: &str = "agent/";
/// What a run of an agent spent, in the `_meta` of its result.
pub(super) const SPENT: &str = "toolcrib/spent";

/// What a call of the model means: the tool itself, also where the model called it through the menu.
struct IntendedCall {
    /// Its id, or the name of a meta-tool.
    id: String,
    arguments: Raw,
    /// The effects of the tool, where the menu calls it.
    inner: Option<InnerTool>,
}

/// Whether a call has the yes that its caller's own profile wants.
enum CallerConsent {
    NotNeeded,
    /// By this approval.
    Given(String),
    /// It waits for this one.
    Awaited(String),
}

fn refusal(kind: RefusalKind, why: impl Into<String>, nearest: Vec<String>) -> Refusal {
    Refusal { kind, why: why.into(), nearest }
}

impl RunContext {
    /// What a call of the model means.
    fn meant(&self, name: &str, arguments: &str) -> Result<IntendedCall, Refusal> {
        let invalid = |why: String| refusal(RefusalKind::Invalid, why, Vec::new());
        let arguments = Raw::parse(arguments.as_bytes().to_vec().into(), Rules::relayed(DEPTH))
            .map_err(|error| invalid(error.to_string()))?;
        let Some(tool) = self.start.tools.iter().find(|tool| tool.name == name) else {
            return Err(refusal(RefusalKind::UnknownTool, format!("there is no `{name}`"), Vec::new()));
        };
        if tool.id != CALL {
            return Ok(IntendedCall { id: tool.id.clone(), arguments, inner: None });
        }
        let Some(inner) = arguments.text("name").filter(|name| !name.is_empty()) else {
            return Err(invalid(format!("`{CALL}` needs `name`, the tool to call")));
        };
        let inner_arguments = arguments.get("arguments").unwrap_or_else(Raw::empty_object);
        if !inner_arguments.as_str().starts_with('{') {
            return Err(invalid(format!("`arguments` of `{CALL}` must be an object")));
        }
        // Which effects it has is known when the tool is found.
        let inner_tool = Some(InnerTool::default());
        Ok(IntendedCall { id: inner.clone(), arguments: inner_arguments, inner: inner_tool })
    }

    /// The tool of a server that a call was made to, also where the model called it through the menu.
    pub(super) fn called(&self, name: &str, arguments: &str) -> Option<ToolId> {
        let id = self.meant(name, arguments).ok()?.id;
        let view = self.invocation.view().ok();
        let found = view.as_ref().and_then(|view| view.tool_by_any_name(&id)).map(|tool| tool.id.clone());
        found.or_else(|| ToolId::parse(&id))
    }

    /// The tool as the profile shows it now.
    fn tool(&self, view: &View, id: &str) -> Result<Arc<Tool>, Refusal> {
        let found = view.tool_by_any_name(id).filter(|tool| self.allows(tool)).cloned();
        found.ok_or_else(|| {
            let names = view.tools.iter().filter(|tool| self.allows(tool)).map(|tool| &*tool.name);
            let nearest = similar(id, names).into_iter().map(str::to_owned).collect();
            let shown: String = id.chars().take(128).collect();
            refusal(
                RefusalKind::UnknownTool,
                format!("there is no `{shown}` any more, or it may not be used here"),
                nearest,
            )
        })
    }

    /// What the rules say, and the approval that the call waits for.
    async fn decide(
        &self,
        name: &str,
        arguments: &str,
        call: CallId,
    ) -> Result<(IntendedCall, Option<String>), Refusal> {
        let intended = self.look(name, arguments).await?;
        if intended.id == READER || !intended.id.contains('/') {
            return Ok((intended, None));
        }
        if let CallerConsent::Awaited(approval) = self.may_as_caller(&intended, call).await? {
            return Ok((intended, Some(approval)));
        }
        match self.seeing(&self.invocation).decide(&intended.id, &intended.arguments, &call.to_string()).await {
            CallDecision::Allowed => Ok((intended, None)),
            CallDecision::Held(approval) => Ok((intended, Some(approval))),
            CallDecision::Refused(problem) => Err(refused(&problem)),
        }
    }

    /// Whether the caller may do it in its own profile, where the agent has another one. A yes that it needs there is for
    /// the same call of the run, which is made in the profile of the agent.
    async fn may_as_caller(&self, intended: &IntendedCall, call: CallId) -> Result<CallerConsent, Refusal> {
        let Some(own) = self.own.as_ref().filter(|_| intended.id.contains('/')) else {
            return Ok(CallerConsent::NotNeeded);
        };
        match self.seeing(own).decide(&intended.id, &intended.arguments, &call.to_string()).await {
            CallDecision::Allowed => Ok(CallerConsent::NotNeeded),
            CallDecision::Refused(problem) => Err(refused(&problem)),
            CallDecision::Held(approval) => {
                let end = own.path.approval_end(&approval).await.map_err(|problem| refused(&problem))?;
                match end.map(|end| end.outcome) {
                    Some(ApprovalOutcome::Granted) => Ok(CallerConsent::Given(approval)),
                    _ => Ok(CallerConsent::Awaited(approval)),
                }
            }
        }
    }

    /// What a tool gave, as the run keeps it.
    fn result(&self, id: &str, result: &Raw) -> CallOutcome {
        if id.starts_with(AGENT) {
            return match result.get("_meta").and_then(|meta| meta.text(WAITS)) {
                Some(run) => CallOutcome::Waits(WaitFor::Run(run)),
                None => {
                    // What its run has spent stands in the result; what was spent without a run is known here.
                    let read = read(result);
                    let spent = read.spent.plus(self.take_spending());
                    CallOutcome::Result(CallResult { spent, seen: self.take_seen(id), ..read })
                }
            };
        }
        // What shows tools that are deferred reads the names that were found.
        if id == FIND && self.start.tools.iter().any(|tool| tool.deferred) {
            let text = result.get("structuredContent").map_or_else(String::new, |found| found.as_str().to_owned());
            return CallOutcome::Result(CallResult { text, ..CallResult::default() });
        }
        // What another server claims to have spent is nothing; what agents spent and read that it gave tasks to is known.
        CallOutcome::Result(CallResult { spent: self.take_spending(), seen: self.take_seen(id), ..read(result) })
    }

    /// What describes a tool does so for the tools of the run.
    fn may_describe(&self, meant: IntendedCall) -> Result<IntendedCall, Refusal> {
        let described = (meant.id == DESCRIBE).then(|| meant.arguments.text("name")).flatten();
        if let Some(name) = described.filter(|name| !name.is_empty()) {
            let view = self.invocation.view().map_err(|problem| refused(&problem))?;
            let tool = self.tool(&view, &name)?;
            if !self.searched().allows(&tool) {
                let why = format!("`{}` is not in the profile of the caller", tool.name);
                return Err(refusal(RefusalKind::Denied, why, Vec::new()));
            }
        }
        Ok(meant)
    }

    /// What is known before the gateway's rules are asked.
    async fn look(&self, name: &str, arguments: &str) -> Result<IntendedCall, Refusal> {
        let meant = self.meant(name, arguments)?;
        let is_menu =
            self.start.tools.iter().any(|tool| tool.name == name && tool.id == meant.id && !meant.id.contains('/'));
        if is_menu {
            return self.may_describe(meant);
        }
        let view = self.invocation.view().map_err(|problem| refused(&problem))?;
        let tool = self.tool(&view, &meant.id)?;
        if let Some(own) = &self.own {
            let own = own.view().map_err(|problem| refused(&problem))?;
            if own.tool_by_id(&tool.id).is_none() {
                let why = format!("`{}` is not in the profile of the caller", tool.name);
                return Err(refusal(RefusalKind::Denied, why, Vec::new()));
            }
        }
        let inner = meant.inner.map(|_| InnerTool { hints: tools::hints(&tool), agent: tools::is_agent(&tool) });
        let meant = IntendedCall { id: tool.id.to_string(), inner, ..meant };
        if tool.checks_arguments() {
            return Ok(meant);
        }
        let outcome = match tool.check_if_cheap().and_then(|check| check.at_once(&meant.arguments)) {
            Some(outcome) => outcome,
            None => {
                let (tool, arguments) = (Arc::clone(&tool), meant.arguments.clone());
                let checked = tokio::task::spawn_blocking(move || tool.check().check(&arguments)).await;
                checked.unwrap_or(CheckOutcome::Unchecked)
            }
        };
        match outcome {
            CheckOutcome::Faults(faults) => Err(refusal(RefusalKind::Invalid, faults, Vec::new())),
            CheckOutcome::Fits | CheckOutcome::Unchecked => Ok(meant),
        }
    }
}

#[async_trait]
impl CallTool for Bridge {
    async fn decide(&self, run: &str, call: &OpenCall) -> Decision {
        let context = match self.context(run).await {
            Ok(context) => context,
            Err(problem) => return Decision::Refused(refused(&problem)),
        };
        if let Err(problem) = self.check_own_rights(&context) {
            return Decision::Refused(refused(&problem));
        }
        match context.decide(&call.tool, &call.arguments, call.id).await {
            Ok((IntendedCall { inner: Some(inner), .. }, None)) => Decision::AllowedAs(inner),
            Ok((_, None)) => Decision::Allowed,
            Ok((_, Some(approval))) => Decision::Held(approval),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    async fn call(&self, run: &str, call: &Call) -> CallOutcome {
        let context = match self.context(run).await {
            Ok(context) => context,
            Err(problem) => return CallOutcome::Refused(refused(&problem)),
        };
        let meant = match context.look(&call.tool, &call.arguments).await {
            Ok(meant) => meant,
            Err(refusal) => return CallOutcome::Refused(refusal),
        };
        if meant.id == READER {
            return self.read_result(&context, &meant.arguments).await;
        }
        if let Err(problem) = self.check_own_rights(&context) {
            return CallOutcome::Refused(refused(&problem));
        }
        let of_caller = match context.may_as_caller(&meant, call.id).await {
            Ok(CallerConsent::NotNeeded) => None,
            Ok(CallerConsent::Given(approval)) => Some(approval),
            Ok(CallerConsent::Awaited(approval)) => return CallOutcome::Held(approval),
            Err(refusal) => return CallOutcome::Refused(refusal),
        };
        context.lend(call);
        let place = call.id.to_string();
        if let Some(refusal) = declined_login(call) {
            return CallOutcome::Refused(refusal);
        }
        // The caller's own yes is none in the profile of the agent.
        let approval = call.approval.as_deref().filter(|id| of_caller.as_deref() != Some(id));
        let text = |raw: &'_ Option<Arc<RawValue>>| raw.as_ref().map(|raw| raw.get().to_owned());
        let reply = call.reply.as_ref().map(|reply| (text(&reply.state), text(&reply.answers)));
        let reply = reply.as_ref();
        let reply = reply.map(|(state, answers)| CallReply { state: state.as_deref(), answers: answers.as_deref() });
        let place = CallPlace { name: &place, approval, reply };
        let mut invocation = context.seeing(&context.invocation);
        if meant.id == FIND {
            invocation.lineage.searched = Some(context.searched());
        }
        match invocation.make(&meant.id, meant.arguments, place).await {
            RunCallOutcome::Result { result, problem } => {
                // Its end is not known where the server may have done it.
                let is_lost = call.durable || call.reply.is_some();
                let lost = problem.filter(|problem| problem.hint.as_deref() == Some(MAY_HAVE_RUN) && is_lost);
                lost.map_or_else(|| context.result(&meant.id, &result), |lost| CallOutcome::Unknown(lost.message))
            }
            RunCallOutcome::Held(approval) => CallOutcome::Held(approval),
            RunCallOutcome::Refused(problem) => CallOutcome::Refused(refused(&problem)),
            RunCallOutcome::Unknown(problem) => CallOutcome::Unknown(problem.message),
            RunCallOutcome::Asks(question) => self.asks(&context, &meant.id, call, *question),
        }
    }
}

/// Why a call is not made whose person does not want to log in.
fn declined_login(call: &Call) -> Option<Refusal> {
    let answers = call.reply.as_ref()?.answers.as_ref()?;
    let answers: Value = serde_json::from_str(answers.get()).ok()?;
    let action = answers[LOGIN_QUESTION]["action"].as_str()?;
    let why = "the person did not log in at its server";
    (action != "accept").then(|| refusal(RefusalKind::Disapproved, why, Vec::new()))
}

impl Bridge {
    /// A call that asks a person: the run waits for the answer.
    fn asks(&self, context: &RunContext, id: &str, call: &Call, asked: CallQuestion) -> CallOutcome {
        let CallQuestion { asked, state, in_process, is_login } = asked;
        let raw = |raw: &Raw| RawValue::from_string(raw.as_str().to_owned()).map(Arc::<RawValue>::from).ok();
        let Some(questions) = raw(&asked) else {
            return CallOutcome::Unknown("what the server asks is not JSON".to_owned());
        };
        if is_login && context.start.runs_as.is_some() {
            let agent = &context.start.agent;
            let text = format!(
                "the server requires a login, and agent `{agent}`, which runs as itself, has none: an administrator sets \
                 shared credentials"
            );
            return CallOutcome::Result(CallResult { text, is_error: true, ..CallResult::default() });
        }
        let question = Box::new(Question { asked: questions, state: state.as_ref().and_then(raw), in_process });
        let principal = &context.invocation.caller.principal.id;
        let server = id.split_once('/').map(|(server, _)| server).and_then(|name| ServerName::new(name).ok());
        // The login arrives by itself only where there was none: one that is not enough is there already.
        let on = match server.filter(|server| is_login && !self.has_credential(principal, server)) {
            Some(server) => WaitFor::Login(server.to_string()),
            None => WaitFor::Person(call.id.to_string()),
        };
        CallOutcome::Asks(on, question)
    }

    /// Whether requests of a run's principal to a server carry a credential.
    pub(super) fn has_credential(&self, principal: &PrincipalId, server: &ServerName) -> bool {
        let Some(gateway) = self.gateway() else { return false };
        let Some(logins) = &gateway.path.logins else { return false };
        let principal = name_at_servers(principal);
        logins.credential(LoginPlace { server, principal }).is_some()
    }
}

/// Bytes of a result that one call of the reader gives.
const PIECE: usize = 12_000;

impl Bridge {
    /// More of a result that was too long to be shown whole, from the journal.
    async fn read_result(&self, context: &RunContext, arguments: &Raw) -> CallOutcome {
        let error = |text: String| CallOutcome::Result(CallResult { text, is_error: true, ..CallResult::default() });
        let value = arguments.to_value();
        let wanted = value["result"].as_str().and_then(CallId::parse);
        let Some(wanted) = wanted else { return error("`result` is a call, such as 3.1".to_owned()) };
        let entries = match keep::entries(&self.store, &context.start.run).await {
            Ok(entries) => entries,
            Err(problem) => return error(problem.message),
        };
        let text = entries.iter().rev().find_map(|entry| match &entry.event {
            Event::Result { call, result } if *call == wanted => Some(result.text.as_str()),
            _ => None,
        });
        let Some(text) = text else { return error(format!("call {wanted} has no result")) };
        let mut from = usize::try_from(value["offset"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX).min(text.len());
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        // A piece is not to be cut again.
        let most = usize::try_from(context.start.limits.result_bytes / 4 * 3).unwrap_or(PIECE).clamp(256, PIECE);
        let piece = prefix(&text[from..], most);
        let next = from + piece.len();
        let more = if next < text.len() {
            format!(
                "\n[bytes {from} to {next} of {}; go on with {{\"result\": \"{wanted}\", \"offset\": {next}}}]",
                text.len()
            )
        } else {
            String::new()
        };
        CallOutcome::Result(CallResult { text: format!("{piece}{more}"), ..CallResult::default() })
    }
}

/// Why the gateway refuses a call.
pub(super) fn refused(problem: &Problem) -> Refusal {
    let kind = match problem.kind {
        Kind::UnknownTool | Kind::NotFound => RefusalKind::UnknownTool,
        Kind::InvalidParams => RefusalKind::Invalid,
        _ => RefusalKind::Denied,
    };
    let why = match &problem.hint {
        Some(hint) => format!("{}. {hint}", problem.message),
        None => problem.message.clone(),
    };
    refusal(kind, why, Vec::new())
}

/// A result of `tools/call` as the model reads it: its texts, a word for each other block, and its structured content
/// where there is no text.
pub(super) fn read(result: &Raw) -> CallResult {
    let value = result.to_value();
    let blocks = value["content"].as_array().map_or(&[][..], Vec::as_slice);
    let mut texts: Vec<String> = blocks.iter().map(block).collect();
    if texts.is_empty()
        && let Some(structured) = value.get("structuredContent")
    {
        texts.push(structured.to_string());
    }
    let spent = &value["_meta"][SPENT];
    let count = |key: &str| spent[key].as_u64().unwrap_or(0);
    CallResult {
        text: texts.join("\n"),
        is_error: value["isError"] == true,
        spent: Cost { tokens: count("tokens"), money: count("money") },
        seen: Vec::new(),
    }
}

fn block(block: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = block["type"].as_str().unwrap_or("a block without a type");
    match kind {
        "text" => text(&block["text"]),
        "image" | "audio" => {
            let size = block["data"].as_str().unwrap_or_default().trim_end_matches('=').len() * 3 / 4;
            format!("[{kind} {}, {size} bytes]", text(&block["mimeType"]))
        }
        "resource" => match block["resource"]["text"].as_str() {
            Some(words) => format!("[resource {}]\n{words}", text(&block["resource"]["uri"])),
            None => format!("[resource {}, binary]", text(&block["resource"]["uri"])),
        },
        "resource_link" => format!("[link {} {}]", text(&block["uri"]), text(&block["name"])),
        other => format!("[{other}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_read_as_text_whatever_its_blocks_are() {
        let result = json!({
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
                {"type": "resource_link", "uri": "file:///b", "name": "b"},
                {"type": "hologram"},
            ],
            "isError": true,
        });
        let read = read(&Raw::from_value(&result));
        assert!(read.is_error);
        let expected = "one\n[image image/png, 3 bytes]\n[resource file:///a]\ntwo\n[link file:///b b]\n[hologram]";
        assert_eq!(read.text, expected);
        let structured = Raw::from_value(&json!({"content": [], "structuredContent": {"a": 1}}));
        assert_eq!(super::read(&structured).text, r#"{"a":1}"#);
    }

    #[test]
    fn what_a_sub_agent_spent_is_counted() {
        let result = json!({"content": [], "_meta": {SPENT: {"tokens": 7, "money": 9}}});
        assert_eq!(read(&Raw::from_value(&result)).spent, Cost { tokens: 7, money: 9 });
    }
}
