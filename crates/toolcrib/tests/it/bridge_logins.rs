//! Logins of the bridge: a gateway elsewhere that wants one, the tool that begins it, a scripted browser, what is stored.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::SystemClock;
use toolcrib_testkit::launch::Program;
use toolcrib_testkit::provider::{Browser, Naming, Remote, RemoteRules, SECRET_MARK};

use crate::toolcrib::{run, toolcrib};

const LISTS: [&str; 3] =
    ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"];

fn remote_with(change: impl FnOnce(&mut RemoteRules)) -> Remote {
    let mut rules = RemoteRules::default();
    change(&mut rules);
    Remote::start(rules, Naming::Loopback, Arc::new(SystemClock))
}

/// A running bridge with its client's ends.
struct Bridge {
    program: Program,
    said: Vec<String>,
}

impl Bridge {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        Self { program: toolcrib(home, &[&["bridge"], arguments].concat()).start(), said: Vec::new() }
    }

    /// One whose client has opened its session.
    async fn open(home: &Path, url: &str) -> Self {
        let mut bridge = Self::start(home, &[url, "--no-browser"]);
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let opened = bridge.ask("initialize", params).await;
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
        bridge.says(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        bridge
    }

    async fn says(&mut self, message: &Value) {
        self.program.types(&message.to_string()).await;
    }

    async fn hears(&mut self) -> Value {
        let line = self.program.line().await;
        let message = serde_json::from_str(&line).unwrap();
        self.said.push(line);
        message
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.says(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})).await;
        self.until(|message| message["id"] == method).await
    }

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.hears().await;
            if fits(&message) {
                return message;
            }
        }
    }

    async fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Calls the tool to log in and gives the link.
    async fn link(&mut self) -> String {
        let called = self.ask("tools/call", json!({"name": "authenticate", "arguments": {}})).await;
        assert_eq!(called["result"]["isError"], false, "{called}");
        let text = called["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        text.split(' ').find(|word| word.starts_with("http")).unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    /// Logs in with a scripted browser.
    async fn log_in(&mut self, remote: &Remote) {
        let link = self.link().await;
        let page = Browser::new(remote.network()).visit(&link).unwrap();
        assert_eq!(page.status, 200, "{page:?}");
        for list in LISTS {
            self.until(|message| message["method"] == list).await;
        }
    }

    /// Closes stdin and waits for the end. No secret was said or logged.
    async fn end(mut self) {
        self.program.close();
        let status = self.program.end().await;
        let log = self.program.log();
        assert!(status.success(), "{log}");
        assert!(!log.contains(SECRET_MARK), "{log}");
        for line in &self.said {
            assert!(!line.contains(SECRET_MARK), "{line}");
        }
    }
}

/// The files that the logins of bridges are kept in.
fn stored(home: &Path) -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(home.join("state/bridge")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_none());
    paths
}

#[tokio::test]
async fn one_tool_logs_in_and_the_others_follow() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(bridge.tools().await, ["authenticate"]);
    assert_eq!(bridge.ask("prompts/list", json!({})).await["result"], json!({"prompts": []}));
    assert_eq!(bridge.ask("ping", json!({})).await["result"], json!({}));
    let refused = bridge.ask("tools/call", json!({"name": "whoami"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("requires a login"), "{refused}");
    let link = bridge.link().await;
    assert!(link.starts_with(&remote.issuer()), "{link}");
    assert_eq!(bridge.link().await, link, "the same link as long as it waits");
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    assert_eq!(bridge.ask("tools/call", json!({"name": "whoami", "arguments": {}})).await["error"], Value::Null);
    bridge.end().await;
    let files = stored(home.path());
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let content = std::fs::read(&files[0]).unwrap();
    let mark = SECRET_MARK.as_bytes();
    assert!(!content.windows(mark.len()).any(|part| part == mark), "it is sealed");

    // The next bridge needs no login, and registers no client.
    let mut next = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(next.tools().await, ["whoami"]);
    next.end().await;
    assert_eq!((remote.registrations(), remote.refreshes()), (1, 0));

    run(home.path(), &["auth", "logout", "--endpoint", &remote.url()], &[])
        .await
        .prints("Logged out. Bridges ask for a login again.\n");
    assert_eq!(remote.live_grants(), 0, "what was given is revoked");
    run(home.path(), &["auth", "logout", "--endpoint", &remote.url()], &[]).await.fails(1, &["has no login to end"]);
    let mut after = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(after.tools().await, ["authenticate"]);
    after.end().await;
}
