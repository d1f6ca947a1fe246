//! Lists: in pages of odd sizes behind, with entries of every odd shape, and whole in front.

use std::sync::Arc;

use serde_json::json;
use toolcrib_testgateway::{TestGateway, profile};
use toolcrib_testkit::script::{ReceivedMessage, Say, ScriptedServer, Speaks};

use super::table::Pairing;
use crate::wire::{Wire, declared, over};

/// Entries as they are listed behind; each has its own name.
fn tools() -> Vec<String> {
    let odd = [
        r#"{"name":"no-schema","x":{ "y" : 1.10 }}"#,
        r##"{"inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}},"name":"ref","annotations":{"readOnlyHint":"maybe","z":null}}"##,
        r#"{"name":"flags","inputSchema":{"type":"object","properties":{"a":{},"b":{"not":{}}},"additionalProperties":false}}"#,
        r#"{"name":"big","inputSchema":{"type":"object","properties":{"n":{"maximum":9007199254740993,"minimum":-1E400}}},"title":null}"#,
        r#"{"name":"escaped","description":"\ud800 \u0065 \/","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui:\/\/x"},"k":[]}}"#,
        r#"{"name":"icons","icons":[{"src":"data:,"}],"outputSchema":{"type":"object"},"inputSchema":{"type":"object"}}"#,
    ];
    let plain = (0..1_000).map(|number| {
        format!(r#"{{ "name" : "tool-{number}", "inputSchema" : {{"type":"object","n":{number}.0}} , "description":"{}" }}"#, "d".repeat(number % 50))
    });
    odd.into_iter().map(str::to_owned).chain(plain).collect()
}

/// The next page after a cursor: odd sizes, empty pages between them, and the empty text among the cursors.
fn page(all: &[String], cursor: Option<&str>) -> (Vec<String>, Option<String>) {
    const SIZES: [usize; 7] = [1, 0, 7, 0, 333, 2, 400];
    // The first cursor is the empty text.
    let step: usize = match cursor {
        None => 0,
        Some("") => 1,
        Some(number) => number.parse().unwrap_or(0),
    };
    let size = |step: usize| SIZES.get(step).copied().unwrap_or(300);
    let from: usize = (0..step).map(size).sum();
    let until = (from + size(step)).min(all.len());
    let next = (until < all.len()).then(|| if step == 0 { String::new() } else { (step + 1).to_string() });
    (all.get(from..until).unwrap_or_default().to_vec(), next)
}

fn listed(all: &[String], heard: &ReceivedMessage, say: &mut Say<'_>) {
    if heard.method != "tools/list" {
        return;
    }
    let params = heard.value();
    let (entries, next) = page(all, params["cursor"].as_str());
    let next = next.map(|next| format!(r#","nextCursor":"{next}""#)).unwrap_or_default();
    say.result(&format!(r#"{{"tools":[{}]{next},"unknown":true}}"#, entries.join(" ,")));
}

/// The entries of all pages that a client reads, as they are written.
async fn all_of(client: &mut Wire, method: &str, member: &str) -> Vec<String> {
    let (mut entries, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut params = json!({});
        if client.speaks == Speaks::Modern {
            params["_meta"] = declared(&json!({}));
        }
        if let Some(cursor) = &cursor {
            params["cursor"] = cursor.as_str().into();
        }
        let (answer, _) = client.ask(method, &params.to_string()).await;
        let result: std::collections::HashMap<String, &serde_json::value::RawValue> =
            serde_json::from_str(&answer).unwrap();
        let page: Vec<&serde_json::value::RawValue> = serde_json::from_str(result[member].get()).unwrap();
        entries.extend(page.iter().map(|entry| entry.get().to_owned()));
        cursor = result.get("nextCursor").map(|cursor| serde_json::from_str(cursor.get()).unwrap());
        if cursor.is_none() {
            return entries;
        }
    }
}

#[tokio::test]
async fn a_thousand_tools_in_odd_pages_come_out_whole_and_in_order() {
    let all = Arc::new(tools());
    let start = |speaks| {
        let all = Arc::clone(&all);
        ScriptedServer::start(speaks, move |heard, say| listed(&all, heard, say))
    };
    let (legacy, modern) = (start(Speaks::Legacy), start(Speaks::Modern));
    let mut files = Vec::new();
    for pairing in Pairing::all().into_iter().filter(|pairing| pairing.client == Speaks::Legacy) {
        let server = if pairing.server == Speaks::Legacy { &legacy } else { &modern };
        files.push(over(&pairing.name(), server, pairing.stdio));
        let lines = format!("servers: [{}]\nexposure: direct\nprefix: none", pairing.name());
        files.push(profile(&pairing.name(), &lines));
    }
    let house = TestGateway::settled(&files).await;
    for pairing in Pairing::all() {
        let mut client = Wire::open(&house, &pairing.name(), pairing.client, &json!({})).await;
        let got = all_of(&mut client, "tools/list", "tools").await;
        assert_eq!(got.len(), all.len(), "{pairing:?}");
        for (got, sent) in got.iter().zip(all.iter()) {
            assert_eq!(got, sent, "{pairing:?}");
        }
    }
}
