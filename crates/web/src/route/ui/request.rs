//! A request for a page: who asks, with which query, and the operations that the page is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use http::header::HOST;
use http::request::Parts;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_gateway::UiMode;
use toolcrib_identity::KnownToken;
use toolcrib_protocol::Raw;
use toolcrib_session::{Caller, Principal, ShareKey};
use toolcrib_store::Door;
use toolcrib_ui::text::clipped;
use toolcrib_ui::{Frame, Mode, Notice};
use toolcrib_view::Operation;

use super::{live, page, session, sign_in, theme_of};
use crate::guard::{Admission, UI};
use crate::route::form::{self, FormShare};
use crate::{Site, Visitor};

/// How much of a title a page has, in characters.
const TITLE: usize = 200;
/// The largest form, in bytes.
const FORM_BYTES: usize = 2 * 1024 * 1024;

/// A request for a page.
#[derive(Debug)]
pub(in crate::route) struct PageRequest {
    pub(in crate::route) site: Arc<Site>,
    pub(in crate::route) head: Parts,
    /// Who is signed in, if anyone is.
    pub(in crate::route) viewer: Option<Viewer>,
    pub(super) visitor: Visitor,
    /// The query, decoded.
    pub(super) query: Vec<(String, String)>,
    /// Whether it shows again what was asked for and recorded before.
    pub(super) is_again: bool,
    /// What the live part has shown of a log.
    pub(super) shown: ShownRows,
    /// Whether what it shows changes with the calls of browsers.
    follows_calls: AtomicBool,
}

/// The rows of a log that a live part has shown. Where more happens than a page has rows, some pass unseen.
#[derive(Debug, Default)]
pub(super) struct ShownRows {
    newest: AtomicU64,
    passed: AtomicU64,
}

/// Who is signed in.
#[derive(Debug, Clone)]
pub(in crate::route) struct Viewer {
    /// Who; the role is the highest that is granted anywhere.
    pub(in crate::route::ui) principal: Principal,
    /// What the issuer said, for who signed in at one.
    pub(in crate::route::ui) token: Option<Arc<KnownToken>>,
    /// The name of the browser's session.
    pub(in crate::route::ui) session: String,
}

/// The fields of a form.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

// === impl PageRequest ===

impl PageRequest {
    pub(super) fn new(site: &Arc<Site>, visitor: Visitor, head: Parts) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let viewer = session::viewer(site, &head);
        Self {
            site: Arc::clone(site),
            head,
            viewer,
            visitor,
            query,
            is_again: false,
            shown: ShownRows::default(),
            follows_calls: AtomicBool::new(false),
        }
    }

    /// Has the live part of the page made again when a call changes that a browser began.
    pub(super) fn follow_calls(&self) {
        self.follows_calls.store(true, Ordering::Relaxed);
    }

    /// Whether the page follows those, as it has said when it was made.
    pub(super) fn follows_calls(&self) -> bool {
        self.follows_calls.load(Ordering::Relaxed)
    }

    /// The first parameter of a name that is not empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// The path and query of the page, to come back to; of a live part, those of its page.
    pub(super) fn here(&self) -> String {
        let here = self.head.uri.path_and_query().map_or(UI, http::uri::PathAndQuery::as_str);
        here.strip_prefix(live::ROOT).map_or_else(|| here.to_owned(), |rest| format!("{UI}/{rest}"))
    }

    /// The path of the page; of a live part, that of its page.
    pub(super) fn path(&self) -> String {
        self.here().split('?').next().unwrap_or(UI).to_owned()
    }

    /// Where the live part of the page is.
    pub(super) fn live_path(&self) -> String {
        let here = self.here();
        here.strip_prefix(UI).map_or_else(|| here.clone(), |rest| format!("/ui/live{rest}"))
    }

    /// The origin at which forms of ours are sent, which the guard has checked the host of: `scheme://host[:port]`.
    pub(super) fn origin(&self) -> Option<String> {
        let host = self.head.headers.get(HOST)?.to_str().ok()?;
        match &self.site.front {
            Some(front) if front.origin().split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host)) => {
                Some(front.origin().to_owned())
            }
            // Who does not come by the public name reaches the listener itself, on this machine.
            _ => Some(format!("http://{}", host.to_ascii_lowercase())),
        }
    }

    /// A URL of ours, for programs: at the host of the pages there are only pages.
    pub(super) fn own_url(&self, path: &str) -> String {
        let origin = self.origin().unwrap_or_default();
        origin.replace(self.site.guard.ui_host(), "127.0.0.1") + path
    }

    /// Who is signed in; pages are only made for someone.
    pub(super) fn principal(&self) -> Option<&Principal> {
        self.viewer.as_ref().map(|viewer| &viewer.principal)
    }

    /// What stands around the page. A live part shows none of it, and leaves the notice to the page.
    pub(super) fn frame(&self, title: &str) -> Frame {
        let role = self.principal().map_or("", |principal| principal.role.as_str());
        let around = self.viewer.as_ref().filter(|_| !self.is_live());
        Frame {
            title: clipped(title, TITLE),
            here: self.here(),
            nav: around.map(|_| page::navigation(self)).unwrap_or_default(),
            principal: self.principal().map(|principal| principal.id.to_string()),
            role,
            mode: if self.may_change() { Mode::Full } else { Mode::Read },
            running: around.map(|_| page::calls::strip(self)).filter(|running| !running.rows.is_empty()),
            theme: theme_of(&self.head.headers),
            notice: around.and_then(|viewer| self.site.notices.take(&viewer.session)),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Whether only the part of the page is made that changes.
    pub(super) fn is_live(&self) -> bool {
        self.head.uri.path().starts_with(live::ROOT)
    }

    /// Whether the pages may change anything.
    pub(super) fn may_change(&self) -> bool {
        self.site.gateway.ui == UiMode::Full
    }

    /// Keeps what came of an action for the next page of this browser.
    pub(super) fn leave(&self, notice: Notice) {
        if let Some(viewer) = &self.viewer {
            self.site.notices.put(&viewer.session, notice);
        }
    }

    /// The operation of a name.
    pub(super) fn operation(&self, tool: &str) -> Option<&'static Operation> {
        self.site.gateway.operations.by_tool(tool)
    }

    /// Whether the person's role may do it; policies may still say otherwise.
    pub(super) fn allows(&self, tool: &str) -> bool {
        let role = self.principal().map(|principal| principal.role);
        role.is_some_and(|role| self.operation(tool).is_some_and(|operation| operation.allows(role)))
    }

    /// Does an operation in the name of who is signed in, and reads its answer. Arguments may name a `profile` where the
    /// operation sees the gateway through one.
    ///
    /// # Errors
    /// What the operation says, or that its answer does not have the shape that the page reads.
    pub(super) async fn read<T: DeserializeOwned>(&self, tool: &str, arguments: Value) -> Result<T, Problem> {
        let answer = self.operate(tool, arguments).await?;
        serde_json::from_slice(answer.bytes()).map_err(|error| {
            Problem::new(Kind::Internal, format!("the answer of `{tool}` is not what its page reads: {error}"))
        })
    }

    /// The same, as the operation answers.
    pub(super) async fn operate(&self, tool: &str, arguments: Value) -> Result<Raw, Problem> {
        let operation = self.operation(tool).ok_or_else(|| {
            Problem::new(Kind::NotFound, format!("there is no operation `{tool}`"))
                .hint("See all operations at `/ui/operations`.")
        })?;
        self.operate_raw(operation, arguments).await
    }

    async fn operate_raw(&self, operation: &'static Operation, mut arguments: Value) -> Result<Raw, Problem> {
        let profile = match arguments.as_object_mut() {
            Some(object) if operation.takes_profile() && !has_argument(operation, "profile") => {
                object.remove("profile")
            }
            _ => None,
        };
        let profile = self.profile_named(profile.as_ref().and_then(Value::as_str))?;
        self.operate_in(operation, profile, Raw::from_value(&arguments)).await
    }

    /// Does an operation in a profile, with the very text of its arguments.
    ///
    /// # Errors
    /// What the operation says.
    pub(super) async fn operate_in(
        &self,
        operation: &'static Operation,
        profile: ProfileName,
        arguments: Raw,
    ) -> Result<Raw, Problem> {
        let caller = self.caller(profile)?;
        let snapshot = self.site.gateway.snapshot(&caller.profile).ok();
        if snapshot.is_none() && operation.is_in_profile() {
            return Err(self.site.no_profile(&caller.principal, &caller.profile));
        }
        // Boxed and without its type: a page is made of several, in futures in each other.
        let gateway = &self.site.gateway;
        let work: BoxFuture<'_, Result<Raw, Problem>> = match self.is_again {
            true => Box::pin(gateway.read_again(operation, snapshot.as_ref(), &caller, &arguments)),
            false => Box::pin(gateway.operate(operation, snapshot.as_ref(), &caller, arguments)),
        };
        work.await
    }

    /// The profile of a page that names none: the default one, or the first that is granted.
    pub(super) fn profile(&self) -> ProfileName {
        let default = crate::route::default_profile();
        let token = self.viewer.as_ref().and_then(|viewer| viewer.token.as_ref());
        let first = token.filter(|token| token.role_in(default).is_none());
        let first = first.and_then(|token| token.grants.iter().flat_map(|grant| &grant.profiles).next());
        first.unwrap_or(default).clone()
    }

    /// The profile of a name, or that of a page that names none.
    pub(super) fn profile_named(&self, name: Option<&str>) -> Result<ProfileName, Problem> {
        match name {
            Some(name) => ProfileName::new(name).map_err(|error| Problem::new(Kind::NotFound, error.to_string())),
            None => Ok(self.profile()),
        }
    }

    /// Who is signed in, in a profile and with the role that counts there.
    ///
    /// # Errors
    /// No one is signed in, or the profile is not granted.
    pub(super) fn caller(&self, profile: ProfileName) -> Result<Caller, Problem> {
        let viewer = self.viewer.as_ref().ok_or_else(|| Problem::new(Kind::Unauthenticated, "no one is signed in"))?;
        let principal = match &viewer.token {
            Some(token) => match Admission::of_token(Arc::clone(token), &profile) {
                Admission { principal, is_barred: true, .. } => return Err(self.site.no_profile(&principal, &profile)),
                Admission { principal, .. } => principal,
            },
            None => viewer.principal.clone(),
        };
        Ok(Caller::without_message(principal, profile, Door::UI).traced(self.visitor.trace.clone()))
    }

    /// Reads a form.
    ///
    /// # Errors
    /// It is no form, is too large, or did not arrive.
    pub(super) async fn form(&self, body: Incoming) -> Result<Fields, Problem> {
        let principal = self.principal().unwrap_or(&self.visitor.principal);
        let key = ShareKey::new(principal, Some(self.visitor.address));
        let body = form::read(&self.site, &self.head.headers, body, FormShare { limit: FORM_BYTES, key }).await?;
        Ok(Fields(url::form_urlencoded::parse(&body).into_owned().collect()))
    }
}

/// Whether an operation has an argument of its own with this name.
fn has_argument(operation: &Operation, name: &str) -> bool {
    operation.input_schema()["properties"].get(name).is_some()
}

// === impl ShownRows ===

impl ShownRows {
    /// Takes the numbers of the newest and the oldest row that are shown now. Gives how many rows have passed between two
    /// views and were in neither, since the page was opened.
    pub(super) fn take(&self, newest: u64, oldest: u64) -> u64 {
        let before = self.newest.fetch_max(newest, Ordering::Relaxed);
        let passed = if before == 0 { 0 } else { oldest.saturating_sub(before.saturating_add(1)) };
        self.passed.fetch_add(passed, Ordering::Relaxed) + passed
    }
}

// === impl Fields ===

impl Fields {
    /// The first field of a name.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Where to go on: a page of ours, or the first one.
    pub(super) fn next(&self) -> &str {
        let named = self.text("return").or_else(|| self.text("next"));
        named.filter(|place| sign_in::is_page(place)).unwrap_or(UI)
    }
}

#[cfg(test)]
mod tests {
    use super::ShownRows;

    #[test]
    fn rows_that_no_view_had_are_counted_once() {
        let shown = ShownRows::default();
        assert_eq!(shown.take(100, 1), 0, "what was before the page is opened did not pass");
        assert_eq!(shown.take(150, 51), 0, "the views overlap");
        assert_eq!(shown.take(250, 151), 0, "one follows the other");
        assert_eq!(shown.take(500, 401), 150);
        assert_eq!(shown.take(500, 401), 150, "nothing happened");
        assert_eq!(shown.take(601, 502), 151);
    }
}
