//! The parameters of a request, each at most once (RFC 6749, section 3.1).

use url::form_urlencoded;

use crate::error::OAuthError;

/// The longest value, in bytes.
const VALUE_BYTES: usize = 8 * 1024;
/// How many parameters a request has at most.
const PARAMETERS: usize = 64;

/// The parameters of a query or a form.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads them. An empty value counts as none (RFC 6749, section 3.1).
    pub(crate) fn read(encoded: &[u8]) -> Result<Self, OAuthError> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(encoded).take(PARAMETERS) {
            // Only `resource` may come more than once (RFC 8707, section 2); we have one for each token.
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(OAuthError::request(format!("parameter `{name}` is there more than once")));
            }
            if value.len() > VALUE_BYTES {
                return Err(OAuthError::request(format!("parameter `{name}` is too long")));
            }
            parameters.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(parameters))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn needed(&self, name: &str) -> Result<&str, OAuthError> {
        self.get(name).ok_or_else(|| OAuthError::request(format!("parameter `{name}` is missing")))
    }
}
