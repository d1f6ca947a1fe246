//! `toolcrib init` in the folder of a person with clients: settings with comments and trailing commas, servers that run
//! and such that do not.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::launch::{CommandOutput, Program};

use crate::toolcrib::{run, toolcrib};

struct Person(tempfile::TempDir);

impl Person {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn write(&self, below: &str, text: &str) -> String {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        text.to_owned()
    }

    fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap_or_else(|error| panic!("{below}: {error}"))
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&self.path("toolcrib"), arguments, &[("HOME", self.0.path().to_str().unwrap())]).await
    }

    fn start(&self, arguments: &[&str]) -> Program {
        toolcrib(&self.path("toolcrib"), arguments).env("HOME", self.0.path()).start()
    }

    /// Every file below a folder with its text, but what the gateway keeps for itself.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.0.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let is_kept = ["backups", "connected", "vault", "vault.key"].iter().any(|name| path.ends_with(name));
                let is_state = path.parent().is_some_and(|folder| folder.ends_with("toolcrib/state"));
                if path.is_dir() && (!is_state || is_kept) {
                    folders.push(path);
                } else if path.is_file() && (!is_state || is_kept) {
                    files.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

/// Where a client keeps its settings on the platform of the test.
fn settings(below: &str) -> String {
    if cfg!(target_os = "macos") { format!("Library/Application Support/{below}") } else { format!(".config/{below}") }
}

fn fake() -> String {
    toolcrib_testkit::fake_server().to_str().unwrap().to_owned()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[tokio::test]
async fn everything_is_set_up_and_a_second_time_changes_nothing() {
    let person = Person::new();
    let (desktop, vscode) = (settings("Claude/claude_desktop_config.json"), settings("Code/User/mcp.json"));
    let secret = ["ghp", "0123456789abcdef"].join("_");
    let fake = fake();
    let before = person.write(
        &desktop,
        &format!(
            "{{\n  // mine\n  \"mcpServers\": {{\n    \"Files\": {{ \"command\": \"{fake}\", \"args\": [\"--tools\", \"3\"] }},\n  }},\n}}\n"
        ),
    );
    person.write(
        ".cursor/mcp.json",
        &format!(
            "{{ \"mcpServers\": {{ \"GitHub\": {{ \"command\": \"{fake}\", \"env\": {{ \"GITHUB_TOKEN\": \"{secret}\" }}, }}, /* why */ }} }}"
        ),
    );
    // Started once, but nothing set.
    fs::create_dir_all(person.path(&vscode).parent().unwrap()).unwrap();

    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    says(
        &ran.stdout,
        &[
            "Found 3 clients",
            "Claude Desktop  1 server",
            "no settings yet",
            "Imported 2 servers",
            "ok      files   3 tools",
            "ok      github  15 tools",
            "+    \"toolcrib\": {",
            "Claude Desktop is connected, by `",
            "Cursor is connected, by http://127.0.0.1:8700/mcp",
            "VS Code is connected",
            "Backup: ",
            "2 servers with 18 tools answered",
            "toolcrib serve",
            "toolcrib find \"",
            "ask your agent",
        ],
    );
    assert!(!ran.stdout.contains(&secret), "{}", ran.stdout);
    assert!(person.read("toolcrib/servers/github.yaml").contains("vault:github-github-token"));
    says(&person.read(&desktop), &["// mine", "\"bridge\", \"http://127.0.0.1:8700/mcp\", \"--no-token\""]);
    says(&person.read(".cursor/mcp.json"), &["/* why */", "\"toolcrib\""]);
    says(&person.read(&vscode), &["\"http://127.0.0.1:8700/mcp\""]);
    // No gateway is left, and none is told of.
    assert!(!person.path("toolcrib/state/serve.json").exists());
    let status = person.run(&["status", "--endpoint", "http://127.0.0.1:1/mcp"]).await;
    assert_eq!(status.code, 1);

    let files = person.files();
    let again = person.run(&["init", "--yes"]).await;
    assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{}", again.stdout);
    says(
        &again.stdout,
        &["already imported", "Already connected: Claude Desktop, Cursor, VS Code", "Everything is already set up"],
    );
    assert!(!again.stdout.contains("Verifying"), "{}", again.stdout);
    assert_eq!(person.files(), files);

    // The example question works.
    let question = ran.stdout.lines().find_map(|line| line.trim().strip_prefix("toolcrib find ")).unwrap();
    let tool = ran.stdout.split("It finds `").nth(1).unwrap().split('`').next().unwrap();
    let mut gateway = person.start(&["serve", "--listen", "127.0.0.1:0"]);
    let ready = person.path("toolcrib/state/serve.json");
    eventually_holds("a gateway that runs", || ready.exists()).await;
    let found = person.run(&["find", question.trim_matches('"')]).await;
    assert!(found.stdout.lines().nth(1).is_some_and(|line| line.starts_with(tool)), "{tool}: {}", found.stdout);

    // A gateway that runs is used, and stays.
    person.write(".codex/config.toml", &format!("[mcp_servers.more]\ncommand = \"{fake}\"\n"));
    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    says(&ran.stdout, &["Imported 1 server:", "ok      more  15 tools", "Codex is connected"]);
    assert!(!ran.stdout.contains("Start the gateway"), "{}", ran.stdout);
    assert!(ready.exists());
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());

    person.run(&["disconnect", "claude-desktop", "--yes"]).await;
    assert_eq!(person.read(&desktop), before);
}

#[tokio::test]
async fn a_bad_server_and_a_bad_file_do_not_stop_the_others() {
    let person = Person::new();
    let fake = fake();
    person.write(
        ".cursor/mcp.json",
        &format!(
            "{{\"mcpServers\": {{\"good\": {{\"command\": \"{fake}\"}}, \"moon\": {{\"command\": \"{fake}\", \"args\": [\"--exit-at-start\"]}}, \"gone\": {{\"command\": \"/no/such/program\"}}}}}}"
        ),
    );
    let ran = person.run(&["init", "--yes"]).await;
    // The code says that something failed; what works is connected anyway.
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    says(
        &ran.stdout,
        &[
            "ok      good  15 tools",
            "failed  moon  the program ended with exit code 3; it said: fake-server: cannot start",
            "→ moon: fix `servers/moon.yaml`",
            "failed  gone",
            "Cursor is connected",
            "1 server with 15 tools answered; 2 failed",
        ],
    );
    assert!(!ran.stdout.contains("server restart"), "{}", ran.stdout);
    // What is fixed is verified the next time, and what is well is not touched.
    let moon = person.read("toolcrib/servers/moon.yaml").replace("args: [\"--exit-at-start\"]\n", "");
    person.write("toolcrib/servers/moon.yaml", &moon);
    let gone = person.read("toolcrib/servers/gone.yaml").replace("/no/such/program", &fake);
    person.write("toolcrib/servers/gone.yaml", &gone);
    person.write(".codex/config.toml", "[broken\n");
    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    says(
        &ran.stdout,
        &["already imported", "Verifying 2 servers:", "ok      moon  15 tools", "3 servers with 45 tools"],
    );
    says(&ran.stderr, &["config.toml:1:", "nothing was changed; fix the file"]);
    assert_eq!(person.read(".codex/config.toml"), "[broken\n");
}

#[tokio::test]
async fn without_a_terminal_someone_must_have_said_yes() {
    let person = Person::new();
    let before = person.write(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    person.run(&["init"]).await.fails(64, &["needs a terminal", "`--yes`", "nothing was written"]);
    person.run(&["init", "--client", "nobody", "--yes"]).await.fails(64, &["unknown client"]);
    assert_eq!(person.read(".cursor/mcp.json"), before);
    assert!(!person.path("toolcrib").exists());
    // A vault that does not open stops it before anything is written.
    person.write(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"KEY\": \"abcdef\"}}}}");
    person.write("toolcrib/state/vault", "no vault\n");
    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!(ran.code, 1);
    says(&ran.stderr, &["nothing was imported", "hint: "]);
    assert!(!person.path("toolcrib/servers").exists() && !person.read(".cursor/mcp.json").contains("toolcrib"));
}

#[tokio::test]
async fn with_nothing_found_there_is_an_example() {
    let person = Person::new();
    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    says(
        &ran.stdout,
        &[
            "No client was found",
            "Claude Desktop",
            "Added the example server",
            "ok      units",
            "toolcrib find \"",
            "toolcrib registry list",
            "toolcrib connect NAME",
        ],
    );
    assert!(!ran.stdout.contains("your clients connect"), "{}", ran.stdout);
    let files = person.files();
    let again = person.run(&["init", "--yes"]).await;
    says(&again.stdout, &["Everything is already set up"]);
    assert_eq!(person.files(), files);
    // Anyone who runs a gateway over stdio has the state; the rest is done, and reported.
    person.write(".cursor/mcp.json", "{}");
    let mut stdio = person.start(&["stdio"]);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    stdio.types(hello).await;
    stdio.reads("serverInfo").await;
    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    says(&ran.stderr, &["could not be verified", "in use", "run `toolcrib init` again"]);
    says(&ran.stdout, &["Cursor is connected"]);
    assert_eq!(stdio.finish().await.code, 0);
}

#[tokio::test]
async fn told_to_end_in_the_middle_it_leaves_everything_whole() {
    let person = Person::new();
    let before = person.write(
        ".cursor/mcp.json",
        &format!("{{\"mcpServers\": {{\"hangs\": {{\"command\": \"{}\", \"args\": [\"--never-answer\"]}}}}}}", fake()),
    );
    let mut init = person.start(&["init", "--yes"]);
    init.reads("Verifying 1 server").await;
    init.signal(Signal::INT);
    let CommandOutput { code, stderr, .. } = init.finish().await;
    assert_eq!(code, 130, "{stderr}");
    says(&stderr, &["interrupted; no client was connected", "hint: imported servers are kept"]);
    assert_eq!(person.read(".cursor/mcp.json"), before);
    let names: Vec<_> =
        fs::read_dir(person.path("toolcrib/servers")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["hangs.yaml"]);
    // Nothing holds the state any more, and the next time goes on from here.
    let definition = person.read("toolcrib/servers/hangs.yaml").replace("[\"--never-answer\"]", "[\"--tools\", \"2\"]");
    person.write("toolcrib/servers/hangs.yaml", &definition);
    let ran = person.run(&["init", "--yes", "--client", "cursor"]).await;
    says(&ran.stdout, &["ok      hangs", "Cursor is connected"]);
    assert!(Path::new(&person.path("toolcrib/state/backups/cursor")).exists());
}
