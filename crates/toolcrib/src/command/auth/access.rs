//! As whom we come to the gateway, with which token or login, whether it is accepted, and what that permits.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_login::{LoginState, LoginStatus};

use crate::client::{Client, ClientFlags, Rest};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{field, moment, shown};

/// What the gateway lets us do.
#[derive(Debug)]
pub(super) struct Access {
    status: &'static str,
    /// Whether we may administer.
    pub(super) administers: bool,
    version: Option<String>,
    /// Who the gateway says that we are; `null` at one of an earlier version.
    caller: Value,
    /// The login that this home has at the gateway, where it is what we come with.
    login: Option<LoginStatus>,
}

// === impl Access ===

impl Access {
    /// Asks the gateway who we are; nothing is changed.
    pub(super) async fn find(flags: &ClientFlags, rest: &Rest, environment: &Environment) -> anyhow::Result<Self> {
        let shown = rest.get(&rest.in_profile("/status")).await;
        let shown = shown.ok().map(|answer| answer.to_value()).unwrap_or_default();
        let caller = shown["caller"].clone();
        let (status, administers) = match caller["role"].as_str() {
            Some(role) => {
                let administers = matches!(role, "admin" | "owner");
                let has_credential = rest.located().has_credential();
                if !has_credential && !administers {
                    // Whether tools may be used without a token only a session tells.
                    Client::open(flags, environment).await?.close().await;
                }
                let status = match (has_credential, administers) {
                    (true, _) => "authenticated",
                    (false, true) => "open",
                    (false, false) => "not authenticated",
                };
                (status, administers)
            }
            None => Self::tried(flags, rest, environment).await?,
        };
        let version = shown["version"].as_str().map(str::to_owned);
        // A renewal that the question needed is done.
        let login = rest.login_status().await?;
        Ok(Self { status, administers, version, caller, login })
    }

    /// The same of a gateway that does not say who we are: asks for what only admins may read.
    async fn tried(
        flags: &ClientFlags,
        rest: &Rest,
        environment: &Environment,
    ) -> anyhow::Result<(&'static str, bool)> {
        match rest.ask(Method::GET, "/config", None).await {
            Ok(_) if rest.located().has_credential() => Ok(("authenticated", true)),
            Ok(_) => Ok(("open", true)),
            Err(Problem { kind: Kind::Unauthenticated | Kind::Forbidden, .. }) if rest.located().has_login => {
                Client::open(flags, environment).await?.close().await;
                Ok(("authenticated", false))
            }
            Err(Problem { kind: Kind::Unauthenticated, .. }) if rest.located().token.is_none() => {
                Client::open(flags, environment).await?.close().await;
                Ok(("not authenticated", false))
            }
            Err(problem) => Err(problem.into()),
        }
    }

    /// All of it, for programs.
    pub(super) fn value(&self, rest: &Rest) -> Value {
        let located = rest.located();
        let mut value = json!({
            "endpoint": located.uri.to_string(), "status": self.status, "identity": self.who(rest),
            "administers": self.administers, "token": located.token_place, "version": self.version,
            "principal": self.caller["principal"], "role": self.caller["role"], "issuer": self.issuer(),
        });
        if let Some(LoginState::LoggedIn { expires_at, is_renewed }) = self.login.as_ref().map(|login| &login.state) {
            value["expiresAt"] = json!(expires_at.map(|at| at.to_string()));
            value["renewed"] = (*is_renewed).into();
        }
        value
    }

    /// How commands reach the gateway.
    pub(super) fn text(&self, rest: &Rest) -> String {
        let located = rest.located();
        let (expires, session) = self.lasts();
        lines(&[
            ("Endpoint:", format!("{} (from {})", located.uri, located.place)),
            ("Status:", self.status.to_owned()),
            ("Identity:", self.who(rest)),
            ("Token:", self.token(rest)),
            ("Expires:", expires),
            ("Session:", session),
            ("Issuer:", self.issuer().unwrap_or_default()),
            ("May:", self.may().to_owned()),
        ])
    }

    /// As whom commands act.
    pub(super) fn identity(&self, rest: &Rest) -> String {
        lines(&[
            ("Identity:", self.who(rest)),
            ("Endpoint:", rest.located().uri.to_string()),
            ("Issuer:", self.issuer().unwrap_or_default()),
            ("Expires:", self.lasts().0),
            ("May:", self.may().to_owned()),
        ])
    }

    /// What to do for more.
    pub(super) fn note(&self, rest: &Rest, output: Output) {
        if !self.administers && !rest.located().has_credential() {
            let why = rest.located().no_token.clone().map(|why| format!(" ({why})")).unwrap_or_default();
            output.note(&format!("to administer, give the token with `--token-file FILE` or `TOOLCRIB_TOKEN`{why}"));
        }
    }

    fn who(&self, rest: &Rest) -> String {
        // `local` and `admin` are words of records.
        let named = self.caller["principal"].as_str().filter(|principal| principal.contains(':'));
        if let Some(principal) = named {
            return format!("{} ({})", crate::text::line(principal), field(&self.caller, "role"));
        }
        let words = match (self.administers, &rest.located().token) {
            _ if rest.located().has_login => "whoever logged in to the gateway",
            (true, Some(_)) => "the holder of the gateway's token",
            (true, None) => "anybody",
            (false, _) => "a client of this machine without a token",
        };
        words.to_owned()
    }

    /// The provider of the login; else what the gateway calls the issuer of the token.
    fn issuer(&self) -> Option<String> {
        let own = self.login.as_ref().and_then(|login| login.issuer.clone());
        own.or_else(|| self.caller["issuer"].as_str().map(str::to_owned))
    }

    /// When the login expires, and whether it is renewed.
    fn lasts(&self) -> (String, String) {
        let Some(LoginState::LoggedIn { expires_at, is_renewed }) = self.login.as_ref().map(|login| &login.state)
        else {
            return (String::new(), String::new());
        };
        let at = json!({ "at": expires_at.map(|at| at.to_string()) });
        let session = if *is_renewed { "renewed automatically" } else { "not renewed" };
        (moment(&at, "at"), session.to_owned())
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

/// Those that have a value.
fn lines(lines: &[(&str, String)]) -> String {
    let known = lines.iter().filter(|(_, value)| !value.is_empty());
    known.map(|(label, value)| format!("{label:<10} {}\n", crate::text::line(value))).collect()
}
