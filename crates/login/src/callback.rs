//! Answers of authorization servers, as they come with the browser. Everybody can make one up: nothing of it is used
//! before it is known which login it belongs to.

use toolcrib_base::{Secret, ServerName};

use crate::error::{LoginError, shown};
use crate::grant::Provider;

/// The longest answer, in bytes.
const ANSWER_BYTES: usize = 16 * 1024;

/// An answer.
#[derive(Debug)]
pub(crate) struct Callback {
    pub(crate) state: Secret,
    pub(crate) issuer: Option<String>,
    code: Option<Secret>,
    /// `access_denied` …, with its description.
    error: Option<String>,
}

impl Callback {
    /// Reads the query of a redirect, or a whole URL.
    pub(crate) fn read(answer: &str) -> Result<Self, LoginError> {
        let wrong = |reason| LoginError::Callback { reason };
        if answer.len() > ANSWER_BYTES {
            return Err(wrong("it is too long"));
        }
        let answer = answer.trim();
        let query = answer.split_once('?').map_or(answer, |(_, query)| query);
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let (mut state, mut code, mut issuer, mut error, mut description) = (None, None, None, None, None);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let slot = match &*name {
                "state" => &mut state,
                "code" => &mut code,
                "iss" => &mut issuer,
                "error" => &mut error,
                "error_description" => &mut description,
                _ => continue,
            };
            if slot.replace(value.into_owned()).is_some() {
                return Err(wrong("a parameter is there twice"));
            }
        }
        let state = state.filter(|state| !state.is_empty()).ok_or(wrong("it has no `state`"))?;
        if code.is_some() && error.is_some() {
            return Err(wrong("it has both `code` and `error`"));
        }
        if code.as_ref().or(error.as_ref()).is_none_or(String::is_empty) {
            return Err(wrong("it has neither `code` nor `error`"));
        }
        let error = error.map(|error| match description {
            Some(description) => shown(&format!("{error}: {description}")),
            None => shown(&error),
        });
        Ok(Self { state: Secret::new(state), issuer, code: code.map(Secret::new), error })
    }

    /// RFC 9207, section 2.4: the answer has to come from who was asked, errors as well.
    pub(crate) fn check_issuer(&self, server: &ServerName, provider: &Provider) -> Result<(), LoginError> {
        let received = match &self.issuer {
            None if !provider.names_itself => return Ok(()),
            Some(issuer) if !provider.is_guessed && *issuer == provider.issuer => return Ok(()),
            Some(issuer) => shown(issuer),
            None => "nobody".to_owned(),
        };
        Err(LoginError::Issuer { server: server.clone(), expected: shown(&provider.issuer), received })
    }

    /// The code.
    pub(crate) fn code(self, server: &ServerName, provider: &Provider) -> Result<Secret, LoginError> {
        let refused =
            |reason: String| LoginError::Refused { server: server.clone(), issuer: shown(&provider.issuer), reason };
        match self.code {
            Some(code) => Ok(code),
            None => Err(refused(self.error.unwrap_or_default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_an_answer_with_a_state_or_none(answer in "(https?://x\\?)?((state|code|iss|error)=[\\PC\u{0}]{0,8}&?){0,5}") {
            match Callback::read(&answer) {
                Ok(callback) => prop_assert!(!callback.state.expose().is_empty()),
                Err(error) => prop_assert!(!error.to_string().contains(char::is_control)),
            }
        }
    }
}
