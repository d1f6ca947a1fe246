//! What came of a call, as the parts of a page.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use toolcrib_ui::page::call::{Block, CallResult};
use toolcrib_ui::text::millis;

use super::super::json::{pretty, rows, text};

/// What browsers draw in an `img`, apart from pictures that hold programs.
const PICTURES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
/// How much of a text a page shows, in characters.
const SHOWN: usize = 200_000;
/// The largest picture or sound that stands in a page, in characters of base64.
const MEDIA: usize = 8 << 20;

/// The result of a call.
pub(super) fn of(answer: &Value, took: Duration) -> CallResult {
    let structured = &answer["structuredContent"];
    // The text for clients that read no structured content says the same.
    let is_same = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|text| text == *structured);
    let repeats = |block: &Value| !structured.is_null() && block["text"].as_str().is_some_and(is_same);
    CallResult {
        is_error: answer["isError"] == true,
        took: millis(took),
        blocks: rows(answer, "content").iter().filter(|it| !repeats(it)).map(block).collect(),
        structured: if structured.is_null() { String::new() } else { clipped(pretty(structured)) },
    }
}

fn block(block: &Value) -> Block {
    let media = text(block, "mimeType");
    match block["type"].as_str() {
        Some("text") => Block::Text(clipped(text(block, "text"))),
        Some("image") if PICTURES.contains(&media.as_str()) && is_base64(&block["data"]) => {
            Block::Image(format!("data:{media};base64,{}", text(block, "data")))
        }
        Some("audio") if is_sound(&media) && is_base64(&block["data"]) => {
            Block::Audio(format!("data:{media};base64,{}", text(block, "data")))
        }
        Some("resource") => {
            let resource = &block["resource"];
            let media = text(resource, "mimeType");
            if PICTURES.contains(&media.as_str()) && is_base64(&resource["blob"]) {
                return Block::Image(format!("data:{media};base64,{}", text(resource, "blob")));
            }
            let what = format!("{} {}", text(resource, "uri"), text(resource, "mimeType"));
            Block::Resource(what, clipped(text(resource, "text")))
        }
        Some("resource_link") => {
            Block::Resource(format!("{} {}", text(block, "uri"), text(block, "name")), String::new())
        }
        _ => Block::Raw(clipped(pretty(block))),
    }
}

fn is_sound(media: &str) -> bool {
    media
        .strip_prefix("audio/")
        .is_some_and(|kind| kind.bytes().all(|it| it.is_ascii_alphanumeric() || b"-.+".contains(&it)))
}

/// Whether it is base64 that is not too large, so that it can stand in a URL.
fn is_base64(data: &Value) -> bool {
    data.as_str().is_some_and(|data| data.len() <= MEDIA && STANDARD.decode(data).is_ok())
}

/// The whole result as a text, to be compared with another.
pub(super) fn comparable(answer: &Value) -> String {
    clipped(pretty(answer))
}

/// The beginning of a text that is longer than a page shows.
fn clipped(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}\n… {} bytes more", &text[..end], text.len() - end),
        None => text,
    }
}
