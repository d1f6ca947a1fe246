//! Pages about people: logins at servers, halts, and browsers that are signed in.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Level, Look};

use super::json::{cell, level, link, rows, text, time};
use super::{Listing, Page, operation, rendered, run};
use crate::route::ui::PageRequest;

pub(super) const LOGINS: Page = Page {
    path: "/ui/logins",
    nav: Some(("People", "Logins")),
    needs: "core_auth_status",
    make: |request| Box::pin(async move { rendered(&logins(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&logins(request).await?.as_live()) })),
};

pub(super) const HALTS: Page = Page {
    path: "/ui/halts",
    nav: Some(("People", "Halts")),
    needs: "core_halt_list",
    make: |request| Box::pin(async move { rendered(&halts(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&halts(request).await?.as_live()) })),
};

pub(super) const SESSIONS: Page = Page {
    path: "/ui/sessions",
    nav: Some(("Gateway", "Browser sessions")),
    needs: "core_browser_session_list",
    make: |request| Box::pin(async move { rendered(&sessions(request).await?) }),
    live: None,
};

async fn logins(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 6] = [
        Column::text("Server"),
        Column::text("State"),
        Column::text("Held by"),
        Column::text("Issuer"),
        Column::text("Until (UTC)"),
        Column::text("Change"),
    ];
    let is_admin = request.principal().is_some_and(toolcrib_session::Principal::is_admin);
    let arguments = if is_admin { json!({ "everyone": true }) } else { json!({}) };
    let answer = request.operate("core_auth_status", arguments).await?.to_value();
    let own = rows(&answer, "logins").iter().map(|row| {
        let word = text(row, "state");
        vec![
            link("/ui/servers", row, "server", ""),
            Cell::State { level: level(&word), word, note: why_not(row) },
            holder(row),
            cell(row, "issuer"),
            time(row, "expiresAt"),
            Cell::Several(request.if_changing(|| login_actions(request, row))),
        ]
    });
    let others = rows(&answer, "others").iter().map(|row| {
        let state = Cell::state(level("logged-in"), "logged-in");
        vec![link("/ui/servers", row, "server", ""), state, holder(row), Cell::Nothing, Cell::Nothing, Cell::Nothing]
    });
    let table = own.chain(others);
    let listing = Listing {
        title: "Logins",
        intro: "Servers that people log in to at a provider. Calls carry the login of their caller, or that of this installation.",
        empty: ("No server needs a login.", "A server that asks for one appears here."),
        is_live: true,
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

/// Whose login it is.
fn holder(login: &Value) -> Cell {
    match text(login, "heldBy") {
        holder if holder.is_empty() => Cell::Nothing,
        holder if holder == "owner" => Cell::Text("this installation".to_owned()),
        holder => Cell::Id(holder),
    }
}

/// What a person can do about a login: nothing where the gateway signs on by itself.
fn login_actions(request: &PageRequest, login: &Value) -> Vec<Cell> {
    let server = text(login, "server");
    let action = |label: &str, tool, look| {
        let action = run(label, tool, vec![("server", server.clone())], &request.here());
        Cell::Action(toolcrib_ui::part::Action { about: server.clone(), look, ..action })
    };
    match (login["method"].is_null(), login["state"] == "logged-in") {
        (false, _) => Vec::new(),
        (true, true) => vec![action("Log out", "core_auth_logout", Look::Danger)],
        (true, false) => vec![action("Log in", "core_auth_login", Look::Primary)],
    }
}

/// Why a login lapsed or failed, and what to do.
fn why_not(login: &Value) -> String {
    let parts = ["reason", "failure", "advice"].map(|key| text(login, key));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

async fn halts(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 5] = [
        Column::text("Who or what"),
        Column::text("Why"),
        Column::text("By"),
        Column::text("Since (UTC)"),
        Column::text("Lift"),
    ];
    let answer = request.operate("core_halt_list", json!({})).await?.to_value();
    let table = rows(&answer, "halts").iter().map(|row| {
        let subject = format!("{} {}", text(row, "kind"), text(row, "subject"));
        let lift = || {
            let arguments = vec![("id", text(row, "id"))];
            let action = run("Lift", "core_halt_lift", arguments, &request.here());
            vec![Cell::Action(toolcrib_ui::part::Action { about: subject.clone(), ..action })]
        };
        vec![
            Cell::Id(subject.clone()),
            cell(row, "reason"),
            Cell::Id(text(row, "addedBy")),
            time(row, "addedAt"),
            Cell::Several(request.if_changing(lift)),
        ]
    });
    let listing = Listing {
        title: "Halts",
        intro: "Who or what is halted may do nothing until the halt is lifted.",
        empty: (
            "Nothing is halted.",
            "A halt ends streams, calls, tasks and runs at once. Canaries add halts by themselves.",
        ),
        actions: request.if_changing(|| vec![operation("Halt", "core_halt_add", "/ui/halts")]),
        is_live: true,
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

async fn sessions(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 5] = [
        Column::text("Session"),
        Column::text("Browser"),
        Column::text("Of"),
        Column::text("Used (UTC)"),
        Column::text("End"),
    ];
    let answer = request.operate("core_browser_session_list", json!({})).await?.to_value();
    let own = request.viewer.as_ref().map(|viewer| viewer.session.clone()).unwrap_or_default();
    let table = rows(&answer, "sessions").iter().map(|row| {
        let name = text(row, "name");
        let end = || {
            let action = run("End", "core_browser_session_end", vec![("name", name.clone())], &request.here());
            vec![Cell::Action(toolcrib_ui::part::Action { about: name.clone(), ..action })]
        };
        let mut shown = vec![Cell::Id(name.clone())];
        if name == own {
            shown.push(Cell::Tags(vec![(Level::Ok, "this one".to_owned())]));
        }
        vec![
            Cell::Several(shown),
            Cell::Summary(text(row, "browser")),
            Cell::Id(text(row, "principal")),
            time(row, "used"),
            Cell::Several(request.if_changing(end)),
        ]
    });
    let listing = Listing {
        title: "Browser sessions",
        intro: "A session ends an hour after it was last used, and twelve hours after it began.",
        empty: ("No browser is signed in by a code or the token.", "`toolcrib ui` opens these pages signed in."),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}
