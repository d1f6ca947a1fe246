//! Values of headers: whose they are, and what a request carries of them.

use std::path::Path;

use toolcrib_store::Config;

use super::*;

const TRACKER: &str = "name: tracker\ntransport: http\nurl: https://a.example/mcp\n\
                       headers: {X-Key: 'user:tracker', X-Team: 'user:team', X-Mode: fast}\n";
const BOARD: &str = "name: board\ntransport: http\nurl: https://b.example/mcp\nheaders: {X-Team: 'user:team'}\n";

fn open(home: &Path) -> UserValues {
    std::fs::create_dir_all(home.join("servers")).unwrap();
    for (name, text) in [("tracker", TRACKER), ("board", BOARD)] {
        std::fs::write(home.join(format!("servers/{name}.yaml")), text).unwrap();
    }
    let catalog = toolcrib_catalog::load(home);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    let state = home.join("state");
    let values = UserValues::new(&Store::open(&state, Config::default()).unwrap(), Vault::new(&state, None));
    values.define(&catalog);
    values
}

fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn owner(principal: &str) -> Owner {
    Owner::of(Some(principal))
}

fn given(name: &str, value: &str) -> UserValue {
    UserValue { name: name.into(), value: Secret::new(value) }
}

/// The headers of a request, sorted, or why it cannot be made.
async fn headers(values: &UserValues, of: &str, whose: &str) -> Result<Vec<String>, NoCredential> {
    let mut token = HeaderMap::new();
    token.insert("authorization", HeaderValue::from_static("Bearer t"));
    let headers = match values.add(Proof::Known(token), &server(of), || owner(whose)) {
        Proof::Known(headers) => headers,
        Proof::Awaited(awaited) => awaited.await?,
    };
    let mut lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    Ok(lines)
}

#[tokio::test]
async fn each_owner_sends_its_own_values_and_needs_a_login_without_them() {
    let home = tempfile::tempdir().unwrap();
    let (tracker, local, key) = (server("tracker"), owner("local"), owner("key:work/ci"));
    {
        let values = open(home.path());
        assert_eq!(headers(&values, "other", "local").await.unwrap(), ["authorization: Bearer t"]);
        assert_eq!(values.missing(&tracker, &local).unwrap(), ["tracker", "team"]);
        assert_eq!(headers(&values, "tracker", "local").await.unwrap_err(), NoCredential::NeedsLogin);
        values.put(&tracker, &local, &[given("tracker", "one"), given("team", "red")]).unwrap();
        values.put(&tracker, &key, &[given("tracker", "two")]).unwrap();
        assert_eq!(values.missing(&tracker, &key).unwrap(), ["team"]);
    }
    // After a restart, first from the disk and then from memory.
    let values = open(home.path());
    for _ in 0..2 {
        let own = ["authorization: Bearer t", "x-key: one", "x-team: red"];
        assert_eq!(headers(&values, "tracker", "admin").await.unwrap(), own);
        assert_eq!(headers(&values, "tracker", "key:work/ci").await.unwrap_err(), NoCredential::NeedsLogin);
        assert_eq!(headers(&values, "board", "local").await.unwrap(), ["authorization: Bearer t", "x-team: red"]);
    }
    values.put(&tracker, &key, &[given("team", "blue"), given("tracker", "three")]).unwrap();
    let own = ["authorization: Bearer t", "x-key: three", "x-team: blue"];
    assert_eq!(headers(&values, "tracker", "key:work/ci").await.unwrap(), own);
}

#[tokio::test]
async fn logging_out_deletes_what_no_other_server_wants() {
    let home = tempfile::tempdir().unwrap();
    let (tracker, local) = (server("tracker"), owner("local"));
    let values = open(home.path());
    values.put(&tracker, &local, &[given("tracker", "one"), given("team", "red")]).unwrap();
    assert!(values.forget(&tracker, &local).unwrap());
    assert!(!values.forget(&tracker, &local).unwrap());
    assert_eq!(values.missing(&tracker, &local).unwrap(), ["tracker"]);
    assert_eq!(headers(&values, "tracker", "local").await.unwrap_err(), NoCredential::NeedsLogin);
    assert!(headers(&values, "board", "local").await.is_ok());
}

#[test]
fn what_is_no_value_of_the_server_is_refused_and_nothing_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let (tracker, local) = (server("tracker"), owner("local"));
    let values = open(home.path());
    for (name, value, part) in [
        ("trackr", "x", "no header of `user:trackr`"),
        ("tracker", " ", "is empty"),
        ("tracker", "hush\r\nX-Admin: 1", "cannot stand in a header"),
        ("tracker", &"x".repeat(VALUE_BYTES + 1), "is too long"),
    ] {
        let problem = values.put(&tracker, &local, &[given("team", "red"), given(name, value)]).unwrap_err();
        assert!(problem.message.contains(part) && problem.hint.is_some(), "{problem:?}");
        assert!(!format!("{problem:?}").contains("hush"), "{problem:?}");
    }
    assert!(values.put(&server("other"), &local, &[given("team", "red")]).is_err());
    assert_eq!(values.missing(&tracker, &local).unwrap(), ["tracker", "team"]);
}

#[tokio::test]
async fn a_value_is_sealed_for_its_owner_and_printed_nowhere() {
    let home = tempfile::tempdir().unwrap();
    let (tracker, local) = (server("tracker"), owner("local"));
    let values = open(home.path());
    values.put(&tracker, &local, &[given("tracker", "s3cret"), given("team", "s3cret")]).unwrap();
    for entry in std::fs::read_dir(home.path().join("state")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|six| six == b"s3cret"));
    }
    let Proof::Known(headers) = values.add(Proof::Known(HeaderMap::new()), &tracker, || local.clone()) else {
        panic!("it is in memory")
    };
    assert!(!format!("{headers:?} {values:?}").contains("s3cret"));
    // Someone who writes the database gives a value of the owner to a key.
    let sealed = values.0.rows.get(&PrincipalId::new("owner"), "team").unwrap().unwrap();
    values.0.rows.put(&PrincipalId::new("key:work/ci"), "team", &sealed).unwrap();
    assert_eq!(values.missing(&server("board"), &owner("key:work/ci")).unwrap(), ["team"]);
}
