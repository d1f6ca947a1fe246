//! Requests of our own client to an issuer: a form with the client's id, and its secret where it has one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use toolcrib_base::Secret;
use url::form_urlencoded;

/// Our client, at the moment of a request.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) id: &'a str,
    pub(crate) secret: Option<&'a Secret>,
    /// Whether the secret goes into the header, otherwise into the body.
    pub(crate) takes_basic: bool,
}

/// A form to an endpoint; why not otherwise.
pub(crate) fn request(url: &str, sender: &Sender<'_>, fields: &[(&str, &str)]) -> Result<Request<Vec<u8>>, String> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    let mut request = Request::post(url)
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    match sender.secret {
        Some(secret) if sender.takes_basic => {
            // Both parts are encoded as in a form first (RFC 6749, section 2.3.1).
            let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", part(sender.id), part(secret.expose())));
            let value = HeaderValue::try_from(format!("Basic {pair}"));
            let mut value = value.map_err(|_| "the credentials fit no header")?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        Some(secret) => {
            form.append_pair("client_id", sender.id).append_pair("client_secret", secret.expose());
        }
        None => {
            form.append_pair("client_id", sender.id);
        }
    }
    request.body(form.finish().into_bytes()).map_err(|_| "its metadata names an endpoint that is no URL".to_owned())
}
