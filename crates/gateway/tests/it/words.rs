//! Words of servers: the tools of a server that is recognised by its package are found by what its entry says.

use serde_json::{Value, json};
use toolcrib_testgateway::{File, TestGateway, profile};

/// A server that is never started, with a tool that says nothing.
fn server(name: &str, package: &str, more: &str) -> File {
    let tools = "tools: [{name: use_it, description: Does it, inputSchema: {type: object}}]";
    (
        format!("servers/{name}.yaml"),
        format!("name: {name}\ncommand: uvx\nargs: [{package}]\nstart: manual\n{more}{tools}\n"),
    )
}

#[tokio::test]
async fn a_recognised_package_is_found_by_the_words_of_its_entry_at_every_door() {
    let files = [
        server("alpha", "something-else", ""),
        server("beta", "mcp-server-time", ""),
        server("gamma", "another", "keywords: [invoices]\n"),
        profile("default", ""),
        profile("muster", "dialect: muster\n"),
        profile("go-ent", "dialect: go-ent\nranking: blend\n"),
        profile("scooter", "dialect: scooter\n"),
    ];
    let house = TestGateway::settled(&files).await;
    for (query, expected) in [("a clock", "beta"), ("invoices", "gamma")] {
        for (dialect, tool) in [
            ("default", "find_tools"),
            ("muster", "filter_tools"),
            ("go-ent", "tool_find"),
            ("scooter", "scooter_find"),
        ] {
            let result: Value = house.modern(dialect).call(tool, &json!({ "query": query })).await;
            assert_ne!(result["isError"], true, "{dialect}: {result}");
            let text = result.to_string();
            assert!(text.contains(expected) && !text.contains("alpha"), "{dialect}, {query}: {text}");
        }
    }
    house.close().await;
}
