//! What guards do with secrets in calls, and which values they replace by their place: the key `guards` of servers and
//! profiles.

use toolcrib_base::Glob;
use toolcrib_scan::pointer::Pointer;

use crate::reader::{Cursor, Fields, choice};
use crate::server::limits::PATTERNS;

/// So many places are looked for in each message.
const POINTERS: usize = 32;

choice! {
    /// What becomes of a call in which a secret is found, the mildest first.
    SecretAction {
        /// Nothing is looked for.
        Off = "off",
        /// It is on record, and goes on.
        Record = "record",
        /// It goes on without the secret.
        Redact = "redact",
        /// It does not go on.
        Deny = "deny",
    }
}

choice! {
    /// Who is halted when a canary is found: the key `canary_halts` of profiles.
    CanaryHalt {
        /// The principal, by whichever door.
        Principal = "principal",
        /// The session, or what was granted to the client; the principal where there is neither.
        Session = "session",
    }
}

/// What a server or a profile says; of two the stricter counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guards {
    /// Secrets in what is sent to servers.
    pub arguments: Option<SecretAction>,
    /// Secrets in what servers answer.
    pub results: Option<SecretAction>,
    /// Values of arguments that are not stored.
    pub redact_arguments: Vec<Pointer>,
    /// Values of results that reach no client.
    pub redact_results: Vec<Pointer>,
    /// What holds for some tools of a server beside that, in the order of their patterns.
    pub tools: Vec<ToolGuards>,
}

/// What is said of each tool that fits a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolGuards {
    /// Over the names that the server gives its tools.
    pub pattern: Glob,
    /// What is said; of no other tools.
    pub guards: Guards,
}

// === impl Guards ===

impl Guards {
    /// What is said of a tool beside what is said of the whole server.
    pub fn of_tool<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Guards> + Clone {
        self.tools.iter().filter(move |of_tool| of_tool.pattern.matches(tool)).map(|of_tool| &of_tool.guards)
    }
}

// === impl SecretAction ===

impl SecretAction {
    /// The stricter of two.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        if self as u8 >= other as u8 { self } else { other }
    }

    /// The same for what must go on as it is.
    #[must_use]
    pub fn without_changes(self) -> Self {
        if self.changes() { Self::Record } else { self }
    }

    /// Whether what is found does not go on as it is.
    pub fn changes(self) -> bool {
        matches!(self, Self::Redact | Self::Deny)
    }
}

impl crate::reader::TextPattern for Pointer {
    const PATTERN: &'static str = "^/";
}

/// What a profile says.
pub(crate) fn read(cursor: Cursor<'_>) -> Option<Guards> {
    let fields = cursor.fields()?;
    let guards = read_own(&fields);
    fields.finish();
    Some(guards)
}

/// What a server says, also of its tools.
pub(crate) fn read_of_server(cursor: Cursor<'_>) -> Option<Guards> {
    let fields = cursor.fields()?;
    let tools = fields.get("tools").map(|cursor| tools(&cursor)).unwrap_or_default();
    let guards = Guards { tools, ..read_own(&fields) };
    fields.finish();
    Some(guards)
}

fn tools(cursor: &Cursor<'_>) -> Vec<ToolGuards> {
    let read = cursor.map(|pattern, cursor| match Glob::new(pattern) {
        Ok(pattern) => Some(ToolGuards { pattern, guards: read(cursor.clone())? }),
        Err(error) => {
            let hint = "write the name that the server gives the tool, with `*` for any characters".to_owned();
            cursor.problem(format!("expected guards of a pattern over names of tools: {error}"), Some(hint));
            None
        }
    });
    if read.len() > PATTERNS {
        cursor.expected(format_args!("at most {PATTERNS} patterns"));
    }
    read.into_values().collect()
}

fn read_own(fields: &Fields<'_>) -> Guards {
    let mut guards = Guards::default();
    if let Some(secrets) = fields.get("secrets").and_then(Cursor::fields) {
        guards.arguments = secrets.get("arguments").and_then(|cursor| cursor.choice());
        guards.results = secrets.get("results").and_then(|cursor| cursor.choice());
        secrets.finish();
    }
    if let Some(redact) = fields.get("redact").and_then(Cursor::fields) {
        guards.redact_arguments = pointers(&redact, "arguments");
        guards.redact_results = pointers(&redact, "results");
        redact.finish();
    }
    guards
}

fn pointers(fields: &Fields<'_>, key: &'static str) -> Vec<Pointer> {
    let Some(cursor) = fields.get(key) else { return Vec::new() };
    let pointers = cursor.list(|item| item.parsed());
    if pointers.len() > POINTERS {
        cursor.expected(format_args!("at most {POINTERS} pointers"));
    }
    pointers
}
