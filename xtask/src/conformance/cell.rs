//! The cells: which suite meets which fixture by which carrier, and which scenarios that means.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::need::Suite;

/// What a cell tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The gateway as a server, in front of a fixture pinned to this era; `None` speaks both.
    Server { fixture: Option<Era>, carrier: Carrier },
    /// The gateway as a client; the scenarios outside `auth/` that the revision requires.
    Client { scenarios: &'static [&'static str] },
    /// The gateway as a client of a server that wants a login; the scenarios below `auth/` that the revision requires.
    Login { revision: &'static str, scenarios: &'static [&'static str] },
    /// The gateway as the authorization server; the suite's scenarios for these.
    Authorization { scenarios: &'static [&'static str] },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Http,
    Stdio,
}

#[derive(Debug)]
pub struct Cell {
    pub name: &'static str,
    /// The era of the suite.
    pub suite: Era,
    pub side: Side,
}

pub const CELLS: [Cell; 20] = [
    server("legacy-to-legacy-http", Era::Legacy, Era::Legacy, Carrier::Http),
    server("legacy-to-legacy-stdio", Era::Legacy, Era::Legacy, Carrier::Stdio),
    server("modern-to-modern-http", Era::Modern, Era::Modern, Carrier::Http),
    server("modern-to-modern-stdio", Era::Modern, Era::Modern, Carrier::Stdio),
    server("modern-to-legacy-http", Era::Modern, Era::Legacy, Carrier::Http),
    server("modern-to-legacy-stdio", Era::Modern, Era::Legacy, Carrier::Stdio),
    server("legacy-to-modern-http", Era::Legacy, Era::Modern, Carrier::Http),
    server("legacy-to-modern-stdio", Era::Legacy, Era::Modern, Carrier::Stdio),
    unpinned("legacy-to-both-http", Era::Legacy, Carrier::Http),
    unpinned("legacy-to-both-stdio", Era::Legacy, Carrier::Stdio),
    unpinned("modern-to-both-http", Era::Modern, Carrier::Http),
    unpinned("modern-to-both-stdio", Era::Modern, Carrier::Stdio),
    Cell {
        name: "client-legacy",
        suite: Era::Legacy,
        side: Side::Client {
            scenarios: &["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"],
        },
    },
    Cell {
        name: "client-modern",
        suite: Era::Modern,
        side: Side::Client {
            scenarios: &[
                "tools_call",
                "request-metadata",
                "sep-2322-client-request-state",
                "http-standard-headers",
                "http-custom-headers",
                "http-invalid-tool-headers",
                "json-schema-ref-no-deref",
            ],
        },
    },
    Cell {
        name: "login-first",
        suite: Era::Legacy,
        side: Side::Login {
            revision: "2025-03-26",
            scenarios: &["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"],
        },
    },
    Cell { name: "login-legacy", suite: Era::Legacy, side: Side::Login { revision: "2025-11-25", scenarios: &LOGINS } },
    Cell {
        name: "login-modern",
        suite: Era::Modern,
        side: Side::Login { revision: "2026-07-28", scenarios: &MODERN_LOGINS },
    },
    // Of extensions; the suite runs them without scoring them.
    Cell { name: "sign-on", suite: Era::Modern, side: Side::Login { revision: "2026-07-28", scenarios: &SIGN_ONS } },
    Cell { name: "dpop", suite: Era::Modern, side: Side::Login { revision: "2026-07-28", scenarios: &DPOP } },
    Cell {
        name: "authorization",
        suite: Era::Modern,
        side: Side::Authorization {
            scenarios: &["authorization-server-metadata-endpoint", "authorization-code-grant"],
        },
    },
];

/// Of extensions, without a person.
const SIGN_ONS: [&str; 4] = [
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
];

/// Of extensions, with tokens that are bound to keys.
const DPOP: [&str; 2] = ["auth/dpop", "auth/dpop-nonce"];

/// What both revisions with these scenarios require.
const LOGINS: [&str; 14] = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
];

/// The same and what the modern era added.
const MODERN_LOGINS: [&str; 25] = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
];

const fn server(name: &'static str, suite: Era, fixture: Era, carrier: Carrier) -> Cell {
    Cell { name, suite, side: Side::Server { fixture: Some(fixture), carrier } }
}

const fn unpinned(name: &'static str, suite: Era, carrier: Carrier) -> Cell {
    Cell { name, suite, side: Side::Server { fixture: None, carrier } }
}

/// What the fixture's `--pin` gets.
pub fn pin(fixture: Option<Era>) -> &'static str {
    fixture.map_or("both", Era::word)
}

// === impl Era ===

impl Era {
    /// As the fixture's `--pin` is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

// === impl Cell ===

impl Cell {
    pub fn named(name: &str) -> Result<&'static Self> {
        let Some(cell) = CELLS.iter().find(|cell| cell.name == name) else {
            let names: Vec<_> = CELLS.iter().map(|cell| cell.name).collect();
            bail!("no cell is called `{name}`; the cells are {}", names.join(", "));
        };
        Ok(cell)
    }

    pub fn about(&self) -> String {
        let revision = self.revision();
        match self.side {
            Side::Server { fixture, carrier } => {
                let kind = fixture.map_or("fixture of both eras".to_owned(), |era| format!("{} fixture", era.word()));
                let carrier = if carrier == Carrier::Http { "HTTP" } else { "stdio" };
                format!("the suite of {revision} against the gateway, a {kind} over {carrier} behind it")
            }
            Side::Client { .. } => format!("the gateway as the client of the suite's servers of {revision}"),
            Side::Login { .. } => format!("the gateway as the client of servers of {revision} that want a login"),
            Side::Authorization { .. } => format!("the suite of {revision} against the built-in authorization server"),
        }
    }

    /// The frozen set that the suite plays.
    pub fn revision(&self) -> &'static str {
        match (self.side, self.suite) {
            (Side::Login { revision, .. }, _) => revision,
            (_, Era::Legacy) => "2025-11-25",
            (_, Era::Modern) => "2026-07-28",
        }
    }

    /// Whether its scenarios are of extensions: they belong to no revision, and the suite wants to be told to run them.
    pub fn is_of_extensions(&self) -> bool {
        matches!(self.side, Side::Login { scenarios, .. } if *scenarios == SIGN_ONS || *scenarios == DPOP)
    }

    /// Across eras a bridge may have limits; within one, or where the fixture has the suite's, there is none.
    pub fn may_expect_failures(&self) -> bool {
        match self.side {
            Side::Server { fixture, .. } => fixture.is_some_and(|fixture| fixture != self.suite),
            Side::Client { .. } | Side::Login { .. } | Side::Authorization { .. } => false,
        }
    }

    /// Whether the cell means something without a gateway.
    pub fn has_direct(&self) -> bool {
        match self.side {
            Side::Server { fixture, carrier } => {
                fixture.is_none_or(|fixture| fixture == self.suite) && carrier == Carrier::Http
            }
            Side::Client { .. } => true,
            // The driver has no logins and no authorization server of its own.
            Side::Login { .. } | Side::Authorization { .. } => false,
        }
    }

    /// Every scenario that has to run: what the revision requires, and what the suite runs without scoring it.
    pub fn scenarios(&self, suite: &Suite) -> Result<Vec<String>> {
        if let Side::Client { scenarios } | Side::Login { scenarios, .. } | Side::Authorization { scenarios } =
            self.side
        {
            return Ok(scenarios.iter().map(ToString::to_string).collect());
        }
        let path = suite.folder.join("requirements").join(format!("{}.yaml", self.revision()));
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
        let scenarios = server_scenarios(&text);
        if scenarios.is_empty() {
            bail!("`{}` names no scenario for servers", path.display());
        }
        Ok(scenarios)
    }
}

/// The scenarios for servers in one of the suite's requirement files: the items below `server:`, and below
/// `not_scored:` those whose `leg` is `server`.
fn server_scenarios(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut section, mut unscored) = ("", "");
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let item = line.trim();
        if !line.starts_with(' ') && item.ends_with(':') {
            section = item.trim_end_matches(':');
        } else if section == "server"
            && let Some(name) = item.strip_prefix("- ")
        {
            found.push(name.to_owned());
        } else if let Some(name) = item.strip_prefix("- scenario: ") {
            unscored = name;
        } else if section == "not_scored" && item == "leg: server" {
            found.push(unscored.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_and_unscored_scenarios_of_servers_are_read() {
        let text = "# a comment\nserver:\n  - ping\n  # another\n  - tools-list\n\nclient:\n  - initialize\n\n\
                    not_scored:\n  - scenario: auth/x\n    leg: client\n  - scenario: tasks-x\n    leg: server\n    \
                    reason: extension\n";
        assert_eq!(server_scenarios(text), ["ping", "tools-list", "tasks-x"]);
    }
}
