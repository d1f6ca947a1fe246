//! The pages: one file each, and this table.

mod activity;
mod agents;
mod approvals;
pub(super) mod audit;
pub(super) mod call;
pub(super) mod calls;
mod clients;
mod connectors;
mod edit_outcome;
pub(super) mod editor;
mod find;
mod gateway;
mod held;
mod json;
mod logs;
mod offers;
pub(super) mod operation;
mod people;
mod policies;
mod policy_editor;
mod profile_editor;
pub(super) mod profiles;
mod record;
mod registry;
mod runs;
pub(super) mod search;
mod servers;
pub(super) mod services;
mod setup;
mod start;
mod steps;
mod tools;
pub(super) mod workflows;
mod writes;

use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use toolcrib_base::{Kind, Problem, nearest};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Action, Cell, Column, Filter, Look, ManyForm, Table, Target};
use toolcrib_ui::{NavGroup, NavLink};

use super::live::{self, MakeLive};
use super::request::Fields;
use super::{PageRequest, write};
use crate::guard::UI;

/// A page, or all pages below a path.
#[derive(Debug)]
pub(super) struct Page {
    /// Its path. With `/*` at the end it answers whatever is below, one name deep.
    path: &'static str,
    /// Its group and its name in the navigation, if it stands there.
    nav: Option<(&'static str, &'static str)>,
    /// It stands in the navigation of those whose role may do this operation; empty: of everyone.
    needs: &'static str,
    /// Makes the page.
    make: Make,
    /// Makes the part that changes while it is open, if one does.
    live: Option<MakeLive>,
}

type Make = for<'a> fn(&'a PageRequest) -> BoxFuture<'a, Result<String, Problem>>;

/// All pages, in the order of the navigation.
const PAGES: &[&Page] = &[
    &start::PAGE,
    &setup::PAGE,
    &tools::PAGE,
    &tools::ONE,
    &call::ONE,
    &calls::PAGE,
    &calls::ONE,
    &calls::RUNNING,
    &offers::RESOURCES,
    &call::READ,
    &offers::PROMPTS,
    &call::PROMPT,
    &search::PAGE,
    &search::CASES_PAGE,
    &servers::PAGE,
    &servers::ONE,
    &held::PAGE,
    &logs::PAGE,
    &registry::PAGE,
    &registry::ONE,
    &profiles::PAGE,
    &profiles::ONE,
    &profile_editor::PAGE,
    &workflows::PAGE,
    &workflows::ONE,
    &workflows::START,
    &workflows::RUNS,
    &workflows::RUN,
    &services::PAGE,
    &services::ONE,
    &services::CLASSES,
    &services::CLASS,
    &editor::NEW_WORKFLOW,
    &editor::WORKFLOW,
    &editor::NEW_SERVER,
    &editor::SERVER,
    &editor::NEW_SERVICE_CLASS,
    &editor::SERVICE_CLASS,
    &editor::PROFILE,
    &approvals::PAGE,
    &approvals::ONE,
    &people::LOGINS,
    &policies::PAGE,
    &policies::WHO,
    &policies::EXPLAIN,
    &policy_editor::PAGE,
    &people::HALTS,
    &runs::PAGE,
    // Before what answers whatever is below the runs.
    &runs::compare::PAGE,
    &runs::ONE,
    &agents::AGENTS,
    &agents::AGENT,
    &agents::MODELS,
    &agents::MODEL,
    &connectors::PAGE,
    &connectors::ONE,
    &activity::PAGE,
    &audit::PAGE,
    &audit::VERIFY,
    &audit::ONE,
    &record::EVENTS,
    &writes::PAGE,
    &writes::ONE,
    &clients::PAGE,
    &clients::ONE,
    &gateway::SECRETS,
    &gateway::SETTINGS,
    &people::SESSIONS,
    &find::PAGE,
    &operation::LIST,
    &operation::ONE,
];

/// Makes a page again whose form was sent to itself, with what would come of it; or writes what it showed.
type PreviewForm = for<'a> fn(&'a PageRequest, &'a Fields) -> BoxFuture<'a, Result<Response<Body>, Problem>>;

/// The page of this kind at a path, if one is there.
pub(super) fn preview_form(path: &str) -> Option<PreviewForm> {
    match path {
        policy_editor::PATH => Some(|request, fields| Box::pin(policy_editor::post(request, fields))),
        profile_editor::PATH => Some(|request, fields| Box::pin(profile_editor::post(request, fields))),
        _ => None,
    }
}

/// Answers with that page.
pub(super) async fn answer_preview(request: &PageRequest, form: PreviewForm, fields: &Fields) -> Response<Body> {
    match form(request, fields).await {
        Ok(response) => response,
        Err(problem) => write::problem(request, "This page cannot be shown", &problem),
    }
}

/// Answers with the page of the path.
pub(super) async fn answer(request: &PageRequest) -> Response<Body> {
    let path = request.head.uri.path();
    let Some(page) = find(path) else {
        let known = PAGES.iter().map(|page| page.path).filter(|path| !path.ends_with('*'));
        let problem = Problem::new(Kind::NotFound, format!("there is no page `{path}`"));
        let problem = match nearest::similar(path, known).first() {
            Some(near) => problem.hint(format!("Did you mean `{near}`?")),
            None => problem.hint("The navigation lists all pages."),
        };
        return write::problem(request, "No such page", &problem);
    };
    match (page.make)(request).await {
        Ok(text) => {
            if let Some(viewer) = request.viewer.as_ref().filter(|_| page.live.is_some()) {
                request.site.opened.put(&viewer.session, request.here().trim_end_matches('/'));
            }
            write::html(&request.head.headers, StatusCode::OK, text)
        }
        Err(problem) => write::problem(request, "This page cannot be shown", &problem),
    }
}

/// What makes the live part of the page that a path below [`live::ROOT`] names.
pub(super) fn live(request: &PageRequest) -> Option<MakeLive> {
    let rest = request.head.uri.path().strip_prefix(live::ROOT)?;
    find(format!("{UI}/{rest}").trim_end_matches('/'))?.live
}

fn find(path: &str) -> Option<&'static Page> {
    let path = if path == "/ui/" { UI } else { path };
    PAGES.iter().copied().find(|page| match page.path.strip_suffix('*') {
        Some(above) => path.strip_prefix(above).is_some_and(|name| !name.is_empty() && !name.contains('/')),
        None => page.path == path,
    })
}

/// What the last part of the path names, decoded.
pub(super) fn name(request: &PageRequest) -> String {
    let last = request.head.uri.path().rsplit('/').next().unwrap_or_default();
    // As the path of a form is read, but a plus sign is one.
    let plain = last.replace('+', "%2B");
    url::form_urlencoded::parse(format!("n={plain}").as_bytes())
        .next()
        .map(|(_, name)| name.into_owned())
        .unwrap_or_default()
}

/// The navigation of who is signed in.
pub(super) fn navigation(request: &PageRequest) -> Vec<NavGroup> {
    let path = request.path();
    let here = belonging(&path);
    let mut groups: Vec<NavGroup> = Vec::new();
    for page in PAGES.iter().filter(|page| page.needs.is_empty() || request.allows(page.needs)) {
        let Some((group, label)) = page.nav else { continue };
        let is_below = page.path != UI && here.strip_prefix(page.path).is_some_and(|rest| rest.starts_with('/'));
        let link = NavLink { path: page.path, label, is_current: here == page.path || is_below };
        match groups.iter_mut().find(|known| known.label == group) {
            Some(known) => known.links.push(link),
            None => groups.push(NavGroup { label: group, links: vec![link] }),
        }
    }
    groups
}

/// Pages that belong to another one than their path says, by what their paths begin with.
const BELONGING: [(&str, &str); 7] = [
    ("/ui/edit/profile", profiles::PAGE.path),
    ("/ui/edit/server", servers::PAGE.path),
    ("/ui/edit/service-class", services::PAGE.path),
    ("/ui/edit/workflow", workflows::PAGE.path),
    ("/ui/run/workflow", workflows::PAGE.path),
    ("/ui/service-classes", services::PAGE.path),
    ("/ui/workflow-runs", workflows::PAGE.path),
];

/// The path of the page that a page belongs to.
fn belonging(path: &str) -> &str {
    let begins = |begin: &str| path.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    BELONGING.iter().find(|(begin, _)| begins(begin)).map_or(path, |(_, page)| *page)
}

/// A button that leads to a page.
fn open_page(label: &str, path: &str, look: Look) -> Action {
    Action { label: label.to_owned(), about: String::new(), target: Target::Page(path.to_owned()), look }
}

/// A button that leads to the form of an operation, and then to a page.
fn operation(label: &str, tool: &str, next: &str) -> Action {
    open_page(label, &format!("/ui/operations/{tool}?return={next}"), Look::Primary)
}

/// A button that does an operation and leads to a page.
fn run(label: &str, tool: &'static str, arguments: Vec<(&'static str, String)>, next: &str) -> Action {
    let target = Target::Operation { tool, arguments, next: next.to_owned() };
    Action { label: label.to_owned(), about: String::new(), target, look: Look::Plain }
}

/// A list in the making.
struct Listing {
    title: &'static str,
    above: Option<(&'static str, &'static str)>,
    intro: &'static str,
    empty: (&'static str, &'static str),
    actions: Vec<Action>,
    filters: Vec<Filter>,
    table: Table,
    is_live: bool,
    /// How many there are, where the rows are a part of them already.
    total: Option<usize>,
    /// The number of the first row.
    offset: usize,
    /// How many rows a page has.
    size: usize,
    /// The next page, where it is not counted.
    after: Option<String>,
    /// Whether how many there are is not known.
    is_open_ended: bool,
    /// What is said of rows that are not shown.
    unseen: String,
    /// What can be done with rows that are chosen.
    many: Option<ManyForm>,
}

impl Listing {
    /// All rows of a list that is cut into pages here.
    fn new(columns: &[Column], filters: Vec<Filter>, rows: Vec<Vec<Cell>>) -> Self {
        Self {
            title: "",
            above: None,
            intro: "",
            empty: ("There is nothing.", ""),
            actions: Vec::new(),
            filters,
            table: Table { label: String::new(), columns: columns.to_vec(), rows },
            is_live: false,
            total: None,
            offset: 0,
            size: ROWS,
            after: None,
            is_open_ended: false,
            unseen: String::new(),
            many: None,
        }
    }
}

/// How many rows a page of a list has.
const ROWS: usize = 200;

/// Words that a text must hold, in any order.
pub(super) struct Words(String);

impl Words {
    /// Whether a text holds all of them.
    fn fit(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.0.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }

    /// As they were put in.
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl PageRequest {
    /// A parameter; empty where there is none.
    fn value(&self, name: &str) -> String {
        self.parameter(name).unwrap_or_default().to_owned()
    }

    /// The words of a search.
    fn words(&self, name: &str) -> Words {
        Words(self.value(name))
    }

    /// The number of the first row that is asked for.
    fn offset(&self) -> usize {
        self.parameter("from").and_then(|from| from.parse().ok()).unwrap_or_default()
    }

    /// What only stands on pages that may change something.
    fn if_changing<T>(&self, parts: impl FnOnce() -> Vec<T>) -> Vec<T> {
        if self.may_change() { parts() } else { Vec::new() }
    }

    /// Arguments with the profile that the page is about.
    fn in_profile(&self, mut arguments: serde_json::Value) -> serde_json::Value {
        if let Some(profile) = self.parameter("profile") {
            arguments["profile"] = profile.into();
        }
        arguments
    }

    /// The filter that chooses the profile.
    fn profile_filter(&self) -> Filter {
        Filter::Choice { name: "profile", label: "As profile", options: self.profiles(), value: self.value("profile") }
    }

    /// The names of all profiles.
    fn profiles(&self) -> Vec<String> {
        self.site.gateway.loaded().profiles.keys().map(ToString::to_string).collect()
    }

    /// The page with another value of a parameter.
    fn with(&self, name: &str, value: &str) -> String {
        let kept = self.query.iter().filter(|(key, _)| key != name);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(kept);
        query.append_pair(name, value);
        format!("{}?{}", self.path(), query.finish())
    }

    /// A list as a page.
    fn list(&self, mut listing: Listing) -> ListPage {
        let (offset, total) = match listing.total {
            Some(total) => (listing.offset, Some(total)),
            None if listing.is_open_ended => (0, None),
            None => {
                let total = listing.table.rows.len();
                let offset = self.offset().min(total.saturating_sub(1));
                listing.table.rows = listing.table.rows.into_iter().skip(offset).take(listing.size).collect();
                (offset, Some(total))
            }
        };
        let end = offset + listing.table.rows.len();
        let step = |from: usize| self.with("from", &from.to_string());
        let before = (offset > 0).then(|| step(offset.saturating_sub(listing.size)));
        let after = listing.after.or_else(|| total.is_some_and(|total| end < total).then(|| step(end)));
        listing.table.label = listing.title.to_owned();
        ListPage {
            frame: self.frame(listing.title),
            above: listing.above.map(|(path, label)| (path.to_owned(), label.to_owned())),
            intro: listing.intro.to_owned(),
            actions: listing.actions,
            filters: listing.filters,
            path: self.path(),
            table: listing.table,
            place: (offset, total),
            before,
            after,
            unseen: listing.unseen,
            empty: listing.empty,
            many: listing.many,
            live: if listing.is_live { self.live_path() } else { String::new() },
        }
    }
}

/// The text of a template.
pub(super) fn rendered(page: &impl askama::Template) -> Result<String, Problem> {
    page.render().map_err(|error| Problem::new(Kind::Internal, format!("the page was not made: {error}")))
}
