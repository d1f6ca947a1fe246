//! Pages about the gateway itself: settings, secrets.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Level, Look};

use super::json::{cell, rows, text, time, words};
use super::{Listing, Page, open_page, operation, rendered};
use crate::route::ui::PageRequest;

pub(super) const SECRETS: Page = Page {
    path: "/ui/secrets",
    nav: Some(("Gateway", "Secrets")),
    needs: "core_secret_list",
    make: |request| Box::pin(async move { rendered(&secrets(request).await?) }),
    live: None,
};

pub(super) const SETTINGS: Page = Page {
    path: "/ui/settings",
    nav: Some(("Gateway", "Settings")),
    needs: "core_config_get",
    make: |request| Box::pin(async move { rendered(&settings(request).await?) }),
    live: None,
};

async fn secrets(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 4] =
        [Column::text("Secret"), Column::text("For"), Column::text("Set (UTC)"), Column::text("Change")];
    let answer = request.operate("core_secret_list", json!({})).await?.to_value();
    let table = rows(&answer, "secrets").iter().map(|row| {
        let name = text(row, "name");
        let pages = || {
            let page = |tool: &str| format!("/ui/operations/{tool}?name={}&return=/ui/secrets", encoded(&name));
            let replace = open_page("Replace", &page("core_secret_set"), Look::Plain);
            let remove = open_page("Remove", &page("core_secret_delete"), Look::Danger);
            vec![Cell::Action(replace), Cell::Action(remove)]
        };
        vec![
            Cell::Id(name.clone()),
            Cell::Text(scope(row)),
            time(row, "set_at"),
            Cell::Several(request.if_changing(pages)),
        ]
    });
    let listing = Listing {
        title: "Secrets",
        intro: "Names in the vault. A value is set here, and never shown.",
        empty: ("The vault is empty.", "Definitions refer to a secret as `vault:NAME`."),
        actions: request.if_changing(|| vec![operation("Set a secret", "core_secret_set", "/ui/secrets")]),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

/// Which servers and profiles may use a secret.
fn scope(secret: &Value) -> String {
    let part = |what: &str, key: &str| match words(secret, key) {
        names if names.is_empty() => format!("every {what}"),
        names => format!("{what} {names}"),
    };
    format!("{}, {}", part("server", "servers"), part("profile", "profiles"))
}

async fn settings(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 3] = [Column::text("Setting"), Column::text("Value"), Column::text("From")];
    let answer = request.operate("core_config_get", json!({})).await?.to_value();
    let all = answer["settings"].as_object().into_iter().flatten();
    let pending = answer["pending"].as_object().into_iter().flatten().map(|(name, value)| {
        let state = Cell::State { level: Level::Warn, word: "not saved".into(), note: String::new() };
        vec![Cell::Id(name.clone()), Cell::Id(value.as_str().unwrap_or_default().to_owned()), state]
    });
    let table = all.map(|(name, row)| vec![Cell::Id(name.clone()), Cell::Id(text(row, "value")), cell(row, "from")]);
    let is_pending = !answer["pending"].is_null();
    let actions = || {
        let change = operation("Change where it listens", "core_config_update_aggregator", "/ui/settings");
        let save = is_pending.then(|| operation("Save", "core_config_save", "/ui/settings"));
        std::iter::once(change).chain(save).collect()
    };
    let listing = Listing {
        title: "Settings",
        intro: "What `config.toml`, the environment and flags say. A change counts after a restart.",
        empty: ("No settings are known.", "They are in `config.toml` of the home folder."),
        actions: request.if_changing(actions),
        ..Listing::new(&COLUMNS, Vec::new(), pending.chain(table).collect())
    };
    Ok(request.list(listing))
}
