//! `scooter_ai_route`: a wish in words becomes one call. Tools are searched, a model chooses one of them and its
//! arguments, and the call takes the path of every call. Without a model, or where it fails before it has chosen, a tool
//! is called only where nothing can go wrong: the search is sure of it, it only reads, and it needs no arguments, which
//! no search could make. Else the answer is a list of what fits.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::{CallAnswer, CallResult, Invocation};
use toolcrib_policy::Act;
use toolcrib_protocol::{Raw, RpcError, ask, method};
use toolcrib_search::{Confidence, Detail, Hit, Query, Ranker};
use toolcrib_view::dialect::MetaName;
use toolcrib_view::resolve::Target;
use toolcrib_view::{Tool, arguments, reply};

use super::RequestHandler;
use super::call::outcome_of;
use crate::gateway::Gateway;
use crate::routing::{RouteRequest, RoutedCall, RoutedIntent, what_it_gave};
use crate::search::SearchRequest;

/// How many tools a model chooses among.
const CANDIDATES: usize = 8;
/// Agents choose tools themselves, and are no candidates.
const AGENTS: &str = "agent";

impl RequestHandler<'_> {
    /// A wish in words.
    pub(super) async fn call_route(&mut self, meta: &'static MetaName, given: &Raw, params: &Raw) -> CallResult {
        let context = &self.context;
        let act = Act::MetaTool { name: meta.name.into() };
        let admitted = context.admit(&act, context.audited(method::TOOLS_CALL, meta.name, Some(given))).await;
        let admitted = admitted.map_err(|refusal| RpcError::from(&refusal.problem()))?;
        let done = Box::pin(self.routed(meta, given, params)).await;
        match &done {
            Ok(Ok(_)) => admitted.end(outcome_of::<()>(&Ok(()))),
            Ok(Err(problem)) => admitted.end(outcome_of::<()>(&Err(problem.clone()))),
            Err(_) => admitted.end(outcome_of::<()>(&Err(Problem::new(Kind::BadServer, "")))),
        }
        Ok(match done? {
            Ok(answer) => answer,
            Err(problem) => CallAnswer::failed(problem),
        })
    }

    async fn routed(
        &mut self,
        meta: &'static MetaName,
        given: &Raw,
        params: &Raw,
    ) -> Result<Result<CallAnswer, Problem>, RpcError> {
        let intent = match arguments::check(meta, given).and_then(|()| arguments::required(given, "intent")) {
            Ok(intent) => intent,
            Err(problem) => return Ok(Err(problem)),
        };
        let candidates = self.candidates(&intent).await;
        let message = "no tool fits; say in English which action on which object of which service is needed";
        if candidates.is_empty() {
            return Ok(Ok(CallAnswer::own(reply::data(&no_match(&intent, message, &[])))));
        }
        let outcome = match self.gateway.router.get() {
            None => Ok(RoutedIntent::Undecided { why: "there are no models here".to_owned() }),
            Some(router) => {
                let candidates = candidates.iter().map(|(_, tool)| tool.id.clone()).collect();
                let invocation = self.invocation();
                router.route(RouteRequest { invocation, intent: intent.clone(), candidates }).await
            }
        };
        let value = match outcome {
            Err(problem) => return Ok(Err(problem)),
            Ok(RoutedIntent::Called(call)) => return Ok(Ok(CallAnswer::own(called(&intent, &call)))),
            Ok(RoutedIntent::NoMatch { message }) => no_match(&intent, &message, &candidates),
            Ok(RoutedIntent::Waiting { run, message }) => {
                json!({"status": "waiting", "intent": intent, "run": run, "message": message})
            }
            Ok(RoutedIntent::Undecided { why }) => match certain(&intent, &candidates) {
                Some(tool) => return self.by_search(&intent, Arc::clone(tool), params).await.map(Ok),
                None => {
                    let message = format!("no model has chosen a tool: {why}. Call the one that fits yourself");
                    no_match(&intent, &message, &candidates)
                }
            },
        };
        Ok(Ok(CallAnswer::own(reply::data(&value))))
    }

    /// The tools that fit best, and that can be called.
    async fn candidates(&self, intent: &str) -> Vec<(Hit, Arc<Tool>)> {
        let view = self.context.view();
        let asked = SearchRequest::of(self.gateway, view, intent).await;
        let hits = view.search.search(&Query { limit: CANDIDATES * 4, fold: false, ..asked.query() }).hits;
        let found = hits.into_iter().filter_map(|hit| Some((view.tool_by_id(&hit.id).cloned()?, hit)));
        let found = found.filter(|(tool, _)| tool.id.server.as_str() != AGENTS);
        found.map(|(tool, hit)| (hit, tool)).take(CANDIDATES).collect()
    }

    fn invocation(&self) -> Invocation {
        let context = &self.context;
        Invocation {
            depth: context.depth,
            reply: context.reply.clone(),
            lineage: context.lineage.clone(),
            ..Invocation::new(Arc::<Gateway>::clone(self.gateway), context.caller.clone())
        }
    }

    /// The call of the tool that the search is sure of.
    async fn by_search(&mut self, intent: &str, tool: Arc<Tool>, params: &Raw) -> CallResult {
        let name = tool.name.to_string();
        let target = Target::Tool { tool, arguments: Raw::empty_object(), by: None };
        let asked = ask::carried(params, &Raw::from_value(&json!({"name": name, "arguments": {}})));
        let answer = Box::pin(self.call_target(target, &asked)).await?;
        if ask::is_input_required(&answer.result) {
            return Ok(answer);
        }
        Ok(answer.map(|result| {
            let is_error = result.get("isError").is_some_and(|flag| flag.as_str() == "true");
            let (provider, model) = (String::new(), String::new());
            let result = what_it_gave(&result.to_value());
            called(intent, &RoutedCall { tool: name, result, is_error, provider, model, is_fallback: true })
        }))
    }
}

/// The tool that may be called without a model, if there is one.
fn certain<'t>(intent: &str, candidates: &'t [(Hit, Arc<Tool>)]) -> Option<&'t Arc<Tool>> {
    let (hit, tool) = candidates.first()?;
    let words = [tool.id.server.as_str(), &*tool.id.tool, tool.description()];
    let is_sure = Confidence::of(intent, &words, hit.near) == Confidence::High;
    let schema = tool.entry.input_schema().map(|schema| schema.to_value()).unwrap_or_default();
    let needs_nothing = schema["required"].as_array().is_none_or(Vec::is_empty);
    (is_sure && needs_nothing && tool.annotations.read_only == Some(true)).then_some(tool)
}

fn called(intent: &str, call: &RoutedCall) -> Raw {
    let status = if call.is_error { "error" } else { "success" };
    let answer = reply::data(&json!({
        "status": status, "routed_to": call.tool, "intent": intent, "ai_provider": call.provider,
        "ai_model": call.model, "is_fallback": call.is_fallback, "result": call.result,
    }));
    match call.is_error {
        true => answer.edit(&[("isError", toolcrib_protocol::raw::Edit::Set("true"))]),
        false => answer,
    }
}

fn no_match(intent: &str, message: &str, candidates: &[(Hit, Arc<Tool>)]) -> Value {
    let tools = candidates.iter().map(|(_, tool)| {
        let parameters = tool.signature().render(Detail::OptionalNames);
        json!({"name": &*tool.name, "description": tool.description(), "parameters": parameters})
    });
    json!({"status": "no_match", "intent": intent, "message": message, "tools": tools.collect::<Vec<_>>()})
}
