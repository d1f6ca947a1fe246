//! The first start of servers that are downloaded: with package runners of the test's own, which are slow, which break
//! when they are killed in the middle, and of which a file says when they may continue.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::Signal;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::launch::{CommandOutput, Launch, Program};

use crate::toolcrib::toolcrib;

/// What every runner does once the entry is there: be a server of two tools.
const SERVE: &str = "exec \"$FAKE\" --tools 2 --tag \"$name\"";

/// Like npm: an entry for each package, with a list of its files that is written last. Killed before, it is broken for
/// ever, for this runner does not look.
const NPX: &str = r#"#!/bin/sh
[ "$1" = -y ] && shift
name=$1
entry="$HOME/.npm/_npx/$(printf %s "$name" | sha512sum | cut -c1-16)"
if [ ! -e "$entry/node_modules/.package-lock.json" ]; then
  if [ -e "$entry" ]; then
    echo "node:internal/modules/esm/resolve:873" >&2
    echo "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from $entry/node_modules/a/index.js" >&2
    echo "    at packageResolve (node:internal/modules/esm/resolve:873:9)" >&2
    echo "Node.js v20.20.2" >&2
    exit 1
  fi
  mkdir -p "$entry/node_modules/a" || exit 1
  echo "downloading $name" >&2
  case $name in waits-*) while [ ! -e "$HOME/go" ]; do sleep 0.05; done;; esac
  sleep 0.3
  echo '{}' >"$entry/node_modules/a/package.json"
  echo '{"packages": {"node_modules/a": {}}}' >"$entry/node_modules/.package-lock.json"
fi
"#;

const UVX: &str = r#"#!/bin/sh
name=$1
if [ ! -e "$HOME/.cache/uv/archive-v0/$name" ]; then
  echo "Downloading $name" >&2
  sleep 0.3
  mkdir -p "$HOME/.cache/uv/archive-v0/$name" || exit 1
fi
"#;

struct Person(tempfile::TempDir);

impl Person {
    fn new() -> Self {
        let person = Self(tempfile::tempdir().unwrap());
        for (name, text) in [("npx", NPX), ("uvx", UVX)] {
            person.write(&format!("bin/{name}"), &format!("{text}{SERVE}\n"));
            let runs = fs::Permissions::from_mode(0o755);
            fs::set_permissions(person.path(&format!("bin/{name}")), runs).unwrap();
        }
        person
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The settings of a client with these servers, each a command line.
    fn client(&self, file: &str, key: &str, servers: &[(&str, &str)]) {
        let servers: serde_json::Map<_, _> = servers
            .iter()
            .map(|(name, line)| {
                let mut words = line.split(' ');
                let command = words.next().unwrap();
                let env = serde_json::json!({ "FAKE": toolcrib_testkit::fake_server() });
                let arguments: Vec<&str> = words.collect();
                ((*name).to_owned(), serde_json::json!({ "command": command, "args": arguments, "env": env }))
            })
            .collect();
        self.write(file, &serde_json::json!({ key: servers }).to_string());
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        toolcrib(&self.path("toolcrib"), arguments).env("HOME", self.0.path()).env("PATH", path)
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.launch(arguments).run("").await
    }

    async fn serve(&self) -> Program {
        let gateway = self.launch(&["serve", "--listen", "127.0.0.1:0"]).start();
        let ready = self.path("toolcrib/state/serve.json");
        eventually_holds("a gateway that runs", || ready.exists()).await;
        gateway
    }

    /// What the gateway and the servers' programs wrote down of each server.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.path("toolcrib/state/logs")).into_iter().flatten();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Runs a command again until what it prints says so.
    async fn until_prints(&self, arguments: &[&str], part: &str) -> CommandOutput {
        let mut last = String::new();
        for _ in 0..1_000 {
            let ran = self.run(arguments).await;
            last = format!("{}{}", ran.stdout, ran.stderr);
            if last.contains(part) {
                return ran;
            }
        }
        panic!("never `{part}`:\n{last}\n{}", self.logs());
    }
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

fn half_written(person: &Person) -> Vec<PathBuf> {
    let entries = fs::read_dir(person.path(".npm/_npx")).into_iter().flatten();
    let entries = entries.map(|entry| entry.unwrap().path());
    entries.filter(|entry| !entry.join("node_modules/.package-lock.json").exists()).collect()
}

#[tokio::test]
async fn every_good_server_of_nine_clients_with_a_cold_cache_works() {
    let person = Person::new();
    let settings = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    let files = [
        (".cursor/mcp.json".to_owned(), "mcpServers"),
        (".codeium/windsurf/mcp_config.json".to_owned(), "mcpServers"),
        (".gemini/settings.json".to_owned(), "mcpServers"),
        (".claude.json".to_owned(), "mcpServers"),
        (format!("{settings}/Claude/claude_desktop_config.json"), "mcpServers"),
        (format!("{settings}/Code/User/mcp.json"), "servers"),
        (".config/zed/settings.json".to_owned(), "context_servers"),
        (".cline/data/settings/cline_mcp_settings.json".to_owned(), "mcpServers"),
    ];
    let names: Vec<String> = (0..28).map(|number| format!("s{number:02}")).collect();
    let line = |name: &str, number: usize| match number % 4 {
        0 => format!("uvx {name}"),
        1 => format!("env A=b npx -y {name}"),
        _ => format!("npx -y {name}"),
    };
    let lines: Vec<(String, String)> =
        names.iter().enumerate().map(|(number, name)| (name.clone(), line(name, number))).collect();
    for (at, (file, key)) in files.iter().enumerate() {
        let own = lines.iter().skip(at).step_by(files.len());
        person.client(file, key, &own.map(|(name, line)| (name.as_str(), line.as_str())).collect::<Vec<_>>());
    }
    let fake = toolcrib_testkit::fake_server();
    person.write(
        ".codex/config.toml",
        &format!("[mcp_servers.bad]\ncommand = \"{}\"\nargs = [\"--exit-at-start\"]\n", fake.display()),
    );
    let ran = person.run(&["init", "--yes"]).await;
    // One is bad, and the code says so.
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    for name in &names {
        says(&ran.stdout, &[&format!("ok      {name}  2 tools")]);
    }
    says(&ran.stdout, &["failed  bad", "→ bad: fix `servers/bad.yaml`", "28 servers with 56 tools answered; 1 failed"]);
    says(&ran.stdout, &["Cursor is connected", "Zed is connected"]);
    assert_eq!(half_written(&person), Vec::<PathBuf>::new(), "nothing was killed half way");
}

#[tokio::test]
async fn an_installation_that_was_killed_is_recognised_and_repaired() {
    let person = Person::new();
    let fake = toolcrib_testkit::fake_server();
    let server = |package: &str, more: &str| {
        format!("command: npx\nargs: [-y, {package}]\nenv: {{FAKE: {}}}\nstart: eager\n{more}", fake.display())
    };
    person.write(
        "toolcrib/servers/one.yaml",
        &format!("name: one\n{}", server("waits-one", "timeouts: {connect: 1s}\n")),
    );
    person.write("toolcrib/servers/two.yaml", &format!("name: two\n{}", server("waits-two", "")));
    let mut gateway = person.serve().await;
    // The time that someone wrote down counts, and what it left is named.
    let ran = person.until_prints(&["doctor", "one"], "with `toolcrib doctor --fix`").await;
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    says(&ran.stdout, &["one: failed", "is incomplete"]);
    // The other one has no such time: it continues, and says so everywhere.
    let ran = person.until_prints(&["status"], "downloading waits-two").await;
    says(&ran.stdout, &["two installing: it says: downloading waits-two", "npx downloads it, which may take minutes"]);
    let listed = person.run(&["list", "servers"]).await;
    says(&listed.stdout, &["installing"]);
    let called = person.run(&["call", "two_tool"]).await;
    assert_eq!(called.code, 1);
    says(
        &format!("{}{}", called.stdout, called.stderr),
        &["server `two` is installing since", "try again in a minute"],
    );

    let before = half_written(&person);
    assert_eq!(before.len(), 2, "one was killed and one is under way");
    person.run(&["doctor", "one", "--fix"]).await;
    assert_eq!(half_written(&person), before, "nobody was asked, so nothing is removed");
    fs::write(person.path("go"), "").unwrap();
    person.until_prints(&["status", "server", "two"], "ready").await;
    // With time enough it cannot start either: what is half written stays so.
    person.write("toolcrib/servers/one.yaml", &format!("name: one\n{}", server("waits-one", "")));
    person.until_prints(&["list", "events"], "MCPServerUpdated").await;
    // While it is being started once more, the advice is to wait.
    let ran = person.until_prints(&["doctor", "one"], "with `toolcrib doctor --fix`").await;
    says(&ran.stdout, &["is incomplete", "Error [ERR_MODULE_NOT_FOUND]"]);
    let ran = person.until_prints(&["doctor", "one", "--fix", "--yes"], "removed `").await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let listed = person.until_prints(&["doctor", "one"], "one: ready").await;
    assert_eq!(listed.code, 0, "{}", listed.stdout);
    assert_eq!(half_written(&person), Vec::<PathBuf>::new());
    assert!(person.path(".npm/_npx").exists());
    gateway.signal(Signal::KILL);
    gateway.end().await;
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_told_in_the_runner_s_words() {
    let person = Person::new();
    person.write(".npm", "a file where the cache should be");
    person.client(".cursor/mcp.json", "mcpServers", &[("one", "npx -y one")]);
    let ran = person.run(&["init", "--yes"]).await;
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    says(&ran.stdout, &["failed  one", "it said: mkdir: "]);
    // Nothing works, so nothing is connected to it.
    says(&ran.stderr, &["no client was connected, because none of the servers works", "toolcrib connect NAME"]);
    assert!(!fs::read_to_string(person.path(".cursor/mcp.json")).unwrap().contains("toolcrib"));
}

#[tokio::test]
async fn two_at_once_do_not_write_over_each_other() {
    let person = Person::new();
    person.client(".cursor/mcp.json", "mcpServers", &[("one", "npx -y waits-one"), ("two", "uvx two")]);
    let first = person.launch(&["init", "--yes"]).start();
    let lock = person.path("toolcrib/state/init.lock");
    eventually_holds("the beginning of the first one", || {
        lock.exists() && person.path("toolcrib/servers/one.yaml").exists()
    })
    .await;
    let second = person.launch(&["init", "--yes"]).start();
    fs::write(person.path("go"), "").unwrap();
    let (first, second) = tokio::join!(first.finish(), second.finish());
    assert_eq!((first.code, second.code), (0, 0), "{}{}{}{}", first.stdout, first.stderr, second.stdout, second.stderr);
    says(&first.stdout, &["ok      one", "ok      two", "Cursor is connected"]);
    says(&second.stdout, &["Everything is already set up"]);
    let settings = fs::read_to_string(person.path(".cursor/mcp.json")).unwrap();
    assert_eq!(settings.matches("127.0.0.1").count(), 1, "{settings}");
}

#[tokio::test]
async fn servers_are_verified_together_and_the_code_says_whether_all_answer() {
    let person = Person::new();
    let fake = toolcrib_testkit::fake_server();
    for number in 0..6 {
        let text = format!("name: s{number}\ncommand: uvx\nargs: [s{number}]\nenv: {{FAKE: {}}}\n", fake.display());
        person.write(&format!("toolcrib/servers/s{number}.yaml"), &text);
    }
    let mut gateway = person.serve().await;
    let ran = person.run(&["verify", "--all"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.lines().filter(|line| line.starts_with("  ok ")).count(), 6, "{}", ran.stdout);
    for name in ["a", "b"] {
        person.write(&format!("toolcrib/servers/{name}.yaml"), &format!("name: {name}\ncommand: /no/such/program\n"));
    }
    let ran = person.until_prints(&["verify", "s1", "a", "b"], "failed  a").await;
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    says(
        &ran.stdout,
        &["ok      s1", "failed  b", "→ a, b: install its program, or correct `command` in `servers/NAME.yaml`"],
    );
    gateway.signal(Signal::KILL);
    gateway.end().await;
}
