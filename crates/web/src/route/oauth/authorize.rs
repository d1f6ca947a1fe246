//! `GET /oauth/authorize`: asks the person whether the client may have what it asks for. Nothing is kept before the answer,
//! and no provider is contacted.

use http::header::SET_COOKIE;
use http::{Request, Response};
use toolcrib_transport::http::body::Body;

use super::{Pages, page};
use crate::route::browser_cookie::{AUTHORIZATION, BrowserCookie};
use crate::route::ui;

pub(super) async fn answer<B>(pages: Pages<'_>, request: &Request<B>) -> Response<Body> {
    let cookie = BrowserCookie::new(&AUTHORIZATION, pages.server.origin().starts_with("https:"));
    let query = request.uri().query().unwrap_or_default();
    match pages.server.authorize(query, cookie.secret()).await {
        Ok(prompt) => {
            let user = ui::session(pages.front, request.headers());
            let user = user.as_ref().map(|known| known.id.as_str());
            let mut response = page::consent(&prompt, user);
            response.headers_mut().append(SET_COOKIE, cookie.set());
            response
        }
        Err(refusal) => page::refusal(refusal),
    }
}
