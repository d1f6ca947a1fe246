//! What single authorization servers do differently, as data by the host of their issuer. What shows in an answer itself,
//! such as answers that are form-encoded or errors with status 200, is read for all of them in `answer`.

use std::collections::BTreeMap;

use url::Url;

/// What differs at one authorization server. The default is a server that does what the specifications say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quirk {
    /// More parameters of the authorization URL.
    pub authorization_parameters: Vec<(String, String)>,
    /// Scopes that it needs to give refresh tokens, although nobody names a scope.
    pub added_scopes: Vec<String>,
    /// Scopes that it refuses, although it or the server offers them.
    pub dropped_scopes: Vec<String>,
    /// It refuses `resource` (RFC 8707).
    pub refuses_resource: bool,
    /// It knows S256 although its metadata does not say so.
    pub knows_pkce: bool,
    /// The host of the redirect URL, if it accepts no other one for programs: `localhost` in place of `127.0.0.1`.
    pub redirect_host: Option<String>,
    /// It reads `audience` in place of `resource`.
    pub reads_audience: bool,
    /// Its metadata name its origin as issuer, whatever tenant they were asked for.
    pub states_origin: bool,
    /// Where people register clients.
    pub registration_page: Option<String>,
}

/// The table of quirks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quirks(BTreeMap<String, Quirk>);

/// One row of the built-in table.
struct Row {
    host: &'static str,
    authorization_parameters: &'static [(&'static str, &'static str)],
    added_scopes: &'static [&'static str],
    dropped_scopes: &'static [&'static str],
    refuses_resource: bool,
    knows_pkce: bool,
    redirect_host: Option<&'static str>,
    reads_audience: bool,
    states_origin: bool,
    registration_page: Option<&'static str>,
}

const NONE: Row = Row {
    host: "",
    authorization_parameters: &[],
    added_scopes: &[],
    dropped_scopes: &[],
    refuses_resource: false,
    knows_pkce: false,
    redirect_host: None,
    reads_audience: false,
    states_origin: false,
    registration_page: None,
};

/// To add one, add a row with the reason.
const TABLE: &[Row] = &[
    // No registration by programs. Asks for no scope to give refresh tokens, and its metadata leaves out S256.
    Row {
        host: "github.com",
        dropped_scopes: &["offline_access"],
        knows_pkce: true,
        registration_page: Some("https://github.com/settings/developers"),
        ..NONE
    },
    // Gives refresh tokens for `access_type` only, and again only with a new consent; refuses the scope for it.
    Row {
        host: "accounts.google.com",
        authorization_parameters: &[("access_type", "offline"), ("prompt", "consent")],
        dropped_scopes: &["offline_access"],
        registration_page: Some("https://console.cloud.google.com/apis/credentials"),
        ..NONE
    },
    // The endpoint of version 2 takes scopes in place of `resource` and refuses both; the metadata leaves out S256;
    // programs may use any port of `localhost`, not of 127.0.0.1.
    Row {
        host: "login.microsoftonline.com",
        refuses_resource: true,
        knows_pkce: true,
        redirect_host: Some("localhost"),
        registration_page: Some("https://entra.microsoft.com"),
        ..NONE
    },
    // A token is for `audience`; `resource` alone gives one that is for nobody.
    Row { host: "*.auth0.com", added_scopes: &["offline_access"], reads_audience: true, ..NONE },
    // Its metadata leave out S256.
    Row {
        host: "cognito-idp.*.amazonaws.com",
        knows_pkce: true,
        registration_page: Some("https://console.aws.amazon.com/cognito"),
        ..NONE
    },
    // Of redirects without TLS only those of `localhost` can be entered.
    Row { host: "*.my.salesforce.com", redirect_host: Some("localhost"), ..NONE },
    Row { host: "login.salesforce.com", redirect_host: Some("localhost"), ..NONE },
    // One document for all tenants. It registers clients with an address of this machine, and refuses that to people.
    Row {
        host: "auth.atlassian.com",
        states_origin: true,
        registration_page: Some("https://developer.atlassian.com/console/myapps"),
        ..NONE
    },
    Row { host: "slack.com", registration_page: Some("https://api.slack.com/apps"), ..NONE },
    Row { host: "mcp.slack.com", registration_page: Some("https://api.slack.com/apps"), ..NONE },
    Row { host: "www.figma.com", registration_page: Some("https://www.figma.com/developers/apps"), ..NONE },
    Row { host: "api.figma.com", registration_page: Some("https://www.figma.com/developers/apps"), ..NONE },
];

impl Default for Quirks {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Quirks {
    /// The table of this program.
    pub fn built_in() -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let quirk = |row: &Row| Quirk {
            authorization_parameters: (row.authorization_parameters.iter())
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            added_scopes: owned(row.added_scopes),
            dropped_scopes: owned(row.dropped_scopes),
            refuses_resource: row.refuses_resource,
            knows_pkce: row.knows_pkce,
            redirect_host: row.redirect_host.map(str::to_owned),
            reads_audience: row.reads_audience,
            states_origin: row.states_origin,
            registration_page: row.registration_page.map(str::to_owned),
        };
        Self(TABLE.iter().map(|row| (row.host.to_owned(), quirk(row))).collect())
    }

    /// The table with one row more: for `host`, `host:port` where the port is not the usual one, or `*.host` for all
    /// below it.
    #[must_use]
    pub fn with(mut self, host: &str, quirk: Quirk) -> Self {
        self.0.insert(host.to_owned(), quirk);
        self
    }

    /// What the authorization server with this issuer does differently.
    pub fn of(&self, issuer: &str) -> Quirk {
        let Ok(url) = Url::parse(issuer) else { return Quirk::default() };
        let host = url.host_str().unwrap_or_default();
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let row = || self.0.iter().find(|(host, _)| is_like(host, &authority)).map(|(_, quirk)| quirk);
        self.0.get(&authority).or_else(row).cloned().unwrap_or_default()
    }
}

/// Whether a host is one of those that a row with a `*` stands for: at the front for any names, else for one.
fn is_like(row: &str, host: &str) -> bool {
    let Some((start, end)) = row.split_once('*') else { return false };
    let between = host.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    between.is_some_and(|names| !names.is_empty() && (start.is_empty() || !names.contains('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quirks_are_found_by_the_exact_host_of_an_issuer() {
        let quirks = Quirks::built_in().with("127.0.0.1:99", Quirk { knows_pkce: true, ..Quirk::default() });
        for issuer in ["https://login.microsoftonline.com/abc/v2.0", "https://LOGIN.microsoftonline.com"] {
            assert!(quirks.of(issuer).refuses_resource, "{issuer}");
        }
        assert!(quirks.of("http://127.0.0.1:99/x").knows_pkce);
        assert!(quirks.of("https://acme.eu.auth0.com/").reads_audience);
        assert!(quirks.of("https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbC").knows_pkce);
        for issuer in [
            "https://login.microsoftonline.com.evil.example",
            "https://login.microsoftonline.com:8443",
            "https://evil.example/login.microsoftonline.com",
            "https://evilauth0.com",
            "https://cognito-idp.evil.example.amazonaws.com",
            "https://cognito-idp..amazonaws.com",
            "https://cognito-idp.amazonaws.com",
            "https://acme.auth0.com.evil.example",
            "http://127.0.0.1:98",
            "not a URL",
        ] {
            assert_eq!(quirks.of(issuer), Quirk::default(), "{issuer}");
        }
    }
}
