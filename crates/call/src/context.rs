//! The context of one request: its caller, the snapshot that decides about it, and the channels back to its client.
//! Everything that is done for the request is a method of it, in the files that `lib.rs` lists as steps of the path.

use std::borrow::Cow;
use std::sync::Arc;

use toolcrib_policy::Act;
use toolcrib_protocol::{Era, Id, Raw, RpcError, json, method, task};
use toolcrib_session::{Caller, RunningRequest};
use toolcrib_upstream::Server;
use toolcrib_view::view::View;

use crate::admission::{self, AdmittedCall, AuditContext, AuditedRequest, Refusal};
use crate::client::{self, ClientOptions};
use crate::consent::{Consent, GivenConsent};
use crate::login::LoginPlace;
use crate::path::CallPath;
use crate::reply::ReplyChannel;
use crate::secret_guard::{GuardRules, GuardSources};
use crate::snapshot::ProfileSnapshot;
use crate::source::{CallLineage, CallPlace};
use crate::talk_guard::TalkGuard;

/// One request on its way.
#[derive(Debug)]
pub struct RequestContext<'a> {
    /// What all requests share.
    pub path: &'a Arc<CallPath>,
    /// What decides about it.
    pub snapshot: &'a ProfileSnapshot,
    /// Who asks.
    pub caller: &'a Caller,
    /// Its id, as the client gave it.
    pub id: &'a Id,
    /// By which a legacy client cancels it.
    pub running: Option<&'a RunningRequest>,
    /// The way back to the client before the answer.
    pub reply: ReplyChannel,
    /// What of the client decides how servers are called for it.
    pub client: ClientOptions,
    /// How deep it is nested in invocations; 0 for what a client asks.
    pub depth: u8,
    /// The yes that it runs with, where the rules want one.
    pub consent: Option<Consent>,
    /// For a call of a run that does not wait for a yes: which one it is.
    pub place: Option<CallPlace<'a>>,
    /// What it is a part of.
    pub lineage: CallLineage,
}

impl<'a> RequestContext<'a> {
    /// A request of a client, or of something that asks in the client's name.
    ///
    /// # Errors
    /// A log level that does not exist.
    pub fn new(
        path: &'a Arc<CallPath>,
        snapshot: &'a ProfileSnapshot,
        caller: &'a Caller,
        id: &'a Id,
    ) -> Result<Self, RpcError> {
        let client = ClientOptions::read(caller)?;
        let (reply, lineage) = (ReplyChannel::default(), CallLineage::default());
        let (running, consent, place) = (None, None, None);
        Ok(Self { path, snapshot, caller, id, running, reply, client, depth: 0, consent, place, lineage })
    }

    /// What the caller's profile shows.
    pub fn view(&self) -> &'a View {
        self.snapshot.view()
    }

    /// Decides about something, and takes its place in the audit log.
    ///
    /// # Errors
    /// The rules say no, or the gateway is ending.
    pub async fn admit(&self, act: &Act, asked: AuditedRequest<'_>) -> Result<AdmittedCall, Refusal> {
        let credential = act.server().and_then(|server| {
            let at = LoginPlace { server, principal: client::principal_at_servers(self.caller) };
            self.path.logins.as_ref()?.credential(at)
        });
        let given = match &self.consent {
            Some(consent) => GivenConsent::Yes(consent),
            // Only the beginning of a call needs a yes: what is asked of its task comes after that.
            None if asked.method != method::TOOLS_CALL => GivenConsent::Begun,
            None => GivenConsent::Nothing,
        };
        AdmittedCall::open(AuditContext { credential, given, ..self.audit() }, act, asked).await
    }

    /// Decides about something that is not done now. Only a refusal is recorded: what is let through is recorded when it
    /// is done.
    ///
    /// # Errors
    /// The rules say no, or the gateway is ending.
    pub async fn would_admit(&self, act: &Act, asked: AuditedRequest<'_>) -> Result<(), Refusal> {
        self.admit(act, asked).await.map(AdmittedCall::discard)
    }

    /// Whether what a server asks in its course comes back as its result: to a modern client, which makes the call again
    /// with the answers, and to a run, which waits for a person.
    pub(crate) fn takes_questions(&self) -> bool {
        self.place.is_some() || self.caller.revision.era() == Era::Modern
    }

    /// The run that it is a call of.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.caller.chain.as_deref()?.run.as_deref()
    }

    /// Records that something unknown was asked for.
    pub async fn record_unknown(&self, asked: AuditedRequest<'_>) {
        admission::record_unknown(self.audit(), asked).await;
    }

    fn audit(&self) -> AuditContext<'_> {
        self.path.audit(self.snapshot.rules(), self.caller)
    }

    /// What the audit log records of this request.
    pub fn audited<'b>(&self, method: &'b str, target: &str, arguments: Option<&'b Raw>) -> AuditedRequest<'b> {
        AuditedRequest {
            method,
            target: target.into(),
            arguments: arguments.map(|arguments| &arguments.bytes()[..]),
            stored: None,
            request_id: self.id.as_str().to_owned(),
        }
    }

    /// What guards do with secrets in what is sent to a server, or to a source where there is none.
    pub(crate) fn argument_rules(&self, server: Option<&Server>, tool: Option<&str>) -> GuardRules {
        self.with_guards(server, tool, |sources| self.path.secrets.of_arguments(sources))
    }

    /// What guards do with secrets in what a server answers.
    pub(crate) fn result_rules(&self, server: &Server, tool: Option<&str>) -> GuardRules {
        self.with_guards(Some(server), tool, |sources| self.path.secrets.of_results(sources))
    }

    /// What guards do with what a server and its client say to each other in the course of a call, or outside of any.
    pub(crate) fn talk_guard(&self, server: &Server, tool: Option<&str>) -> TalkGuard {
        TalkGuard::new(&self.path.secrets, &self.result_rules(server, tool), &self.argument_rules(Some(server), tool))
    }

    fn with_guards<T>(
        &self,
        server: Option<&Server>,
        tool: Option<&str>,
        read: impl FnOnce(GuardSources<'_>) -> T,
    ) -> T {
        let definition = server.and_then(|server| self.path.servers.definition(&server.config().name));
        let of_server = definition.as_ref().map(|definition| &definition.guards);
        read(GuardSources { profile: &self.snapshot.profile().guards, server: of_server, tool })
    }

    /// The request's id as a text.
    pub(crate) fn label(&self) -> String {
        json::text(self.id.as_str()).map_or_else(|| self.id.as_str().to_owned(), Cow::into_owned)
    }

    /// Whether a server is spoken to in the modern era for this caller. A session with a server is what only the legacy
    /// era knows, no matter who takes part in it.
    pub(crate) fn speaks_modern(&self, server: &Server) -> bool {
        let era = if self.client.conversation.is_some() { Era::Legacy } else { self.caller.revision.era() };
        server.era_for(era) == Some(Era::Modern)
    }

    /// Whether the client has declared, on this request, that it knows tasks.
    pub fn declares_tasks(&self) -> bool {
        let declared = &self.client.capabilities;
        self.caller.revision.era() == Era::Modern && declared.has_extension(task::EXTENSION) && {
            let extensions = declared.extensions.clone().unwrap_or_default();
            let extensions = Raw::parse(extensions.into(), json::Rules::relayed(64)).ok();
            extensions.and_then(|all| all.get(task::EXTENSION)).is_some_and(|settings| settings.is_object())
        }
    }

    /// The name that a user reads before a question, where more than one server could be asking.
    pub(crate) fn asks_for(&self, server: &Server) -> Option<String> {
        let servers = &self.view().servers;
        (servers.len() > 1).then(|| {
            let name = &server.config().name;
            let definition = servers.iter().find(|(definition, _)| definition.name == *name);
            let title = definition.and_then(|(definition, _)| definition.title.clone());
            title.unwrap_or_else(|| name.to_string())
        })
    }
}
