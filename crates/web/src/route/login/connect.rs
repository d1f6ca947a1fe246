//! `/connect/<ticket>`: `GET` says which login the link begins, `POST` sends the browser to the authorization server.
//!
//! The one who opens a link and the one for whom it was made must be one principal. A browser proves none, so a link of
//! the owner of this installation takes whom the guard takes for the owner, and a link of a key takes that key, which the
//! page asks for.

use std::sync::Arc;

use http::header::{HOST, HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem, ProfileName, Secret};
use toolcrib_login::{LoginError, OpenOutcome, OpenRequest, Owner, PendingDescription};
use toolcrib_session::{Principal, ShareKey};
use toolcrib_transport::http::body::Body;

use super::{LoginPages, callback, page, problem};
use crate::guard::{CONNECT, ProfileKeys};
use crate::route::browser_cookie::{BrowserCookie, LOGIN};
use crate::route::form::{self, FormShare};
use crate::route::{html::private, ui};
use crate::{Site, Visitor, respond};

/// The digits of a ticket.
const TICKET: usize = 64;
/// The largest form, in bytes.
const FORM: usize = 4 * 1024;

/// A link that a browser shows or opens.
#[derive(Debug)]
pub(super) struct Link<'a> {
    pub(super) site: &'a Arc<Site>,
    pub(super) pages: &'a LoginPages,
    pub(super) ticket: &'a Secret,
}

/// The fields of the page's form.
#[derive(Debug, Default)]
struct Fields {
    token: Option<Secret>,
    key: Option<Secret>,
}

/// The key that a principal is, by its profile and its own name.
#[derive(Debug)]
pub(super) struct NamedKey {
    pub(super) profile: ProfileName,
    pub(super) name: String,
}

pub(super) async fn answer(
    link: &Link<'_>,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    match head.method {
        Method::GET => {
            let described = link.describe()?;
            if let Some(away) = link.to_sign_in(&described.owner, &head.headers) {
                return Ok(away);
            }
            let needs_token = link.site.front.is_some();
            Ok(page::confirmation(&described, &link.pages.form_token, needs_token))
        }
        Method::POST => {
            let origin = origin(&head.headers)?;
            let fields = link.fields(visitor, &head.headers, body).await?;
            let page = link.site.front.as_ref().and_then(|front| ui::signed_in(front, &head.headers));
            let opener = link.opener(visitor, page.as_ref(), &link.describe()?.owner, fields.key.as_ref())?;
            Box::pin(link.open(&opener, &origin)).await
        }
        _ => Ok(private(respond::not_allowed("GET, POST"))),
    }
}

// === impl Link ===

impl Link<'_> {
    /// Whose login it begins. Uses nothing up.
    fn describe(&self) -> Result<PendingDescription, Problem> {
        let ticket = self.ticket.expose();
        let is_ticket = ticket.len() == TICKET && ticket.bytes().all(|byte| byte.is_ascii_hexdigit());
        let described = is_ticket.then(|| self.pages.logins.describe(ticket)).flatten();
        described.ok_or_else(|| problem(&LoginError::Ticket))
    }

    /// The form that a page of ours has sent.
    async fn fields(&self, visitor: &Visitor, headers: &HeaderMap, body: Incoming) -> Result<Fields, Problem> {
        if !form::is_of_type(headers, form::TYPE) {
            return Err(Problem::new(Kind::InvalidRequest, format!("the body must be a form (`{}`)", form::TYPE))
                .hint("Open the link in a browser."));
        }
        let key = ShareKey::new(&visitor.principal, Some(visitor.address));
        let read = form::read(self.site, headers, body, FormShare { limit: FORM, key }).await;
        let body = read.map_err(|problem| match problem.hint {
            Some(_) => problem,
            None => problem.hint("Open the link again."),
        })?;
        let fields = Fields::read(&body)?;
        let is_ours = fields.token.as_ref().is_some_and(|token| self.pages.form_token.matches(token.expose()));
        if !is_ours {
            return Err(Problem::new(Kind::Forbidden, "this form was not sent by the page of the link, or is too old")
                .hint("Open the link again and use the button there."));
        }
        Ok(fields)
    }

    /// Sends the browser on, and binds the login to it.
    async fn open(&self, opener: &Owner, origin: &str) -> Result<Response<Body>, Problem> {
        let described = self.describe()?;
        let cookie = BrowserCookie::new(&LOGIN, origin.starts_with("https:"));
        let request =
            OpenRequest { ticket: self.ticket.expose(), opener, browser: cookie.secret(), origin: Some(origin) };
        match self.pages.logins.open(request).await.map_err(|error| problem(&error))? {
            OpenOutcome::Provider(url) => {
                let mut response = callback::to_provider(&url);
                response.headers_mut().append(SET_COOKIE, cookie.set());
                Ok(response)
            }
            OpenOutcome::Origin(other) => self.elsewhere(&described, origin, &other),
        }
    }

    /// Where a link of someone with an issuer leads first: to the page at which they sign in there.
    fn to_sign_in(&self, owner: &Owner, headers: &HeaderMap) -> Option<Response<Body>> {
        let front = self.site.front.as_ref()?;
        let (issuer, _) = owner.as_str().strip_prefix("user:")?.split_once('/')?;
        if ui::signed_in(front, headers).is_some() {
            return None;
        }
        ui::to_sign_in(front, issuer, &format!("{CONNECT}{}", self.ticket.expose()))
    }

    /// Who opens the link: the owner for whom it was made, or no one. `page` is who signed in to our pages in this browser.
    fn opener(
        &self,
        visitor: &Visitor,
        page: Option<&Principal>,
        owner: &Owner,
        key: Option<&Secret>,
    ) -> Result<Owner, Problem> {
        let proven = match NamedKey::of(owner) {
            None if self.site.front.is_none() => visitor.principal.clone(),
            None if owner.is_installation() => {
                let token = key.and_then(|key| self.site.guard.proven(key.expose(), None));
                token.ok_or_else(|| {
                    Problem::new(Kind::Forbidden, "this is not the gateway's token, which the link of its owner needs")
                        .hint("Go back and enter the token: it is in `state/token` in the home folder.")
                })?
            }
            None => page.cloned().ok_or_else(|| problem(&LoginError::Opener))?,
            Some(named) => {
                let wrong = || {
                    let NamedKey { profile, name } = &named;
                    let text = format!("this is not the key `{name}` of profile `{profile}`, for which the link is");
                    Problem::new(Kind::Forbidden, text)
                        .hint("Go back and enter that key, or ask its owner to open the link.")
                };
                let snapshot = self.site.gateway.snapshot(&named.profile).map_err(|_| wrong())?;
                let keys = ProfileKeys::of(&snapshot).ok_or_else(wrong)?;
                key.and_then(|key| self.site.guard.proven(key.expose(), Some(keys))).ok_or_else(wrong)?
            }
        };
        let opener = Owner::of(Some(proven.id.as_str()));
        if opener == *owner { Ok(opener) } else { Err(problem(&LoginError::Opener)) }
    }

    /// Sends the browser to the same link at another name of this gateway.
    fn elsewhere(&self, described: &PendingDescription, origin: &str, other: &str) -> Result<Response<Body>, Problem> {
        if !self.site.guard.is_also_here(other, origin) {
            let server = &described.server;
            return Err(Problem::new(
                Kind::Definition,
                format!("the answer to the login of `{server}` goes to `{other}`, where this gateway does not listen"),
            )
            .hint(format!(
                "use `toolcrib login {server} --no-browser`, or remove `redirect_uri` from the definition: \
                 `toolcrib edit server {server}`"
            )));
        }
        let mut response = respond::status(StatusCode::SEE_OTHER);
        let place = HeaderValue::try_from(format!("{other}{CONNECT}{}", self.ticket.expose()));
        let mut place = place.expect("an origin and digits fit a header");
        place.set_sensitive(true);
        response.headers_mut().insert(LOCATION, place);
        Ok(private(response))
    }
}

// === impl Fields ===

impl Fields {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Self::default();
        for (name, value) in url::form_urlencoded::parse(body) {
            let field = match &*name {
                "token" => &mut fields.token,
                "key" => &mut fields.key,
                _ => continue,
            };
            if field.replace(Secret::new(value.trim())).is_some() {
                return Err(Problem::new(Kind::InvalidParams, "a field of the form is there twice")
                    .hint("Open the link again and use the button there."));
            }
        }
        Ok(fields)
    }
}

// === impl NamedKey ===

impl NamedKey {
    /// `None` for an owner that is no key.
    pub(super) fn of(owner: &Owner) -> Option<Self> {
        let (profile, name) = owner.as_str().strip_prefix("key:")?.split_once('/')?;
        Some(Self { profile: ProfileName::new(profile).ok()?, name: name.to_owned() })
    }
}

/// The origin that the form was sent to, which must be that of the page that it was on. Programs send no `Origin`.
fn origin(headers: &HeaderMap) -> Result<String, Problem> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let own = ["http", "https"].map(|scheme| format!("{scheme}://{host}"));
    let mut sent = headers.get_all(ORIGIN).iter();
    let found = match (sent.next(), sent.next()) {
        (None, _) => own.into_iter().next(),
        (Some(origin), None) => own.into_iter().find(|own| own.as_bytes().eq_ignore_ascii_case(origin.as_bytes())),
        (Some(_), Some(_)) => None,
    };
    found.ok_or_else(|| {
        Problem::new(Kind::Forbidden, "another page must not send this form")
            .hint("Open the link again and use the button there.")
    })
}
