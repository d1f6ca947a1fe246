//! The commands that read and write other clients' settings, with a home of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::toolcrib::{Ran, run};

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

    async fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[]).await
    }

    async fn run_with(&self, arguments: &[&str], more: &[(&str, &str)]) -> Ran {
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
    for part in ["everything else stays", "+    \"toolcrib\": {", "127.0.0.1:8700/mcp", "Nothing was written"] {
        assert!(looked.stdout.contains(part), "no `{part}` in:\n{}", looked.stdout);
    }
    // Nobody is there to be asked.
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
    again.prints("Cursor is connected already, by http://127.0.0.1:8700/mcp/p/work\n");
    // Another profile takes the place of the first.
    let ran = person.run(&["connect", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("says something else"), "{}", ran.stdout);
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
    assert_eq!(entry["args"], serde_json::json!(["bridge", "http://127.0.0.1:8700/mcp/p/work", "--no-token"]));
    assert!(Path::new(entry["command"].as_str().unwrap()).is_absolute());
    let connect = ["connect", "claude-desktop", "--yes", "--profile", "work"];
    let again = person.run(&connect).await;
    assert!(again.stdout.starts_with("Claude Desktop is connected already, by `"), "{}", again.stdout);
    let foreign = person.run(&["connect", "claude-desktop", "--preview", "--endpoint", "https://tools.example"]).await;
    assert!(foreign.stdout.contains("\"https://tools.example/mcp\""), "{}", foreign.stdout);
    assert!(
        !foreign.stdout.lines().any(|line| line.starts_with('+') && line.contains("--no-token")),
        "{}",
        foreign.stdout
    );
    // A gateway of its own on wish.
    let ran = person.run(&[&connect[..], &["--stdio"]].concat()).await;
    assert!(ran.stdout.contains("says something else"), "{}", ran.stdout);
    let text = fs::read_to_string(person.path(&below)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let home = person.path("toolcrib");
    let args = serde_json::json!(["stdio", "--profile", "work", "--home", home]);
    assert_eq!(value["mcpServers"]["toolcrib"]["args"], args);
    let ran = person.run(&["disconnect", "claude-desktop", "--yes"]).await;
    assert!(ran.stdout.contains("the file goes"), "{}", ran.stdout);
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
    person.run(&["connect", "nobody"]).await.fails(64, &["no client is known", "claude-desktop", "zed"]);
    person.run(&["connect", "muster", "--yes"]).await.fails(1, &["only read", "toolcrib import muster"]);
    person.run(&["import"]).await.fails(1, &["settings.json:2:"]);
}

#[tokio::test]
async fn servers_of_clients_become_definitions() {
    let person = Person::new();
    person.run(&["import", "--yes"]).await.fails(1, &["no settings of a client were found", "--file"]);
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
    for part in [
        "github",
        "docs",
        "time",
        "left out: it is Toolcrib itself",
        "GITHUB_TOKEN: \"vault:github-github-token\"",
        "missing",
    ] {
        assert!(looked.stdout.contains(part), "no `{part}` in:\n{}", looked.stdout);
    }
    assert!(!person.path("toolcrib/servers").exists());
    let ran = person.run_with(&["import", "--yes"], &[("DOCS_TOKEN", "d0c5")]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Wrote 3 definitions"), "{}", ran.stdout);
    for text in [&looked.stdout, &ran.stdout, &ran.stderr] {
        assert!(!text.contains(&secret) && !text.contains("d0c5"), "{text}");
    }
    let definition = fs::read_to_string(person.path("toolcrib/servers/github.yaml")).unwrap();
    assert!(definition.contains("MODE: \"ro\"") && !definition.contains(&secret), "{definition}");
    // Secrets lie in the vault, each for its own server.
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
    assert!(ran.stdout.contains("there already") && ran.stdout.contains("Nothing new"), "{}", ran.stdout);
    let ran = person.run(&["import", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("there already") && ran.stdout.contains("Nothing new"), "{}", ran.stdout);
    // What the client itself changed since is another one.
    person.write(".cursor/mcp.json", "{\"mcpServers\": {\"GitHub\": {\"command\": \"gh-server-2\"}}}");
    let ran = person.run(&["import", "cursor", "--yes"]).await;
    assert!(ran.stdout.contains("github-cursor"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(person.path("toolcrib/servers/github.yaml")).unwrap(), edited);
    // One file by name.
    let project = person.write("work/.mcp.json", "{\"mcpServers\": {\"here\": {\"command\": \"x\"}}}");
    let file = project.to_str().unwrap();
    person.run(&["import", "--file", file, "--yes"]).await.fails(1, &["needs the one client"]);
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
        &["nothing was imported, because its secrets cannot be kept", "is damaged", "hint: nothing was changed"],
    );
    assert!(!person.path("toolcrib/servers").exists());
    assert_eq!(fs::read_to_string(&vault).unwrap(), "no vault\n");
    // Servers without secrets need no vault.
    person.write(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    let ran = person.run(&["import", "--yes"]).await;
    assert!(ran.stdout.contains("Wrote 1 definition"), "{}", ran.stderr);
}

#[tokio::test]
async fn an_entry_of_the_vault_that_is_somebody_elses_stays_so() {
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
    person.write(".config/muster/workflows/greet.yaml", "name: greet\n");
    person.write(".config/muster/serviceclasses/db.yaml", "name: db\n");
    person.write(".config/muster/services/mine.yml", "name: theirs\n");
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
    assert_eq!(read("toolcrib/workflows/greet.yaml"), "name: greet\n");
    assert_eq!(read("toolcrib/service-classes/db.yaml"), "name: db\n");
    assert_eq!(read("toolcrib/services/mine.yml"), "name: mine\n", "what was there stays");
    assert!(
        !person.path("toolcrib/services/link.yaml").exists() && !person.path("toolcrib/services/notes.txt").exists()
    );
    assert_eq!(mode(&person.path("toolcrib/workflows/greet.yaml")), 0o600);
    let again = person.run(&["import", "muster", "--yes"]).await;
    assert!(again.stdout.contains("Nothing new"), "{}", again.stdout);
}
