//! The forms in which results stand in the answer of the meta-tool by which they were asked for. The native form of a
//! call is the tool's own result, muster's is its JSON as text.

use crate::dialect::MetaName;
use crate::reply;
use serde_json::{Value, json};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Outline;
use toolcrib_protocol::raw::{self, Edit};

/// The result in the form of the dialect by whose name it was called.
pub fn call(by: Option<&'static MetaName>, result: Raw) -> Raw {
    match by.map(|meta| meta.dialect) {
        Some(Dialect::Muster) => muster(&result),
        _ => result,
    }
}

/// `content[0]` is the JSON `{isError, content, structuredContent?}` with images and audio as `{type, mimeType,
/// dataSize}`; the blocks that are not text follow as they are, and so does every other member, byte for byte: nothing
/// is lost.
fn muster(result: &Raw) -> Raw {
    let is_error = if reply::is_failure(result) { "true" } else { "false" };
    let content = result.get("content");
    let blocks: Vec<Raw> = match content.as_ref().map(|content| (content, content.outline())) {
        Some((content, Outline::Array(blocks))) => blocks.into_iter().map(|block| content.part(block)).collect(),
        _ => Vec::new(),
    };
    let short: Vec<Raw> = blocks.iter().map(shorten).collect();
    let listed = raw::array(short.iter().map(Raw::as_str));
    // What is no list is no content of ours to change.
    let listed = content.as_ref().filter(|_| blocks.is_empty()).unwrap_or(&listed);
    let mut inner =
        Raw::empty_object().edit(&[("isError", Edit::Set(is_error)), ("content", Edit::Set(listed.as_str()))]);
    if let Some(structured) = result.get("structuredContent") {
        inner = inner.edit(&[("structuredContent", Edit::Set(structured.as_str()))]);
    }
    let text = Raw::from_value(&json!({ "type": "text", "text": inner.as_str() }));
    let others = blocks.iter().filter(|block| block.text("type").as_deref() != Some("text"));
    let outer = raw::array(std::iter::once(&text).chain(others).map(Raw::as_str));
    result.edit(&[("content", Edit::Set(outer.as_str())), ("isError", Edit::Set(is_error))])
}

/// A block without the bytes of an image or a sound, whose size stands in for them.
fn shorten(block: &Raw) -> Raw {
    let Some(kind) = block.text("type").filter(|kind| matches!(kind.as_str(), "image" | "audio")) else {
        return block.clone();
    };
    // The size of what base64 stands for.
    let size = block.text("data").unwrap_or_default().trim_end_matches('=').len() * 3 / 4;
    Raw::from_value(&json!({ "type": kind, "mimeType": block.text("mimeType"), "dataSize": size }))
}

/// A prompt as the result of a tool.
pub fn prompt(by: &MetaName, result: &Raw) -> Raw {
    let value = result.to_value();
    if by.dialect != Dialect::Muster {
        return reply::data(&value);
    }
    let messages = value["messages"].as_array().cloned().unwrap_or_default();
    let short: Vec<Value> = messages
        .iter()
        .map(|message| {
            let content = &message["content"];
            let content = content["text"].as_str().map_or_else(|| content.clone(), Value::from);
            json!({ "role": message["role"], "content": content })
        })
        .collect();
    reply::text(&serde_json::to_string_pretty(&short).unwrap_or_default())
}

/// What was read, as the result of a tool: each part is an embedded resource, so nothing is lost.
pub fn resource(by: &MetaName, result: &Raw) -> Raw {
    let value = result.to_value();
    let contents = value["contents"].as_array().cloned().unwrap_or_default();
    let text: Vec<String> = contents
        .iter()
        .map(|part| match (part["text"].as_str(), part["blob"].as_str()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(blob)) => format!("[Binary data: {} bytes]", blob.trim_end_matches('=').len() * 3 / 4),
            (None, None) => part.to_string(),
        })
        .collect();
    let embedded = contents.iter().map(|part| json!({ "type": "resource", "resource": part }));
    let content: Vec<Value> = if by.dialect == Dialect::Muster {
        let first = json!({ "type": "text", "text": text.join("\n") });
        let blobs = embedded.filter(|block| !block["resource"]["blob"].is_null());
        std::iter::once(first).chain(blobs).collect()
    } else {
        embedded.collect()
    };
    let mut shaped = json!({ "content": content });
    if let Some(meta) = value.get("_meta") {
        shaped["_meta"] = meta.clone();
    }
    Raw::from_value(&shaped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use toolcrib_protocol::json::Rules;

    use super::*;
    use crate::dialect;

    fn shaped(result: &Raw) -> Raw {
        call(dialect::own_name("call_tool", Dialect::Muster), result.clone())
    }

    fn parsed(text: &str) -> Raw {
        Raw::parse(text.to_owned().into(), Rules::relayed(64)).unwrap()
    }

    fn blocks(raw: &Raw) -> Vec<Raw> {
        match raw.outline() {
            Outline::Array(blocks) => blocks.into_iter().map(|block| raw.part(block)).collect(),
            _ => panic!("no list: {raw:?}"),
        }
    }

    /// A block of any kind, with numbers and texts that a tree of JSON would change.
    fn block() -> impl Strategy<Value = String> {
        let text = prop_oneof!["[a-z]{0,6}", Just("\\u00fc\\ud83d".to_owned()), Just("\\/".to_owned())];
        let number = prop_oneof![Just("1e400"), Just("12345678901234567890123"), Just("-0"), Just("1.50")];
        prop_oneof![
            (text.clone(), number.clone())
                .prop_map(|(text, number)| format!(r#"{{"type":"text","text":"{text}","_meta":{{"n":{number}}}}}"#)),
            (prop_oneof![Just("image"), Just("audio")], "[A-Za-z0-9]{0,9}={0,2}", number.clone()).prop_map(
                |(kind, data, number)| format!(r#"{{"type":"{kind}","data":"{data}","mimeType":"a/b","x":{number}}}"#)
            ),
            (text.clone(), number.clone()).prop_map(|(text, number)| format!(
                r#"{{"type":"resource","resource":{{"uri":"a:b","text":"{text}","n":{number}}}}}"#
            )),
            number.prop_map(|number| format!(r#"{{"type":"hologram","z":[{number}]}}"#)),
            text.prop_map(|text| format!(r#"{{"{text}x":1}}"#)),
            Just("5".to_owned()),
            Just(r#"{"type":5}"#.to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn no_block_is_lost_or_changed(all in proptest::collection::vec(block(), 0..8), is_error: bool) {
            let rest = r#""structuredContent":{"n":1e400},"_meta":{"a":12345678901234567890123},"other":[1.50]"#;
            let result = parsed(&format!(r#"{{"content":[{}],"isError":{is_error},{rest}}}"#, all.join(",")));
            let shaped = shaped(&result);
            for key in ["structuredContent", "_meta", "other", "isError"] {
                prop_assert_eq!(shaped.get(key), result.get(key), "{}", key);
            }
            let outer = blocks(&shaped.get("content").unwrap());
            let inner = parsed(&outer[0].text("text").unwrap());
            prop_assert_eq!(inner.get("structuredContent"), result.get("structuredContent"));
            prop_assert_eq!(inner.get("isError"), result.get("isError"));
            let listed = blocks(&inner.get("content").unwrap());
            prop_assert_eq!(listed.len(), all.len());
            let mut others = outer[1..].iter();
            for (block, listed) in blocks(&result.get("content").unwrap()).iter().zip(&listed) {
                match block.text("type").as_deref() {
                    Some("text") => prop_assert_eq!(block, listed),
                    Some("image" | "audio") => {
                        prop_assert_eq!(others.next(), Some(block));
                        prop_assert!(listed.get("data").is_none());
                        prop_assert!(listed.get("dataSize").is_some());
                    }
                    _ => {
                        prop_assert_eq!(others.next(), Some(block));
                        prop_assert_eq!(block, listed);
                    }
                }
            }
            prop_assert_eq!(others.next(), None);
        }
    }

    #[test]
    fn odd_results_stay_readable() {
        for (result, inner) in [
            ("{}", r#"{"isError":false,"content":[]}"#),
            (r#"{"content":"not a list"}"#, r#"{"isError":false,"content":"not a list"}"#),
            (r#"{"content":[],"isError":"yes"}"#, r#"{"isError":false,"content":[]}"#),
        ] {
            let shaped = shaped(&parsed(result)).to_value();
            assert_eq!(shaped["content"][0]["text"], inner, "{result}");
            assert_eq!(shaped["isError"], false);
        }
    }

    #[test]
    fn muster_s_form_loses_nothing() {
        let result = Raw::from_value(&json!({
            "content": [
                { "type": "text", "text": "a" },
                { "type": "image", "mimeType": "image/png", "data": "AAAA" },
                { "type": "hologram", "x": 1 },
            ],
            "structuredContent": { "n": 1 }, "isError": true,
        }));
        let shaped = call(dialect::own_name("call_tool", Dialect::Muster), result.clone()).to_value();
        assert_eq!(shaped["isError"], true);
        let inner: Value = serde_json::from_str(shaped["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(inner["isError"], true);
        assert_eq!(inner["content"][0], json!({ "type": "text", "text": "a" }));
        assert_eq!(inner["content"][1], json!({ "type": "image", "mimeType": "image/png", "dataSize": 3 }));
        assert_eq!(inner["structuredContent"], json!({ "n": 1 }));
        assert_eq!(shaped["content"][1]["data"], "AAAA");
        assert_eq!(shaped["content"][2]["type"], "hologram");
        assert_eq!(call(dialect::own_name("call_tool", Dialect::Native), result.clone()), result);
    }
}
