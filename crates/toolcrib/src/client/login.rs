//! The login that this home has at a gateway elsewhere: with it a command comes that has no token.

use http::HeaderMap;
use toolcrib_base::Problem;
use toolcrib_login::LoginStatus;
use toolcrib_transport::http::client::HttpClient;

use super::{ClientFlags, GatewayAddress};
use crate::endpoint_login::{Denial, EndpointLogin, LoginOptions};
use crate::home::{Environment, Home};

/// A login, and where it counts.
pub(super) struct ClientLogin {
    login: EndpointLogin,
    uri: http::Uri,
}

impl ClientLogin {
    /// `None` where a command comes with a token, or with nothing.
    pub(super) fn find(
        located: &GatewayAddress,
        http: &HttpClient,
        flags: &ClientFlags,
        environment: &Environment,
    ) -> Option<Self> {
        let home = located.has_login.then(|| Home::find(flags.home(), environment).ok()).flatten()?;
        let login = EndpointLogin::new(LoginOptions::default(), Some(&home), http.clone(), environment);
        Some(Self { login, uri: located.uri.clone() })
    }

    /// The client whose requests prove that they are ours, where the provider asks for that.
    pub(super) fn proving(&self, http: &HttpClient) -> HttpClient {
        self.login.proving(http)
    }

    /// What a request carries; renewed first where it is about to expire.
    ///
    /// # Errors
    /// The stored login cannot be read or renewed for now.
    pub(super) async fn headers(&self) -> Result<HeaderMap, Problem> {
        // A renewal is large, and most requests need none.
        Box::pin(self.login.headers(&self.uri)).await
    }

    /// Whether there is another token after a 401 to a request that carried `sent`. Such a request did not run.
    pub(super) async fn is_renewed(&self, sent: &HeaderMap, challenge: Option<&str>) -> Result<bool, Problem> {
        let denial = Box::pin(self.login.denied(&self.uri, sent, challenge)).await?;
        Ok(matches!(denial, Denial::Renewed))
    }

    /// How it stands.
    pub(super) async fn status(&self) -> Result<Option<LoginStatus>, Problem> {
        Box::pin(self.login.status(&self.uri)).await
    }

    /// Waits for a renewal that is under way.
    pub(super) async fn close(&self) {
        Box::pin(self.login.close()).await;
    }
}

impl std::fmt::Debug for ClientLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientLogin").field("uri", &self.uri).finish_non_exhaustive()
    }
}
