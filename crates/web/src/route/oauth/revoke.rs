//! `POST /oauth/revoke`: a client gives back what it has (RFC 7009).

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_authorization::{AuthorizationServer, TokenRequest};
use toolcrib_transport::http::body::Body;

use super::{FORM, authorization, body, error_answer};
use crate::{Site, Visitor, respond};

pub(super) async fn answer(
    site: &Arc<Site>,
    server: &AuthorizationServer,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let authorization = authorization(request.headers());
    let revoked = async {
        let body = body(site, visitor, request, FORM).await?;
        server.revoke(TokenRequest { authorization: authorization.as_deref(), body: &body }).await
    };
    match revoked.await {
        Ok(()) => respond::status(StatusCode::OK),
        Err(error) => error_answer(&error),
    }
}
