//! Homes that the programs of earlier commits made and used are opened, used and opened again, and a home of a later
//! program is refused. `acceptance/homes` says how they were made.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use toolcrib_testkit::eventually_finds;
use toolcrib_testkit::launch::GatewayProgram;

use crate::toolcrib::{CommandOutput, Talk, run, toolcrib};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const TOOL_ACTIVE: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_active"}}"#;

/// Where the version lies in the head of a database, by SQLite's file format.
const USER_VERSION: std::ops::Range<usize> = 60..64;

/// A home as an earlier program left it.
struct EarlierHome {
    name: String,
    folder: tempfile::TempDir,
}

impl EarlierHome {
    fn all() -> Vec<Self> {
        let archives = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../acceptance/homes");
        let paths = fs::read_dir(archives).unwrap().map(|entry| entry.unwrap().path());
        let mut archives: Vec<PathBuf> = paths.filter(|it| it.extension().is_some_and(|it| it == "gz")).collect();
        archives.sort();
        archives.iter().map(|archive| Self::unpack(archive)).collect()
    }

    fn unpack(archive: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        tar::Archive::new(GzDecoder::new(File::open(archive).unwrap())).unpack(folder.path()).unwrap();
        // The runs in it are older with each day.
        fs::write(folder.path().join("home/config.toml"), "runs_days = 3650\n").unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolcrib"), bin.join("toolcrib")).unwrap();
        Self { name: archive.file_name().unwrap().to_string_lossy().into_owned(), folder }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn has(&self, path: &str) -> bool {
        self.home().join(path).exists()
    }

    fn database(&self) -> PathBuf {
        self.home().join("state/toolcrib.db")
    }

    fn path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display())
    }

    async fn serve(&self) -> GatewayProgram {
        let launch = toolcrib(&self.home(), &["serve"]).env("PATH", self.path()).env("HOME", self.folder.path());
        launch.serve().await
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&self.home(), arguments, &[("PATH", &self.path())]).await
    }

    async fn answers(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments).await;
        assert_eq!(ran.code, 0, "{}: {arguments:?}: {}{}", self.name, ran.stdout, ran.stderr);
        ran.stdout
    }

    async fn value(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["-o", "json"]].concat();
        serde_json::from_str(&self.answers(&arguments).await).unwrap()
    }
}

/// The events of the audit log, oldest first.
async fn events(earlier: &EarlierHome) -> Vec<Value> {
    let listed = earlier.value(&["audit", "list", "--limit", "1000"]).await;
    let mut events = listed["events"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
    events.sort_by_key(|event| event["seq"].as_i64());
    events
}

/// What every home holds.
async fn uses_servers_and_profiles(earlier: &EarlierHome) {
    let converted = earlier.answers(&["call", "units_convert_length", "value=1", "from=mile", "to=metre"]).await;
    assert_eq!(converted, "1 mile = 1609.344 metre\n", "{}", earlier.name);
    let hidden = ["call", "--profile", "careful", "units/linear_fit", "--json", "{}"];
    earlier.run(&hidden).await.fails(1, &["tool not found"]);
    assert!(earlier.answers(&["audit", "verify"]).await.starts_with("intact"), "{}", earlier.name);
}

/// What later homes hold, too.
async fn uses_the_rest(earlier: &EarlierHome) {
    let name = &earlier.name;
    if earlier.has("workflows") {
        let runs = earlier.value(&["api", "core_workflow_execution_list", "workflow_name=miles"]).await;
        assert!(runs["executions"].as_array().is_some_and(|it| !it.is_empty()), "{name}: {runs}");
        assert!(earlier.answers(&["call", "workflow_miles", "miles=3"]).await.contains("4.828032"), "{name}");
        let kept = earlier.value(&["api", "core_service_get", "name=kept"]).await;
        assert_eq!((kept["state"].as_str(), kept["args"]["title"].as_str()), (Some("running"), Some("Kept")), "{kept}");
        let mut client = Talk::start(&earlier.home(), &["bridge", "--no-token", "--profile", "loads"]);
        client.ask(INITIALIZE).await;
        let active = client.ask(TOOL_ACTIVE).await.to_string();
        assert!(active.contains("units/statistics"), "{name}: loaded before: {active}");
        assert!(earlier.answers(&["secret", "list"]).await.contains("greeting   units"), "{name}");
        let verified = earlier.answers(&["verify", "units"]).await;
        assert!(!verified.contains("for the first time"), "{name}: what was approved is forgotten: {verified}");
    }
    if earlier.has("key-of-team") {
        let key = fs::read_to_string(earlier.home().join("key-of-team")).unwrap();
        let call = ["call", "--profile", "team", "notes_add_note", "title=Hello", "text=there"];
        let ran = run(&earlier.home(), &call, &[("TOOLCRIB_TOKEN", key.trim())]).await;
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.stdout, ran.stderr);
        let last = events(earlier).await.into_iter().rfind(|event| event["target"] == "notes/add_note");
        assert_eq!(last.unwrap()["principal"], "key:team/ci", "{name}");
    }
    if earlier.has("policies") {
        let forbidden = ["call", "units/linear_fit", "--json", r#"{"x": [1, 2], "y": [1, 2]}"#];
        earlier.run(&forbidden).await.fails(1, &["tool not found: `units/linear_fit`"]);
    }
    if earlier.has("agents") {
        let runs = earlier.value(&["run", "list"]).await;
        assert!(runs.to_string().contains("converter"), "{name}: {runs}");
        let ran = earlier.answers(&["run", "--agent", "converter", "convert the length of 3 mile to metre"]).await;
        assert!(ran.contains("units_convert_length: 3 mile"), "{name}: {ran}");
    }
}

#[tokio::test]
async fn homes_of_earlier_programs_are_opened_used_and_opened_again() {
    let homes = EarlierHome::all();
    assert!(homes.len() >= 4, "{} homes", homes.len());
    for earlier in &homes {
        let mut before: Vec<Value> = Vec::new();
        for _ in 0..2 {
            let gateway = earlier.serve().await;
            eventually_finds("both servers to be ready", async || {
                let listed = earlier.run(&["list", "servers"]).await.stdout;
                if listed.matches(" ready ").count() == 2 { Ok(()) } else { Err(listed) }
            })
            .await;
            uses_servers_and_profiles(earlier).await;
            uses_the_rest(earlier).await;
            let now = events(earlier).await;
            assert_eq!(now[0]["seq"], 1, "{}", earlier.name);
            assert_eq!(now[..before.len()], before, "{}", earlier.name);
            before = now;
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_home_of_a_later_program_is_refused_and_left_as_it_is() {
    for earlier in EarlierHome::all() {
        for log in ["wal", "shm"] {
            let _ = fs::remove_file(earlier.database().with_extension(format!("db-{log}")));
        }
        let mut bytes = fs::read(earlier.database()).unwrap();
        bytes[USER_VERSION].copy_from_slice(&9999_u32.to_be_bytes());
        fs::write(earlier.database(), &bytes).unwrap();
        let refused = earlier.run(&["serve", "--listen", "127.0.0.1:0"]).await;
        refused.fails(1, &["state/toolcrib.db", "9999", "run the newer program"]);
        assert!(fs::read(earlier.database()).unwrap() == bytes, "{} was changed", earlier.name);
    }
}
