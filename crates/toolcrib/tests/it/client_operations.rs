//! Clients' settings by operations of the real binary: found, imported, connected, undone.

use std::fs;

use serde_json::{Value, json};

use crate::serving::GatewayFixture;
use crate::toolcrib::{Talk, run};

const CURSOR: &str = ".cursor/mcp.json";
const BEFORE: &str = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"true\", \"env\": {\"API_KEY\": \"hunter2-hunter2\"}},\n    \
                      \"b\": {\"url\": \"https://b.example/mcp\"}\n  }\n}\n";

impl GatewayFixture {
    /// What an operation answers, or its problem with its hint.
    async fn client(&self, operation: &str, arguments: Value) -> Result<Value, String> {
        let tool = format!("client_{operation}");
        let ran = run(self.home(), &["api", &tool, "--json", &arguments.to_string()], &[]).await;
        match ran.code {
            0 => Ok(serde_json::from_str(&ran.stdout).unwrap()),
            _ => Err(ran.stderr),
        }
    }

    fn cursor(&self) -> String {
        fs::read_to_string(self.home().join(CURSOR)).unwrap()
    }
}

#[tokio::test]
async fn servers_of_clients_are_imported_and_their_secrets_go_into_the_vault() {
    let gateway = GatewayFixture::of_person(&[(CURSOR, BEFORE), (".codex/config.toml", "[mcp_servers.a\n")]).await;
    let listed = gateway.client("list", json!({})).await.unwrap();
    let of = |name: &str| listed["clients"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    let cursor = of("cursor");
    assert_eq!((&cursor["state"], &cursor["servers"]), (&json!("not connected"), &json!(["a", "b"])), "{cursor}");
    assert_eq!(cursor["path"], "~/.cursor/mcp.json");
    let codex = of("codex");
    assert!(codex["state"] == "unreadable" && codex["problem"].as_str().unwrap().contains(":1:"), "{codex}");

    let shown = gateway.client("import_preview", json!({})).await.unwrap();
    assert_eq!((&shown["new"], shown["problems"].as_array().unwrap().len()), (&json!(2), 1), "{shown}");
    assert!(shown.to_string().contains("vault:") && !shown.to_string().contains("hunter2"), "{shown}");
    assert!(!gateway.home().join("servers").exists());
    let none = gateway.client("import", json!({ "servers": [] })).await.unwrap_err();
    assert!(none.contains("servers"), "{none}");
    let unknown = gateway.client("import", json!({ "servers": ["a", "nope"] })).await.unwrap_err();
    assert!(unknown.contains("`nope`") && !gateway.home().join("servers").exists(), "all or nothing: {unknown}");
    let imported = gateway.client("import", json!({ "servers": ["a"] })).await.unwrap();
    assert_eq!(imported["written"], json!([{ "name": "a", "file": "servers/a.yaml" }]));
    let written = fs::read_to_string(gateway.home().join("servers/a.yaml")).unwrap();
    assert!(written.contains("vault:") && !written.contains("hunter2"), "{written}");
    let secrets = run(gateway.home(), &["secret", "list"], &[]).await;
    assert!(secrets.stdout.contains("a-api-key") && !secrets.stdout.contains("hunter2"), "{}", secrets.stdout);
    let again = gateway.client("import_preview", json!({ "clients": ["cursor"] })).await.unwrap();
    assert_eq!((&again["new"], &again["servers"][0]["state"]), (&json!(1), &json!("present")), "{again}");
    assert_eq!(gateway.cursor(), BEFORE, "an import changes no file of a client");

    // The import is a write like another one.
    let writes = run(gateway.home(), &["api", "write_list"], &[]).await;
    let writes: Value = serde_json::from_str(&writes.stdout).unwrap();
    let write = &writes["writes"][0];
    assert_eq!((&write["files"][0]["change"], &write["canUndo"]), (&json!("added"), &json!(true)), "{writes}");
    let id = format!("id={}", write["id"].as_str().unwrap());
    let undone = run(gateway.home(), &["api", "write_undo", &id], &[]).await;
    assert!(undone.code == 0 && !gateway.home().join("servers/a.yaml").exists(), "{}", undone.stderr);
}

#[tokio::test]
async fn a_client_is_connected_as_shown_and_undone_byte_for_byte() {
    let gateway = GatewayFixture::of_person(&[(CURSOR, BEFORE)]).await;
    let cursor = || json!({ "name": "cursor" });
    let shown = gateway.client("preview", cursor()).await.unwrap();
    let difference = shown["difference"].as_str().unwrap();
    assert!(difference.contains("+    \"toolcrib\": {") && difference.contains("127.0.0.1:"), "{shown}");
    assert!(!shown.to_string().contains("hunter2") && shown["backups"].as_str().unwrap().ends_with("backups/cursor"));
    assert_eq!(gateway.cursor(), BEFORE);
    let stale = json!({ "name": "cursor", "revision": "0f0f" });
    let refused = gateway.client("connect", stale).await.unwrap_err();
    assert!(refused.contains("changed since the preview") && refused.contains("+    \"toolcrib\""), "{refused}");
    let seen = json!({ "name": "cursor", "revision": shown["revision"] });
    let connected = gateway.client("connect", seen).await.unwrap();
    assert!(connected["changed"] == true && connected["backup"].is_string(), "{connected}");
    let listed = gateway.client("list", json!({})).await.unwrap();
    let row = listed["clients"].as_array().unwrap().iter().find(|it| it["name"] == "cursor").unwrap();
    assert_eq!((&row["state"], &row["canUndo"]), (&json!("connected"), &json!(true)), "{row}");
    assert_eq!(row["way"], gateway.url());
    assert_eq!(gateway.client("connect", cursor()).await.unwrap()["changed"], false);
    gateway.client("undo", cursor()).await.unwrap();
    assert_eq!(gateway.cursor(), BEFORE);

    // A change since stays, unless it is asked to keep it.
    gateway.client("connect", cursor()).await.unwrap();
    let edited = gateway.cursor().replace("// mine", "// yours");
    fs::write(gateway.home().join(CURSOR), &edited).unwrap();
    let refused = gateway.client("undo", cursor()).await.unwrap_err();
    for part in
        ["was changed since Cursor was connected", "-  // mine", "+  // yours", "undoing would", "toolcrib disconnect"]
    {
        assert!(refused.contains(part), "no `{part}` in {refused}");
    }
    assert!(!refused.contains("hunter2") && gateway.cursor() == edited, "{refused}");
    gateway.client("disconnect", cursor()).await.unwrap();
    assert_eq!(gateway.cursor(), BEFORE.replace("// mine", "// yours"));
    let nothing = gateway.client("undo", cursor()).await.unwrap_err();
    assert!(nothing.contains("nothing to undo"), "{nothing}");
    let unknown = gateway.client("connect", json!({ "name": "nope" })).await.unwrap_err();
    assert!(unknown.contains("no client `nope`") && unknown.contains("cursor"), "{unknown}");
    // A client that has never been started here is named as such.
    let absent = gateway.client("connect", json!({ "name": "zed" })).await.unwrap_err();
    assert!(absent.contains("Zed has no settings here"), "{absent}");
}

#[tokio::test]
async fn what_an_operation_would_write_is_shown_first() {
    let gateway =
        GatewayFixture::of_person(&[("servers/a.yaml", "# kept\nname: a\ncommand: x\nstart: manual\n")]).await;
    let preview = async |operation: &str, arguments: Value| {
        let asked = json!({ "operation": operation, "arguments": arguments }).to_string();
        let ran = run(gateway.home(), &["api", "write_preview", "--json", &asked], &[]).await;
        if ran.code == 0 { Ok(serde_json::from_str::<Value>(&ran.stdout).unwrap()) } else { Err(ran.stderr) }
    };
    let yaml = "name: b\ncommand: y\nstart: manual\n";
    let shown = preview("core_mcpserver_create", json!({ "name": "b", "yaml": yaml })).await.unwrap();
    assert_eq!((&shown["files"][0]["file"], &shown["files"][0]["change"]), (&json!("servers/b.yaml"), &json!("added")));
    assert!(!gateway.home().join("servers/b.yaml").exists());
    let shown = preview("core_mcpserver_delete", json!({ "name": "a" })).await.unwrap();
    assert_eq!(shown["files"][0]["difference"], "-# kept\n-name: a\n-command: x\n-start: manual\n");
    assert!(gateway.home().join("servers/a.yaml").exists());
    let workflow = json!({ "name": "w", "steps": [{ "id": "one", "tool": "a_x" }] });
    let shown = preview("core_workflow_create", workflow).await.unwrap();
    assert_eq!(shown["files"][0]["file"], "workflows/w.yaml", "{shown}");
    assert!(!gateway.home().join("workflows/w.yaml").exists());
    // Its own errors, and nothing of what does more than write.
    let exists =
        preview("core_mcpserver_create", json!({ "name": "a", "yaml": "name: a\ncommand: y\n" })).await.unwrap_err();
    assert!(exists.contains("already exists"), "{exists}");
    let other = preview("core_halt_add", json!({ "kind": "run", "id": "r" })).await.unwrap_err();
    assert!(other.contains("does not write a definition"), "{other}");
    let unknown = preview("core_mcpserver_creat", json!({})).await.unwrap_err();
    assert!(unknown.contains("core_mcpserver_create"), "{unknown}");
}

#[tokio::test]
async fn who_is_connected_is_listed_and_can_be_ended() {
    let gateway = GatewayFixture::of_person(&[]).await;
    assert_eq!(gateway.client("session_list", json!({})).await.unwrap(), json!({ "sessions": [], "total": 0 }));
    let mut client = Talk::start(gateway.home(), &["bridge"]);
    let introduction = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "tester", "version": "1" } },
    });
    client.ask(&introduction.to_string()).await;
    let listed = gateway.client("session_list", json!({})).await.unwrap();
    let session = &listed["sessions"][0];
    assert!(session["client"].as_str().unwrap().contains("tester"), "{listed}");
    assert_eq!((&session["profile"], &session["revision"]), (&json!("default"), &json!("2025-06-18")), "{listed}");
    let requests = || json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    client.ask(&requests()).await;
    let listed = gateway.client("session_list", json!({})).await.unwrap();
    assert!(listed["sessions"][0]["requests"].as_u64().unwrap() > session["requests"].as_u64().unwrap(), "{listed}");
    let name = json!({ "name": session["name"] });
    assert_eq!(gateway.client("session_end", name.clone()).await.unwrap()["ended"], true);
    assert!(gateway.client("session_end", name).await.unwrap_err().contains("no session"));
}
