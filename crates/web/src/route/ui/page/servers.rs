//! `/ui/servers`: the servers, and one of them.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::page::server::ServerDetail;
use toolcrib_ui::page::servers::ServerRow;
use toolcrib_ui::page::{ServerPage, ServersPage};

use super::{Page, name, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/servers",
    nav: Some(("Tools", "Servers")),
    needs: "core_mcpserver_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/servers/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&one(request).await?.as_live()) })),
};

#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "mcpServers")]
    servers: Vec<ServerRow>,
}

async fn list(request: &PageRequest) -> Result<ServersPage, Problem> {
    let Listed { servers } = request.read("core_mcpserver_list", json!({})).await?;
    let (query, state) = (request.parameter("q").unwrap_or_default(), request.parameter("state").unwrap_or_default());
    let wanted = query.to_lowercase();
    let states: BTreeSet<&str> = servers.iter().map(|row| row.state.as_str()).collect();
    let (states, total) = (states.into_iter().map(str::to_owned).collect(), servers.len());
    let is_named = |row: &ServerRow| {
        let title = row.title.as_deref().unwrap_or_default();
        [row.name.as_str(), title].iter().any(|text| text.to_lowercase().contains(&wanted))
    };
    let rows = servers.into_iter().filter(|row| (state.is_empty() || row.state == state) && is_named(row)).collect();
    let (query, state, live) = (query.to_owned(), state.to_owned(), request.live_path());
    Ok(ServersPage { frame: request.frame("Servers"), query, state, states, total, rows, live })
}

async fn one(request: &PageRequest) -> Result<ServerPage, Problem> {
    let server: ServerDetail = request.read("core_mcpserver_get", json!({ "name": name(request) })).await?;
    let title = server.row.title.clone().unwrap_or_else(|| server.row.name.clone());
    let definition = serde_json::to_string_pretty(&server.definition).unwrap_or_default();
    Ok(ServerPage { frame: request.frame(&title), server, definition, live: request.live_path() })
}
