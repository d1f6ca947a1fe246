//! `POST /oauth/token`: tokens for what a client presents.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_authorization::{AuthorizationServer, TokenRequest};
use toolcrib_transport::http::body::Body;

use super::{FORM, authorization, body, error_answer, json_answer};
use crate::{Site, Visitor};

pub(super) async fn answer(
    site: &Arc<Site>,
    server: &AuthorizationServer,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let authorization = authorization(request.headers());
    let given = async {
        let body = body(site, visitor, request, FORM).await?;
        server.token(TokenRequest { authorization: authorization.as_deref(), body: &body }).await
    };
    match given.await {
        Ok(tokens) => json_answer(StatusCode::OK, &tokens),
        Err(error) => error_answer(&error),
    }
}
