//! `toolcrib version`, and what the build knows of its sources.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::stub::{Answer, Stub};
use crate::toolcrib::run;

#[allow(dead_code, reason = "a build script's `main` is for cargo")]
#[path = "../../build.rs"]
mod build;

use build::Sources;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn git(folder: &Path, arguments: &[&str]) {
    let who = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(who).args(arguments).env("GIT_COMMITTER_DATE", "1700000000 +0000");
    assert!(git.output().unwrap().status.success(), "{arguments:?}");
}

#[test]
fn sources_are_known_by_their_commit_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(Sources::of(folder, None), Sources::default());
    assert_eq!(Sources::of(folder, Some("1600000000")).time, Some(1_600_000_000));
    assert_eq!(Sources::of(folder, Some("yesterday")), Sources::default());
    git(folder, &["init", "-q"]);
    std::fs::write(folder.join("other"), "x").unwrap();
    std::fs::write(folder.join("Cargo.toml"), "x").unwrap();
    git(folder, &["add", "other"]);
    git(folder, &["commit", "-qm", "x"]);
    assert_eq!(Sources::of(folder, None), Sources::default(), "they lie in somebody else's repository");
    git(folder, &["add", "Cargo.toml"]);
    git(folder, &["commit", "-qm", "y"]);
    let known = Sources::of(folder, None);
    assert_eq!((known.commit.as_ref().unwrap().len(), known.time), (40, Some(1_700_000_000)));
    assert!(known.watched.iter().any(|file| file.ends_with("logs/HEAD")), "{:?}", known.watched);
    assert_eq!(Sources::of(folder, Some("1600000000\n")).time, Some(1_600_000_000));
    // An archive says it itself, wherever it lies.
    let archive = json!({ "git": { "sha1": COMMIT, "dirty": true }, "path_in_vcs": "crates/toolcrib" });
    std::fs::write(folder.join(".cargo_vcs_info.json"), archive.to_string()).unwrap();
    let known = Sources::of(folder, None);
    assert_eq!((known.commit.as_deref(), known.time), (Some(COMMIT), None));
    std::fs::write(folder.join(".cargo_vcs_info.json"), "{\"git\":{\"sha1\":\"x\\ncargo::rustc-env=A=B\"}}").unwrap();
    assert_ne!(Sources::of(folder, None).commit.as_deref(), Some(COMMIT));
    assert!(!format!("{:?}", Sources::of(folder, None)).contains("cargo::"));
}

#[tokio::test]
async fn this_program_and_the_gateway_tell_their_versions() {
    let own = env!("CARGO_PKG_VERSION");
    let home = tempfile::tempdir().unwrap();
    let nobody = [("TOOLCRIB_LISTEN", "127.0.0.1:1")];
    let ran = run(home.path(), &["version"], &nobody).await;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!((ran.code, ran.stderr.as_str(), lines.len()), (0, "", 4), "{}", ran.stdout);
    assert_eq!((lines[0], lines[3]), (format!("toolcrib {own}").as_str(), "gateway: (not running)"));
    assert!(lines[1].starts_with("commit:  ") && lines[2].starts_with("date:    "), "{}", ran.stdout);
    let ran = run(home.path(), &["version", "-o", "json"], &nobody).await;
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&said["client"]["version"], &said["server"]), (&json!(own), &Value::Null));
    // The text and the JSON say the same, and a commit is one.
    let known = Sources::of(Path::new(env!("CARGO_MANIFEST_DIR")), None);
    match said["client"]["commit"].as_str() {
        Some(commit) => assert!(commit.len() >= 40 && lines[1].ends_with(&commit[..12]), "{said}"),
        None => assert_eq!((known.commit, lines[1]), (None, "commit:  unknown")),
    }
    let stub = Stub::start(|_| Answer::status(500, "")).await;
    let ran = run(home.path(), &["version", "--endpoint", &stub.url], &[]).await;
    assert!(ran.stdout.ends_with(&format!("gateway: 1 at {}\n", stub.url)), "{}", ran.stdout);
    assert!(ran.stderr.contains("another version"), "{}", ran.stderr);
    let strict = Stub::start_raw(|_| Answer::status(401, "{}")).await;
    let ran = run(home.path(), &["version", "--endpoint", &strict.url], &[]).await;
    assert!(ran.code == 0 && ran.stdout.contains("gateway: (unknown: ") && ran.stdout.contains("requires a token"));
    run(home.path(), &["version", "--context", "none"], &[]).await.fails(1, &["no context `none`", "hint: "]);
}
