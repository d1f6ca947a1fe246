//! What of a definition decides which tools its server has, as a digest that is kept: a snapshot of another program is not
//! used.
//!
//! The text behind the digest is written here and nowhere else, so that no change of a type changes what is on the disk.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolcrib_catalog::{Program, Remote, SecretRef, ServerDefinition, Transport};

/// Names the encoding: another one gets another number.
const ENCODING: &str = "2:";

/// The digest of a definition.
pub fn fingerprint(definition: &ServerDefinition) -> String {
    // Maps are sorted by their keys, here and in what is written.
    format!("{ENCODING}{}", digest(&encoded(definition)))
}

/// Whether a digest that was kept is that of this definition, also one that earlier versions wrote.
pub(super) fn fits(kept: &str, definition: &ServerDefinition) -> bool {
    match kept.starts_with(ENCODING) {
        true => kept == fingerprint(definition),
        false => kept == digest(&encoded_before(definition)),
    }
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Secrets are stars, so that neither they nor their change is part of it.
pub fn encoded(definition: &ServerDefinition) -> String {
    let mut members = match &definition.transport {
        Transport::Stdio(Program { command, args, env, inherit_env, cwd }) => {
            let mut members = BTreeMap::from([
                ("transport", json!("stdio")),
                ("command", json!(command)),
                ("args", json!(args)),
                ("env", references(env)),
                ("cwd", json!(cwd.as_deref().map(Path::to_string_lossy))),
            ]);
            if !inherit_env.is_empty() {
                members.insert("inherit_env", json!(inherit_env));
            }
            members
        }
        Transport::Http(remote) => of_remote("http", remote),
        Transport::Sse(remote) => of_remote("sse", remote),
    };
    if !definition.declares.is_empty() {
        members.insert("declares", definition.declares.iter().map(|ask| Value::from(ask.as_str())).collect());
    }
    json!(members).to_string()
}

fn of_remote(transport: &str, Remote { url, headers, .. }: &Remote) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([("transport", json!(transport)), ("url", json!(url.to_string())), ("headers", references(headers))])
}

fn references(all: &BTreeMap<String, SecretRef>) -> Value {
    all.iter().map(|(name, reference)| (name.clone(), Value::from(reference.to_string()))).collect()
}

/// What earlier versions took: the types as they printed then, when programs inherited nothing by name.
fn encoded_before(definition: &ServerDefinition) -> String {
    let of_remote = |kind: &str, Remote { url, headers, .. }: &Remote| {
        format!("{kind}(Remote {{ url: {url:?}, headers: {headers:?} }})")
    };
    let mut text = match &definition.transport {
        Transport::Stdio(Program { command, args, env, inherit_env: _, cwd }) => {
            format!("Stdio(Program {{ command: {command:?}, args: {args:?}, env: {env:?}, cwd: {cwd:?} }})")
        }
        Transport::Http(remote) => of_remote("Http", remote),
        Transport::Sse(remote) => of_remote("Sse", remote),
    };
    if !definition.declares.is_empty() {
        text += &format!("{:?}", definition.declares);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> std::sync::Arc<ServerDefinition> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        std::fs::write(home.path().join("servers/a.yaml"), format!("name: a\n{text}")).unwrap();
        let loaded = toolcrib_catalog::load(home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        loaded.servers["a"].clone()
    }

    #[test]
    fn what_is_kept_stays_what_it_is() {
        for (text, encoding, before) in [
            (
                "command: run\nargs: [-y, \"a b\"]\nenv: {KEY: \"env:K\", PLAIN: hidden}\ncwd: data\n",
                r#"{"args":["-y","a b"],"command":"run","cwd":"data","env":{"KEY":"env:K","PLAIN":"****"},"transport":"stdio"}"#,
                r#"Stdio(Program { command: "run", args: ["-y", "a b"], env: {"KEY": "env:K", "PLAIN": "****"}, cwd: Some("data") })"#,
            ),
            (
                "command: run\ndeclares: [sampling]\n",
                r#"{"args":[],"command":"run","cwd":null,"declares":["sampling"],"env":{},"transport":"stdio"}"#,
                r#"Stdio(Program { command: "run", args: [], env: {}, cwd: None })[Sampling]"#,
            ),
            (
                "transport: http\nurl: https://example.com/mcp\nheaders: {X-Key: \"file:k\"}\n",
                r#"{"headers":{"X-Key":"file:k"},"transport":"http","url":"https://example.com/mcp"}"#,
                r#"Http(Remote { url: "https://example.com/mcp", headers: {"X-Key": "file:k"} })"#,
            ),
        ] {
            let definition = definition(text);
            assert_eq!(encoded(&definition), encoding);
            assert_eq!(encoded_before(&definition), before);
            assert!(fits(&fingerprint(&definition), &definition));
            assert!(fits(&digest(before), &definition), "a snapshot of an earlier version is used");
            assert!(!fits(&digest(encoding), &definition));
            assert!(!fits("", &definition));
        }
        let golden = fingerprint(&definition("command: run\n"));
        assert_eq!(golden, GOLDEN);
        assert_ne!(fingerprint(&definition("command: walk\n")), golden);
    }

    /// Of `{"args":[],"command":"run","cwd":null,"env":{},"transport":"stdio"}`.
    const GOLDEN: &str = "2:b2388aac9e7ce06f8febf21258a084ec";
}
