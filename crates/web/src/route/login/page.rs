//! The HTML of logins: small pages without scripts that no other page can frame. Every text in them is escaped.

use http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{Response, StatusCode};
use toolcrib_base::{Problem, Secret, ServerName, random};
use toolcrib_login::PendingDescription;
use toolcrib_transport::http::body::Body;

use super::connect::NamedKey;
use super::private;
use crate::respond;

const STYLE: &str = "body{font:1.05rem/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem}\
    dt{opacity:.7}dd{margin:0 0 .6rem;overflow-wrap:anywhere}button,input{font:inherit;padding:.4rem 1rem}\
    input{display:block;width:100%;box-sizing:border-box;margin:.3rem 0 1rem}";

/// What a page may do besides being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageKind {
    Text,
    Form,
}

/// Asks whether to begin a login: which server, where, for whom.
pub(super) fn confirmation(link: &PendingDescription, form_token: &Secret) -> Response<Body> {
    let server = marked(link.server.as_str());
    let (owner, field) = match NamedKey::of(&link.owner) {
        Some(NamedKey { profile, name }) => {
            let owner = format!("the key {} of profile {}", marked(&name), marked(profile.as_str()));
            let field = format!(
                "<label>The key {}, to prove that it is yours:\n<input type=\"password\" name=\"key\" value=\"\" \
                 autocomplete=\"off\" required></label>\n",
                marked(&name)
            );
            (owner, field)
        }
        None if link.owner.is_installation() => ("the owner of this gateway".to_owned(), String::new()),
        None => (marked(link.owner.as_str()), String::new()),
    };
    let body = format!(
        "<p>The next page is that of the provider of this server. What you allow there is used for calls in this name:\
         </p>\n\
         <dl>\n<dt>Server</dt><dd>{server}</dd>\n<dt>At</dt><dd>{}</dd>\n<dt>For</dt><dd>{owner}</dd>\n\
         <dt>Asked for at</dt><dd>{}</dd>\n</dl>\n\
         <p>Continue only if you asked for this login. If somebody sent you the link, close this page: they could use \
         your account.</p>\n\
         <form method=\"post\" action=\"\">\n{field}<input type=\"hidden\" name=\"token\" value=\"{}\">\n\
         <button>Log in to {}</button>\n</form>\n",
        marked(&link.url),
        escaped(&link.made_at.to_string()),
        escaped(form_token.expose()),
        escaped(link.server.as_str()),
    );
    page(StatusCode::OK, PageKind::Form, &format!("Log in to {}?", link.server), &body)
}

/// A login is done.
pub(super) fn logged_in(server: &ServerName) -> Response<Body> {
    page(StatusCode::OK, PageKind::Text, &format!("Logged in to {server}."), "<p>You can close this window.</p>\n")
}

/// A problem with its next step.
pub(super) fn problem(status: StatusCode, problem: &Problem) -> Response<Body> {
    let mut body = format!("<p>{}.</p>\n", with_code(&sentence(&problem.message)));
    if let Some(hint) = &problem.hint {
        body += &format!("<p>{}</p>\n", with_code(&sentence(hint)));
    }
    page(status, PageKind::Text, "Not logged in", &body)
}

fn page(status: StatusCode, kind: PageKind, title: &str, body: &str) -> Response<Body> {
    let nonce = random::hex_128();
    let title = escaped(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title} – Toolcrib</title>\n<style nonce=\"{nonce}\">{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n{body}</body>\n</html>\n"
    );
    // A form leads on to an authorization server that is not known yet, and browsers hold the redirect against this rule.
    let forms = if kind == PageKind::Form { "http: https:" } else { "'none'" };
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action {forms}; base-uri 'none'; frame-ancestors 'none'"
    );
    // Without a referrer at all a browser would send the form as of an unknown page: `Origin: null`.
    let referrer = if kind == PageKind::Form { "same-origin" } else { "no-referrer" };
    let mut response = respond::text(status, "text/html; charset=utf-8", text);
    let headers = response.headers_mut();
    let policy = HeaderValue::try_from(policy).expect("words and digits fit a header");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static(referrer));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    private(response)
}

/// A name or an address.
fn marked(text: &str) -> String {
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
fn escaped(text: &str) -> String {
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
