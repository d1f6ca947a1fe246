//! With which token we come to the gateway, whether it is accepted, and what that permits.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};

use crate::client::{Client, ClientFlags, Rest};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{field, shown};

/// What the gateway lets us do.
#[derive(Debug)]
pub(super) struct Access {
    status: &'static str,
    /// Whether we may administer.
    pub(super) administers: bool,
    version: Option<String>,
}

// === impl Access ===

impl Access {
    /// Asks the gateway for what only admins may read; nothing is changed.
    pub(super) async fn find(flags: &ClientFlags, rest: &Rest, environment: &Environment) -> anyhow::Result<Self> {
        let asked = rest.ask(Method::GET, "/config", None).await;
        let (status, administers) = match asked {
            Ok(_) if rest.located().has_credential() => ("authenticated", true),
            Ok(_) => ("open", true),
            Err(Problem { kind: Kind::Unauthenticated | Kind::Forbidden, .. }) if rest.located().has_login => {
                Client::open(flags, environment).await?.close().await;
                ("authenticated", false)
            }
            Err(Problem { kind: Kind::Unauthenticated, .. }) if rest.located().token.is_none() => {
                // Whether tools may be used without a token only a session tells.
                Client::open(flags, environment).await?.close().await;
                ("not authenticated", false)
            }
            Err(problem) => return Err(problem.into()),
        };
        let version = rest.get("/status").await.ok().map(|answer| field(&answer.to_value(), "version"));
        Ok(Self { status, administers, version })
    }

    /// All of it, for programs.
    pub(super) fn value(&self, rest: &Rest) -> Value {
        let located = rest.located();
        json!({
            "endpoint": located.uri.to_string(), "status": self.status, "identity": self.who(rest),
            "administers": self.administers, "token": located.token_place, "version": self.version,
        })
    }

    /// How commands reach the gateway.
    pub(super) fn text(&self, rest: &Rest) -> String {
        let located = rest.located();
        lines(&[
            ("Endpoint:", format!("{} (from {})", located.uri, located.place)),
            ("Status:", self.status.to_owned()),
            ("Token:", self.token(rest)),
            ("May:", self.may().to_owned()),
        ])
    }

    /// As whom commands act.
    pub(super) fn identity(&self, rest: &Rest) -> String {
        lines(&[
            ("Identity:", self.who(rest).to_owned()),
            ("Endpoint:", rest.located().uri.to_string()),
            ("May:", self.may().to_owned()),
        ])
    }

    /// What to do for more.
    pub(super) fn note(&self, rest: &Rest, output: Output) {
        if !self.administers && !rest.located().has_login {
            let why = rest.located().no_token.clone().map(|why| format!(" ({why})")).unwrap_or_default();
            output.note(&format!("to administer, give the token with `--token-file FILE` or `TOOLCRIB_TOKEN`{why}"));
        }
    }

    fn who(&self, rest: &Rest) -> &'static str {
        match (self.administers, &rest.located().token) {
            _ if rest.located().has_login => "whoever logged in to the gateway",
            (true, Some(_)) => "the holder of the gateway's token",
            (true, None) => "anybody",
            (false, _) => "a client of this machine without a token",
        }
    }

    fn token(&self, rest: &Rest) -> String {
        let located = rest.located();
        let none = if located.has_login { "of the login at the gateway" } else { "none" };
        located.token_place.as_ref().map_or(none.to_owned(), |place| shown(&json!(place)))
    }

    fn may(&self) -> &'static str {
        if self.administers { "use tools and administer" } else { "use tools" }
    }
}

fn lines(lines: &[(&str, String)]) -> String {
    lines.iter().map(|(label, value)| format!("{label:<10} {value}\n")).collect()
}
