//! `POST /oauth/revoke`: a client gives back what it has (RFC 7009).

use http::{Response, StatusCode};
use toolcrib_authorization::{AuthorizationServer, OAuthError, TokenRequest};
use toolcrib_transport::http::body::Body;

use crate::respond;

pub(super) async fn answer(
    server: &AuthorizationServer,
    request: TokenRequest<'_>,
) -> Result<Response<Body>, OAuthError> {
    server.revoke(request).await.map(|()| respond::status(StatusCode::OK))
}
