//! Tools as real servers define them, made up by a rule: the same number always gives the same list.

use std::fmt::Write as _;

use super::END_MARK;
use crate::client::quoted;

const VERBS: [&str; 20] = [
    "create",
    "get",
    "list",
    "update",
    "delete",
    "search",
    "archive",
    "restore",
    "share",
    "export",
    "import",
    "move",
    "copy",
    "rename",
    "watch",
    "approve",
    "assign",
    "comment_on",
    "merge",
    "sync",
];
const NOUNS: [&str; 20] = [
    "issue",
    "pull_request",
    "document",
    "calendar_event",
    "invoice",
    "customer",
    "deployment",
    "database_row",
    "message",
    "channel",
    "repository",
    "branch",
    "spreadsheet",
    "ticket",
    "contact",
    "workflow_run",
    "secret",
    "dashboard",
    "alert",
    "subscription",
];
const PLACES: [&str; 25] = [
    "github",
    "gitlab",
    "jira",
    "slack",
    "notion",
    "stripe",
    "salesforce",
    "postgres",
    "grafana",
    "kubernetes",
    "zendesk",
    "hubspot",
    "confluence",
    "linear",
    "asana",
    "trello",
    "dropbox",
    "sharepoint",
    "datadog",
    "sentry",
    "shopify",
    "twilio",
    "airtable",
    "bigquery",
    "snowflake",
];
/// Queries as an agent would write them; the answers do not matter, only that there is something to rank.
pub(crate) const QUERIES: [&str; 16] = [
    "create a github issue",
    "list open pull requests",
    "send a message to a slack channel",
    "find a customer by email in salesforce",
    "delete old database rows",
    "export the grafana dashboard",
    "who approved the deployment",
    "merge branch",
    "search documents about onboarding in notion",
    "update the status of a ticket",
    "calendar event tomorrow",
    "restore an archived repository",
    "invoice",
    "watch alerts from kubernetes and sentry",
    "share spreadsheet with a contact",
    "copy_secret",
];

/// `count` definitions as JSON texts; the first four are the tools that do something.
pub(crate) fn definitions(count: usize) -> Vec<String> {
    let real = [
        r#"{"name":"echo","title":"Echo","description":"Returns the message as it came.","inputSchema":{"type":"object","properties":{"message":{"type":"string","description":"What to return."}},"required":["message"]}}"#,
        r#"{"name":"text","title":"Text","description":"Returns 98 KB of log lines.","inputSchema":{"type":"object","properties":{}}}"#,
        r#"{"name":"big","title":"Big","description":"Returns several megabytes of log lines.","inputSchema":{"type":"object","properties":{}}}"#,
        r#"{"name":"fickle","title":"Fickle","description":"Returns the message as it came, or never.","inputSchema":{"type":"object","properties":{"message":{"type":"string","description":"What to return."},"hang":{"type":"boolean","description":"Never to answer."}},"required":["message"]}}"#,
    ];
    let made_up = (0..count.saturating_sub(real.len())).map(definition);
    real.into_iter().map(str::to_owned).chain(made_up).collect()
}

fn definition(index: usize) -> String {
    let verb = VERBS[index % VERBS.len()];
    let noun = NOUNS[index / VERBS.len() % NOUNS.len()];
    let place = PLACES[index / (VERBS.len() * NOUNS.len()) % PLACES.len()];
    let round = index / (VERBS.len() * NOUNS.len() * PLACES.len());
    let suffix = if round == 0 { String::new() } else { format!("_v{}", round + 1) };
    let (verb_words, noun_words) = (verb.replace('_', " "), noun.replace('_', " "));
    let mut properties = format!(
        "\"{noun}_id\":{{\"type\":\"string\",\"description\":\"Identifier of the {noun_words}, as {place} shows it.\"}}"
    );
    if index.is_multiple_of(2) {
        properties.push_str(",\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,\"default\":20,\"description\":\"How many entries to return at most.\"}");
    }
    if index.is_multiple_of(3) {
        properties.push_str(",\"filter\":{\"type\":\"object\",\"properties\":{\"state\":{\"type\":\"string\",\"enum\":[\"open\",\"closed\",\"all\"]},\"since\":{\"type\":\"string\",\"format\":\"date-time\"}},\"additionalProperties\":false}");
    }
    if index.is_multiple_of(5) {
        properties.push_str(",\"labels\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Only entries with all of these labels.\"}");
    }
    format!(
        "{{\"name\":\"{place}_{verb}_{noun}{suffix}\",\"title\":\"{verb_words} {noun_words}\",\
         \"description\":\"{verb_words} a {noun_words} in {place}. Use it when the user names the {noun_words} or asks \
         about its state; needs permission to {verb_words} in the workspace and returns the {noun_words} with its links.\",\
         \"inputSchema\":{{\"type\":\"object\",\"properties\":{{{properties}}},\"required\":[\"{noun}_id\"]}},\
         \"annotations\":{{\"readOnlyHint\":{},\"destructiveHint\":{}}}}}",
        matches!(verb, "get" | "list" | "search" | "export"),
        verb == "delete"
    )
}

/// Log lines of about `bytes` as a JSON string: line breaks, quotes and a few letters outside ASCII, as texts have.
pub(crate) fn log_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes);
    let mut line = 0;
    // Each line grows by three bytes of escapes when it is quoted.
    while text.len() + 3 * line + 100 < bytes {
        let _ = writeln!(
            text,
            "2026-01-02T03:04:{:02}Z INFO worker={} msg=\"processed batch {line}\" took={}ms naïve→ok",
            line % 60,
            line % 8,
            (line * 7919) % 977
        );
        line += 1;
    }
    text.push_str(END_MARK);
    quoted(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_valid_and_has_its_own_name() {
        let tools = definitions(12_000);
        let mut names = std::collections::HashSet::new();
        for tool in &tools {
            let tool: serde_json::Value = serde_json::from_str(tool).unwrap();
            let name = tool["name"].as_str().unwrap().to_owned();
            assert!(name.len() <= 64 && tool["inputSchema"]["type"] == "object", "{tool}");
            assert!(names.insert(name), "{tool}");
        }
        assert_eq!(tools.len(), 12_000);
    }
}
