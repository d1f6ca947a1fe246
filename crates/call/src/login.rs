//! Logins at servers, as calls and operations need them. The composition root supplies them; nothing here knows OAuth.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolcrib_base::{Kind, Problem, Secret, ServerName, Timestamp};
use toolcrib_protocol::ask::{self, INPUT_RESPONSES};
use toolcrib_protocol::error::URL_REQUIRED;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, RpcError};
use toolcrib_upstream::CallError;

use crate::client;
use crate::context::RequestContext;
use crate::dispatch::CallOutcome;

/// Under which key a modern client, and the person of a run, is asked to open the page of a login.
pub const LOGIN_QUESTION: &str = "toolcrib-login";

/// Logs principals in to servers.
pub trait Logins: fmt::Debug + Send + Sync {
    /// Begins a login, without any request yet where it only makes a link.
    fn begin<'a>(&'a self, request: LoginRequest<'a>) -> BoxFuture<'a, Result<LoginStep, Problem>>;

    /// Takes the answer of an authorization server that somebody pasted.
    fn complete<'a>(&'a self, answer: &'a str, browser: &'a Secret) -> BoxFuture<'a, Result<LoginStep, Problem>>;

    /// Renews a credential now.
    fn renew<'a>(&'a self, at: LoginPlace<'a>) -> BoxFuture<'a, Result<(), Problem>>;

    /// Revokes and forgets a credential; whether there was one.
    fn end<'a>(&'a self, at: LoginPlace<'a>) -> BoxFuture<'a, Result<bool, Problem>>;

    /// Whose credential a request of a principal carries now and how it was got, as a word for the audit log; `None` where
    /// it carries none but what the definition says.
    fn credential(&self, at: LoginPlace<'_>) -> Option<&'static str> {
        let _ = at;
        None
    }

    /// Who is logged in at which server, the first thousand by server.
    fn holders(&self) -> BoxFuture<'_, Result<Vec<LoginHolder>, Problem>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The logins of a principal at all servers that may want one; `None` is the owner.
    fn status<'a>(&'a self, principal: Option<&'a str>) -> BoxFuture<'a, Result<Vec<LoginStatus>, Problem>>;
}

/// At which server, and in whose name.
#[derive(Debug, Clone, Copy)]
pub struct LoginPlace<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// In whose name; `None` is the owner of this installation.
    pub principal: Option<&'a str>,
}

/// A login that is to be begun.
#[derive(Debug, Clone, Copy)]
pub struct LoginRequest<'a> {
    /// Where.
    pub at: LoginPlace<'a>,
    /// Whether a link that waits already is good enough.
    pub joins: bool,
    /// The secret of the program that stands in for a browser and pastes the answer itself.
    pub browser: Option<&'a Secret>,
    /// Values for headers of the server that each principal has of its own.
    pub values: &'a [UserValue],
}

/// A value that a principal has of its own: what `user:NAME` in a header is for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserValue {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: Secret,
}

/// What comes next in a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStep {
    /// Somebody opens this address.
    Open(String),
    /// The principal gives the values of these names: the server has headers that take them.
    Values(Vec<String>),
    /// Nothing: this server can be called.
    Done(ServerName),
}

/// A principal's login at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStatus {
    /// The server.
    pub server: ServerName,
    /// How it stands.
    pub state: LoginState,
    /// The authorization server, where it is known.
    pub issuer: Option<String>,
    /// The scopes that were granted.
    pub scopes: Vec<String>,
    /// How it comes about without a person; `None` where one logs in.
    pub sign_on: Option<SignOn>,
    /// How the last login failed, if it did and no other one was begun since.
    pub failure: Option<LoginFailure>,
    /// What to do if the provider's page, which was opened and has brought no answer, shows an error.
    pub advice: Option<String>,
    /// Whose login it is where someone is logged in: a principal, or `owner` for this installation.
    pub held_by: Option<String>,
}

/// Someone who is logged in at a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoginHolder {
    /// The server.
    pub server: ServerName,
    /// A principal, or `owner` for this installation.
    pub held_by: String,
}

/// A login without a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignOn {
    /// Whose credential it is and how it was got, as a word: `forwarded`, `exchanged` …
    pub method: &'static str,
    /// Whether an attempt runs.
    pub is_pending: bool,
    /// Whether the last attempt failed.
    pub has_failed: bool,
    /// What is worth knowing besides, as a fragment.
    pub note: Option<String>,
}

/// How a login failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFailure {
    /// What happened, as a fragment.
    pub reason: String,
    /// Whether the provider said no.
    pub is_refusal: bool,
}

/// How a login stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// There is none.
    LoggedOut,
    /// Requests carry a token.
    LoggedIn {
        /// When it ends; `None` where nobody knows.
        expires_at: Option<Timestamp>,
        /// Whether it is renewed without a person.
        is_renewed: bool,
    },
    /// There was one that is of no use any more: why, as a fragment.
    Lapsed(String),
}

impl RequestContext<'_> {
    /// What a client reads whose call failed because its principal must log in first. The call has not run.
    ///
    /// A client that opens pages for people is asked to open ours, in the way of its revision; any other reads the link.
    pub(crate) async fn offer_login(&self, failed: CallOutcome) -> CallOutcome {
        let CallOutcome::Failed(error) = &failed else { return failed };
        let (Some(server), Some(logins)) = (error.needs_login(), &self.path.logins) else { return failed };
        let principal = client::principal_at_servers(self.caller);
        let request = LoginRequest { at: LoginPlace { server, principal }, joins: true, browser: None, values: &[] };
        let url = match logins.begin(request).await {
            Ok(LoginStep::Open(url)) => url,
            // Someone has just logged in; or it wants values, which no page asks for: the error says the command.
            Ok(LoginStep::Done(_) | LoginStep::Values(_)) => return failed,
            Err(problem) => return CallOutcome::Unanswered(why_not(error, &problem)),
        };
        let message = format!("Server `{server}` requires a login. Open the page, log in, then make the call again.");
        if !self.client.capabilities.url {
            let hint = format!(
                "Open {url} to log in (the tool `core_auth_login` and the command `toolcrib login {server}` give a new \
                 link), then make the call again: it has not run."
            );
            return CallOutcome::Unanswered(Problem::new(error.kind(), error.to_string()).hint(hint));
        }
        let page =
            json!({ "mode": "url", "elicitationId": toolcrib_base::random::hex_128(), "url": url, "message": message });
        let data = Raw::from_value(&json!({ "elicitations": [page] }));
        let error = RpcError { data: Some(data), ..RpcError::new(URL_REQUIRED, message) };
        if self.place.is_none() && self.caller.revision.has_url_error() {
            return CallOutcome::Answered(Err(error));
        }
        self.pages_required(&error, |_| LOGIN_QUESTION.to_owned())
    }
}

/// Why no login could be begun, to a caller whose call needs one.
fn why_not(error: &CallError, problem: &Problem) -> Problem {
    if problem.kind == Kind::Unauthenticated {
        // No person can log in there: what is said of the sign-on is all.
        return problem.clone();
    }
    let message = format!("{error}, and it cannot be begun: {}", problem.message);
    let hinted = Problem::new(Kind::Unavailable, message);
    match &problem.hint {
        Some(hint) => hinted.hint(hint.clone()),
        None => hinted,
    }
}

/// The parameters of a call without the answer to our own question: it is not for the server.
pub(crate) fn without_own_answer(params: Raw) -> Raw {
    if !params.may_have(INPUT_RESPONSES) {
        return params;
    }
    let Ok(Some(mut answers)) = ask::answers(&params) else { return params };
    if answers.remove(LOGIN_QUESTION).is_none() {
        return params;
    }
    if answers.is_empty() {
        return params.edit(&[(INPUT_RESPONSES, Edit::Remove)]);
    }
    let answers: Vec<_> = answers.into_iter().collect();
    let state = ask::state(&params);
    ask::retry(&params, &answers, state.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_our_own_question_is_taken_out() {
        let raw = |value: serde_json::Value| Raw::from_value(&value);
        let cases = [
            (json!({"name": "a"}), json!({"name": "a"})),
            (json!({"name": "a", "inputResponses": {"toolcrib-login": {"action": "accept"}}}), json!({"name": "a"})),
            (
                json!({"inputResponses": {"toolcrib-login": {}, "k": {"roots": []}}, "requestState": "s"}),
                json!({"inputResponses": {"k": {"roots": []}}, "requestState": "s"}),
            ),
            (json!({"inputResponses": {"k": {}}}), json!({"inputResponses": {"k": {}}})),
            (json!({"inputResponses": "odd"}), json!({"inputResponses": "odd"})),
        ];
        for (given, expected) in cases {
            assert_eq!(without_own_answer(raw(given)).to_value(), expected);
        }
    }
}
