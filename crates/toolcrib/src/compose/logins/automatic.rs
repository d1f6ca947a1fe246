//! The logins that need no person, as calls and operations see them: headers, refusals, states, and what a login and a
//! logout by hand mean there.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt as _;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_call::{LoginPlace, LoginState, LoginStatus, LoginStep, SignOn};
use toolcrib_login::{Owner, Rejection, SignOnState};
use toolcrib_upstream::{NoCredential, Proof, Refusal, Renewal, ServerConfig, State};
use toolcrib_view::ServerEntry;

use super::{GatewayLogins, url_of};
use crate::compose::sign_on::needs_subject;

/// A server that callers are signed on to.
#[derive(Debug, Clone, Copy)]
pub(super) struct AutomaticLogin {
    /// Whether a principal's own login is used where that fails.
    pub(super) falls_back: bool,
}

impl GatewayLogins {
    /// What the definition says of a server that callers are signed on to; `None` for all others.
    pub(super) fn signed_on(&self, config: &ServerConfig) -> Option<AutomaticLogin> {
        // Mostly no definition says so.
        if !self.is_automatic.load(Ordering::Acquire) {
            return None;
        }
        let auth = self.auth.read().unwrap_or_else(PoisonError::into_inner);
        let auth = auth.get(&config.name).filter(|auth| auth.signs_on())?;
        self.sign_on_targets.note(&config.name, &url_of(config)?.to_string(), auth);
        Some(AutomaticLogin { falls_back: auth.fallback_to_own_auth })
    }

    /// The headers of a principal that is signed on. A failure is no other principal's credential, but its own login
    /// where the definition says so.
    pub(super) fn sign_on_proof<'a>(
        &'a self,
        server: &'a ServerConfig,
        principal: Option<&'a str>,
        automatic: AutomaticLogin,
    ) -> Proof<'a> {
        let AutomaticLogin { falls_back } = automatic;
        if self.is_without_subject(&server.name, principal) {
            // The owner has no token to pass on: what the server shows to everyone can be listed.
            return if falls_back { self.token(server, principal) } else { Proof::Known(HeaderMap::new()) };
        }
        let mut proof: Pin<Box<dyn Future<Output = Result<HeaderMap, NoCredential>> + Send + 'a>> =
            Box::pin(async move {
                match self.sign_ons.headers(&server.name, principal).await {
                    None => Err(NoCredential::Unavailable("callers cannot be signed on: see the log".to_owned())),
                    Some(Ok(headers)) => Ok(headers),
                    Some(Err(error)) if falls_back => match self.token(server, principal) {
                        Proof::Known(headers) if headers.is_empty() => {
                            Err(NoCredential::Unavailable(error.to_string()))
                        }
                        Proof::Known(headers) => Ok(headers),
                        Proof::Awaited(proof) => proof.await,
                    },
                    Some(Err(error)) => Err(NoCredential::Unavailable(error.to_string())),
                }
            });
        // Mostly it is in memory.
        match proof.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(headers)) => Proof::Known(headers),
            Poll::Ready(Err(error)) => Proof::Awaited(Box::pin(std::future::ready(Err(error)))),
            Poll::Pending => Proof::Awaited(proof),
        }
    }

    /// A server that runs.
    fn running(&self, server: &ServerName) -> Option<ServerEntry> {
        let gateway = self.gateway.get().and_then(Weak::upgrade)?;
        gateway.servers().table().get(server.as_str()).cloned()
    }

    /// Whether the owner of this installation is asked for a token that only callers come with.
    fn is_without_subject(&self, server: &ServerName, principal: Option<&str>) -> bool {
        let auth = self.auth.read().unwrap_or_else(PoisonError::into_inner);
        Owner::of(principal).is_installation() && auth.get(server).is_some_and(needs_subject)
    }

    /// Whose credential a request carries now, for the audit log.
    pub(super) fn credential_word(&self, at: LoginPlace<'_>) -> Option<&'static str> {
        let is_automatic = self.is_automatic.load(Ordering::Acquire);
        // Mostly no one has ever logged in anywhere.
        if !is_automatic && !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let running = self.running(at.server)?;
        let config = running.server.config();
        if let Some(automatic) = self.signed_on(config) {
            let status = self.sign_ons.status(at.server, at.principal)?;
            let is_on = !matches!(status.state, SignOnState::Out(_) | SignOnState::Failed { .. });
            if is_on || !automatic.falls_back {
                return is_on.then_some(status.method);
            }
        }
        if !self.note_target(config) {
            return self.values.has(at.server).then_some("own");
        }
        let owner = self.owner(at.server, at.principal);
        let held = Box::pin(self.logins.headers(at.server, &owner));
        // One that is not in memory yet, or is being renewed, is there.
        let is_there = held.now_or_never().is_none_or(|headers| headers.is_ok_and(|headers| headers.is_some()));
        is_there.then_some(if owner.is_installation() { "owner" } else { "own" })
    }

    /// What to do after a server refused who was signed on.
    pub(super) async fn sign_on_renewal(&self, refusal: Refusal<'_>) -> Renewal {
        if refusal.status != 401 {
            return Renewal::Unknown;
        }
        let sent = refusal.sent.map(|sent| HeaderMap::from_iter([(AUTHORIZATION, sent.clone())]));
        match self.sign_ons.rejected(&refusal.server.name, refusal.principal, sent.as_ref()).await {
            Rejection::Renewed => Renewal::Renewed,
            Rejection::NeedsLogin => Renewal::NeedsLogin,
        }
    }

    /// Signs a caller on because it asks for it, or because a call of it was refused (`joins`); `None` for a server that is
    /// logged in to by a person.
    pub(super) async fn begin_sign_on(&self, at: LoginPlace<'_>, joins: bool) -> Option<Result<LoginStep, Problem>> {
        let auth = self.signed_on(self.running(at.server)?.server.config())?;
        let begun = match joins {
            true => self.sign_ons.join(at.server, at.principal).await,
            false => self.sign_ons.begin(at.server, at.principal).await,
        };
        match begun {
            Ok(()) => {
                if let Some(running) = self.running(at.server) {
                    running.server.retry_for(at.principal);
                    // What could not be listed before is read again at once.
                    let seen = running.server.as_seen(&running.server.seen_by(at.principal)).status().state;
                    if let Some(principal) = at.principal.filter(|_| seen == State::Failed) {
                        running.server.credential_changed(principal);
                    }
                }
                if Owner::of(at.principal).is_installation() {
                    self.restart(|name, state| name == at.server && state == State::NeedsLogin);
                }
                Some(Ok(LoginStep::Done(at.server.clone())))
            }
            Err(_) if auth.falls_back => None,
            Err(error) => Some(Err(error.problem())),
        }
    }

    /// Ends it; `None` for a server that is logged in to by a person.
    pub(super) async fn end_sign_on(&self, at: LoginPlace<'_>) -> Option<Result<bool, Problem>> {
        let running = self.running(at.server)?;
        let auth = self.signed_on(running.server.config())?;
        let was_on = match self.sign_ons.end(at.server, at.principal).await {
            Ok(was_on) => was_on,
            Err(error) => {
                let message = format!("failed to log out of `{}`: {error}", at.server);
                return Some(Err(Problem::new(Kind::Internal, message)));
            }
        };
        if was_on && Owner::of(at.principal).is_installation() {
            running.server.order_restart();
        }
        (was_on || !auth.falls_back).then_some(Ok(was_on))
    }

    /// How a caller stands with a server that it is signed on to; `None` for one that is logged in to by a person.
    pub(super) fn sign_on_status(&self, config: &ServerConfig, principal: Option<&str>) -> Option<LoginStatus> {
        let auth = self.signed_on(config)?;
        let status = self.sign_ons.status(&config.name, principal)?;
        let mut sign_on = SignOn { method: status.method, is_pending: false, has_failed: false, note: None };
        let state = match status.state {
            SignOnState::Out(_) | SignOnState::Failed { .. } if auth.falls_back => return None,
            SignOnState::Out(why) => {
                sign_on.note = Some(why);
                LoginState::LoggedOut
            }
            SignOnState::Ready => {
                sign_on.note = Some("the next request signs on".to_owned());
                LoginState::LoggedOut
            }
            SignOnState::Pending => {
                sign_on.is_pending = true;
                LoginState::LoggedOut
            }
            SignOnState::On { expires } => LoginState::LoggedIn { expires_at: Some(expires), is_renewed: true },
            SignOnState::Failed { reason, retry_at } => {
                sign_on.has_failed = true;
                LoginState::Lapsed(format!("{reason}; it is tried again at {retry_at}"))
            }
        };
        let (server, issuer, scopes) = (config.name.clone(), status.issuer, status.scopes);
        Some(LoginStatus {
            server,
            state,
            issuer,
            scopes,
            sign_on: Some(sign_on),
            failure: None,
            advice: None,
            held_by: None,
        })
    }
}
