//! The beginning of a result that is too large to be passed on: what of its blocks fits, as it is, and a notice in the
//! place of the rest.

use serde_json::json;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Outline;
use toolcrib_protocol::raw::{self, Edit};

/// Members beside the content that are longer are left out with the rest.
const MEMBER_BYTES: usize = 1_024;

/// A resource that has the whole of what was cut.
#[derive(Debug, Clone, Copy)]
pub struct WholeLink<'a> {
    /// Where it is read.
    pub uri: &'a str,
    /// What it is.
    pub media_type: &'a str,
    /// How much it is.
    pub bytes: usize,
}

/// The blocks of a result up to `limit` bytes, then the notice, then a link to the whole if there is one. Its structured
/// content is left out: a part of it would be something else. `must_be_structured` says that clients refuse a result
/// without it unless it is an error.
pub fn cut(result: &Raw, limit: usize, notice: &str, whole: Option<WholeLink<'_>>, must_be_structured: bool) -> Raw {
    let mut left = limit;
    let mut blocks = Vec::new();
    for block in blocks_of(result) {
        let Some(rest) = left.checked_sub(block.as_str().len()) else {
            blocks.extend(shortened(&block, left));
            break;
        };
        left = rest;
        blocks.push(block);
    }
    blocks.push(Raw::from_value(&json!({ "type": "text", "text": notice })));
    if let Some(WholeLink { uri, media_type, bytes }) = whole {
        blocks.push(Raw::from_value(&json!({
            "type": "resource_link", "uri": uri, "name": "whole-result", "mimeType": media_type, "size": bytes,
        })));
    }
    let content = raw::array(blocks.iter().map(Raw::as_str));
    let members = result.members();
    let long = members.iter().filter(|member| member.key != "content" && member.value.len() > MEMBER_BYTES);
    let mut edits = vec![("content", Edit::Set(content.as_str())), ("structuredContent", Edit::Remove)];
    edits.extend(long.map(|member| (&*member.key, Edit::Remove)));
    if must_be_structured {
        edits.push(("isError", Edit::Set("true")));
    }
    result.edit(&edits)
}

/// The whole of a result as one text, and its media type: plain where it is nothing but texts.
pub fn whole(result: &Raw) -> (String, &'static str) {
    let blocks = blocks_of(result);
    let texts = blocks.iter().map(|block| block.text("text").filter(|_| block.text("type").as_deref() == Some("text")));
    match texts.collect::<Option<Vec<String>>>() {
        Some(texts) if !texts.is_empty() && result.get("structuredContent").is_none() => {
            (texts.join("\n"), "text/plain")
        }
        _ => (result.as_str().to_owned(), "application/json"),
    }
}

fn blocks_of(result: &Raw) -> Vec<Raw> {
    let Some(content) = result.get("content") else { return Vec::new() };
    match content.outline() {
        Outline::Array(blocks) => blocks.into_iter().map(|block| content.part(block)).collect(),
        _ => Vec::new(),
    }
}

/// The beginning of a block of text, so that it has at most `bytes`; nothing where that would be no text.
fn shortened(block: &Raw, bytes: usize) -> Option<Raw> {
    let text = block.text("text").filter(|_| block.text("type").as_deref() == Some("text"))?;
    let around = block.edit(&[("text", Edit::Set("\"\""))]).as_str().len();
    let mut left = bytes.checked_sub(around)?;
    let mut end = 0;
    for c in text.chars() {
        let Some(rest) = left.checked_sub(escaped_len(c)) else { break };
        left = rest;
        end += c.len_utf8();
    }
    let begin = Raw::from_value(&&text[..end]);
    (end > 0).then(|| block.edit(&[("text", Edit::Set(begin.as_str()))]))
}

/// How many bytes a character has in a JSON text of ours.
fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolcrib_protocol::json as wire;

    use super::*;

    fn parsed(text: &str) -> Raw {
        Raw::parse(text.to_owned().into(), wire::Rules::relayed(64)).unwrap()
    }

    #[test]
    fn blocks_stay_as_they_are_until_one_does_not_fit() {
        let result = parsed(
            r#"{"content":[{"type":"text","text":"one"},{"type":"text","text":"tw\u00f6 and more"},{"type":"text","text":"three"}],"structuredContent":{"a":1},"isError":false,"x":1}"#,
        );
        let link = WholeLink { uri: "toolcrib://results/1", media_type: "application/json", bytes: 9 };
        let expected = json!({
            "content": [
                { "type": "text", "text": "one" }, { "type": "text", "text": "twö and " }, { "type": "text", "text": "cut" },
                { "type": "resource_link", "uri": "toolcrib://results/1", "name": "whole-result",
                  "mimeType": "application/json", "size": 9 },
            ],
            "isError": false, "x": 1,
        });
        assert_eq!(cut(&result, 62, "cut", Some(link), false).to_value(), expected);
        let error = cut(&result, 62, "cut", None, true).to_value();
        assert_eq!((&error["isError"], error["content"].as_array().unwrap().len()), (&json!(true), 3));
        let image = parsed(r#"{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}],"y":[]}"#);
        let expected = json!({ "content": [{ "type": "text", "text": "cut" }], "y": [] });
        assert_eq!(cut(&image, 20, "cut", None, false).to_value(), expected, "half an image is none");
        let odd = parsed(&format!(r#"{{"content":7,"z":"{}"}}"#, "z".repeat(2_000)));
        assert_eq!(
            cut(&odd, 20, "cut", None, false).to_value(),
            json!({ "content": [{ "type": "text", "text": "cut" }] })
        );
    }

    #[test]
    fn the_whole_is_plain_text_where_there_is_nothing_else() {
        let texts = parsed(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"\u00f6"}]}"#);
        assert_eq!(whole(&texts), ("a\nö".to_owned(), "text/plain"));
        for other in [r#"{"content":[]}"#, r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{}}"#, "{}"] {
            assert_eq!(whole(&parsed(other)), (other.to_owned(), "application/json"));
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_never_exceeds_the_limit(
            texts in prop::collection::vec(".{0,40}", 0..6), limit in 0_usize..300,
        ) {
            let blocks: Vec<_> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
            let result = Raw::from_value(&json!({ "content": blocks }));
            let kept = cut(&result, limit, "cut", None, false);
            let kept = blocks_of(&kept);
            let bytes: usize = kept.iter().take(kept.len() - 1).map(|block| block.as_str().len()).sum();
            prop_assert!(bytes <= limit, "{bytes} of {limit}");
            for (block, text) in kept.iter().zip(&texts).take(kept.len() - 1) {
                prop_assert!(text.starts_with(&block.text("text").unwrap()));
            }
        }
    }
}
