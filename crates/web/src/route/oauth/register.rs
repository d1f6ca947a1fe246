//! `POST /oauth/register`: a client registers itself (RFC 7591), where the settings allow it.

use http::{Response, StatusCode};
use toolcrib_authorization::{AuthorizationServer, OAuthError};
use toolcrib_transport::http::body::Body;

use super::json_answer;

pub(super) async fn answer(server: &AuthorizationServer, metadata: &[u8]) -> Result<Response<Body>, OAuthError> {
    Ok(json_answer(StatusCode::CREATED, &server.register(metadata).await?))
}
