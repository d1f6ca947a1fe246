//! Links to what is gone: each page says what is not there and names what is nearest.

use toolcrib_testgateway::server;

use crate::pages::Pages;
use crate::ui::text;

#[tokio::test]
async fn a_link_to_what_is_gone_names_the_nearest() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        server("alpha", &[]),
        file("profiles/research.yaml", "name: research\n"),
        file("workflows/nightly.yaml", "name: nightly\nsteps: [{id: a, tool: alpha/echo}]\n"),
    ];
    let pages = Pages::open_with(&files).await;
    let cookie = pages.sign_in().await;
    let mut wrong = Vec::new();
    for (path, near) in [
        ("/ui/serverz", "/ui/servers"),
        ("/ui/servers/alpah", "alpha"),
        ("/ui/logs/alpah", "alpha"),
        ("/ui/tools/alpha%2Fehco", "alpha_echo"),
        ("/ui/call/alpha%2Fehco", "alpha_echo"),
        ("/ui/prompts/alpha_gret", "alpha_greet"),
        ("/ui/profiles/reserch", "research"),
        ("/ui/workflows/nigthly", "nightly"),
        ("/ui/registry/githib", "github"),
        ("/ui/models/demmo", "demo"),
        ("/ui/operations/core_halt_ad", "core_halt_add"),
    ] {
        let reply = pages.page(path, &cookie).await;
        let page = text(&reply);
        // What the path itself holds is no hint.
        let shown = page.split("<main").nth(1).unwrap_or_default();
        if reply.status != 404 || !shown.contains(&format!("<code>{near}</code>")) {
            wrong.push(format!("{path} answers {} and does not name `{near}`: {shown}", reply.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
