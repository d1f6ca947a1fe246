//! The HTML of the few pages that there are: small ones without scripts that no other page can frame. Every text in them is
//! escaped.

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{Response, StatusCode};
use toolcrib_base::{Problem, random};
use toolcrib_transport::http::body::Body;

use crate::respond;

const STYLE: &str = "body{font:1.05rem/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem}\
    dt{opacity:.7}dd{margin:0 0 .6rem;overflow-wrap:anywhere}button,input{font:inherit;padding:.4rem 1rem}\
    input{display:block;width:100%;box-sizing:border-box;margin:.3rem 0 1rem}";

/// What a page may do besides being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// It has no form.
    Text,
    /// Its form leads on to a page elsewhere.
    Form,
    /// Its form leads to us.
    OwnForm,
}

/// A problem with its next step.
pub(super) fn problem(status: StatusCode, title: &str, problem: &Problem) -> Response<Body> {
    let mut body = format!("<p>{}.</p>\n", with_code(&sentence(&problem.message)));
    if let Some(hint) = &problem.hint {
        body += &format!("<p>{}</p>\n", with_code(&sentence(hint)));
    }
    page(status, PageKind::Text, title, &body)
}

/// A page; `body` is HTML.
pub(super) fn page(status: StatusCode, kind: PageKind, title: &str, body: &str) -> Response<Body> {
    let nonce = random::hex_128();
    let title = escaped(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title} – Toolcrib</title>\n<style nonce=\"{nonce}\">{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n{body}</body>\n</html>\n"
    );
    // A form leads on to an authorization server that is not known yet, and browsers hold the redirect against this rule.
    let forms = match kind {
        PageKind::Text => "'none'",
        PageKind::Form => "http: https:",
        PageKind::OwnForm => "'self'",
    };
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action {forms}; base-uri 'none'; frame-ancestors 'none'"
    );
    // Without a referrer at all a browser would send the form as of an unknown page: `Origin: null`.
    let referrer = if kind == PageKind::Text { "no-referrer" } else { "same-origin" };
    let mut response = respond::text(status, "text/html; charset=utf-8", text);
    let headers = response.headers_mut();
    let policy = HeaderValue::try_from(policy).expect("words and digits fit a header");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static(referrer));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    private(response)
}

/// The answer as no cache keeps it and no other site learns its URL.
pub(super) fn private(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    response
}

/// A name or an address.
pub(super) fn marked(text: &str) -> String {
    format!("<code>{}</code>", escaped(text))
}

/// A fragment as the beginning of a sentence.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

/// A message for people, with what stands between backticks as code.
fn with_code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let marked = |(at, part): (usize, &String)| match at % 2 {
        1 => format!("<code>{part}</code>"),
        _ => part.clone(),
    };
    parts.iter().enumerate().map(marked).collect()
}

/// The text as HTML, without what would turn the direction of the words around it.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            other if other.is_control() => html.push(' '),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        for (text, expected) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a\" onload='x' &amp;", "a&quot; onload=&#39;x&#39; &amp;amp;"),
            ("one\u{0}two\r\n\u{202e}three\u{2066}", "one two  three"),
            ("plain – text", "plain – text"),
        ] {
            assert_eq!(escaped(text), expected);
        }
        assert_eq!(with_code("use `a <b>` or `c`"), "use <code>a &lt;b&gt;</code> or <code>c</code>");
        assert_eq!(with_code("one ` only <"), "one ` only &lt;");
    }
}
