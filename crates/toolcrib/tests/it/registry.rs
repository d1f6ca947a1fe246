//! `toolcrib registry`: entries, definitions made of them, and what is wrong with files.

use std::path::Path;

use serde_json::Value;

use crate::toolcrib::{CommandOutput, run};

async fn registry(home: &Path, arguments: &[&str]) -> CommandOutput {
    run(home, &[&["registry"], arguments].concat(), &[]).await
}

fn write(home: &Path, path: &str, text: &str) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const WHOLE: &str = "name: desk\ntitle: Desk\ndescription: A desk\ncategory: office\nicon: desk\nabout: A desk\nhomepage: https://example.com\nruntime: {command: desk}\n";

#[tokio::test]
async fn entries_are_listed_with_what_they_hide() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "registry/custom/git.yaml", &WHOLE.replace("name: desk", "name: git"));
    write(home.path(), "registry/bad.yaml", "name: bad\ntitel: x\n");
    let ran = registry(home.path(), &["list", "-o", "json"]).await;
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let entries = answer["entries"].as_array().unwrap();
    assert_eq!(answer["total"], entries.len());
    let git = entries.iter().find(|entry| entry["name"] == "git").unwrap();
    assert_eq!((&git["origin"], &git["shadows"][0]), (&"registry/custom/git.yaml".into(), &"built in".into()));
    assert!(ran.stderr.contains("bad entry: registry/bad.yaml:2:1: `titel`"), "{}", ran.stderr);
    let ran = registry(home.path(), &["list", "--category", "office", "--no-headers"]).await;
    assert!(ran.stdout.starts_with("git   office") && ran.stdout.lines().count() == 1, "{}", ran.stdout);
    registry(home.path(), &["show", "gti"]).await.fails(1, &["error: no entry `gti`", "hint: did you mean `git`?"]);
    let shown = registry(home.path(), &["show", "git"]).await;
    assert!(shown.stdout.contains("title: Desk\n"), "{}", shown.stdout);
    assert_eq!(shown.stderr, "from: registry/custom/git.yaml\noverrides: built in\n");
}

#[tokio::test]
async fn an_entry_becomes_a_definition_without_secrets() {
    let home = tempfile::tempdir().unwrap();
    let definition = async |arguments: &[&str]| registry(home.path(), &[&["definition"], arguments].concat()).await;
    let ran = definition(&["brave-search", "--name", "web", "--set", "BRAVE_API_KEY=env:BRAVE"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    write(home.path(), "servers/web.yaml", &ran.stdout);
    let checked = registry(home.path(), &["validate", "--strict"]).await;
    assert_eq!((checked.code, checked.stdout.as_str()), (0, "1 file checked, 0 wrong, 0 warnings\n"));
    let ran = definition(&["brave-search", "--set", "BRAVE_API_KEY=BSA-hush"]).await;
    ran.fails(1, &["`BRAVE_API_KEY` is a secret and must not be stored in a file", "hint: give a reference"]);
    assert!(!ran.stderr.contains("hush"));
    definition(&["brave-search"]).await.fails(1, &["`BRAVE_API_KEY` of entry `brave-search` has no value"]);
    definition(&["time", "--name", "../x"]).await.fails(1, &["`../x` is not a name for a server"]);
    definition(&["time", "--set", "x"]).await.fails(64, &["expected VARIABLE=VALUE"]);
}

#[tokio::test]
async fn validation_never_passes_unseen() {
    let home = tempfile::tempdir().unwrap();
    registry(home.path(), &["validate"]).await.fails(1, &["error: no definition to validate in", "hint: "]);
    registry(home.path(), &["validate", "none"]).await.fails(1, &["error: cannot read `none`"]);
    write(home.path(), "registry/desk.yaml", WHOLE);
    let ran = registry(home.path(), &["validate", "--strict"]).await;
    ran.prints("1 file checked, 0 wrong, 0 warnings\n");

    write(home.path(), "registry/custom/lamp.json", "{\n  \"name\": \"lamp\"\n}");
    assert_eq!(registry(home.path(), &["validate"]).await.code, 0);
    let ran = registry(home.path(), &["validate", "--strict", "--json"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (1, "error: 1 of 2 files wrong or has warnings\n"));
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&answer["summary"]["invalid"], &answer["summary"]["total"]), (&1.into(), &2.into()));
    assert_eq!((&answer["results"][0]["valid"], &answer["results"][1]["valid"]), (&false.into(), &true.into()));

    write(home.path(), "registry/custom/lamp.json", "{\n  \"name\": \"../lamp\"\n}");
    let ran = registry(home.path(), &["validate"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.starts_with("wrong: registry/custom/lamp.json:2:11: `name`: expected a name"), "{}", ran.stdout);
}

#[tokio::test]
async fn schemas_are_printed() {
    let home = tempfile::tempdir().unwrap();
    for (kind, key) in [
        ("entry", "authorization"),
        ("server", "session"),
        ("profile", "exposure"),
        ("workflow", "steps"),
        ("model", "wire"),
        ("agent", "tools"),
    ] {
        let ran = registry(home.path(), &["schema", kind]).await;
        let schema: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(schema["properties"][key].is_object() && schema["additionalProperties"] == false, "{}", ran.stdout);
    }
    registry(home.path(), &["schema", "thing"]).await.fails(
        64,
        &["expected `entry`, `server`, `profile`, `model`, `agent`, `connector`, `service-class`, `service` or `workflow`"],
    );
}
