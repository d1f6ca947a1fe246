//! Operations on our own authorization server: what the owner approves, and what was granted; and the runs that its tokens
//! may be bound to. They are there only where the settings switch the server on.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_authorization::{ApprovalDescription, ApprovalGrant, AuthorizationServer, SessionDescription};
use toolcrib_base::{Kind, Problem, ProfileName, Role, ServerName};
use toolcrib_call::{Invocation, Source};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_flow::workflow::GrantRuns;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::arguments::{text, texts};
use toolcrib_view::{Effect, Method, ObjectKind, Offer, Operation, ToolSource, VisibleNames};

/// The operations.
#[derive(Debug)]
pub(super) struct AuthorizationOperations {
    server: AuthorizationServer,
    name: ServerName,
}

/// Lets clients of the settings have tokens that are bound to a run.
#[derive(Debug)]
pub(super) struct RunTokens(pub(super) AuthorizationServer);

impl GrantRuns for RunTokens {
    fn begin(&self, run: &str, caller: &Caller) -> Box<dyn fmt::Debug + Send + Sync> {
        Box::new(self.0.begin_run(run, &caller.principal.id, &caller.profile))
    }
}

const ROW: Operation = Operation { tag: "authorization", ..Operation::OF_SOURCE };
const CODE: &str = r#"{"type":"object","properties":{"code":{"type":"string","minLength":8,"maxLength":32,
    "description":"The code that the page shows, such as `ABCD-EFGH`"}},"required":["code"],
    "additionalProperties":false}"#;
const REQUEST: &str = r#"{"type":"object","properties":{"clientName":{"type":"string"},"client":{"type":"string"},
    "redirect":{"type":"string"},"resource":{"type":"string"},"profile":{"type":"string"},"address":{"type":"string"},
    "expiresAt":{"type":"string"}},"required":["clientName","client","redirect","resource","address","expiresAt"]}"#;

const ROWS: &[Operation] = &[
    Operation {
        tool: "core_authorization_show",
        method: Method::Post,
        path: "/authorization/show",
        summary: "Show what a code approves",
        description: "Show which client waits for the approval of a code, and what it asks for.",
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Busy],
        input: CODE,
        output: REQUEST,
        ..ROW
    },
    Operation {
        tool: "core_authorization_approve",
        method: Method::Post,
        path: "/authorization/approve",
        summary: "Approve a client",
        description: "Approve the client that shows this code: it may use the profile that it asks for, or `profiles`, as \
                      a `member` or with `role`.",
        effect: Effect::Changes { idempotent: false },
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Busy, Kind::Forbidden, Kind::InvalidParams],
        input: r#"{"type":"object","properties":{"code":{"type":"string","minLength":8,"maxLength":32,
            "description":"The code that the page shows, such as `ABCD-EFGH`"},"role":{"enum":["viewer","member",
            "operator","admin","owner"],"description":"What the client may do; `member` without"},
            "profiles":{"type":"array","items":{"type":"string","minLength":1},"maxItems":64,
            "description":"The profiles that it may use; the one that it asks for without"}},"required":["code"],
            "additionalProperties":false}"#,
        output: REQUEST,
        ..ROW
    },
    Operation {
        tool: "core_authorization_deny",
        method: Method::Post,
        path: "/authorization/deny",
        summary: "Refuse a client",
        description: "Refuse the client that shows this code.",
        effect: Effect::Changes { idempotent: false },
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Busy],
        input: CODE,
        output: REQUEST,
        ..ROW
    },
    Operation {
        tool: "core_authorization_sessions",
        path: "/authorization/sessions",
        summary: "List sessions of clients",
        description: "List the clients that hold tokens of the built-in authorization server, and in whose name.",
        output: r#"{"type":"object","properties":{"sessions":{"type":"array","items":{"type":"object",
            "properties":{"session":{"type":"string"},"principal":{"type":"string"},"client":{"type":"string"},
            "clientName":{"type":"string"},"resource":{"type":"string"},"begunAt":{"type":"string"},
            "usedAt":{"type":"string"},"expiresAt":{"type":"string"}},"required":["session","principal","client",
            "clientName","resource","begunAt","usedAt","expiresAt"]}}},"required":["sessions"]}"#,
        ..ROW
    },
    Operation {
        tool: "core_authorization_revoke",
        method: Method::Delete,
        path: "/authorization/sessions/{session}",
        summary: "End a session of a client",
        description: "End a session of a client: none of its tokens counts any more, and its open streams end.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound],
        input: r#"{"type":"object","properties":{"session":{"type":"string","minLength":1,"maxLength":64,
            "description":"The session, as the list names it"}},"required":["session"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"session":{"type":"string"}},"required":["session"]}"#,
        ..ROW
    },
    Operation {
        tool: "core_authorization_rotate_key",
        method: Method::Post,
        path: "/authorization/key/rotate",
        summary: "Rotate the signing key",
        description: "Sign access tokens with the next key from now on. Tokens of the key before count until they end.",
        effect: Effect::Changes { idempotent: false },
        problems: &[Kind::Conflict],
        output: r#"{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}"#,
        ..ROW
    },
];

// === impl AuthorizationOperations ===

impl AuthorizationOperations {
    pub(super) fn new(server: AuthorizationServer) -> Self {
        Self { server, name: ServerName::new("authorization").expect("a name of small letters") }
    }
}

impl ToolSource for AuthorizationOperations {
    fn name(&self) -> &ServerName {
        &self.name
    }

    fn tools(&self) -> Arc<[Offer]> {
        Arc::default()
    }

    fn shows(&self, _: &dyn VisibleNames, _: ObjectKind, _: &str) -> bool {
        false
    }

    fn explain(&self, _: &dyn VisibleNames, _: &str) -> Option<Problem> {
        None
    }
}

impl Source for AuthorizationOperations {
    fn apply(&self, _: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        Vec::new()
    }

    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>> {
        let problem = Problem::new(Kind::UnknownTool, format!("there is no tool `{}`", invocation.tool));
        std::future::ready(Err(problem)).boxed()
    }

    fn operations(&self) -> &'static [Operation] {
        ROWS
    }

    fn operate(
        &self,
        operation: &'static Operation,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Value, Problem>> {
        let server = self.server.clone();
        async move {
            let arguments = &invocation.arguments;
            let code = || Ok::<_, Problem>(text(arguments, "code")?.unwrap_or_default());
            match operation.tool {
                "core_authorization_show" => server.describe(&code()?).await.map(|request| shown(&request)),
                "core_authorization_approve" => {
                    let grant = grant(&invocation)?;
                    server.approve(&code()?, grant).await.map(|request| shown(&request))
                }
                "core_authorization_deny" => server.deny(&code()?).await.map(|request| shown(&request)),
                "core_authorization_sessions" => {
                    let sessions = server.sessions().await?;
                    Ok(json!({ "sessions": sessions.iter().map(session).collect::<Vec<_>>() }))
                }
                "core_authorization_revoke" => {
                    let id = text(arguments, "session")?.unwrap_or_default();
                    match server.end_session(&id).await? {
                        true => Ok(json!({ "session": id })),
                        false => Err(Problem::new(Kind::NotFound, format!("there is no session `{id}`"))
                            .hint("list them with `toolcrib auth sessions`")),
                    }
                }
                "core_authorization_rotate_key" => Ok(json!({ "key": server.rotate_key().await? })),
                other => Err(Problem::new(Kind::Internal, format!("unknown operation `{other}`"))),
            }
        }
        .boxed()
    }
}

/// What the caller grants: never more than it has itself.
fn grant(invocation: &Invocation) -> Result<ApprovalGrant, Problem> {
    let role = text(&invocation.arguments, "role")?;
    let wrong = || Problem::new(Kind::InvalidParams, "`role` names no role");
    let role: Option<Role> = role.map(|role| role.parse().map_err(|_| wrong())).transpose()?;
    let own = invocation.caller.principal.role;
    if role.is_some_and(|role| role > own) {
        return Err(Problem::new(Kind::Forbidden, format!("the role is higher than your own, `{own}`"))
            .hint(format!("approve it with `--role {own}`, or without")));
    }
    let names = texts(&invocation.arguments, "profiles").unwrap_or_default();
    let profiles = names.iter().map(|name| ProfileName::new(name)).collect::<Result<_, _>>();
    let profiles = profiles.map_err(|error| Problem::new(Kind::InvalidParams, format!("`profiles`: {error}")))?;
    Ok(ApprovalGrant { role, profiles })
}

fn shown(request: &ApprovalDescription) -> Value {
    let mut value = json!({
        "clientName": request.client_name, "client": request.client, "redirect": request.redirect,
        "resource": request.resource, "address": request.address, "expiresAt": request.expires_at.to_string(),
    });
    if let Some(profile) = &request.profile {
        value["profile"] = profile.as_str().into();
    }
    value
}

fn session(session: &SessionDescription) -> Value {
    json!({
        "session": session.id, "principal": session.principal.as_str(), "client": session.client,
        "clientName": session.client_name, "resource": session.resource, "begunAt": session.begun_at.to_string(),
        "usedAt": session.used_at.to_string(), "expiresAt": session.expires_at.to_string(),
    })
}
