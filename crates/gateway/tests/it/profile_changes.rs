//! Changes of profiles that are smaller than a definition: a tool that is allowed, a patch, a copy, keys; and what would
//! come of them, which nothing remembers.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, stopped};

async fn done(client: &Client, operation: &str, arguments: &Value) -> Value {
    client.operate(operation, arguments).await.unwrap_or_else(|problem| panic!("{operation} {arguments}: {problem:?}"))
}

async fn refused(client: &Client, operation: &str, arguments: &Value, part: &str) {
    let problem = client.operate(operation, arguments).await.unwrap_err();
    let text = format!("{} {}", problem.message, problem.hint.unwrap_or_default());
    assert!(text.contains(part), "{operation} {arguments}: {text}");
}

fn ids(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn a_tool_is_allowed_and_what_else_the_rules_hide_stays_hidden() {
    let team = profile(
        "team",
        "# who may what\nservers: [alpha]\ntools:\n  allow: [\"*/read\", \"alpha/note*\"]\n  deny:\n    - \"*/write*\" # never\n    - beta/drop\n",
    );
    let house = TestGateway::settled(&[
        stopped("alpha", &["read", "write", "write_all"], ""),
        stopped("beta", &["read", "write", "drop"], ""),
        team,
        profile("reading", "read_only: true"),
    ])
    .await;
    let admin = house.modern("default").admin();
    let file = || house.read("profiles/team.yaml").unwrap();
    let hidden = done(&admin, "core_tool_hidden", &json!({"profile": "team", "query": "write"})).await;
    let rows = hidden["tools"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["id"], &rows[0]["key"], &rows[0]["line"]),
        (3, &json!("alpha/write"), &json!("tools.deny"), &json!(7)),
        "{hidden}"
    );
    // Three keys hide it. What the pattern denied beside it is denied by name.
    let allow = json!({"name": "team", "tool": "beta/write"});
    let preview = done(&admin, "core_profile_preview", &json!({"name": "team", "allow": "beta/write"})).await;
    assert_eq!(ids(&preview["comes"]), ["beta/read", "beta/write"], "the whole change: {preview}");
    done(&admin, "core_profile_allow", &allow).await;
    let text = file();
    for part in
        ["# who may what\n", "servers: [alpha, beta]\n", "- beta/drop\n", "- alpha/write\n", "- alpha/write_all\n"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let seen = done(&admin, "core_tool_visibility", &json!({"name": "beta/write"})).await;
    let of = |name: &str| seen["profiles"].as_array().unwrap().iter().find(|it| it["profile"] == name).unwrap().clone();
    assert_eq!((&of("team")["visible"], &of("default")["visible"]), (&json!(true), &json!(true)), "{seen}");
    let denied = done(&admin, "core_tool_explain", &json!({"tool": "alpha/write_all", "profile": "team"})).await;
    assert_eq!((&denied["visible"], &denied["rule"]["key"]), (&json!(false), &json!("tools.deny")), "{denied}");
    refused(&admin, "core_profile_allow", &allow, "the rules of profile `team` allow `beta/write`").await;
    refused(&admin, "core_profile_allow", &json!({"name": "team", "tool": "beta/none"}), "no server has a tool").await;
    refused(&admin, "core_profile_allow", &json!({"name": "reading", "tool": "alpha/read"}), "is `read_only`").await;
    let stale = json!({"name": "team", "tool": "beta/drop", "revision": "0"});
    refused(&admin, "core_profile_allow", &stale, "has changed since it was read").await;
    assert_eq!(file(), text);
}

#[tokio::test]
async fn a_preview_says_who_would_see_what_and_is_remembered_by_nothing() {
    let house = TestGateway::settled(&[
        stopped("alpha", &["read", "write"], ""),
        stopped("beta", &["read"], ""),
        profile("team", "servers: [alpha]\nkeys: []"),
    ])
    .await;
    let admin = house.modern("default").admin();
    let before = house.read("profiles/team.yaml");
    let set = json!({"servers": ["*"], "prefix": "none", "tools": {"deny": ["alpha/write"]}});
    let preview = done(&admin, "core_profile_preview", &json!({"name": "team", "set": set})).await;
    assert_eq!((ids(&preview["comes"]), ids(&preview["goes"])), (vec!["beta/read"], vec!["alpha/write"]), "{preview}");
    let member = preview["who"].as_array().unwrap().iter().find(|it| it["who"] == "role member").unwrap().clone();
    assert_eq!((&member["tools"], &member["before"], &preview["takesKey"]), (&json!(2), &json!(2), &json!(true)));
    let direct = json!({"name": "new", "definition": {"exposure": "direct", "prefix": "none"}});
    let other = done(&admin, "core_profile_preview", &direct).await;
    assert_eq!((&other["before"], other["after"]["listed"].as_u64() > Some(0)), (&Value::Null, true), "{other}");
    let name = toolcrib_base::ProfileName::new("new").unwrap();
    assert_eq!(house.gateway.store().names().all(&name).unwrap(), [], "no name is taken by what is only looked at");
    refused(&admin, "core_profile_preview", &json!({"name": "team", "set": {"exposure": "all"}}), "exposure").await;
    refused(&admin, "core_profile_preview", &json!({"name": "nine", "set": {}}), "profile `nine` not found").await;
    assert_eq!((house.read("profiles/team.yaml"), house.read("profiles/new.yaml")), (before, None));
}

#[tokio::test]
async fn a_patch_leaves_keys_alone_and_a_copy_has_none() {
    let house = TestGateway::settled(&[stopped("alpha", &["read"], ""), profile("team", "title: Ours")]).await;
    let admin = house.modern("default").admin();
    let made = done(&admin, "core_profile_key_add", &json!({"name": "team", "key": "ci", "role": "viewer"})).await;
    let (key, hash) = (made["key"].as_str().unwrap(), "sha256:");
    assert!(key.starts_with("tcb_") && made["principal"] == "key:team/ci", "{made}");
    refused(&admin, "core_profile_key_add", &json!({"name": "team", "key": "ci"}), "already exists").await;
    done(&admin, "core_profile_change", &json!({"name": "team", "set": {"title": null, "read_only": true}})).await;
    let text = house.read("profiles/team.yaml").unwrap();
    assert!(text.contains(hash) && text.contains("read_only: true") && !text.contains("Ours"), "{text}");
    assert!(!text.contains(&key[4..]), "the key is kept nowhere: {text}");
    done(&admin, "core_profile_clone", &json!({"name": "team", "as": "copy", "set": {"exposure": "direct"}})).await;
    let copy = house.read("profiles/copy.yaml").unwrap();
    assert!(copy.contains("keys: []") && !copy.contains(hash) && copy.contains("exposure: direct"), "{copy}");
    refused(&admin, "core_profile_clone", &json!({"name": "team", "as": "copy"}), "already exists").await;
    let newer = done(&admin, "core_profile_key_rotate", &json!({"name": "team", "key": "ci", "keep": "2h"})).await;
    assert_eq!(newer["role"], "viewer");
    let keys = done(&admin, "core_profile_key_list", &json!({"name": "team"})).await;
    assert_eq!((keys["total"].as_u64(), keys.to_string().contains("sha256")), (Some(2), false), "{keys}");
    assert!(keys["keys"][0]["expires"].is_string() && keys["keys"][1]["expires"].is_null(), "{keys}");
    refused(&admin, "core_profile_key_rotate", &json!({"name": "team", "key": "ci"}), "2 keys `ci`").await;
    let old = done(&admin, "core_profile_key_revoke", &json!({"name": "team", "key": "ci", "old": true})).await;
    assert_eq!(old["revoked"], 1);
    refused(&admin, "core_profile_key_revoke", &json!({"name": "team", "key": "none"}), "not found").await;
    refused(&admin, "core_profile_key_add", &json!({"name": "team", "key": "x", "expires": "soon"}), "expected a date")
        .await;
}

#[tokio::test]
async fn the_table_of_who_may_do_what_follows_profile_role_and_policies() {
    const TEAM: &str = "@id(\"no-write\") forbid (principal in Group::\"acme/interns\", action, resource == Tool::\"alpha/write\");\n@id(\"asks\") @approve(\"ops\") forbid (principal, action == Action::\"call\", resource == Tool::\"alpha/read\");\n";
    let house = TestGateway::settled(&[
        stopped("alpha", &["read", "write", "note"], ""),
        profile("default", ""),
        ("policies/team.cedar".to_owned(), TEAM.to_owned()),
    ])
    .await;
    let admin = house.modern("default").admin();
    let table = done(&admin, "core_policy_matrix", &json!({})).await;
    let column = |table: &Value, who: &str| {
        table["principals"].as_array().unwrap().iter().position(|it| it["who"].as_str().unwrap().contains(who)).unwrap()
    };
    let decision = |table: &Value, tool: &str, who: &str| {
        let row = table["tools"].as_array().unwrap().iter().find(|it| it["tool"] == tool).unwrap();
        let found = &row["decisions"][column(table, who)];
        (found["decision"].as_str().unwrap().to_owned(), found["by"].as_str().unwrap().to_owned())
    };
    let is = |word: &str, by: &str| (word.to_owned(), by.to_owned());
    assert_eq!(decision(&table, "alpha/write", "acme/interns"), is("hidden", "no-write"), "{table}");
    assert_eq!(decision(&table, "alpha/write", "role member").0, "permit", "{table}");
    assert_eq!(decision(&table, "alpha/read", "role member"), is("approve", "asks"), "{table}");
    // A viewer calls only what says that it only reads.
    assert_ne!(decision(&table, "alpha/note", "role viewer").0, "permit", "{table}");
    let narrow = done(&admin, "core_policy_matrix", &json!({"decision": "hidden", "who": "interns", "limit": 1})).await;
    assert_eq!((narrow["total"].as_u64(), &narrow["tools"][0]["tool"]), (Some(1), &json!("alpha/write")), "{narrow}");
    assert_eq!(narrow["principals"][0]["groups"], json!(["interns"]), "{narrow}");
    // A file that is no policy is not written; one that is counts at once.
    let there = done(&admin, "core_policy_file_get", &json!({"name": "team.cedar"})).await;
    let write = |text: &str| json!({"name": "team.cedar", "text": text, "revision": there["revision"]});
    refused(&admin, "core_policy_file_write", &write("// one\npermit (princ"), "team.cedar:2").await;
    refused(&admin, "core_policy_file_write", &json!({"name": "../x.cedar", "text": "// x"}), "file of policies").await;
    refused(&admin, "core_policy_file_write", &json!({"name": "team.cedar", "text": "// x"}), "already exists").await;
    let change = done(&admin, "core_policy_diff", &json!({"file": {"name": "team.cedar", "text": "// none\n"}})).await;
    assert!(change["gains"].as_u64() > Some(0), "{change}");
    assert_eq!(house.read("policies/team.cedar").unwrap(), TEAM);
    done(&admin, "core_policy_file_write", &write("// none\n")).await;
    let table = done(&admin, "core_policy_matrix", &json!({})).await;
    assert_eq!(decision(&table, "alpha/read", "role member").0, "permit", "{table}");
    refused(&admin, "core_policy_file_write", &write("// late\n"), "has changed since it was read").await;
}
