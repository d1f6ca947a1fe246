//! `toolcrib eval search`: a small set of its own, asked through a gateway.

use std::path::Path;

use serde_json::Value;

use crate::toolcrib::run;

const TOOLS: &str = r#"{"id":"Mail/send","server":"Mail","server_description":"Letters","category":"post","name":"send_mail","description":"Send a letter to somebody","input_schema":{"type":"object","properties":{"to":{"type":"string"}}}}
{"id":"Post/send","server":"Post","name":"send_mail","description":"Send a letter to somebody","input_schema":{"type":"object","properties":{"to":{"type":"string"}}}}

{"id":"Weather/forecast","server":"Weather!","name":"forecast","description":"The weather of the coming days"}
{"id":"Weather/second","server":"Weather!","name":"forecast","description":"How high the tide will be"}
{"id":"nobody's","server":"","name":"roll dice","description":"Roll dice, ${HOME} of them"}
"#;
const QUERIES: &str = r#"{"id":"1","text":"send a letter","relevant":["Post/send","Mail/send"]}
{"id":"2","text":"will it be sunny weather","relevant":["Weather/forecast"]}
{"id":"3","text":"roll dice","relevant":["nobody's"]}
"#;

fn put(folder: &Path, tools: &str, queries: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("tools.jsonl"), tools).unwrap();
    std::fs::write(folder.join("queries.jsonl"), queries).unwrap();
}

#[tokio::test]
async fn a_search_is_measured_through_the_gateway() {
    let home = tempfile::tempdir().unwrap();
    let sets = tempfile::tempdir().unwrap();
    put(&sets.path().join("one"), TOOLS, QUERIES);
    put(&sets.path().join("two"), TOOLS, r#"{"id":"1","text":"roll dice","relevant":["Weather/second"]}"#);
    let folder = sets.path().to_str().unwrap();
    let ran = run(home.path(), &["eval", "search", folder, "-o", "json"], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let one = &value["sets"][0];
    assert_eq!((one["set"].as_str(), one["tools"].as_u64(), one["queries"].as_u64()), (Some("one"), Some(5), Some(3)));
    for key in ["recall_at_1", "recall_at_10", "mrr", "ndcg_at_10"] {
        assert_eq!(one[key], 1.0, "{key}: {one}");
    }
    assert!(one["tokens_median"].as_u64().unwrap() > 0 && one["ms_p50"].is_number(), "{one}");
    assert_eq!(value["sets"][1]["recall_at_1"], 0.0);
    assert_eq!(value["mean"]["recall_at_1"], 0.5);
    let one = sets.path().join("one");
    let ran = run(home.path(), &["eval", "search", one.to_str().unwrap(), "--ranking", "tfidf"], &[]).await;
    assert!(ran.stdout.contains("NDCG@10") && ran.stdout.lines().count() == 2, "{}{}", ran.stdout, ran.stderr);
}

#[tokio::test]
async fn a_package_and_instructions_are_words_of_their_server_as_in_a_home() {
    let home = tempfile::tempdir().unwrap();
    let set = tempfile::tempdir().unwrap();
    let tool = |server: &str, more: &str| {
        format!(r#"{{"id":"{server}","server":"{server}","name":"use_{server}","description":"Does it",{more}}}"#)
    };
    let instructions = format!(r#""instructions":"Keeps invoices. {}volcanoes""#, "x ".repeat(200));
    let tools = [
        tool("alpha", r#""package":"pypi:something-else""#),
        tool("beta", r#""package":"pypi:mcp-server-time""#),
        tool("gamma", &instructions),
    ];
    let of = |text: &str, relevant: &str| format!(r#"{{"text":"{text}","relevant":["{relevant}"]}}"#);
    put(set.path(), &tools.join("\n"), &[of("a clock", "beta"), of("invoices", "gamma")].join("\n"));
    let folder = set.path().to_str().unwrap();
    let ran = run(home.path(), &["eval", "search", folder, "-o", "json"], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["mean"]["recall_at_1"], 1.0, "{value}");
    // What the gateway does not read of long instructions is not written either.
    put(set.path(), &tools.join("\n"), &of("volcanoes", "gamma"));
    let ran = run(home.path(), &["eval", "search", folder, "-o", "json"], &[]).await;
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["mean"]["recall_at_10"], 0.0, "{value}");
    put(set.path(), &tool("alpha", r#""package":7"#), &of("it", "alpha"));
    run(home.path(), &["eval", "search", folder], &[])
        .await
        .fails(1, &["tools.jsonl`, line 1", "`package` is not a string"]);
}

#[tokio::test]
async fn a_bad_set_is_told_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    let query = r#"{"text":"x","relevant":["Mail/send"]}"#;
    for (tools, queries, parts) in [
        ("\n{\"id\":", query, ["tools.jsonl`, line 2", "EOF"]),
        ("7", query, ["tools.jsonl`, line 1", "not a JSON object"]),
        ("{\"id\":\"a\"}", query, ["tools.jsonl`, line 1", "`name` is missing"]),
        (TOOLS, "{\"text\":\"x\"}", ["queries.jsonl`, line 1", "`relevant` is not a list"]),
        (TOOLS, "{\"text\":\"x\",\"relevant\":[\"b\"]}", ["queries.jsonl`, line 1", "names `b`"]),
        (TOOLS, "\n", ["queries.jsonl`", "is empty"]),
    ] {
        let set = tempfile::tempdir().unwrap();
        put(set.path(), tools, queries);
        run(home.path(), &["eval", "search", set.path().to_str().unwrap()], &[]).await.fails(1, &parts);
    }
    let empty = tempfile::tempdir().unwrap();
    run(home.path(), &["eval", "search", empty.path().to_str().unwrap()], &[])
        .await
        .fails(1, &["not an evaluation set"]);
}
