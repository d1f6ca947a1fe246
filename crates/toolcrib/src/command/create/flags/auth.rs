//! How a remote server is signed in at, from flags with muster's names. It is kept in the definition.

use serde_json::{Map, Value, json};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Authentication")]
pub(super) struct Auth {
    /// How
    #[arg(long, value_name = "TYPE", value_parser = ["oauth", "none"])]
    pub(super) auth_type: Option<String>,
    /// The authorization server, for a server that does not name its own
    #[arg(long, value_name = "URL", conflicts_with_all = ["forward_token", "required_audiences"])]
    pub(super) auth_issuer: Option<String>,
    /// What is asked of it
    #[arg(long, value_name = "SCOPES", requires = "auth_issuer")]
    pub(super) auth_scopes: Option<String>,
    /// The user's own token is passed on
    #[arg(long)]
    pub(super) forward_token: bool,
    /// For whom the token must be, with commas between them, or the flag several times
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',', requires = "forward_token")]
    pub(super) required_audiences: Vec<String>,
}

// === impl Auth ===

impl Auth {
    /// Whether only a remote server can have it.
    pub(super) fn is_of_remotes(&self) -> bool {
        self.auth_type.as_deref() == Some("oauth") || self.auth_issuer.is_some() || self.forward_token
    }

    /// The member `auth` of a definition.
    pub(super) fn value(&self) -> Option<Value> {
        if !self.is_of_remotes() && self.auth_type.is_none() {
            return None;
        }
        let mut auth = Map::new();
        // Anyone who says how to sign in wants it done.
        auth.insert("type".to_owned(), self.auth_type.as_deref().unwrap_or("oauth").into());
        if let Some(issuer) = &self.auth_issuer {
            let mut server = json!({ "issuer": issuer });
            if let Some(scopes) = &self.auth_scopes {
                server["scopes"] = scopes.as_str().into();
            }
            auth.insert("authorizationServer".to_owned(), server);
        }
        if self.forward_token {
            auth.insert("forwardToken".to_owned(), true.into());
        }
        if !self.required_audiences.is_empty() {
            auth.insert("requiredAudiences".to_owned(), self.required_audiences.clone().into());
        }
        Some(auth.into())
    }
}
