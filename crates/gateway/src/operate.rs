//! Operations by another door than MCP. What concerns the whole gateway is decided by who asks alone: no profile, and no
//! bad file of one, can lock the administrator out.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_call::admission::{record_denied, record_halted};
use toolcrib_call::{AdmittedCall, AuditedRequest, ProfileSnapshot, ReplyChannel, RequestContext};
use toolcrib_policy::{ClassRules, LabelTable, Policies, Rules, Settings, Subject};
use toolcrib_protocol::ask;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Id, Raw, Request, method};
use toolcrib_session::{Caller, Principal, RequestSpan};
use toolcrib_view::{Effect, Operation, resolve};
use tracing::Instrument;

use crate::gateway::Gateway;
use crate::operation::{self, OperationContext};
use crate::request::outcome_of;

/// What an operation is asked with.
#[derive(Debug)]
pub struct OperationRound<'a> {
    /// Its arguments.
    pub arguments: Raw,
    /// The `inputResponses` and the `requestState` of a call that asked before; `{}` for one that begins.
    pub answered: &'a Raw,
    /// The way back for what a call says before its answer.
    pub reply: ReplyChannel,
}

impl Gateway {
    /// Does an operation: decides, does it, records it. Its answer is a JSON object; of a call the tool's own result.
    /// `snapshot` is that of the caller's profile, where there is one.
    ///
    /// # Errors
    /// The arguments do not fit, the rules say no, or the operation came to nothing.
    pub async fn operate(
        self: &Arc<Self>,
        operation: &'static Operation,
        snapshot: Option<&ProfileSnapshot>,
        caller: &Caller,
        arguments: Raw,
    ) -> Result<Raw, Problem> {
        let first = Raw::empty_object();
        let round = OperationRound { arguments, answered: &first, reply: ReplyChannel::default() };
        self.operate_round(operation, snapshot, caller, round).await
    }

    /// The same for a call whose caller can be asked, as its `meta` or its session declares: the answer to a modern one may
    /// be an `input_required` result, and the call goes on with the same arguments and the answers; or a task, where it
    /// declares those. Dropping the future takes a call back, also at the server.
    ///
    /// # Errors
    /// What [`Self::operate`] answers; answers that do not belong to this call.
    pub async fn operate_round(
        self: &Arc<Self>,
        operation: &'static Operation,
        snapshot: Option<&ProfileSnapshot>,
        caller: &Caller,
        round: OperationRound<'_>,
    ) -> Result<Raw, Problem> {
        let Some(span) = RequestSpan::begin_operation(caller, operation.tool) else {
            return self.run_operation(operation, snapshot, caller, round).await;
        };
        // Boxed, as a request of MCP is.
        let traced = async {
            let caller = span.caller(caller);
            let done = self.run_operation(operation, snapshot, &caller, round).instrument(span.span()).await;
            span.end_operation(done.as_ref().map_or_else(|problem| Err(problem.kind), Ok));
            done
        };
        Box::pin(traced).await
    }

    async fn run_operation(
        self: &Arc<Self>,
        operation: &'static Operation,
        snapshot: Option<&ProfileSnapshot>,
        caller: &Caller,
        round: OperationRound<'_>,
    ) -> Result<Raw, Problem> {
        let OperationRound { arguments, answered, reply } = round;
        let seen = snapshot.map(|snapshot| snapshot.seen_by(&caller.principal, caller.door));
        let snapshot = seen.as_ref();
        if let Err(refused) = self.ui.check(operation, caller) {
            let rules = self.gateway_rules(caller);
            record_denied(self.path.audit(&rules, caller), refused_operation(operation), "ui-mode").await;
            return Err(refused);
        }
        self.look_for_canary(operation, caller, &arguments).await?;
        let needed = || snapshot.ok_or_else(|| self.path.views.no_profile(&caller.profile));
        if operation.is_call() {
            // The same check is made where the name is resolved; here it keeps its kind and its hint.
            operation.check(&arguments)?;
            return self.call_for(operation, needed()?, caller, OperationRound { arguments, answered, reply }).await;
        }
        let rules = if operation.is_in_profile() { needed()?.rules().clone() } else { self.gateway_rules(caller) };
        let audit = self.path.audit(&rules, caller);
        let asked = AuditedRequest {
            method: method::TOOLS_CALL,
            target: operation.tool.into(),
            arguments: operation.recorded(Some(&arguments)).map(|arguments| &arguments.bytes()[..]),
            stored: None,
            request_id: String::new(),
        };
        let admitted = AdmittedCall::open(audit, &operation.act(), asked).await.map_err(|refusal| refusal.problem())?;
        let context = OperationContext { snapshot, caller, depth: 0, reply: Some(&reply) };
        let done = operation::run(operation, self, context, &arguments).await;
        name_subject(&admitted, operation, &done);
        admitted.end(outcome_of(&done));
        done.map(|value| Raw::from_value(&value))
    }

    /// Does an operation that only reads for a page that stays open: it was asked for and recorded before, and is looked at
    /// again when something changed. The same rules decide, each time; the log is not filled with it.
    ///
    /// # Errors
    /// What [`Self::operate`] answers; an operation that does not only read is refused.
    pub async fn read_again(
        self: &Arc<Self>,
        operation: &'static Operation,
        snapshot: Option<&ProfileSnapshot>,
        caller: &Caller,
        arguments: &Raw,
    ) -> Result<Raw, Problem> {
        if operation.effect != Effect::Reads || operation.is_call() {
            let message = format!("`{}` does not only read", operation.tool);
            return Err(Problem::new(Kind::InvalidRequest, message));
        }
        self.ui.check(operation, caller)?;
        let seen = snapshot.map(|snapshot| snapshot.seen_by(&caller.principal, caller.door));
        let snapshot = seen.as_ref();
        let needed = || snapshot.ok_or_else(|| self.path.views.no_profile(&caller.profile));
        let rules = if operation.is_in_profile() { needed()?.rules().clone() } else { self.gateway_rules(caller) };
        self.path.audit(&rules, caller).check(&operation.act(), arguments)?;
        let context = OperationContext { snapshot, caller, depth: 0, reply: None };
        let done = operation::run(operation, self, context, arguments).await;
        done.map(|value| Raw::from_value(&value))
    }

    /// Halts who sends a canary. Administrators put canaries out, in definitions and in the vault; what they call tools
    /// with is looked at like that of anyone.
    async fn look_for_canary(&self, operation: &Operation, caller: &Caller, arguments: &Raw) -> Result<(), Problem> {
        if caller.principal.is_admin() && !operation.is_call() {
            return Ok(());
        }
        let Some(found) = self.path.look_for_canary(caller, arguments, "an operation").await? else { return Ok(()) };
        let rules = self.gateway_rules(caller);
        let asked = refused_operation(operation);
        record_halted(self.path.audit(&rules, caller), asked, &found.halt, Some(&found.id)).await;
        Err(found.halt.problem())
    }

    /// The call that an operation stands for, by the path that every call takes.
    async fn call_for(
        self: &Arc<Self>,
        operation: &'static Operation,
        snapshot: &ProfileSnapshot,
        caller: &Caller,
        round: OperationRound<'_>,
    ) -> Result<Raw, Problem> {
        let OperationRound { arguments, answered, reply } = round;
        let params = serde_json::json!({ "name": operation.tool });
        let params = Raw::from_value(&params).edit(&[("arguments", Edit::Set(arguments.as_str()))]);
        let params = ask::carried(answered, &params);
        let request = Request { id: Id::from_number(0), method: method::TOOLS_CALL.to_owned(), params };
        let snapshot = &self.path.awaited_snapshot(snapshot, caller, &request).await?;
        let Request { id, params, .. } = request;
        let bad_server = |error: toolcrib_protocol::RpcError| Problem::new(Kind::BadServer, error.message);
        let context = RequestContext::new(&self.path, snapshot, caller, &id).map_err(bad_server)?;
        let context = RequestContext { reply, ..context };
        let target = match resolve::call(snapshot.view(), operation.tool, arguments) {
            Ok(target) => target,
            Err(unresolved) => {
                let asked = context.audited(method::TOOLS_CALL, &unresolved.name, Some(&params));
                context.record_unknown(asked).await;
                return Err(unresolved.problem);
            }
        };
        let answer = self.call_resolved(context, target, &params).await.map_err(bad_server)?;
        // What the gateway itself says of the call is a problem; what the tool says is its result.
        match answer.problem {
            Some(problem) if operation.problems.contains(&problem.kind) => Err(*problem),
            _ => Ok(answer.result),
        }
    }
}

/// What is recorded of an operation that is refused before its arguments count.
fn refused_operation(operation: &Operation) -> AuditedRequest<'static> {
    AuditedRequest {
        method: method::TOOLS_CALL,
        target: operation.tool.into(),
        arguments: None,
        stored: None,
        request_id: String::new(),
    }
}

/// The event of an operation on a halt or a canary names it.
pub(crate) fn name_subject(admitted: &AdmittedCall, operation: &Operation, done: &Result<Value, Problem>) {
    let id = || done.as_ref().ok().and_then(|value| value["id"].as_str()).map(Arc::from);
    let (is_of_halt, is_of_canary) =
        (operation.tool.starts_with("core_halt_"), operation.tool.starts_with("core_canary_"));
    match if is_of_halt || is_of_canary { id() } else { None } {
        Some(id) if is_of_canary => admitted.names_canary(&id),
        Some(id) => admitted.names_halt(&id),
        None => {}
    }
}

impl Gateway {
    /// The rules where no profile has a say.
    fn gateway_rules(&self, caller: &Caller) -> Rules {
        self.labelled_rules(caller, LabelTable::default())
    }

    /// The same for what servers have, which have these labels.
    pub(crate) fn labelled_rules(&self, caller: &Caller, labels: LabelTable) -> Rules {
        let rules = Rules::new(Settings {
            profile: caller.profile.clone(),
            servers: Vec::new(),
            registry: Vec::new(),
            allow: Vec::<Glob>::new(),
            deny: Vec::new(),
            read_only: false,
            held: Arc::default(),
        });
        let class = |policies: Policies| policies.class(&subject(caller));
        let class = self.policies.policies().map(class);
        rules.with_policies(class.map(|class| ClassRules { class, labels: Arc::new(labels) }))
    }
}

/// A caller, as policies see it.
fn subject(caller: &Caller) -> Subject<'_> {
    let Principal { id, role, identity } = &caller.principal;
    Subject { principal: id, role: *role, identity, profile: &caller.profile, door: caller.door.as_str() }
}
