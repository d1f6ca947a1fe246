//! Statements of issuers about their users for an authorization server of ours (Identity Assertion Authorization Grant): a
//! client brings one to get tokens here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_auth::jose::SignedToken;

use crate::claims::{Claims, Source};
use crate::identities::Identities;
use crate::token::KnownToken;

/// The type of such statements.
const KIND: &str = "oauth-id-jag+jwt";

/// What a statement says.
#[derive(Debug, Clone)]
pub struct IssuerStatement {
    /// About whom, and for which client.
    pub known: Arc<KnownToken>,
    /// Its `jti`: it counts once.
    pub id: String,
    /// The resource that the client may ask for.
    pub resource: Option<String>,
    /// The scopes that it may ask for.
    pub scope: Option<String>,
}

/// A statement that is being checked; why it does not count otherwise.
pub type StatementCheck<'a> = Pin<Box<dyn Future<Output = Result<IssuerStatement, String>> + Send + 'a>>;

/// Checks statements of issuers.
pub trait CheckStatements: fmt::Debug + Send + Sync {
    /// What a statement says that is for this audience, our authorization server.
    fn check<'a>(&'a self, statement: &'a str, audience: &'a str) -> StatementCheck<'a>;
}

impl CheckStatements for Identities {
    fn check<'a>(&'a self, statement: &'a str, audience: &'a str) -> StatementCheck<'a> {
        Box::pin(async move {
            let token = SignedToken::parse(statement).map_err(|error| error.to_string())?;
            if !token.header("typ").is_some_and(|kind| kind.eq_ignore_ascii_case(KIND)) {
                return Err("it is of another type".to_owned());
            }
            if ["jwk", "jku", "x5u"].iter().any(|name| token.has_header(name)) {
                return Err("it brings its own key".to_owned());
            }
            let text = |name: &str| token.claims().get(name).and_then(Value::as_str).map(str::to_owned);
            let issuer = self.issuers.iter().find(|issuer| text("iss").as_ref() == Some(&issuer.settings.issuer));
            let issuer = issuer.ok_or("its issuer is not accepted")?;
            let claims = Claims::read(token.claims(), &issuer.settings, Source::Token, self.clock.now())?;
            // For us alone: otherwise another server could present it here.
            if !matches!(&claims.audiences[..], [one] if **one == *audience) {
                return Err("it is for another server".to_owned());
            }
            if claims.bound_to.is_some() {
                return Err("it is bound to a key".to_owned());
            }
            let client = text("client_id").ok_or("it is for no client")?;
            // A client that speaks for itself needs no statement about a person.
            if text("sub").as_ref().is_none_or(|user| *user == client) || !claims.is_about_user() {
                return Err("it is about no user".to_owned());
            }
            let id = text("jti").filter(|id| !id.is_empty()).ok_or("it has no `jti`")?;
            issuer.keys.verify(&token, &self.scope).await.map_err(|refusal| refusal.to_string())?;
            Ok(IssuerStatement { known: Arc::new(claims.known), id, resource: text("resource"), scope: text("scope") })
        })
    }
}
