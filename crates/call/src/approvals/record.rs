//! What is sealed of a call that waits, and of how it ended: all that is needed to run it without the request that asked,
//! also after a restart.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolcrib_base::{CallChain, Identity, Kind, PrincipalId, Problem, Proof, Role, Timestamp};
use toolcrib_catalog::ArgumentTemplate;
use toolcrib_policy::{Demand, Moment};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Raw, Revision, RpcError};
use toolcrib_session::{Caller, Principal};
use toolcrib_store::{CallApproval, Door};
use toolcrib_view::view::{Home, Tool};

use super::{Approvals, blocking};
use crate::answer::CallAnswer;
use crate::source::Invocation;

/// The doors by which calls come. A record of any other is read as one of MCP.
const DOORS: [Door; 5] = [Door::MCP, Door::REST, Door::CLI, Door::UI, Invocation::DOOR];

/// A call that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HeldCall {
    /// The parameters of the request without what belongs to that request alone.
    pub(crate) params: String,
    /// The arguments as they were sent.
    pub(crate) arguments: String,
    /// The same without secrets, for people.
    pub(crate) shown: String,
    pub(crate) demand: HeldDemand,
    pub(crate) caller: HeldCaller,
    /// The id of the request, for records.
    pub(crate) request: String,
    pub(crate) depth: u8,
    /// Whether the run that asked makes the call itself after the yes. Earlier versions knew no such calls.
    #[serde(default)]
    pub(crate) is_left_to_run: bool,
    #[serde(default)]
    pub(crate) summary: CallSummary,
}

/// What a call is about, in the words of its tool's definition: each in one line of bounded length in which everything is
/// visible. It is beside the whole arguments, never in their place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSummary {
    /// What the call changes.
    pub target_type: Option<String>,
    /// Which one.
    pub target_label: Option<String>,
    /// What the call does.
    pub action_summary: Option<String>,
}

impl CallSummary {
    /// What the definition of a tool says of a call with these arguments, which have no secrets any more.
    pub(crate) fn of(tool: &Tool, shown: &Raw) -> Self {
        let Home::Server { definition, .. } = &tool.home else { return Self::default() };
        let governed = definition.connector.as_ref().and_then(|offer| offer.tools.get(&*tool.id.tool));
        let Some(governed) = governed else { return Self::default() };
        let arguments = shown.to_value();
        let rendered = |template: &Option<ArgumentTemplate>| template.as_ref().map(|it| it.render(&arguments));
        Self {
            target_type: governed.target_type.clone(),
            target_label: rendered(&governed.target_label),
            action_summary: rendered(&governed.approval_summary),
        }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What was asked for, in the form of the record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HeldDemand {
    needs_approval: bool,
    by: Vec<String>,
    groups: Vec<String>,
    expires: Option<u64>,
    remember: Option<u64>,
    revision: String,
}

/// Who called, in the form of the record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HeldCaller {
    principal: String,
    role: String,
    proof: String,
    issuer: Option<String>,
    tenant: Option<String>,
    groups: Vec<String>,
    client: Option<String>,
    session: Option<String>,
    /// The name of the session of a legacy client. Calls that an earlier version wrote down have none.
    #[serde(default)]
    mcp_session: Option<String>,
    user: Option<String>,
    actors: Vec<String>,
    bridge: Option<String>,
    workflow: Option<String>,
    run: Option<String>,
    /// What the run had seen.
    labels: Vec<String>,
    is_in_run: bool,
    door: String,
    revision: String,
    /// The hash of the key of the profile by which it came, if one did.
    pub(crate) key: Option<String>,
}

/// How a call ended, for its caller.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndedCall {
    result: Option<String>,
    form: String,
    error: Option<String>,
}

/// What people see of a call that waits.
#[derive(Debug, Clone)]
pub struct ShownCall {
    /// What was asked for.
    pub demand: Demand,
    /// The arguments without secrets, with everything visible that a screen does not show.
    pub arguments: String,
    /// What the call is about.
    pub summary: CallSummary,
    /// Who called.
    pub principal: Principal,
    /// By which door.
    pub door: Door,
    /// The program that called, and who acts in whose name; and the run.
    pub chain: String,
    /// The arguments as they will be sent, for policies alone.
    original: String,
    bridge: Option<String>,
    led_by: Option<Arc<CallChain>>,
}

// === impl ShownCall ===

impl ShownCall {
    /// What policies look at who decide about approvers.
    pub fn moment(&self, at: Timestamp) -> Moment<'_> {
        Moment {
            arguments: Some(self.original.as_bytes()),
            actor: self.principal.identity.actors.first().map(|actor| &**actor),
            bridge: self.bridge.as_deref(),
            chain: self.led_by.as_deref(),
            ..Moment::at(at)
        }
    }
}

// === impl HeldDemand ===

impl From<&Demand> for HeldDemand {
    fn from(demand: &Demand) -> Self {
        let seconds = |time: Duration| time.as_secs();
        Self {
            needs_approval: demand.needs_approval,
            by: demand.by.iter().map(ToString::to_string).collect(),
            groups: demand.groups.clone(),
            expires: demand.expires.map(seconds),
            remember: demand.remember.map(seconds),
            revision: demand.revision.to_string(),
        }
    }
}

impl HeldDemand {
    pub(crate) fn demand(&self) -> Demand {
        Demand {
            needs_approval: self.needs_approval,
            by: self.by.iter().map(|by| by.as_str().into()).collect(),
            groups: self.groups.clone(),
            expires: self.expires.map(Duration::from_secs),
            remember: self.remember.map(Duration::from_secs),
            revision: self.revision.as_str().into(),
        }
    }
}

// === impl HeldCaller ===

impl HeldCaller {
    pub(crate) fn new(caller: &Caller, key: Option<String>) -> Self {
        let Principal { id, role, identity } = &caller.principal;
        let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let chain = caller.chain.as_deref();
        Self {
            principal: id.as_str().to_owned(),
            role: role.as_str().to_owned(),
            proof: identity.proof.as_str().to_owned(),
            issuer: owned(&identity.issuer),
            tenant: owned(&identity.tenant),
            groups: identity.groups.iter().map(ToString::to_string).collect(),
            client: owned(&identity.client),
            session: owned(&identity.session),
            mcp_session: caller.session.as_ref().map(|session| session.name().to_string()),
            user: identity.user.as_ref().map(|user| user.as_str().to_owned()),
            actors: identity.actors.iter().map(ToString::to_string).collect(),
            bridge: caller.trace.bridge.as_deref().map(str::to_owned),
            workflow: chain.and_then(|chain| owned(&chain.workflow)),
            run: chain.and_then(|chain| owned(&chain.run)),
            labels: chain.iter().flat_map(|chain| &chain.labels).map(ToString::to_string).collect(),
            is_in_run: chain.is_some(),
            door: caller.door.as_str().to_owned(),
            revision: caller.revision.as_str().to_owned(),
            key,
        }
    }

    /// Who called, as it was proven then.
    pub(crate) fn principal(&self) -> Principal {
        let boxed = |text: &Option<String>| text.as_deref().map(Into::into);
        let mut identity = Identity::by(Proof::named(&self.proof).unwrap_or(Proof::Record));
        identity.issuer = boxed(&self.issuer);
        identity.tenant = boxed(&self.tenant);
        identity.groups = self.groups.iter().map(|group| group.as_str().into()).collect();
        identity.client = boxed(&self.client);
        identity.session = boxed(&self.session);
        identity.user = self.user.as_deref().map(PrincipalId::new);
        identity.actors = self.actors.iter().map(|actor| actor.as_str().into()).collect();
        // A role that no version of this program wrote is the least one.
        let role = self.role.parse().unwrap_or(Role::Viewer);
        Principal { id: PrincipalId::new(&self.principal), role, identity: Arc::new(identity) }
    }

    /// The name of the session of a legacy client by which it came.
    pub(crate) fn mcp_session(&self) -> Option<&str> {
        self.mcp_session.as_deref()
    }

    /// The run that made it.
    pub(crate) fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// The bridge by which it came.
    pub(crate) fn bridge(&self) -> Option<Arc<str>> {
        self.bridge.as_deref().map(Into::into)
    }

    /// What led to the call.
    pub(crate) fn chain(&self) -> Option<Arc<CallChain>> {
        let boxed = |text: &Option<String>| text.as_deref().map(Into::into);
        let labels = self.labels.iter().map(|label| label.as_str().into()).collect();
        let chain = || CallChain { workflow: boxed(&self.workflow), run: boxed(&self.run), labels };
        self.is_in_run.then(chain).map(Arc::new)
    }

    pub(crate) fn door(&self) -> Door {
        DOORS.into_iter().find(|door| door.as_str() == self.door).unwrap_or(Door::MCP)
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision::parse(&self.revision).unwrap_or(Revision::LATEST_LEGACY)
    }
}

// === impl HeldCall ===

impl HeldCall {
    pub(crate) fn arguments(&self) -> Option<Raw> {
        read(&self.arguments)
    }

    pub(crate) fn params(&self) -> Option<Raw> {
        read(&self.params)
    }
}

fn read(text: &str) -> Option<Raw> {
    Raw::parse(text.to_owned().into(), Rules::relayed(usize::MAX)).ok()
}

// === impl EndedCall ===

impl EndedCall {
    pub(crate) fn new(ended: &Result<CallAnswer, RpcError>) -> Self {
        match ended {
            Ok(answer) => Self {
                result: Some(answer.marked().as_str().to_owned()),
                form: answer.form.as_str().to_owned(),
                error: None,
            },
            Err(error) => {
                let form = Revision::LATEST_LEGACY.as_str().to_owned();
                Self { result: None, form, error: Some(error.to_raw().as_str().to_owned()) }
            }
        }
    }

    /// The same as the run's own answer.
    pub(crate) fn answer(&self) -> Result<CallAnswer, RpcError> {
        let lost = || RpcError::from(&Problem::new(Kind::Internal, "the result of the call cannot be read"));
        if let Some(error) = &self.error {
            let error = read(error).ok_or_else(lost)?;
            let code = error.get("code").and_then(|code| code.as_str().parse().ok()).ok_or_else(lost)?;
            let message = error.text("message").unwrap_or_default();
            return Err(RpcError { data: error.get("data"), ..RpcError::new(code, message) });
        }
        let form = Revision::parse(&self.form).ok_or_else(lost)?;
        let result = self.result.as_deref().and_then(read).ok_or_else(lost)?;
        Ok(CallAnswer::of_tool(result, form))
    }

    /// The same for people who look at the approval.
    pub(crate) fn shown(&self) -> serde_json::Value {
        let value = |text: &Option<String>| text.as_deref().and_then(read).map(|raw| raw.to_value());
        match value(&self.result) {
            Some(result) => json!({ "result": result }),
            None => json!({ "error": value(&self.error) }),
        }
    }
}

// === impl Approvals ===

impl Approvals {
    /// The call of an approval, opened.
    pub(crate) async fn held(&self, approval: &CallApproval) -> Result<HeldCall, Problem> {
        let (sealing, sealed, id) = (Arc::clone(&self.sealing), approval.sealed.clone(), approval.id.clone());
        blocking(move || {
            let text = sealing.open(&sealed, &call_row(&id)).map_err(|problem| unreadable(&id, &problem))?;
            serde_json::from_slice(&text)
                .map_err(|error| unreadable(&id, &Problem::new(Kind::Internal, error.to_string())))
        })
        .await
    }

    /// How the call of an approval ended; `None` while it has not, or where the result is not kept any more.
    pub(crate) async fn ended(&self, approval: &CallApproval) -> Result<Option<EndedCall>, Problem> {
        let Some(sealed) = approval.result.clone() else { return Ok(None) };
        let (sealing, id) = (Arc::clone(&self.sealing), approval.id.clone());
        blocking(move || {
            let text = sealing.open(&sealed, &result_row(&id)).map_err(|problem| unreadable(&id, &problem))?;
            let read = serde_json::from_slice(&text);
            read.map(Some).map_err(|error| unreadable(&id, &Problem::new(Kind::Internal, error.to_string())))
        })
        .await
    }

    /// What people see of the call of an approval.
    ///
    /// # Errors
    /// It was sealed with another key.
    pub async fn shown(&self, approval: &CallApproval) -> Result<ShownCall, Problem> {
        let held = self.held(approval).await?;
        Ok(ShownCall {
            demand: held.demand.demand(),
            arguments: super::without_invisible(&held.shown),
            summary: held.summary.clone(),
            principal: held.caller.principal(),
            door: held.caller.door(),
            chain: shown_chain(&held.caller.principal().identity, &approval.call.chain),
            bridge: held.caller.bridge.clone(),
            led_by: held.caller.chain(),
            original: held.arguments,
        })
    }

    /// What came of the call of an approval, for people.
    ///
    /// # Errors
    /// It was sealed with another key.
    pub async fn shown_end(&self, approval: &CallApproval) -> Result<Option<serde_json::Value>, Problem> {
        Ok(self.ended(approval).await?.map(|ended| ended.shown()))
    }
}

/// In one line: by which program, for whom, and in which run. A run alone is part of what makes a call the same one.
fn shown_chain(identity: &Identity, chain: &str) -> String {
    let program = program(identity);
    let parts = [program.as_str(), chain];
    let is_same = parts[0] == parts[1] || parts[0].is_empty();
    if is_same || chain.is_empty() { chain.to_owned() } else { parts.join(", ") }
}

/// By which program a call comes, and who acts in its principal's name, as far as that was proven. It has no backtick,
/// by which runs are named.
pub(crate) fn program(identity: &Identity) -> String {
    let parts: Vec<&str> = identity.client.iter().chain(&identity.actors).map(|part| &**part).collect();
    parts.join(" < ").replace('`', "'")
}

/// How the chain of each call of a run begins. No other begins like this: a run's name has no backtick either.
pub(crate) fn run_chain(run: &str) -> String {
    format!("run `{}`", run.replace('`', "'"))
}

/// What a sealed call is bound to.
pub(crate) fn call_row(id: &str) -> [&str; 2] {
    ["call_approval", id]
}

/// What a sealed result is bound to.
pub(crate) fn result_row(id: &str) -> [&str; 2] {
    ["call_approval_result", id]
}

fn unreadable(id: &str, problem: &Problem) -> Problem {
    Problem::new(Kind::Unavailable, format!("approval `{id}` cannot be read: {}", problem.message))
        .hint("restore the key of the vault, or make the call again")
}
