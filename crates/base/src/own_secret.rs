//! What the secrets begin with that this program makes: people know them by it, and so do scanners for leaked secrets and
//! the door, which shows none of them to anyone else, whichever installation made it.

use crate::{Secret, random};

/// The token of a gateway, which administers.
pub const GATEWAY_TOKEN: &str = "tca_";
/// A key of a profile.
pub const PROFILE_KEY: &str = "tcb_";
/// A refresh token of the built-in authorization server.
pub const REFRESH_TOKEN: &str = "tcr_";

/// 256 random bits after this beginning.
pub fn make(beginning: &str) -> Secret {
    Secret::new(format!("{beginning}{}", random::token().expose()))
}

/// Whether an installation of this program made a text, by its form. Tokens of gateways that were made before they had a
/// form are not known by it.
pub fn has_form(text: &str) -> bool {
    [GATEWAY_TOKEN, PROFILE_KEY, REFRESH_TOKEN].iter().any(|beginning| text.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_known_by_its_form() {
        for beginning in [GATEWAY_TOKEN, PROFILE_KEY] {
            let secret = make(beginning);
            assert!(has_form(secret.expose()) && secret.expose().len() == 68);
        }
        assert!(has_form("tcr_session.random.tag"));
        for other in ["", "tca", "x tcb_", "tcx_0", "eyJhbGciOiJFUzI1NiJ9.e30.x"] {
            assert!(!has_form(other), "{other}");
        }
    }
}
