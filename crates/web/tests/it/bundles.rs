//! Bundles by REST: what goes out holds no secret, what comes in is written whole or not at all.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testgateway::profile;

use crate::served::{Ask, Reply, ServedGateway, stopped};

async fn import(house: &ServedGateway, body: &Value) -> Reply {
    house.ask(Ask::new(Method::POST, "/api/v1/import/profile", body.to_string()).admin()).await
}

const BUNDLE: &str = "bundle: 1
profile: {name: team, servers: [mail], env: {REGION: eu}}
servers:
  - {name: mail, command: never-started, start: manual, env: {MAIL_KEY: \"env:MAIL_KEY\"}}
";

#[tokio::test]
async fn a_profile_goes_out_and_comes_in_as_it_was() {
    let team = "servers: [one]\nkeys: []\ntools: {deny: [\"one/x\"]}\n";
    let house = ServedGateway::settled(&[stopped("one", &["x"]), profile("team", team)]).await;
    let told = house.ask(Ask::get("/api/v1/export/profile/team").admin()).await.json();
    let bundle = told["bundle"].as_str().unwrap();
    assert!(!bundle.contains("keys") && bundle.contains("one/x"), "{bundle}");
    assert_eq!((&told["servers"], &told["needs"]), (&json!(["one"]), &json!([])));
    house.ask(Ask::get("/api/v1/export/profile/teem").admin()).await.problem(404);
    let other = ServedGateway::settled(&[]).await;
    let written = import(&other, &json!({ "bundle": bundle })).await.json();
    assert_eq!((&written["written"], &written["changes"][0]["change"]), (&json!(true), &json!("new")));
    let again = import(&house, &json!({ "bundle": bundle })).await.json();
    let changes: Vec<&Value> = again["changes"].as_array().unwrap().iter().map(|it| &it["change"]).collect();
    assert_eq!(changes, ["same", "same"], "tools that are known and keys are none of a bundle's");
    assert!(house.read("profiles/team.yaml").unwrap().contains("keys: []"));
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_an_import_everything() {
    let house = ServedGateway::settled(&[]).await;
    let seen = import(&house, &json!({ "bundle": BUNDLE, "dry_run": true })).await.json();
    assert_eq!(seen["written"], false);
    assert_eq!(seen["changes"][0]["definition"]["command"], "never-started");
    assert_eq!(seen["changes"][0]["file"], "servers/mail.yaml");
    let need = json!({
        "server": "mail", "variable": "MAIL_KEY", "kind": "variable", "reference": "env:MAIL_KEY",
        "id": "mail/MAIL_KEY", "vault_name": "team/mail/MAIL_KEY",
    });
    assert_eq!(seen["needs"], json!([need]));
    assert!(house.read("servers/mail.yaml").is_none() && house.read("profiles/team.yaml").is_none());
    let references = json!({ "mail/MAIL_KEY": "vault:mine" });
    let written = import(&house, &json!({ "bundle": BUNDLE, "references": references })).await.json();
    assert_eq!(written["written"], true);
    assert!(house.read("servers/mail.yaml").unwrap().contains("\"vault:mine\""));
    assert!(house.gateway.view("team").is_some(), "it is taken in");
}

#[tokio::test]
async fn what_is_there_is_replaced_only_on_request_and_a_profile_stays_shut() {
    let shut = "title: mine\nkeys: []\n";
    let house = ServedGateway::settled(&[stopped("mail", &["x"]), profile("team", shut)]).await;
    let before = [house.read("servers/mail.yaml"), house.read("profiles/team.yaml")];
    let refused = import(&house, &json!({ "bundle": BUNDLE })).await.problem(409);
    assert!(refused["detail"].as_str().unwrap().contains("server `mail`, profile `team`"), "{refused}");
    assert_eq!([house.read("servers/mail.yaml"), house.read("profiles/team.yaml")], before);
    import(&house, &json!({ "bundle": BUNDLE, "replace": true })).await.json();
    assert!(house.read("servers/mail.yaml").unwrap().contains("MAIL_KEY"));
    let profile = house.read("profiles/team.yaml").unwrap();
    assert!(profile.contains("REGION") && profile.contains("keys: []") && !profile.contains("mine"), "{profile}");
}

#[tokio::test]
async fn a_wrong_bundle_is_told_with_its_place_and_nothing_is_written() {
    let house = ServedGateway::settled(&[]).await;
    for (bundle, status, part) in [
        (BUNDLE.replace("name: mail", "name: ../mail"), 422, "bundle:4:12: `servers[0].name`"),
        (BUNDLE.replace("MAIL_KEY: \"env:MAIL_KEY\"", "MAIL_KEY: \"****\""), 422, "the placeholder of a hidden value"),
        (BUNDLE.replace("profile: {", "profile: {keys: [], "), 422, "in no bundle"),
        (BUNDLE.replace("servers:\n", "servrs:\n"), 422, "did you mean `servers`?"),
    ] {
        let told = import(&house, &json!({ "bundle": bundle })).await;
        assert_eq!(told.status.as_u16(), status, "{:?}", String::from_utf8_lossy(&told.body));
        assert!(String::from_utf8_lossy(&told.body).contains(part), "{part}: {:?}", told.body);
    }
    for references in [json!({ "mail/OTHER": "env:X" }), json!({ "mail/MAIL_KEY": "plain-text" })] {
        let told = import(&house, &json!({ "bundle": BUNDLE, "references": references })).await;
        assert_eq!(told.status, 400);
        assert!(!String::from_utf8_lossy(&told.body).contains("plain-text"));
    }
    assert!(house.read("servers/mail.yaml").is_none() && house.read("profiles/team.yaml").is_none());
}

#[tokio::test]
async fn only_admins_import() {
    let house = ServedGateway::settled(&[]).await;
    let body = json!({ "bundle": BUNDLE }).to_string();
    house.ask(Ask::new(Method::POST, "/api/v1/import/profile", body)).await.problem(401);
    assert!(house.read("servers/mail.yaml").is_none());
}
