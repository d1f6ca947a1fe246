//! The addresses in a client's settings, in pieces of text and of secrets.

use crate::private::{is_harmless, is_secret_name, is_secret_value};

/// A part of an address, in pieces of text and of secrets with what they are called. `in_query` tells whether a `?` came
/// before, and is told whether one comes.
pub(super) fn address_pieces(text: &str, in_query: &mut bool) -> Vec<(String, Option<String>)> {
    let mut pieces: Vec<(String, Option<String>)> = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let ends = |c: char| if *in_query { c == '&' } else { matches!(c, '/' | '?') };
        let end = rest.find(ends).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let secret = match word.split_once('=').filter(|_| *in_query) {
            Some((name, value)) if is_secret_name(name) && !is_harmless(value) || is_secret_value(value) => {
                plain.push_str(&format!("{name}="));
                Some((name, value))
            }
            None if !*in_query && is_secret_value(word) => Some(("path", word)),
            _ => None,
        };
        match secret.filter(|(_, value)| !value.is_empty()) {
            Some((name, value)) => {
                pieces.push((std::mem::take(&mut plain), None));
                pieces.push((value.to_owned(), Some(name.to_owned())));
            }
            None if secret.is_none() => plain.push_str(word),
            None => {}
        }
        let Some(delimiter) = behind.chars().next() else { break };
        *in_query |= delimiter == '?';
        plain.push(delimiter);
        rest = &behind[delimiter.len_utf8()..];
    }
    pieces.push((plain, None));
    pieces.retain(|(text, _)| !text.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_fall_into_texts_and_secrets() {
        let split = |text: &str| {
            let pieces = address_pieces(text, &mut false);
            let piece = |(text, of): (String, Option<String>)| of.map_or(text.clone(), |of| format!("<{of}={text}>"));
            pieces.into_iter().map(piece).collect::<String>()
        };
        let random = "0123456789abcdef".repeat(2);
        for (text, expected) in [
            ("/mcp?debug=1", "/mcp?debug=1".to_owned()),
            ("/mcp?api_key=a/b&x=1&token=true", "/mcp?api_key=<api_key=a/b>&x=1&token=true".to_owned()),
            ("/mcp?key=", "/mcp?key=".to_owned()),
            (&format!("/s/{random}/mcp"), format!("/s/<path={random}>/mcp")),
            (&format!("/mcp?v={random}"), format!("/mcp?v=<v={random}>")),
        ] {
            assert_eq!(split(text), expected);
        }
    }
}
