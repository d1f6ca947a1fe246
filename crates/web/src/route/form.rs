//! The body of a form that a browser sends.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem};
use toolcrib_session::ShareKey;
use toolcrib_transport::http::server::BodyError;

use crate::Site;

/// What a browser calls the body of a form.
pub(super) const TYPE: &str = "application/x-www-form-urlencoded";

/// How large a form may be, in bytes, and for whom it counts.
pub(super) struct FormShare {
    pub(super) limit: usize,
    pub(super) key: ShareKey,
}

/// Whether a body says that it is of a media type, whatever parameters follow.
pub(super) fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

/// Reads a form.
///
/// # Errors
/// It is no form, is too large, did not arrive, or there is no room for it.
pub(super) async fn read(site: &Site, headers: &HeaderMap, body: Incoming, share: FormShare) -> Result<Bytes, Problem> {
    if !is_of_type(headers, TYPE) {
        return Err(Problem::new(Kind::InvalidRequest, format!("the body must be a form (`{TYPE}`)")));
    }
    site.bodies.read(body, share.limit, share.key).await.map_err(|error| match error {
        BodyError::TooLarge(limit) => Problem::new(Kind::TooLarge, format!("the form has more than {limit} bytes")),
        BodyError::Incomplete => Problem::new(Kind::InvalidRequest, "the form did not arrive"),
        BodyError::NoRoom => Problem::new(Kind::Busy, "the memory limit for request bodies is reached")
            .hint("Try again in a second, or raise `bodies_bytes` in config.toml."),
    })
}
