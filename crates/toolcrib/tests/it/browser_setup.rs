//! Setting up in a real browser: from an empty home to connected clients, a server of the registry with its secret, and a
//! file that changes while its form is open. One gateway and one browser for all of it.

use std::fs;
use std::path::Path;

use serde_json::json;
use toolcrib_testkit::fake_server;

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

pub(crate) const CURSOR: &str = ".cursor/mcp.json";
const CODE: &str = if cfg!(target_os = "macos") {
    "Library/Application Support/Code/User/mcp.json"
} else {
    ".config/Code/User/mcp.json"
};

/// An entry of the registry that asks for a secret.
const ENTRY: &str = "name: desk\ntitle: Desk\ndescription: A desk\ncategory: office\nicon: desk\nabout: A desk\n\
                     homepage: https://example.com\nauthorization:\n  type: api_key\n  variables:\n    - name: DESK_KEY\n      \
                     description: The key of the desk\n      secret: true\n";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The form of an operation that is about this.
fn button(tool: &str, about: &str) -> String {
    format!("form[action='/ui/do/{tool}']:has(input[value='{about}']) button")
}

#[tokio::test]
async fn from_an_empty_home_to_connected_clients_and_back() {
    set_up(Browser::start().await).await;
}

#[tokio::test]
async fn from_an_empty_home_to_connected_clients_and_back_without_script() {
    set_up(Browser::without_script().await).await;
}

async fn set_up(browser: Browser) {
    let program = fake_server().display().to_string();
    let cursor = format!(
        "// mine\n{{\n  \"mcpServers\": {{\n    \"practice\": {{ \"command\": {program:?} }}, // why\n    \
         \"broken\": {{ \"command\": \"./no-such-program\" }},\n  }},\n}}\n"
    );
    let code = format!(
        "{{\"servers\": {{\"second\": {{\"type\": \"stdio\", \"command\": {program:?}, \"env\": {{\"PLAIN\": \"1\"}}}}}}}}"
    );
    let entry = format!("{ENTRY}runtime: {{command: {program:?}}}\n");
    let files = [(CURSOR, cursor.as_str()), (CODE, &code), ("registry/custom/desk.yaml", &entry)];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    browser
        .signed_in(&gateway, |pages| async move {
            import(&pages, &home).await;
            connect(&pages, &home, &cursor).await;
            add_from_registry(&pages, &home).await;
            assert_eq!(pages.complaints().await, [""; 0]);
            edited_meanwhile(&pages, &home).await;
            // A page that says no is an answer that browsers note.
            let noted = pages.complaints().await;
            assert!(noted.iter().all(|line| line.contains("responded with a status of 4")), "{noted:?}");
        })
        .await;
}

/// Two clients' servers are taken over; one fails and is repaired.
async fn import(pages: &Pages, home: &Path) {
    pages.reads("There are no servers yet.").await;
    pages.click("a[href='/ui/setup']").await;
    pages.reads("./no-such-program").await;
    let text = pages.text().await;
    for part in ["practice", "broken", "second", "stdio of Cursor", "stdio of VS Code"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!home.join("servers").exists(), "nothing is written before");
    pages.click("form[action='/ui/do/core_client_import'] button").await;
    // Each comes to its own end: two answer, one says why it does not.
    pages.comes_to_read("1 failed").await;
    pages.reads("no such program").await;
    pages.go("/ui/setup").await;
    pages.reads("Does each server answer?").await;
    pages.click("a[href^='/ui/operations/core_mcpserver_update?name=broken']").await;
    let definition = json!({ "name": "broken", "command": fake_server() }).to_string();
    pages.types("[name='v:/definition']", &definition).await;
    pages.click("form[action='/ui/do/core_mcpserver_update'] button.danger").await;
    pages.reads("servers/broken.yaml").await;
    pages.reads("- command: \"./no-such-program\"").await;
    assert!(read(&home.join("servers/broken.yaml")).contains("no-such-program"), "nothing is written before");
    pages.click("section form button").await;
    pages.reads("Done.").await;
    pages.go("/ui/setup?step=verify").await;
    pages.comes_to_read("all answer").await;
}

/// A client is connected by a difference that was shown, and its file comes back byte for byte, unless someone changed it.
async fn connect(pages: &Pages, home: &Path, before: &str) {
    let file = home.join(CURSOR);
    pages.go("/ui/setup?step=connect").await;
    pages.reads("Connect Cursor").await;
    let text = pages.text().await;
    for part in ["~/.cursor/mcp.json", "+     \"toolcrib\": {", "A copy of the file goes to", "Connect VS Code"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(read(&file), before);
    pages.click(&button("core_client_connect", "cursor")).await;
    pages.reads("Cursor is connected, by http://127.0.0.1:").await;
    assert!(read(&file).contains("\"toolcrib\""));
    pages.click(".notice form button").await;
    pages.reads("Cursor is disconnected").await;
    assert_eq!(read(&file), before, "byte for byte");
    // A change in between stays, and both differences are shown.
    pages.click(&button("core_client_connect", "cursor")).await;
    pages.reads("Cursor is connected").await;
    let changed = read(&file).replace("// why", "// because");
    fs::write(&file, &changed).unwrap();
    pages.click(".notice form button").await;
    pages.reads("was changed since Cursor was connected").await;
    let text = pages.text().await;
    for part in ["// because", "undoing would restore the file from before"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(read(&file), changed);
    pages.go("/ui/clients/cursor").await;
    pages.click("form[action='/ui/do/core_client_disconnect'] button").await;
    pages.reads("Cursor is disconnected").await;
    assert_eq!(read(&file), before.replace("// why", "// because"));
    // The first call is a link to the form of a tool.
    pages.go("/ui/setup?step=call").await;
    pages.click("main a.primary").await;
    pages.until("form[action^='/ui/call/']").await;
}

/// A server of the registry, whose secret goes into the vault and is on no page.
async fn add_from_registry(pages: &Pages, home: &Path) {
    pages.go("/ui/registry/desk").await;
    pages.reads("servers/desk.yaml").await;
    pages.types("input[type='password']", "short-lived-4711").await;
    pages.click("form[action='/ui/do/core_registry_add'] button").await;
    pages.reads("Done.").await;
    let written = read(&home.join("servers/desk.yaml"));
    assert!(written.contains("vault:desk-desk-key") && !written.contains("4711"), "{written}");
    pages.go("/ui/secrets").await;
    pages.reads("desk-desk-key").await;
    pages.reads("server desk, every profile").await;
    let page = pages.driver.source().await.unwrap();
    assert!(!page.contains("4711"));
    pages.go("/ui/writes").await;
    // What undoing changes is shown first.
    pages.click("main table a.button").await;
    pages.reads("servers/desk.yaml").await;
    pages.click("form[action='/ui/do/core_write_undo'] button").await;
    pages.reads("Done. Undo a write").await;
    assert!(!home.join("servers/desk.yaml").exists(), "it is undone from the list");
}

/// A file that a person edits while its form is open is not overwritten unseen, and comes back byte for byte.
async fn edited_meanwhile(pages: &Pages, home: &Path) {
    // A link to what is not there names what is.
    pages.go("/ui/clients/cursr").await;
    pages.reads("known clients: claude-desktop").await;
    let file = home.join("servers/practice.yaml");
    pages.go("/ui/operations/core_mcpserver_update?name=practice&return=/ui/servers/practice").await;
    pages.until("[name='v:/definition']").await;
    let edited = format!("# by hand\n{}title: By hand\n", read(&file));
    fs::write(&file, &edited).unwrap();
    let definition = json!({ "name": "practice", "command": fake_server(), "description": "by form" }).to_string();
    pages.types("[name='v:/definition']", &definition).await;
    let send = "form[action='/ui/do/core_mcpserver_update'] button.danger";
    pages.click(send).await;
    pages.reads("Changed in the file since you opened it").await;
    let text = pages.text().await;
    for part in ["has changed since it was read", "+   \"title\": \"By hand\"", "+   \"description\": \"by form\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(read(&file), edited);
    // What is shown next is the difference to the file as it is now.
    pages.click(send).await;
    pages.reads("What would change").await;
    pages.reads("- title: By hand").await;
    pages.click("section form button").await;
    pages.reads("Done.").await;
    assert!(read(&file).contains("by form"));
    pages.click(".notice form button").await;
    pages.reads("Done. Undo a write").await;
    assert_eq!(read(&file), edited, "byte for byte");
}

/// What a client would ask its person for is put in on the page, seen in the definition before it is written, and what is
/// secret of it goes into the vault.
#[tokio::test]
async fn placeholders_of_clients_are_filled_in_and_secrets_go_into_the_vault() {
    let program = fake_server().display().to_string();
    let asks = json!([
        { "id": "region", "type": "promptString", "description": "Which region" },
        { "id": "key", "type": "promptString", "description": "The key of the desk", "password": true },
    ]);
    let server = json!({
        "type": "stdio", "command": program, "args": ["--tag", "${workspaceFolder}/${input:region}"],
        "env": { "DESK_KEY": "${input:key}" },
    });
    let code = json!({ "inputs": asks, "servers": { "desk": server } }).to_string();
    let gateway = GatewayFixture::of_person(&[(CODE, code.as_str())]).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/setup?step=choose").await;
            pages.reads("VS Code asks: Which region.").await;
            // Without an answer it cannot be taken, and the page says for want of what.
            pages.reads("workspaceFolder").await;
            pages.types("[name='answer.workspaceFolder']", "/src").await;
            pages.types("[name='answer.input:region']", "eu").await;
            pages.click("form[action='/ui/setup'] button").await;
            pages.reads("/src/eu").await;
            assert!(!home.join("servers").exists(), "nothing is written before");
            pages.types("[name='arg.secrets.input:key']", "short-lived-4712").await;
            pages.click("form[action='/ui/do/core_client_import'] button").await;
            pages.reads("all answer").await;
            let written = read(&home.join("servers/desk.yaml"));
            assert!(written.contains("/src/eu") && written.contains("vault:"), "{written}");
            assert!(!written.contains("4712"), "{written}");
            pages.go("/ui/secrets").await;
            pages.reads("server desk").await;
            assert!(!pages.driver.source().await.unwrap().contains("4712"));
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    let recorded = run(gateway.home(), &["audit", "list", "--target", "core_client_import", "-o", "json"], &[]).await;
    assert!(recorded.stdout.contains("core_client_import") && !recorded.stdout.contains("4712"), "{}", recorded.stdout);
}
