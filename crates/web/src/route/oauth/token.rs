//! `POST /oauth/token`: tokens for what a client presents.

use http::{Response, StatusCode};
use toolcrib_authorization::{AuthorizationServer, OAuthError, TokenRequest};
use toolcrib_transport::http::body::Body;

use super::json_answer;

pub(super) async fn answer(
    server: &AuthorizationServer,
    request: TokenRequest<'_>,
) -> Result<Response<Body>, OAuthError> {
    Ok(json_answer(StatusCode::OK, &server.token(request).await?))
}
