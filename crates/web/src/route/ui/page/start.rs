//! `/ui`: what needs the person, then how everything is.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::page::StartPage;
use toolcrib_ui::page::start::{GrantedProfile, Need, Status};
use toolcrib_ui::part::Level;

use super::json::level;
use super::{Page, rendered};
use crate::route::ui::PageRequest;
use crate::route::ui::write::sentence;

pub(super) const PAGE: Page = Page {
    path: "/ui",
    nav: Some(("", "Start")),
    needs: "",
    make: |request| Box::pin(async move { rendered(&page(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&page(request).await?.as_live()) })),
};

async fn page(request: &PageRequest) -> Result<StartPage, Problem> {
    let status: Status = request.read("core_status", json!({})).await?;
    let mut needs = Vec::new();
    for problem in &status.problems {
        let place = problem.line.map_or_else(|| problem.file.clone(), |line| format!("{} line {line}", problem.file));
        let hint = problem.hint.as_deref().map(sentence);
        needs.push(Need {
            level: "bad",
            word: "file",
            text: format!("{place}: {}", problem.message),
            hint,
            link: None,
        });
    }
    for server in status.servers.iter().filter(|server| matches!(level(&server.state), Level::Bad | Level::Warn)) {
        let text = match &server.last_error {
            Some(error) => format!("{}: {error}", server.name),
            None => format!("{} is {}", server.name, server.state),
        };
        let level = level(&server.state).class();
        let link = (format!("/ui/servers/{}", server.name), "Open".to_owned());
        let hint = server.next.as_deref().map(sentence);
        needs.push(Need { level, word: "server", text, hint, link: Some(link) });
    }
    for warning in &status.warnings {
        let text = warning.as_str().or_else(|| warning["message"].as_str()).unwrap_or_default();
        let hint = warning["hint"].as_str().map(sentence);
        needs.push(Need { level: "warn", word: "setting", text: sentence(text), hint, link: None });
    }
    Ok(StartPage { frame: request.frame("Start"), needs, profiles: granted(request), status })
}

/// The profiles of who signed in at an issuer.
fn granted(request: &PageRequest) -> Vec<GrantedProfile> {
    let token = request.viewer.as_ref().and_then(|viewer| viewer.token.as_ref());
    let grants = token.into_iter().flat_map(|token| &token.grants);
    let rows = grants.flat_map(|grant| grant.profiles.iter().map(move |profile| (profile, grant.role)));
    rows.map(|(profile, role)| GrantedProfile {
        name: profile.to_string(),
        role: role.as_str(),
        url: request.own_url(&format!("/mcp/p/{profile}")),
    })
    .collect()
}
