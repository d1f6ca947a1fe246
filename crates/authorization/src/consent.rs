//! The question to a person, and that the answer comes from the same browser: first the consent, then who it is, then the
//! way back to the client with a code.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use toolcrib_base::{Kind, Problem, Secret, Timestamp};
use toolcrib_identity::KnownToken;
use toolcrib_store::{CodeRecord, RequestRecord};

use crate::approval_code;
use crate::authorize::{AuthorizeRefusal, problem};
use crate::error::{OAuthError, OAuthErrorCode};
use crate::redirect::Redirect;
use crate::request::{AuthorizationRequest, CodeDetails, ConsentedRequest, DENIED};
use crate::secrets::{TagPurpose, hash, random_text};
use crate::server::AuthorizationServer;
use crate::session::{OwnGrant, Person};

/// How long a person has for each step, in milliseconds.
const PATIENCE: i64 = 10 * 60_000;
/// How long a code counts, in milliseconds.
const CODE_LIFE: i64 = 60_000;
/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentChoice {
    /// No.
    Deny,
    /// Yes; with the issuer at which the person proves who it is, without one by the owner's approval.
    Allow {
        /// The issuer's name.
        issuer: Option<String>,
    },
}

/// The form that a browser sent.
#[derive(Debug, Clone)]
pub struct Consent<'a> {
    /// What the page gave it.
    pub form: &'a str,
    /// The secrets that the browser has of us.
    pub browsers: &'a [Secret],
    /// What was said.
    pub choice: ConsentChoice,
    /// From where.
    pub address: String,
    /// Who has signed in with this browser, whom the page named.
    pub user: Option<String>,
}

/// What comes after the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentStep {
    /// Back to the client, with the answer.
    Return(String),
    /// On to the page of the request, whose secret name this is.
    Wait(Secret),
}

/// A browser that comes to the page of a request.
#[derive(Debug, Clone, Copy)]
pub struct BrowserPerson<'a> {
    /// The secrets that it has of us.
    pub browsers: &'a [Secret],
    /// Who has signed in with it.
    pub known: Option<&'a KnownToken>,
}

/// What the page of a request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReturnStep {
    /// The owner must approve this code first.
    Approve {
        /// Such as `ABCD-EFGH`.
        code: Secret,
        /// What the client calls itself.
        client_name: String,
    },
    /// The person must sign in at this issuer first.
    SignIn(String),
    /// Back to the client, with the answer.
    Return(String),
}

/// What the form of the page holds.
#[derive(Debug, Serialize, Deserialize)]
struct FormContent {
    request: AuthorizationRequest,
    expires: i64,
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// What the form gives back: the request itself, which counts with the browser's secret only. Nothing is kept of it
    /// before a person has said yes.
    pub(crate) fn consent_form(&self, request: &AuthorizationRequest, browser: &Secret) -> Secret {
        let expires = self.inner.clock.now().0.saturating_add(PATIENCE);
        let content = FormContent { request: request.clone(), expires };
        let content = serde_json::to_string(&content).expect("texts and numbers become JSON");
        let content = URL_SAFE_NO_PAD.encode(content);
        let tag = self.inner.tags.tag(TagPurpose::Consent, &[browser.expose(), &content]);
        Secret::new(format!("{content}.{tag}"))
    }

    /// Takes what a person said. The client and its address are proven again.
    ///
    /// # Errors
    /// The form was not made for this browser, or is too old; the client is not what it was.
    pub async fn consent(&self, consent: Consent<'_>) -> Result<ConsentStep, AuthorizeRefusal> {
        let (request, browser) = self.opened(&consent).ok_or_else(wrong_browser)?;
        let (redirect, client_name) = self.proven_again(&request).await?;
        let issuer = match consent.choice {
            ConsentChoice::Deny => {
                let slot = self.inner.place().await.map_err(|error| AuthorizeRefusal::Page(problem(&error)))?;
                self.inner.record_consent(slot, &request.client, None, false);
                let denied = OAuthError::new(OAuthErrorCode::AccessDenied, "the person did not agree");
                let url = self.error_answer(&redirect, request.state.as_deref(), &denied);
                return Ok(ConsentStep::Return(url));
            }
            ConsentChoice::Allow { issuer } => issuer,
        };
        let known = &self.inner.settings.sign_in;
        let is_offered = match &issuer {
            Some(issuer) => known.contains(issuer),
            // Where there are providers, the owner's word does not make up for one.
            None => known.is_empty(),
        };
        if !is_offered {
            return Err(AuthorizeRefusal::Page(problem(&OAuthError::request("there is no such way to sign in"))));
        }
        let id = random_text();
        let details =
            ConsentedRequest { request, client_name, browser: browser_hash(browser), issuer, user: consent.user };
        let record = RequestRecord {
            id: hash(&id),
            code: approval_code::hash_of(&approval_code::code_of(&id)),
            address: consent.address,
            details: serde_json::to_string(&details).expect("texts become JSON"),
            decision: None,
            expires_at: Timestamp(self.inner.clock.now().0.saturating_add(PATIENCE)),
        };
        let put = self.run(move |inner| inner.rows.put_request(&record)).await.and_then(|put| Ok(put?));
        put.map_err(|error| AuthorizeRefusal::Page(problem(&error)))?;
        Ok(ConsentStep::Wait(Secret::new(id)))
    }

    /// Goes on with a request: asks for what is missing, or gives the client its code. Once.
    ///
    /// # Errors
    /// There is no such request of this browser; someone else has signed in than the page said.
    pub async fn resume(&self, id: &str, person: BrowserPerson<'_>) -> Result<ReturnStep, AuthorizeRefusal> {
        let page = |error: &OAuthError| AuthorizeRefusal::Page(problem(error));
        let key = hash(id);
        let found = self.run(move |inner| inner.rows.request(&key)).await.and_then(|found| Ok(found?));
        let found = found.map_err(|error| page(&error))?.ok_or_else(wrong_browser)?;
        let consented: ConsentedRequest = serde_json::from_str(&found.details).map_err(|_| wrong_browser())?;
        if !person.browsers.iter().any(|browser| browser_hash(browser) == consented.browser) {
            return Err(wrong_browser());
        }
        let (redirect, _) = self.proven_again(&consented.request).await?;
        let state = consented.request.state.as_deref();
        let proven = match (&consented.issuer, found.decision.as_deref()) {
            (None, None) => {
                let code = Secret::new(approval_code::code_of(id));
                return Ok(ReturnStep::Approve { code, client_name: consented.client_name });
            }
            (None, Some(DENIED)) => Err("the owner of the gateway did not agree"),
            (None, Some(decision)) => {
                let granted: OwnGrant = serde_json::from_str(decision).map_err(|_| wrong_browser())?;
                Ok(Person::owner(granted))
            }
            (Some(issuer), _) => {
                let is_there = |known: &&KnownToken| known.identity.issuer.as_deref() == Some(issuer.as_str());
                let Some(known) = person.known.filter(is_there) else {
                    return Ok(ReturnStep::SignIn(issuer.clone()));
                };
                if consented.user.as_deref().is_some_and(|user| user != known.id.as_str()) {
                    return Err(AuthorizeRefusal::Page(
                        Problem::new(Kind::Forbidden, "someone else has signed in than the one who agreed")
                            .hint("Close this page, and connect again from the client."),
                    ));
                }
                if known.grants.is_empty() {
                    Err("nothing here is granted to this person")
                } else {
                    Ok(Person::of_known(known))
                }
            }
        };
        let slot = self.inner.place().await.map_err(|error| page(&error))?;
        let asked = proven.as_ref().ok().cloned();
        let (code, answer) = match proven {
            Err(why) => {
                let denied = OAuthError::new(OAuthErrorCode::AccessDenied, why);
                (None, self.error_answer(&redirect, state, &denied))
            }
            Ok(person) => {
                let code = random_text();
                let origin = self.inner.settings.origin.as_str();
                let mut parameters = vec![("code", code.as_str())];
                parameters.extend(state.map(|state| ("state", state)));
                parameters.push(("iss", origin));
                let answer = redirect.with(&parameters);
                let ConsentedRequest { request, client_name, .. } = &consented;
                let details = CodeDetails { request: request.clone(), client_name: client_name.clone(), person };
                let record = CodeRecord {
                    hash: hash(&code),
                    details: serde_json::to_string(&details).expect("texts become JSON"),
                    expires_at: Timestamp(self.inner.clock.now().0.saturating_add(CODE_LIFE)),
                };
                (Some(record), answer)
            }
        };
        let ended = self.run(move |inner| inner.rows.end_request(&key, code.as_ref())).await;
        // A second window of the same browser may have been faster.
        match ended.and_then(|ended| Ok(ended?)).map_err(|error| page(&error))? {
            true => {
                let client = &consented.request.client;
                self.inner.record_consent(slot, client, asked.as_ref(), asked.is_some());
                Ok(ReturnStep::Return(answer))
            }
            false => Err(wrong_browser()),
        }
    }

    /// What a form holds, if it was made for one of these browsers.
    fn opened<'a>(&self, consent: &Consent<'a>) -> Option<(AuthorizationRequest, &'a Secret)> {
        let (content, tag) = consent.form.rsplit_once('.')?;
        let tags = &self.inner.tags;
        let is_its = |browser: &&Secret| tags.is_tag(tag, TagPurpose::Consent, &[browser.expose(), content]);
        let browser = consent.browsers.iter().find(is_its)?;
        let content = URL_SAFE_NO_PAD.decode(content).ok()?;
        let content: FormContent = serde_json::from_slice(&content).ok()?;
        let now = self.inner.clock.now().0;
        // From the future is one that was made before the clock was set back.
        let is_fresh = (now..=now.saturating_add(PATIENCE)).contains(&content.expires);
        is_fresh.then_some((content.request, browser))
    }

    /// Whether the client is still there and still has this address; with what it calls itself.
    async fn proven_again(&self, request: &AuthorizationRequest) -> Result<(Redirect, String), AuthorizeRefusal> {
        let client = self.client(&request.client).await.map_err(|error| AuthorizeRefusal::Page(problem(&error)))?;
        let redirect = client.redirect(Some(&request.redirect));
        let gone = || OAuthError::request("the address of the answer is none of the client's any more");
        let redirect = redirect.ok_or_else(|| AuthorizeRefusal::Page(problem(&gone())))?;
        Ok((redirect, client.name.clone()))
    }
}

fn browser_hash(browser: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(hash(browser.expose()))
}

fn wrong_browser() -> AuthorizeRefusal {
    AuthorizeRefusal::Page(
        Problem::new(Kind::Forbidden, "this request is not there any more, or was begun in another browser")
            .hint("Close this page if you did not begin it yourself. Otherwise connect again from the client."),
    )
}
