//! The other dialects, each by its own meta-tools and names.

use serde_json::{Value, json};
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, text_of};

use super::outcome;
use super::world::{Oracle, TOOLS};

/// The meta-tools of a dialect that show a tool, with what stands in their answers, and the one that calls it.
struct Words {
    shows: Vec<(&'static str, Value, String)>,
    calls: (&'static str, Value),
}

fn words(dialect: &str, id: &str, arguments: &Value) -> Words {
    let (server, tool) = id.split_once('/').unwrap();
    match dialect {
        "muster" => {
            let exposed = format!("x_{server}_{tool}");
            let said = format!("\"name\":\"{exposed}\"");
            Words {
                shows: vec![
                    ("list_tools", json!({}), said.clone()),
                    ("filter_tools", json!({"pattern": exposed, "limit": 100}), said.clone()),
                    ("describe_tool", json!({"name": exposed}), said),
                ],
                calls: ("call_tool", json!({"name": exposed, "arguments": arguments})),
            }
        }
        "go-ent" => Words {
            shows: vec![
                ("tool_find", json!({"query": format!("{server} {tool}"), "limit": 100}), format!("{server}_{tool}")),
                ("tool_describe", json!({"name": id}), format!("{server}_{tool}")),
                ("tool_load", json!({"names": [id]}), format!("-{id}T")),
            ],
            calls: ("tool_call", json!({"name": id, "arguments": arguments})),
        },
        _ => Words {
            // A name that another server had first has that of its server before it.
            shows: vec![("scooter_add", json!({"tool_name": server}), format!("{tool}\",\"description\""))],
            calls: ("scooter_call", json!({"tool": id, "arguments": arguments})),
        },
    }
}

/// What is shown and what can be called is what the policies say.
pub(super) async fn check(oracle: &Oracle<'_>, client: &Client, world: &str) {
    let dialect = client.caller.profile.to_string();
    for id in TOOLS {
        for text in ["x", "y"] {
            let arguments = json!({"text": text, "name": "HOME"});
            let decision = oracle.decide(client, &oracle.tool(id), &arguments, Door::MCP);
            let about = format!("{world}\n{id} {arguments}: {decision}");
            let Words { shows, calls: (name, params) } = words(&dialect, id, &arguments);
            for (name, params, said) in shows {
                let got = client.call(name, &params).await;
                // Tools that are alike are found once, by the name of one of them.
                let is_folded = name == "tool_find" && decision != "hidden";
                let is_shown =
                    is_folded || (got["isError"] != true && text_of(&got).replace([' ', '\n'], "").contains(&said));
                assert_eq!(is_shown, decision != "hidden", "{about} by {name}: {got}");
            }
            let got = outcome(client, "tools/call", &json!({"name": name, "arguments": params})).await;
            let expect = if decision == "permit" { "ok" } else { "refused" };
            assert_eq!(got.0, expect, "{about} by {name}: {got:?}");
            assert!(decision != "hidden" || got.1.contains("not found"), "{about} by {name}: {got:?}");
        }
    }
}
