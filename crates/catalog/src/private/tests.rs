//! What counts as a secret, and which paths are told.

use super::*;

#[test]
fn names_tell_secrets() {
    for name in ["API_KEY", "apiKey", "X-Api-Key", "GITHUB_TOKEN", "Authorization", "DB_PASSWORD", "MYAPIKEY", "pat"] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["KEYBOARD", "MONKEY", "PATH", "DEBUG", "compass", "AUTHOR", "HOST", ""] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn values_tell_secrets() {
    let jwt = ["eyJhbGciOi", "eyJzdWIi", "c2ln"].join(".");
    let random = "0123456789abcdef".repeat(2);
    let made_up = ["sk", "0123456789"].join("-");
    for value in [made_up.as_str(), "Bearer abcdefg", "postgres://u:p@h/db", &jwt, &random] {
        assert!(is_secret_value(value), "{value}");
    }
    for value in ["", "sk-", "debug", "/people/me/a-long-path/that-has-digits-1234567890", "https://u@h/", "Bearer "] {
        assert!(!is_secret_value(value), "{value}");
    }
    for url in ["https://h/mcp?api_key=abc", "https://u:p@h/", "https://h/?a=1&token=x"] {
        assert!(is_secret_address(url), "{url}");
    }
    for url in ["https://h/mcp", "https://h/mcp?debug=1", "https://h/?key=true"] {
        assert!(!is_secret_address(url), "{url}");
    }
}

#[test]
fn keys_that_are_more_than_names_are_not_reported() {
    let shaped = ["sk", "0123456789"].join("-");
    for (path, told) in [
        ("", ""),
        ("timeouts.call", "timeouts.call"),
        ("env.API_KEY", "env.API_KEY"),
        ("runtime.headers.X-Key", "runtime.headers.X-Key"),
        ("env[0]", "env[0]"),
        ("env.KEY=x", "env.****"),
        ("headers.Authorization: Bearer x", "headers.****"),
        ("runtime.env.a b", "runtime.env.****"),
        (&format!("env.{shaped}"), "env.****"),
        (&shaped, "****"),
        (&format!("labels.{shaped}[1]"), "****"),
    ] {
        assert_eq!(masked_path(path), told, "{path}");
    }
}
