//! What came of a call, as the parts of a page. A page shows the beginning of what is long; the same page with `all` shows
//! more.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use toolcrib_protocol::Raw;
use toolcrib_ui::json::Json;
use toolcrib_ui::markdown::Markdown;
use toolcrib_ui::page::call::{Block, CallResult, StructureFit};
use toolcrib_ui::text::millis;

use super::super::json::{pretty, rows, text};

/// What browsers draw in an `img`, apart from pictures that hold programs.
const PICTURES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
/// What holds programs and links: it is shown as its source.
const SVG: &str = "image/svg+xml";
/// How much of a result's texts a page shows, and how much with `all`, in characters.
const BEGINNING: usize = 10_000;
const ALL: usize = 400_000;
/// How much of two results that are compared, in characters.
const COMPARED: usize = 200_000;
/// The largest picture or sound that stands in a page, in characters of base64.
const MEDIA: usize = 8 << 20;
/// The largest JSON that is indented, in bytes.
const INDENTED: usize = 4 << 20;

/// The room that a page has for texts.
#[derive(Debug)]
pub(in crate::route::ui::page) struct Room {
    left: usize,
    /// Whether something did not fit.
    pub(in crate::route::ui::page) is_cut: bool,
}

// === impl Room ===

impl Room {
    pub(in crate::route::ui::page) fn new(characters: usize) -> Self {
        Self { left: characters, is_cut: false }
    }

    /// A text, or its beginning where there is no room for more.
    pub(in crate::route::ui::page) fn take(&mut self, text: String) -> String {
        let Some((end, _)) = text.char_indices().nth(self.left) else {
            self.left -= text.chars().count();
            return text;
        };
        (self.left, self.is_cut) = (0, true);
        format!("{}\n… {} bytes more", &text[..end], text.len() - end)
    }
}

/// The result of a call, all of it or its beginning; and whether that is not all of it.
pub(super) fn of(answer: &Raw, took: Duration, fit: StructureFit, is_all: bool) -> (CallResult, bool) {
    let value = answer.to_value();
    let structured = &value["structuredContent"];
    // The text for clients that read no structured content says the same.
    let is_same = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|text| text == *structured);
    let repeats = |block: &Value| !structured.is_null() && block["text"].as_str().is_some_and(is_same);
    let mut room = Room::new(if is_all { ALL } else { BEGINNING });
    // With every digit of its numbers.
    let exact = match answer.bytes().len() <= INDENTED {
        true => Json::parse(answer.as_str()).ok(),
        false => None,
    };
    let member = |key: &str| exact.as_ref().and_then(|exact| exact.get(key));
    let exact_blocks = member("content").map_or(&[][..], Json::items);
    let mut blocks = Vec::new();
    for (at, block) in rows(&value, "content").iter().enumerate().filter(|(_, block)| !repeats(block)) {
        let raw = || exact_blocks.get(at).map_or_else(|| pretty(block), Json::pretty);
        blocks.push(shown(block, raw, &mut room));
    }
    let structured = match structured {
        Value::Null => String::new(),
        other => room.take(member("structuredContent").map_or_else(|| pretty(other), Json::pretty)),
    };
    let is_error = value["isError"] == true;
    let whole = String::new();
    (CallResult { is_error, took: millis(took), blocks, structured, fit, whole }, room.is_cut && !is_all)
}

fn shown(block: &Value, raw: impl FnOnce() -> String, room: &mut Room) -> Block {
    let media = text(block, "mimeType");
    match block["type"].as_str() {
        Some("text") => {
            let text = room.take(text(block, "text"));
            match Markdown::recognized(&text) {
                Some(markdown) => Block::Markdown(markdown, text),
                None => Block::Text(text),
            }
        }
        Some("image" | "audio") => drawn(&media, &block["data"], room).unwrap_or_else(|| Block::Raw(room.take(raw()))),
        Some("resource") => {
            let resource = &block["resource"];
            let media = text(resource, "mimeType");
            if let Some(drawn) = drawn(&media, &resource["blob"], room) {
                return drawn;
            }
            let Some(content) = resource["text"].as_str() else { return Block::Raw(room.take(raw())) };
            let content = room.take(content.to_owned());
            match is_markdown(&media) {
                true => Block::Markdown(Markdown::of(&content), content),
                false => Block::Resource(format!("{} {media}", text(resource, "uri")), content),
            }
        }
        Some("resource_link") => {
            Block::Resource(format!("{} {}", text(block, "uri"), text(block, "name")), String::new())
        }
        _ => Block::Raw(room.take(raw())),
    }
}

/// A picture, a sound or the source of a picture that holds programs; `None` for what a page does not show.
fn drawn(media: &str, data: &Value, room: &mut Room) -> Option<Block> {
    let data = data.as_str().filter(|data| data.len() <= MEDIA)?;
    // So that it can stand in a URL.
    let bytes = STANDARD.decode(data).ok()?;
    if PICTURES.contains(&media) {
        return Some(Block::Image(format!("data:{media};base64,{data}")));
    }
    if media.split(';').next() == Some(SVG) {
        let source = String::from_utf8_lossy(&bytes).into_owned();
        return Some(Block::Resource(format!("{SVG}, its source"), room.take(source)));
    }
    is_sound(media).then(|| Block::Audio(format!("data:{media};base64,{data}")))
}

fn is_sound(media: &str) -> bool {
    media
        .strip_prefix("audio/")
        .is_some_and(|kind| kind.bytes().all(|it| it.is_ascii_alphanumeric() || b"-.+".contains(&it)))
}

fn is_markdown(media: &str) -> bool {
    matches!(media.split(';').next().unwrap_or_default().trim(), "text/markdown" | "text/x-markdown")
}

/// The whole result as a text, to be compared with another.
pub(super) fn comparable(answer: &Raw) -> String {
    let exact = Json::parse(answer.as_str()).map(|exact| exact.pretty());
    Room::new(COMPARED).take(exact.unwrap_or_else(|_| pretty(&answer.to_value())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_blocks(content: &Value) -> Vec<Block> {
        let answer = Raw::from_value(&json!({ "content": content }));
        of(&answer, Duration::ZERO, StructureFit::Free, false).0.blocks
    }

    #[test]
    fn numbers_of_a_result_keep_their_digits() {
        let text = r#"{"content":[{"type":"odd","n":12345678901234567890123}],"structuredContent":{"n":1.50,"m":18446744073709551617}}"#;
        let answer = Raw::parse(text.into(), toolcrib_protocol::json::Rules::strict(8)).unwrap();
        let (result, is_cut) = of(&answer, Duration::ZERO, StructureFit::Free, false);
        assert!(result.structured.contains("1.50") && result.structured.contains("18446744073709551617"), "{result:?}");
        let Block::Raw(raw) = &result.blocks[0] else { panic!("{result:?}") };
        assert!(raw.contains("12345678901234567890123") && !is_cut, "{raw}");
        assert!(comparable(&answer).contains("1.50"));
    }

    #[test]
    fn a_picture_that_holds_programs_is_its_source() {
        let source = "<svg onload=alert(1)><script>alert(2)</script></svg>";
        let data = STANDARD.encode(source);
        for block in [
            json!({ "type": "image", "mimeType": "image/svg+xml", "data": data }),
            json!({ "type": "image", "mimeType": "image/svg+xml;charset=utf-8", "data": data }),
            json!({ "type": "resource", "resource": { "uri": "x:y", "mimeType": "image/svg+xml", "blob": data } }),
            json!({ "type": "resource", "resource": { "uri": "x:y", "mimeType": "image/svg+xml", "text": source } }),
        ] {
            let blocks = of_blocks(&json!([block]));
            assert!(matches!(&blocks[0], Block::Resource(_, text) if text == source), "{block}: {blocks:?}");
        }
    }

    #[test]
    fn what_no_page_shows_is_raw() {
        for block in [
            json!({ "type": "image", "mimeType": "image/png", "data": "no base64!" }),
            json!({ "type": "image", "mimeType": "text/html", "data": "PGI+" }),
            json!({ "type": "audio", "mimeType": "audio/x\"y", "data": "AAAA" }),
            json!({ "type": "resource", "resource": { "uri": "x:y", "mimeType": "application/pdf", "blob": "AAAA" } }),
            json!({ "type": "hologram" }),
            json!(7),
        ] {
            let blocks = of_blocks(&json!([block]));
            assert!(matches!(&blocks[0], Block::Raw(_)), "{block}: {blocks:?}");
        }
    }

    #[test]
    fn a_long_result_shows_its_beginning_and_with_all_more() {
        let answer = Raw::from_value(&json!({ "content": [
            { "type": "text", "text": "x".repeat(BEGINNING + 7) }, { "type": "text", "text": "ä".repeat(2 * ALL) },
        ] }));
        let lengths = |is_all| {
            let (result, is_cut) = of(&answer, Duration::ZERO, StructureFit::Free, is_all);
            let lengths = result.blocks.iter().map(|block| match block {
                Block::Text(text) => text.chars().count(),
                other => panic!("{other:?}"),
            });
            (lengths.sum::<usize>(), is_cut)
        };
        let (beginning, is_cut) = lengths(false);
        assert!((BEGINNING..BEGINNING + 100).contains(&beginning) && is_cut, "{beginning}");
        let (all, is_cut) = lengths(true);
        assert!((ALL..ALL + 100).contains(&all) && !is_cut, "there is no more to show: {all}");
    }
}
