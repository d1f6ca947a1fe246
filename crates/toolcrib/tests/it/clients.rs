//! The commands that read and write other clients' settings, with their own home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::toolcrib::{CommandOutput, run};

/// A person's folder with Toolcrib's home in it.
struct Person {
    folder: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with(arguments, &[]).await
    }

    async fn run_with(&self, arguments: &[&str], more: &[(&str, &str)]) -> CommandOutput {
        let home = self.folder.path().to_str().unwrap();
        let mut variables = vec![("HOME", home)];
        variables.extend_from_slice(more);
        run(&self.path("toolcrib"), arguments, &variables).await
    }
}

/// Where a client keeps its settings on the platform of the test.
fn settings(below: &str) -> String {
    if cfg!(target_os = "macos") { format!("Library/Application Support/{below}") } else { format!(".config/{below}") }
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn connecting_and_disconnecting_gives_the_file_back() {
    let person = Person::new();
    let before = "// mine\n{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }, // why\n  },\n}\n";
    let path = person.write(".cursor/mcp.json", before);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    // Looking changes nothing.
    let looked = person.run(&["connect", "cursor", "--preview"]).await;
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    for part in ["keeps everything else", "+    \"toolcrib\": {", "127.0.0.1:8700/mcp", "Nothing was written"] {
        assert!(looked.stdout.contains(part), "no `{part}` in:\n{}", looked.stdout);
    }
    // No one is there to be asked.
    let asked = person.run(&["connect", "cursor"]).await;
    assert_eq!(asked.code, 1);
    assert!(asked.stderr.contains("`--yes`"), "{}", asked.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    assert_eq!(entries(&person.path("toolcrib/state")), 0);

    let ran = person.run(&["connect", "cursor", "--yes", "--profile", "work"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Cursor is connected, by http://127.0.0.1:8700/mcp/p/work"), "{}", ran.stdout);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"url\": \"http://127.0.0.1:8700/mcp/p/work\""), "{text}");
    assert_eq!(mode(&path), 0o640);
    let again = person.run(&["connect", "cursor", "--yes", "--profile", "work"]).await;
    again.prints("Cursor is already connected, by http://127.0.0.1:8700/mcp/p/work\n");
    // Another profile replaces the first.
    let ran = person.run(&["connect", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("replaces a different entry"), "{}", ran.stdout);
    assert!(!fs::read_to_string(&path).unwrap().contains("/p/work"));

    let backups = person.path("toolcrib/state/backups/cursor");
    assert_eq!((entries(&backups), mode(&backups)), (2, 0o700));
    let ran = person.run(&["disconnect", "cursor", "--dry-run"]).await;
    assert!(ran.stdout.contains("-    \"toolcrib\": {"), "{}", ran.stdout);
    let ran = person.run(&["disconnect", "cursor", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    assert!(!person.path("toolcrib/state/connected/cursor.json").exists());
    person.run(&["disconnect", "cursor", "--yes"]).await.prints("Cursor is not connected: nothing to do\n");
}

#[tokio::test]
async fn a_client_that_only_starts_programs_starts_us() {
    let person = Person::new();
    let below = settings("Claude/claude_desktop_config.json");
    let ran = person.run(&["connect", "claude-desktop", "--yes"]).await;
    ran.fails(1, &["has no settings here", "--create"]);
    assert!(!person.path(&below).parent().unwrap().exists());
    // Its folder is there, so a file that holds us alone is made, and goes with us.
    fs::create_dir_all(person.path(&below).parent().unwrap()).unwrap();
    let ran = person.run(&["connect", "claude-desktop", "--yes", "--profile", "work"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("a new file"), "{}", ran.stdout);
    let text = fs::read_to_string(person.path(&below)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let entry = &value["mcpServers"]["toolcrib"];
    // One gateway for all clients: the bridge leads to it, and brings no token that lets it administer.
    // It starts the gateway of this home where none runs, without the variables of this shell.
    let home = person.path("toolcrib");
    let args = serde_json::json!(["bridge", "http://127.0.0.1:8700/mcp/p/work", "--no-token", "--home", home]);
    assert_eq!(entry["args"], args);
    assert!(Path::new(entry["command"].as_str().unwrap()).is_absolute());
    let connect = ["connect", "claude-desktop", "--yes", "--profile", "work"];
    let again = person.run(&connect).await;
    assert!(again.stdout.starts_with("Claude Desktop is already connected, by `"), "{}", again.stdout);
    let foreign = person.run(&["connect", "claude-desktop", "--preview", "--endpoint", "https://tools.example"]).await;
    assert!(foreign.stdout.contains("\"https://tools.example/mcp\""), "{}", foreign.stdout);
    assert!(
        !foreign.stdout.lines().any(|line| line.starts_with('+') && line.contains("--no-token")),
        "{}",
        foreign.stdout
    );
    // Its own gateway on request.
    let ran = person.run(&[&connect[..], &["--stdio"]].concat()).await;
    assert!(ran.stdout.contains("replaces a different entry"), "{}", ran.stdout);
    let text = fs::read_to_string(person.path(&below)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let home = person.path("toolcrib");
    let args = serde_json::json!(["stdio", "--profile", "work", "--home", home]);
    assert_eq!(value["mcpServers"]["toolcrib"]["args"], args);
    let ran = person.run(&["disconnect", "claude-desktop", "--yes"]).await;
    assert!(ran.stdout.contains("the file is deleted"), "{}", ran.stdout);
    assert!(!person.path(&below).exists());
    // A file of another place, and its folder with it.
    let elsewhere = person.path("x/y.toml");
    let named = ["connect", "codex", "--yes", "--create", "--file", elsewhere.to_str().unwrap()];
    assert_eq!(person.run(&named).await.code, 0);
    assert_eq!(
        fs::read_to_string(&elsewhere).unwrap(),
        "[mcp_servers.toolcrib]\nurl = \"http://127.0.0.1:8700/mcp\"\n"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_and_its_place_is_told() {
    let person = Person::new();
    let before = "{\n  \"theme\": \"One\"\n  \"x\": 1\n}\n";
    let zed = ".config/zed/settings.json";
    let path = person.write(zed, before);
    for command in ["connect", "disconnect"] {
        let ran = person.run(&[command, "zed", "--yes"]).await;
        ran.fails(1, &["settings.json:2:", "expected comma", "hint: nothing was changed"]);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    assert!(!person.path("toolcrib/state").exists());
    let ran = person.run(&["import", "zed", "--yes"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("settings.json:2:"), "{}", ran.stderr);
    person.run(&["connect", "nobody"]).await.fails(64, &["unknown client", "claude-desktop", "zed"]);
    person.run(&["connect", "muster", "--yes"]).await.fails(1, &["only read", "toolcrib import muster"]);
    person.run(&["import"]).await.fails(1, &["settings.json:2:"]);
}

#[tokio::test]
async fn servers_of_clients_become_definitions() {
    let person = Person::new();
    person.run(&["import", "--yes"]).await.fails(1, &["no client settings found", "--file"]);
    let secret = ["ghp", "0123456789abcdef"].join("_");
    person.write(
        ".cursor/mcp.json",
        &format!("{{ // mine\n \"mcpServers\": {{ \"GitHub\": {{ \"command\": \"gh-server\", \"env\": {{ \"GITHUB_TOKEN\": \"{secret}\", \"MODE\": \"ro\" }}, }}, \"toolcrib\": {{ \"url\": \"http://127.0.0.1:8700/mcp\" }} }} }}"),
    );
    person.write(
        ".codex/config.toml",
        "[mcp_servers.docs]\nurl = \"https://example.com/mcp\"\nbearer_token_env_var = \"DOCS_TOKEN\"\n",
    );
    person.write(
        ".config/muster/mcpservers/time.yaml",
        "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata: {name: time}\nspec: {type: stdio, command: time-server}\n",
    );
    let looked = person.run(&["import", "--preview"]).await;
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    for part in ["github", "docs", "time", "GITHUB_TOKEN: \"vault:github-github-token\"", "missing"] {
        assert!(looked.stdout.contains(part), "no `{part}` in:\n{}", looked.stdout);
    }
    assert!(!looked.stdout.contains("Toolcrib itself"), "{}", looked.stdout);
    assert!(!person.path("toolcrib/servers").exists());
    let ran = person.run_with(&["import", "--yes"], &[("DOCS_TOKEN", "d0c5")]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Wrote 3 definitions"), "{}", ran.stdout);
    for text in [&looked.stdout, &ran.stdout, &ran.stderr] {
        assert!(!text.contains(&secret) && !text.contains("d0c5"), "{text}");
    }
    let definition = fs::read_to_string(person.path("toolcrib/servers/github.yaml")).unwrap();
    assert!(definition.contains("MODE: \"ro\"") && !definition.contains(&secret), "{definition}");
    // Secrets are in the vault, each for its own server.
    let vault = fs::read_to_string(person.path("toolcrib/state/vault")).unwrap();
    assert!(!vault.contains(&secret) && !vault.contains("d0c5"), "{vault}");
    assert_eq!(mode(&person.path("toolcrib/state/vault")), 0o600);
    let listed = person.run(&["secret", "list", "--json"]).await.stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let reach = |entry: &serde_json::Value| format!("{} {}", entry["name"], entry["servers"]);
    let reaches: Vec<String> = listed["secrets"].as_array().unwrap().iter().map(reach).collect();
    assert_eq!(reaches, ["\"docs-authorization\" [\"docs\"]", "\"github-github-token\" [\"github\"]"]);
    // What a person edits stays, and nothing comes twice.
    let edited = format!("{definition}title: Mine\n");
    fs::write(person.path("toolcrib/servers/github.yaml"), &edited).unwrap();
    let ran = person.run_with(&["import", "codex", "muster", "--yes"], &[("DOCS_TOKEN", "d0c5")]).await;
    assert!(ran.stdout.contains("already exist") && ran.stdout.contains("Nothing new"), "{}", ran.stdout);
    let ran = person.run(&["import", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("already exist") && ran.stdout.contains("Nothing new"), "{}", ran.stdout);
    // What the client itself changed since is another one.
    person.write(".cursor/mcp.json", "{\"mcpServers\": {\"GitHub\": {\"command\": \"gh-server-2\"}}}");
    let ran = person.run(&["import", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("github-cursor"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(person.path("toolcrib/servers/github.yaml")).unwrap(), edited);
    // One file by name.
    let project = person.write("work/.mcp.json", "{\"mcpServers\": {\"here\": {\"command\": \"x\"}}}");
    let file = project.to_str().unwrap();
    person.run(&["import", "--file", file, "--yes"]).await.fails(1, &["requires the client"]);
    let ran = person.run(&["import", "claude-code", "--file", file, "--yes"]).await;
    assert!(ran.stdout.contains("Wrote 1 definition"), "{}{}", ran.stdout, ran.stderr);
}

#[tokio::test]
async fn a_vault_that_does_not_open_stops_an_import_before_anything_is_written() {
    let person = Person::new();
    person.write(
        ".cursor/mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"b\": {\"command\": \"x\", \"env\": {\"API_KEY\": \"abcdef\"}}}}",
    );
    let vault = person.write("toolcrib/state/vault", "no vault\n");
    fs::set_permissions(&vault, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = person.run(&["import", "--yes"]).await;
    ran.fails(
        1,
        &["nothing was imported, because its secrets cannot be stored", "is damaged", "hint: nothing was changed"],
    );
    assert!(!person.path("toolcrib/servers").exists());
    assert_eq!(fs::read_to_string(&vault).unwrap(), "no vault\n");
    // Servers without secrets need no vault.
    person.write(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    let ran = person.run(&["import", "--yes"]).await;
    assert!(ran.stdout.contains("Wrote 1 definition"), "{}", ran.stderr);
}

#[tokio::test]
async fn an_entry_of_the_vault_that_is_someone_elses_stays_so() {
    let person = Person::new();
    let settings = |key: &str| {
        format!("{{\"mcpServers\": {{\"b\": {{\"command\": \"x\", \"env\": {{\"API_KEY\": \"{key}\"}}}}}}}}")
    };
    person.write(".cursor/mcp.json", &settings("abcdef"));
    let given = [("VALUE", "abcdef")];
    let set = ["secret", "set", "b-api-key", "--from-env", "VALUE"];
    assert_eq!(person.run_with(&[&set[..], &["--server", "other"]].concat(), &given).await.code, 0);
    // The same value, but not for this server: another name.
    let ran = person.run(&["import", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let definition = fs::read_to_string(person.path("toolcrib/servers/b-cursor.yaml")).unwrap();
    assert!(definition.contains("vault:b-cursor-api-key"), "{definition}");
    // For every server: used as it is, and not narrowed.
    fs::remove_file(person.path("toolcrib/servers/b-cursor.yaml")).unwrap();
    assert_eq!(person.run_with(&set, &given).await.code, 0);
    assert_eq!(person.run(&["import", "--yes"]).await.code, 0);
    let definition = fs::read_to_string(person.path("toolcrib/servers/b.yaml")).unwrap();
    assert!(definition.contains("vault:b-api-key"), "{definition}");
    let listed = person.run(&["secret", "list", "--json"]).await.stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["secrets"][0]["servers"], serde_json::json!([]), "{listed}");
}

#[tokio::test]
async fn muster_s_other_folders_come_along_and_nothing_is_written_over() {
    let person = Person::new();
    person.write(
        ".config/muster/mcpservers/time.yaml",
        "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata: {name: time}\nspec: {type: stdio, command: time-server}\n",
    );
    const GREET: &str = "# mine\nname: greet\nsteps: [{id: a, tool: x_time_now}]\n";
    const DB: &str =
        "name: db\nserviceConfig: {lifecycleTools: {start: {tool: x_time_up}, stop: {tool: x_time_down}}}\n";
    person.write(".config/muster/workflows/greet.yaml", GREET);
    person.write(".config/muster/serviceclasses/db.yaml", DB);
    person.write(".config/muster/services/mine.yml", "name: mine\nserviceClassName: db\n");
    person.write(".config/muster/services/notes.txt", "no definition\n");
    person.write("outside.yaml", "name: outside\n");
    std::os::unix::fs::symlink(person.path("outside.yaml"), person.path(".config/muster/services/link.yaml")).unwrap();
    person.write("toolcrib/services/mine.yml", "name: mine\n");
    let looked = person.run(&["import", "muster", "--preview"]).await;
    assert!(looked.stdout.contains("workflows/greet.yaml from "), "{}{}", looked.stdout, looked.stderr);
    assert!(looked.stdout.contains("Nothing was written") && !person.path("toolcrib/workflows").exists());
    let ran = person.run(&["import", "muster", "--yes"]).await;
    assert!(ran.stdout.contains("Wrote 3 definitions"), "{}{}", ran.stdout, ran.stderr);
    let read = |path: &str| fs::read_to_string(person.path(path)).unwrap();
    assert_eq!(read("toolcrib/workflows/greet.yaml"), GREET);
    assert_eq!(read("toolcrib/service-classes/db.yaml"), DB);
    assert_eq!(read("toolcrib/services/mine.yml"), "name: mine\n", "what was there stays");
    assert!(
        !person.path("toolcrib/services/link.yaml").exists() && !person.path("toolcrib/services/notes.txt").exists()
    );
    assert_eq!(mode(&person.path("toolcrib/workflows/greet.yaml")), 0o600);
    let again = person.run(&["import", "muster", "--yes"]).await;
    assert!(again.stdout.contains("Nothing new"), "{}", again.stdout);
}

/// The settings of a client with two servers that Toolcrib imports, one of them with a secret.
const TWO: &str = "// mine\n{\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"notes\": { \"command\": \"notes-server\", \"env\": { \"API_KEY\": \"abc-123456\" } }, // why\n\t\t\"own\": { \"command\": \"own-server\" },\n\t\t\"time\": {\n\t\t\t\"command\": \"uvx\",\n\t\t\t\"args\": [\"mcp-server-time\"]\n\t\t}\n\t},\n}\n";

async fn moved(person: &Person, before: &str) -> PathBuf {
    let path = person.write(".cursor/mcp.json", before);
    let ran = person.run(&["import", "cursor", "--yes", "--key-file"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // One that is not there, and one that a profile does not show, stay.
    fs::remove_file(person.path("toolcrib/servers/own.yaml")).unwrap();
    let ran = person.run(&["connect", "cursor", "--move", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in ["remove `notes`", "keep `own`: it is not in Toolcrib", "Removed: notes, time", "readable only by you"]
    {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("abc-123456"), "{}", ran.stdout);
    path
}

#[tokio::test]
async fn servers_that_come_through_us_are_taken_out_and_put_back() {
    let person = Person::new();
    let path = moved(&person, TWO).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"own\"") && text.contains("\"toolcrib\"") && text.contains("\"theme\""), "{text}");
    assert!(!text.contains("\"notes\"") && !text.contains("\"time\""), "{text}");
    assert_eq!(mode(&person.path("toolcrib/state/connected/cursor.json")), 0o600);
    // The same again changes nothing; another profile keeps what was taken out.
    let again = person.run(&["connect", "cursor", "--move", "--yes"]).await;
    assert!(again.stdout.contains("already connected"), "{}", again.stdout);
    let ran = person.run(&["connect", "cursor", "--yes", "--profile", "work"]).await;
    assert!(ran.stdout.contains("Removed: notes, time"), "{}{}", ran.stdout, ran.stderr);
    assert!(!fs::read_to_string(&path).unwrap().contains("\"notes\""));
    let ran = person.run(&["disconnect", "--all", "--yes"]).await;
    assert!(
        ran.stdout.contains("Restored: notes, time") && ran.stdout.contains("backups were removed"),
        "{}",
        ran.stdout
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), TWO);
    assert!(!person.path("toolcrib/state/backups/cursor").exists());
    person.run(&["disconnect", "--all", "--yes"]).await.prints("No client is connected: nothing to do\n");
}

#[tokio::test]
async fn what_someone_wrote_since_stays_and_what_was_taken_out_comes_back() {
    let person = Person::new();
    let path = moved(&person, TWO).await;
    // The client rewrites its file: other indentation, no comments, a server more.
    let text = fs::read_to_string(&path).unwrap();
    let inner: String = text.lines().skip(1).map(|line| line.split(" // ").next().unwrap()).collect();
    let mut value: serde_json::Value = serde_json::from_str(&inner.replace(",}", "}").replace(",\t}", "}")).unwrap();
    value["mcpServers"]["new"] = serde_json::json!({ "command": "new-server" });
    value["theme"] = "light".into();
    fs::write(&path, format!("{value:#}")).unwrap();
    let ran = person.run(&["disconnect", "cursor", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Restored: notes, time") && ran.stdout.contains("rm -r"), "{}", ran.stdout);
    let back: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let servers: Vec<&String> = back["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(servers, ["own", "new", "notes", "time"]);
    assert_eq!(
        (&back["theme"], &back["mcpServers"]["notes"]["env"]["API_KEY"]),
        (&"light".into(), &"abc-123456".into())
    );
}

#[tokio::test]
async fn a_server_that_is_there_again_with_other_words_is_not_written_over() {
    let person = Person::new();
    let path = moved(&person, TWO).await;
    let text =
        fs::read_to_string(&path).unwrap().replace("\"own\": {", "\"time\": { \"command\": \"mine\" }, \"own\": {");
    fs::write(&path, &text).unwrap();
    let ran = person.run(&["disconnect", "cursor", "--yes"]).await;
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    for part in
        ["`time` was removed", "-    \"command\": \"uvx\"", "+    \"command\": \"mine\"", "rename or remove `time`"]
    {
        assert!(ran.stderr.contains(part), "no `{part}` in:\n{}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "nothing was changed");
    // Out of the way, all is put back.
    fs::write(&path, text.replace("\"time\": { \"command\": \"mine\" }", "\"mine\": { \"command\": \"mine\" }"))
        .unwrap();
    let ran = person.run(&["disconnect", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("Restored: notes, time"), "{}{}", ran.stdout, ran.stderr);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"mine\"") && text.contains("\"uvx\"") && !text.contains("toolcrib"), "{text}");
}

#[tokio::test]
async fn keys_of_addresses_are_kept_and_what_only_an_editor_knows_is_refused_by_name() {
    let person = Person::new();
    let key = ["0123456789abcdef", "0123456789abcdef"].concat();
    let settings = format!(
        r#"{{"mcpServers": {{
            "remote": {{ "url": "https://h.example/mcp?api_key={key}&debug=1" }},
            "shell": {{ "command": "x", "args": ["${{workspaceFolder}}"] }},
            "asks": {{ "command": "x", "env": {{ "K": "${{input:my-key}}" }} }}
        }}}}"#
    );
    person.write(".cursor/mcp.json", &settings);
    let ran = person.run(&["import", "cursor", "--preview"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "skipped: `args` needs `${workspaceFolder}`, which only the client knows: give it with `--set workspaceFolder=VALUE`",
        "https://h.example/mcp?api_key=${vault:remote-url-api-key}&debug=1",
        "the secret for `K` is missing: set it with `toolcrib secret set asks-k --server asks`",
    ] {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains(&key), "{}", ran.stdout);
    let import = ["import", "cursor", "--yes", "--key-file", "--set", "workspaceFolder=/src/app"];
    let ran = person.run(&import).await;
    assert!(ran.stdout.contains("Wrote 3 definitions"), "{}{}", ran.stdout, ran.stderr);
    let shell = fs::read_to_string(person.path("toolcrib/servers/shell.yaml")).unwrap();
    assert!(shell.contains("args: [\"/src/app\"]"), "{shell}");
    let remote = fs::read_to_string(person.path("toolcrib/servers/remote.yaml")).unwrap();
    assert!(!remote.contains(&key), "{remote}");
    let listed = person.run(&["secret", "list", "--json"]).await.stdout;
    assert!(listed.contains("remote-url-api-key"), "{listed}");
    // The key is not shown where the entry goes, either.
    let ran = person.run(&["connect", "cursor", "--move", "--preview"]).await;
    assert!(ran.stdout.contains("remove `remote`") && !ran.stdout.contains(&key), "{}{}", ran.stdout, ran.stderr);
    // A file of a project says which folder is meant.
    let project =
        person.write("app/.vscode/mcp.json", r#"{"servers": {"here": {"command": "y", "cwd": "${workspaceFolder}"}}}"#);
    let ran = person.run(&["import", "vscode", "--yes", "--file", project.to_str().unwrap()]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let here = fs::read_to_string(person.path("toolcrib/servers/here.yaml")).unwrap();
    assert!(here.contains(&format!("cwd: {}", person.path("app").display())), "{here}");
}

#[tokio::test]
async fn equal_servers_are_taken_once_and_what_is_there_is_counted() {
    let person = Person::new();
    person.write(".cursor/mcp.json", r#"{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}, "clock": {"command": "uvx", "args": ["mcp-server-time"]}}}"#);
    person.write(".claude.json", r#"{"mcpServers": {"zeit": {"command": "uvx", "args": ["mcp-server-time"]}}, "projects": {"/src/app": {"mcpServers": {"own": {"command": "own"}}}}}"#);
    let ran = person.run(&["import", "--yes"]).await;
    for part in [
        "Wrote 2 definitions",
        "of Cursor is the same server, imported once",
        "it was for the project `/src/app` alone",
        "2 servers already exist.",
    ] {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}{}", ran.stdout, ran.stderr);
    }
    assert_eq!(entries(&person.path("toolcrib/servers")), 2);
    let ran = person.run(&["import", "--yes"]).await;
    assert!(ran.stdout.contains("4 servers already exist.\n") && ran.stdout.contains("Nothing new"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("TRANSPORT"), "{}", ran.stdout);
}

#[tokio::test]
async fn clients_get_an_address_whose_certificate_they_can_check() {
    let person = Person::new();
    let path = person.write(".cursor/mcp.json", "{}");
    person.write("toolcrib/config.toml", "[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\n");
    // The certificate is for no address of this machine; settings of clients cannot pin it, our bridge does.
    let ran = person.run(&["connect", "cursor", "--yes", "--profile", "work"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("bridge https://127.0.0.1:8700/mcp/p/work --no-token"), "{}", ran.stdout);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"bridge\"") && !text.contains("\"url\""), "{text}");
    // A name that clients reach it by is what its certificate is for.
    let settings = "[identity]\nurl = \"https://tools.example.com\"\n\n[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\n";
    person.write("toolcrib/config.toml", settings);
    let ran = person.run(&["connect", "cursor", "--yes", "--profile", "work"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in ["connected, by https://tools.example.com/mcp/p/work", "NODE_EXTRA_CA_CERTS=FILE"] {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}", ran.stdout);
    }
    assert!(fs::read_to_string(&path).unwrap().contains("\"url\": \"https://tools.example.com/mcp/p/work\""));
    let named = person.run(&["connect", "cursor", "--yes", "--endpoint", "https://127.0.0.1:9/mcp"]).await;
    assert!(named.stdout.contains("connected, by https://127.0.0.1:9/mcp"), "{}", named.stdout);
}
