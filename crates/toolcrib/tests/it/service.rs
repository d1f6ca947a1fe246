//! The gateway as a service, with managers that only write down what they are asked; and bridges that start a gateway.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcrib_testkit::launch::{Launch, Program};

use crate::toolcrib::{CommandOutput, run, toolcrib};
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// A person with managers of services that write down what they are asked and answer from files.
struct Person {
    folder: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        let person = Self { folder: tempfile::tempdir().unwrap() };
        for manager in ["systemctl", "launchctl"] {
            let path = person.path("bin").join(manager);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let script = format!(
                "#!/bin/sh\necho \"{manager} $*\" >> \"{folder}/asked\"\n\
                 [ -e \"{folder}/away\" ] && {{ echo 'Failed to connect to bus' >&2; exit 1; }}\n\
                 case \"$*\" in *is-active*|*is-enabled*) cat \"{folder}/state\" 2>/dev/null || {{ echo inactive; exit 3; }};; esac\n\
                 exit 0\n",
                folder = person.folder.path().display(),
            );
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        person
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn unit(&self) -> PathBuf {
        self.path(".config/systemd/user/toolcrib.service")
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        let (home, path) =
            (self.folder.path().display().to_string(), format!("{}:/usr/bin:/bin", self.path("bin").display()));
        run(&self.path(".config/toolcrib"), arguments, &[("HOME", &home), ("PATH", &path)]).await
    }

    /// What the managers were asked since the last look.
    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let _ = fs::remove_file(self.path("asked"));
        asked.lines().map(str::to_owned).filter(|line| !line.contains("show-environment")).collect()
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_service_is_installed_once_and_removed_whole() {
    let person = Person::new();
    let ran = person.run(&["service", "install", "--dry-run"]).await;
    assert!(
        ran.stdout.contains("ExecStart=") && ran.stdout.contains("enable --now toolcrib.service"),
        "{}",
        ran.stdout
    );
    assert!(!person.unit().exists() && person.asked().is_empty());

    let ran = person.run(&["service", "install"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for part in ["Wrote ", "Started the gateway", "loginctl enable-linger", "warning: the service runs this program"] {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}", ran.stdout);
    }
    let asked = person.asked();
    assert!(
        asked.ends_with(&[
            "systemctl --user daemon-reload".into(),
            "systemctl --user enable --now toolcrib.service".into()
        ]),
        "{asked:?}"
    );
    let text = fs::read_to_string(person.unit()).unwrap();
    let path = format!("Environment=\"PATH={}:/usr/bin:/bin\"", person.path("bin").display());
    assert!(text.contains(&path) && text.contains("Restart=on-failure") && !text.contains("TOOLCRIB_HOME"), "{text}");

    fs::write(person.path("state"), "active\n").unwrap();
    let again = person.run(&["service", "install"]).await;
    assert!(again.stdout.contains("is up to date"), "{}", again.stdout);
    let status = person.run(&["service", "status"]).await;
    assert_eq!(status.code, 1, "nothing answers: {}", status.stdout);
    assert!(
        status.stdout.contains("installed: yes, /") && status.stdout.contains("answering: no"),
        "{}",
        status.stdout
    );
    let status = person.run(&["service", "status", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&value["installed"], &value["current"], &value["running"]), (&json!(true), &json!(true), &json!(true)));

    person.asked();
    let ran = person.run(&["service", "uninstall"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(person.asked(), ["systemctl --user disable --now toolcrib.service", "systemctl --user daemon-reload"]);
    assert!(!person.unit().exists());
    let ran = person.run(&["service", "uninstall"]).await;
    assert!(ran.code == 0 && ran.stdout.contains("nothing to do"), "{}", ran.stdout);
    // What someone else wrote is neither replaced nor removed.
    fs::write(person.unit(), "[Service]\nExecStart=/bin/true\n").unwrap();
    for command in ["install", "uninstall"] {
        person.run(&["service", command]).await.fails(1, &["was not written by `toolcrib service install`"]);
    }
    assert!(person.unit().exists());
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn without_a_session_what_is_to_be_run_is_told() {
    let person = Person::new();
    fs::write(person.path("away"), "").unwrap();
    let ran = person.run(&["service", "install"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let steps = "Run these in a login session:\n  systemctl --user daemon-reload\n  systemctl --user enable --now \
                 toolcrib.service\n";
    assert!(person.unit().exists() && ran.stdout.contains(steps), "{}", ran.stdout);
    let ran = person.run(&["service", "uninstall"]).await;
    assert!(ran.code == 0 && ran.stdout.contains("disable --now") && !person.unit().exists(), "{}", ran.stdout);
    fs::remove_file(person.path("bin/systemctl")).unwrap();
    let ran = run(&person.path("h"), &["service", "install"], &[("HOME", "/"), ("PATH", "/nowhere")]).await;
    ran.fails(1, &["found neither systemd nor launchd", "toolcrib bridge"]);
}

#[tokio::test]
async fn an_agent_of_launchd_is_loaded_and_unloaded() {
    let person = Person::new();
    let (name, uid) = (
        "dev.toolcrib.gateway",
        fs::metadata(person.path("bin")).map(|it| std::os::unix::fs::MetadataExt::uid(&it)).unwrap(),
    );
    let ran = person.run(&["service", "install", "--manager", "launchd"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let agents = person.path("Library/LaunchAgents");
    let file = fs::read_dir(&agents).unwrap().next().unwrap().unwrap().path();
    let asked = person.asked();
    assert!(
        asked.iter().any(|line| line.starts_with(&format!("launchctl bootstrap gui/{uid} {}", file.display()))),
        "{asked:?}"
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("<key>RunAtLoad</key>") && text.contains(name), "{text}");
    let ran = person.run(&["service", "uninstall", "--manager", "launchd"]).await;
    assert_eq!((ran.code, fs::read_dir(&agents).unwrap().count()), (0, 0), "{}", ran.stderr);
    assert!(person.asked().iter().any(|line| line.starts_with(&format!("launchctl bootout gui/{uid}/{name}"))));
}

/// A home whose gateway takes any port.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.toml"), "listen = \"127.0.0.1:0\"\n").unwrap();
    home
}

fn bridge(home: &Path, arguments: &[&str]) -> Launch {
    toolcrib(home, &[&["bridge"], arguments].concat())
}

/// The gateway of a home that no one started by hand; ended with the test.
struct BackgroundGateway(i32);

impl BackgroundGateway {
    fn of(home: &Path) -> Self {
        let text = fs::read_to_string(home.join("state/serve.json")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        Self(value["pid"].as_i64().unwrap().try_into().unwrap())
    }

    fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.0).unwrap()
    }
}

impl Drop for BackgroundGateway {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.pid(), rustix::process::Signal::KILL);
    }
}

#[tokio::test]
async fn many_bridges_start_one_gateway_which_outlives_them() {
    let home = home();
    let mut bridges: Vec<Program> = (0..8).map(|_| bridge(home.path(), &[]).start()).collect();
    let mut answers = Vec::new();
    for bridge in &mut bridges {
        bridge.types(INITIALIZE).await;
    }
    for bridge in &mut bridges {
        answers.push(serde_json::from_str::<Value>(&bridge.line().await).unwrap());
    }
    let gateway = BackgroundGateway::of(home.path());
    assert!(answers.iter().all(|answer| answer["result"]["serverInfo"]["name"] == "toolcrib"), "{answers:?}");
    let mut said = String::new();
    for bridge in bridges {
        said.push_str(&bridge.finish().await.stderr);
    }
    assert_eq!(said.matches("starting one in the background").count(), 1, "{said}");
    // It serves on, in its own session.
    let session = rustix::process::getsid(Some(gateway.pid())).unwrap();
    assert_eq!(session, gateway.pid());
    let log = fs::read_to_string(home.path().join("state/logs/_gateway.log")).unwrap();
    assert_eq!(log.matches("serving url=").count(), 1, "{log}");
    let status = run(home.path(), &["service", "status", "-o", "json"], &[("HOME", "/"), ("PATH", "/nowhere")]).await;
    assert_eq!(status.code, 1, "no service, whatever runs: {}", status.stdout);
}

#[tokio::test]
async fn a_bridge_says_at_once_what_it_waits_for() {
    let home = home();
    fs::write(home.path().join("config.toml"), "listen = \"127.0.0.1:9\"\n").unwrap();
    for (arguments, variable) in [(&["--no-start"][..], None), (&[][..], Some(("TOOLCRIB_NO_START", "1")))] {
        let launch = bridge(home.path(), arguments);
        let launch = variable.into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let mut bridge = launch.start();
        bridge.types(INITIALIZE).await;
        let line = bridge.logs("").await;
        assert!(line.contains("127.0.0.1:9") && line.contains("waiting up to 60 s"), "{line}");
        assert!(!home.path().join("state/start.lock").exists());
    }
}

#[tokio::test]
async fn a_gateway_that_cannot_start_is_told_with_its_reason() {
    let home = home();
    // Someone else has the state folder, and serves no one.
    let state = home.path().join("state");
    fs::create_dir_all(&state).unwrap();
    let lock = fs::File::create(state.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut bridge = bridge(home.path(), &[]).start();
    bridge.types(INITIALIZE).await;
    let line = bridge.line().await;
    assert!(line.contains("starting one failed") && line.contains("in use"), "{line}");
}
