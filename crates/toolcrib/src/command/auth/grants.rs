//! What the gateway's own authorization server grants: approve a client by its code, list and end what was granted, rotate
//! the key that signs.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, Role};
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest, encoded};
use crate::command::login::flow::confirms_client;
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(super) struct Approve {
    /// The code that the page in the browser shows, such as ABCD-EFGH
    code: String,
    /// What the client may do
    #[arg(long, value_name = "ROLE", conflicts_with = "deny")]
    role: Option<Role>,
    /// A profile that it may use, in place of the one that it asks for; may be repeated
    #[arg(long = "allow", value_name = "PROFILE", conflicts_with = "deny")]
    profiles: Vec<ProfileName>,
    /// Refuse the client
    #[arg(long)]
    deny: bool,
    /// Skip the confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// The session, as `toolcrib auth sessions` lists it
    session: String,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct Key {
    #[command(subcommand)]
    action: KeyAction,
}

#[derive(Debug, clap::Subcommand)]
enum KeyAction {
    /// Sign with the next key from now on; tokens of the key before count until they end
    Rotate(KeyArguments),
}

#[derive(Debug, clap::Args)]
struct KeyArguments {
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("SESSION", |session| field(session, "session")),
    Column::new("CLIENT", |session| field(session, "clientName")),
    Column::new("PRINCIPAL", |session| field(session, "principal")),
    Column::new("USED", |session| moment(session, "usedAt")),
    Column::new("ENDS", |session| moment(session, "expiresAt")),
    Column::wide("RESOURCE", |session| field(session, "resource")),
    Column::wide("CLIENT ID", |session| field(session, "client")),
];

// === impl Key ===

impl Key {
    pub(super) fn client(&self) -> &ClientFlags {
        let KeyAction::Rotate(KeyArguments { client }) = &self.action;
        client
    }
}

/// Shows what the code is for, asks, and approves it.
pub(super) async fn approve(arguments: &Approve, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let code = json!({ "code": arguments.code });
    let request = post(rest, "/authorization/show", &code).await?.to_value();
    if !arguments.yes && !arguments.deny {
        let role = arguments.role.unwrap_or(Role::Member);
        let profiles = match &arguments.profiles[..] {
            [] => field(&request, "profile"),
            named => named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let lines = [
            ("Client:", field(&request, "clientName")),
            ("Id:", field(&request, "client")),
            ("Answer to:", field(&request, "redirect")),
            ("Asked from:", field(&request, "address")),
            ("Profiles:", profiles),
            ("Role:", role.to_string()),
        ];
        let text = lines.iter().filter(|(_, value)| !value.is_empty());
        let text: String = text.map(|(label, value)| format!("{label:<11} {}\n", crate::text::line(value))).collect();
        output.note(text.trim_end());
        if !confirms_client().await? {
            output.note("nothing was changed");
            return Ok(());
        }
    }
    let (path, body) = match arguments.deny {
        true => ("/authorization/deny", code),
        false => {
            let mut body = code;
            if let Some(role) = arguments.role {
                body["role"] = role.as_str().into();
            }
            if !arguments.profiles.is_empty() {
                body["profiles"] = arguments.profiles.iter().map(ProfileName::as_str).collect();
            }
            ("/authorization/approve", body)
        }
    };
    let answer = post(rest, path, &body).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let done = if arguments.deny { "Refused" } else { "Approved" };
    Ok(output.text(&format!("{done} {}", crate::text::line(&field(&answer.to_value(), "clientName"))))?)
}

/// Lists what was granted.
pub(super) async fn sessions(rest: &Rest, output: Output) -> anyhow::Result<()> {
    let answer = rest.get("/authorization/sessions").await.map_err(explained)?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let sessions = answer.to_value()["sessions"].as_array().cloned().unwrap_or_default();
    Ok(output.rows("sessions", COLUMNS, &sessions)?)
}

/// Ends what was granted.
pub(super) async fn revoke(session: &Revoke, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let path = format!("/authorization/sessions/{}", encoded(&session.session));
    let answer = rest.ask(Method::DELETE, &path, None).await.map_err(explained)?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    Ok(output.text("Ended the session: none of its tokens counts any more")?)
}

/// Rotates the key that signs.
pub(super) async fn rotate(rest: &Rest, output: Output) -> anyhow::Result<()> {
    let answer = rest.ask(Method::POST, "/authorization/key/rotate", None).await.map_err(explained)?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    Ok(output.text(&format!("Tokens are signed with key {} from now on", field(&answer.to_value(), "key")))?)
}

async fn post(rest: &Rest, path: &str, body: &Value) -> anyhow::Result<Raw> {
    Ok(rest.ask(Method::POST, path, Some(&Raw::from_value(body))).await.map_err(explained)?)
}

/// A gateway without the server has none of the routes.
fn explained(problem: Problem) -> Problem {
    if problem.kind == Kind::NotFound && problem.message.contains("no operation has this route") {
        return Problem::new(Kind::Unavailable, "the gateway has no authorization server of its own")
            .hint("switch it on with `[identity.server]` in `config.toml`: see docs/guides/authorization-server.md");
    }
    problem
}
