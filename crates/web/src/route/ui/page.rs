//! The pages: one file each, and this table.

pub(super) mod operation;
mod servers;
mod start;

use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use toolcrib_base::{Kind, Problem, nearest};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::{NavGroup, NavLink};

use super::live::{self, MakeLive};
use super::{PageRequest, write};
use crate::guard::UI;

/// A page, or all pages below a path.
#[derive(Debug)]
pub(super) struct Page {
    /// Its path. With `/*` at the end it answers whatever is below, one name deep.
    path: &'static str,
    /// Its group and its name in the navigation, if it stands there.
    nav: Option<(&'static str, &'static str)>,
    /// Whoever may do this operation sees it in the navigation; empty: everyone.
    needs: &'static str,
    /// Makes the page.
    make: Make,
    /// Makes the part that changes while it is open, if one does.
    live: Option<MakeLive>,
}

type Make = for<'a> fn(&'a PageRequest) -> BoxFuture<'a, Result<String, Problem>>;

/// All pages, in the order of the navigation.
const PAGES: &[&Page] = &[&start::PAGE, &servers::PAGE, &servers::ONE, &operation::LIST, &operation::ONE];

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
        Ok(text) => write::html(&request.head.headers, StatusCode::OK, text),
        Err(problem) => write::problem(request, "This page cannot be shown", &problem),
    }
}

/// What makes the live part of the page that a path below [`live::ROOT`] names.
pub(super) fn live(request: &PageRequest) -> Option<MakeLive> {
    let rest = request.head.uri.path().strip_prefix(live::ROOT)?;
    find(&format!("{UI}/{rest}").trim_end_matches('/').to_owned())?.live
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
    let here = request.head.uri.path();
    let mut groups: Vec<NavGroup> = Vec::new();
    for page in PAGES.iter().filter(|page| page.needs.is_empty() || request.allows(page.needs)) {
        let Some((group, label)) = page.nav else { continue };
        let is_below = page.path != UI && here.strip_prefix(page.path).is_some_and(|rest| rest.starts_with('/'));
        let link = NavLink { path: page.path, label, is_current: here == page.path || is_below, waiting: 0 };
        match groups.iter_mut().find(|known| known.label == group) {
            Some(known) => known.links.push(link),
            None => groups.push(NavGroup { label: group, links: vec![link] }),
        }
    }
    groups
}

/// The text of a template.
pub(super) fn rendered(page: &impl askama::Template) -> Result<String, Problem> {
    page.render().map_err(|error| Problem::new(Kind::Internal, format!("the page was not made: {error}")))
}
