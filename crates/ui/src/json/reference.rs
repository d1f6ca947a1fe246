//! References within one document: JSON pointers and anchors, as `$ref` of JSON Schema has them.

use super::Json;

/// The part of a document's own fragment, if a reference is to this document.
fn fragment<'t>(document: &Json, target: &'t str) -> Option<&'t str> {
    let own_id = document.get("$id").and_then(Json::as_text).unwrap_or_default();
    target.strip_prefix('#').or_else(|| target.strip_prefix(own_id)?.strip_prefix('#'))
}

/// Whether a reference is to the document that it stands in.
pub fn is_local(document: &Json, target: &str) -> bool {
    fragment(document, target).is_some()
}

/// What a reference names within a document: `#`, `#/$defs/name`, `#anchor`.
pub fn pointed<'d>(document: &'d Json, target: &str) -> Option<&'d Json> {
    let fragment = fragment(document, target)?;
    if fragment.is_empty() {
        return Some(document);
    }
    let Some(pointer) = fragment.strip_prefix('/') else {
        let shared = ["$defs", "definitions"].into_iter().filter_map(|word| document.get(word));
        let mut named = shared.flat_map(Json::entries).map(|(_, schema)| schema);
        return named.find(|schema| schema.get("$anchor").and_then(Json::as_text) == Some(fragment));
    };
    let mut place = document;
    for step in pointer.split('/').take(64) {
        let name = decoded(step).replace("~1", "/").replace("~0", "~");
        place = match place {
            Json::List(items) => items.get(name.parse::<usize>().ok()?)?,
            other => other.get(&name)?,
        };
    }
    Some(place)
}

/// Percent-decoding; what is not encoded well stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match hex.filter(|_| bytes[at] == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}
