//! Writing answers of pages: HTML with the headers that keep it ours, compressed where the browser takes that.

use std::io::Write as _;

use askama::Template;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use http::{Method, Response, StatusCode};
use toolcrib_base::Problem;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::form::FieldError;
use toolcrib_ui::page::ProblemPage;
use toolcrib_ui::{Asset, Notice};

use super::{PageRequest, status_of};
use crate::respond;

/// Nothing but what is ours; pictures and sounds of tools stand in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; media-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// How many errors of a form its notice names; each stands at its field, too.
const NAMED: usize = 5;
/// What an ordinary page has room for, packed, and what is not even packed to find out, in bytes.
const LARGE: usize = 6 * 1_024;
const UNPACKED: usize = 512 * 1_024;
/// What is shorter is sent as it is, in bytes.
const COMPRESSED: usize = 1_024;

/// A page.
pub(super) fn page(request: &PageRequest, status: StatusCode, page: &impl Template) -> Response<Body> {
    match page.render() {
        Ok(text) => html(&request.head.headers, status, text),
        Err(error) => {
            tracing::error!(%error, "a page was not made");
            respond::status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// A page that says what went wrong.
pub(super) fn problem(request: &PageRequest, title: &str, problem: &Problem) -> Response<Body> {
    let (text, hint) = (sentence(&problem.message), problem.hint.as_deref().map(sentence));
    let shown = ProblemPage { frame: request.frame(title), text, hint };
    page(request, status_of(problem), &shown)
}

/// A problem as a notice on a page; what stands on further lines are its details.
pub(super) fn notice(problem: &Problem) -> Notice {
    let (first, details) = with_details(&problem.message);
    let notice = Notice::failed(sentence(first), problem.hint.as_deref().map(sentence));
    Notice { details: details.to_owned(), ..notice }
}

/// The first line of a message, and the lines that follow it: its details.
pub(super) fn with_details(message: &str) -> (&str, &str) {
    message.split_once('\n').unwrap_or((message, ""))
}

/// What is wrong with a form, as a notice above it.
pub(super) fn form_notice(errors: &[FieldError]) -> Notice {
    let named = |error: &FieldError| match error.path.trim_start_matches('/') {
        "" => error.message.clone(),
        path => format!("`{path}` {}", error.message),
    };
    let text = errors.iter().take(NAMED).map(named).collect::<Vec<_>>().join("; ");
    Notice::failed(sentence(&text), None)
}

/// HTML.
pub(super) fn html(headers: &HeaderMap, status: StatusCode, text: String) -> Response<Body> {
    let mut response = packed(headers, Bytes::from(text));
    *response.status_mut() = status;
    let own = response.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    own.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    own.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    own.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    own.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    own.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    response
}

/// An asset, which never changes under its name.
pub(super) fn asset(asset: &Asset, method: &Method, headers: &HeaderMap) -> Response<Body> {
    if method != Method::GET && method != Method::HEAD {
        return respond::not_allowed("GET");
    }
    let mut response = packed(headers, Bytes::from_static(asset.bytes));
    let own = response.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media));
    own.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    response
}

/// Leads on to a page of ours.
pub(super) fn see_other(place: &str) -> Response<Body> {
    let mut response = respond::status(StatusCode::SEE_OTHER);
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A fragment of a message as a sentence: with a capital letter and a dot.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    let whole = first + characters.as_str();
    if whole.ends_with(['.', '!', '?', ':']) || whole.is_empty() { whole } else { whole + "." }
}

fn packed(headers: &HeaderMap, bytes: Bytes) -> Response<Body> {
    let mut accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let takes_gzip = accepted.any(|text| text.split(',').any(|one| one.trim().starts_with("gzip")));
    let packed = (takes_gzip && bytes.len() >= COMPRESSED).then(|| gzip(&bytes)).flatten();
    let is_packed = packed.is_some();
    let mut response = Response::new(Body::full(packed.map_or(bytes, Bytes::from)));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether a part of a page is more than an ordinary page has room for, as it is sent.
pub(super) fn is_large(part: &str) -> bool {
    part.len() > LARGE && (part.len() > UNPACKED || gzip(part.as_bytes()).is_none_or(|packed| packed.len() > LARGE))
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the first visit loads beside its page, in bytes, compressed as it is sent.
    const FIRST_VISIT: usize = 45 * 1_024;

    #[test]
    fn assets_are_small_enough_for_a_first_visit() {
        let sizes = toolcrib_ui::asset::ASSETS.iter().map(|asset| gzip(asset.bytes).expect("it is compressed").len());
        let all: usize = sizes.sum();
        assert!((1_000..=FIRST_VISIT).contains(&all), "{all} bytes");
    }

    #[test]
    fn a_fragment_becomes_a_sentence() {
        for (text, expected) in
            [("no server `x`", "No server `x`."), ("already done.", "Already done."), ("élan", "Élan."), ("", "")]
        {
            assert_eq!(sentence(text), expected);
        }
    }
}
