//! The integration tests of logins.
