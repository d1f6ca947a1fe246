//! `POST /oauth/register`: a client registers itself (RFC 7591), where the settings allow it.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_authorization::AuthorizationServer;
use toolcrib_transport::http::body::Body;

use super::{body, error_answer, json_answer};
use crate::{Site, Visitor};

pub(super) async fn answer(
    site: &Arc<Site>,
    server: &AuthorizationServer,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let registered = async {
        let body = body(site, visitor, request, "application/json").await?;
        server.register(&body).await
    };
    match registered.await {
        Ok(client) => json_answer(StatusCode::CREATED, &client),
        Err(error) => error_answer(&error),
    }
}
