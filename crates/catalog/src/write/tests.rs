//! Definitions written on request: what is kept, what is refused, what becomes of the file when the disk fails.

use serde_json::json;
use toolcrib_base::ServerName;

use super::*;

fn which(name: &str) -> DefinitionId {
    DefinitionId::Server(ServerName::new(name).unwrap())
}

fn listed(home: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(home.join("servers")).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_created_once_replaced_only_as_it_was_seen_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let files = Files::new(home.path());
    let a = which("a");
    let text = a.text_of(&json!({ "command": "npx", "args": ["-y"] }));
    assert_eq!(text, "name: a\ncommand: npx\nargs: [\"-y\"]\n");
    let first = files.create(&a, &text).unwrap();
    let path = home.path().join("servers/a.yaml");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(files.create(&a, &text), Err(WriteError::Exists(_))));
    assert!(matches!(files.replace(&a, &text, "other"), Err(WriteError::Changed(_))));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let second = files.replace(&a, "# mine\nname: a\ncommand: uvx\n", &first.revision).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nname: a\ncommand: uvx\n");
    assert_eq!(files.read(&a).unwrap().unwrap(), second);
    assert!(matches!(files.remove(&a, Some(&first.revision)), Err(WriteError::Changed(_))));
    files.remove(&a, Some(&second.revision)).unwrap();
    assert!(matches!(files.remove(&a, None), Err(WriteError::Missing(_))));
    assert!(listed(home.path()).is_empty());
}

#[test]
fn what_is_wrong_is_not_written() {
    let home = tempfile::tempdir().unwrap();
    let files = Files::new(home.path());
    for text in [
        "",
        "name: b\ncommand: x\n",
        "name: a\n",
        "name: a\ncommand: x\nno_such: 1\n",
        "{",
        "name: a\ncommand: x\nenv: {K: \"****\"}\n",
    ] {
        let Err(WriteError::Bad(problems)) = files.create(&which("a"), text) else { panic!("{text} was written") };
        assert!(!problems.is_empty());
    }
    assert!(!home.path().join("servers").exists());
}

#[test]
fn every_form_of_a_file_counts_as_there_and_a_link_is_not_ours() {
    let home = tempfile::tempdir().unwrap();
    let files = Files::new(home.path());
    let text = "name: a\ncommand: x\n";
    fs::create_dir(home.path().join("servers")).unwrap();
    fs::write(home.path().join("servers/a.json"), r#"{"name":"a","command":"x"}"#).unwrap();
    assert!(matches!(files.create(&which("a"), text), Err(WriteError::Exists(file)) if file.ends_with("a.json")));
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "name: b\ncommand: x\n").unwrap();
    std::os::unix::fs::symlink(&elsewhere, home.path().join("servers/b.yaml")).unwrap();
    assert!(matches!(files.remove(&which("b"), None), Err(WriteError::NotOurs(_))));
    let seen = files.read(&which("b")).unwrap().unwrap();
    assert!(matches!(files.replace(&which("b"), "name: b\ncommand: y\n", &seen.revision), Err(WriteError::NotOurs(_))));
    assert!(elsewhere.exists());
}

#[test]
fn a_folder_that_takes_no_files_leaves_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    let files = Files::new(home.path());
    fs::write(home.path().join("servers"), "in the way").unwrap();
    assert!(matches!(files.create(&which("a"), "name: a\ncommand: x\n"), Err(WriteError::Io { .. })));
    assert_eq!(fs::read_to_string(home.path().join("servers")).unwrap(), "in the way");
}

#[test]
fn what_may_be_a_secret_is_not_shown() {
    let home = tempfile::tempdir().unwrap();
    let files = Files::new(home.path());
    let text = "name: a\ntransport: http\nurl: https://u:p@example.com/mcp?key=s3cret\nheaders: {X-A: s3cret, X-B: \"env:B\"}\nauth: {client_id: ours, client_secret: \"vault:c\", share: [work], tokenExchange: {dexTokenEndpoint: 'https://dex.example.com/t?key=s3cret', clientCredentialsSecretRef: {clientSecretKey: s3cret}}}\n";
    let shown = files.create(&which("a"), text).unwrap().shown(&which("a")).unwrap();
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
    assert_eq!(shown["headers"], json!({ "X-A": "****", "X-B": "env:B" }));
    assert_eq!(shown["url"], "https://****@example.com/mcp?****");
    let exchange = json!({ "dexTokenEndpoint": "https://dex.example.com/t?****", "clientCredentialsSecretRef": { "clientSecretKey": "****" } });
    let auth = json!({ "client_id": "ours", "client_secret": "vault:c", "share": ["work"], "tokenExchange": exchange });
    assert_eq!(shown["auth"], auth);
}

#[test]
fn what_is_wrong_is_shown_without_its_secrets() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("servers")).unwrap();
    let shaped = ["sk", "0123456789"].join("-");
    for (text, shown) in [
        (shaped.clone(), json!("****")),
        (format!("- {shaped}"), json!("****")),
        (format!("env: ['KEY={shaped}']"), json!({"env": "****"})),
        ("headers: 'Authorization: Bearer hunter2'".to_owned(), json!({"headers": "****"})),
        (format!("env: {{'KEY={shaped}': y}}"), json!({"env": {"****": "****"}})),
        (
            "auth: {token: hunter2, client_secret: hunter2, issuer: hunter2, client_id: [{a: hunter2}]}".to_owned(),
            json!({"auth": {"token": "****", "client_secret": "****", "issuer": "****", "client_id": "****"}}),
        ),
        (
            "args: [-v, --api-key, hunter2, --token=hunter2, --keys=true, '--name', x]".to_owned(),
            json!({"args": ["-v", "--api-key", "****", "--token=****", "--keys=true", "--name", "x"]}),
        ),
        (
            format!("args: [{shaped}, 'KEY={shaped}', 'postgres://u:hunter2@h/d', /a/path]"),
            json!({"args": ["****", "****", "****", "/a/path"]}),
        ),
    ] {
        std::fs::write(home.path().join("servers/a.yaml"), &text).unwrap();
        let written = Files::new(home.path()).read(&which("a")).unwrap().unwrap();
        assert_eq!(written.shown(&which("a")), Some(shown), "{text}");
    }
}
