//! The definition of a server: `servers/<name>.yaml`.

pub(crate) mod auth;
pub(crate) mod edit;
mod family;
mod header_form;
pub(crate) mod limits;
mod tool_labels;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use toolcrib_base::{Glob, ServerName};

use crate::define::{self, Definition};
use crate::endpoint::{Endpoint, EndpointError};
use crate::expected;
use crate::governed::ConnectorOffer;
use crate::guards::{self, Guards};
use crate::kind::DefinitionKind;
use crate::period::Period;
use crate::placeholder::placeholder;
use crate::reader::{Choice, Cursor, Fields, choice};
use crate::secret::SecretRef;
use crate::toolschema;

pub use auth::{AuthType, ClientSecretRef, IdentityProvider, ServerAuth, Teleport, TeleportIdentity, TokenExchange};
pub use family::Family;
pub use header_form::HeaderForm;
pub use limits::{ServerLimits, ToolLimits};
pub use tool_labels::ToolLabels;

/// What addresses look like.
pub(crate) const ADDRESS_PATTERN: &str = "^[Hh][Tt][Tt][Pp][Ss]?://";

/// A server that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDefinition {
    pub name: ServerName,
    pub title: Option<String>,
    pub description: Option<String>,
    pub transport: Transport,
    pub start: Start,
    /// After how long without a call a lazy server is stopped until the next one. Without the key: a program after ten
    /// minutes, an address never.
    pub idle: Option<Period>,
    pub session: SessionScope,
    pub era: SpokenEra,
    /// What the connection that lists its tools says can be asked of us, each once, in the order of its kinds.
    pub declares: Vec<Ask>,
    pub timeouts: Timeouts,
    pub category: Option<String>,
    pub tags: Vec<String>,
    /// Words that searches should find the server by.
    pub keywords: Vec<String>,
    pub icon: Option<String>,
    pub homepage: Option<Endpoint>,
    pub labels: BTreeMap<String, String>,
    /// Patterns over names of its tools whose calls the caller's own person confirms, in every profile.
    pub confirm: Vec<Glob>,
    /// Those of single tools, in the order of their patterns.
    pub tool_labels: Vec<ToolLabels>,
    /// What stands before its tools' names instead of its own name.
    pub prefix: Option<String>,
    /// The servers with the same tools that it is shown as one with.
    pub family: Option<Family>,
    /// What tools are called now that had another name before: old and new, as the server itself names them.
    pub renamed: BTreeMap<String, String>,
    /// A first snapshot of its tools.
    pub tools: Vec<ToolText>,
    /// When the snapshot was taken, as written.
    pub verified_at: Option<String>,
    /// How it is logged in at.
    pub auth: Option<ServerAuth>,
    /// How much may be called.
    pub limits: ServerLimits,
    /// What becomes of secrets in its calls.
    pub guards: Guards,
    /// Which of its tools and resources there are, of a server that is made of a connector; no file of a server says it.
    pub connector: Option<ConnectorOffer>,
}

impl ServerDefinition {
    /// One of which nothing is said but how it is reached.
    pub(crate) fn plain(name: ServerName, transport: Transport) -> Self {
        Self {
            name,
            title: None,
            description: None,
            transport,
            start: Start::Lazy,
            idle: None,
            session: SessionScope::Principal,
            era: SpokenEra::Auto,
            declares: Vec::new(),
            timeouts: Timeouts::default(),
            category: None,
            tags: Vec::new(),
            keywords: Vec::new(),
            icon: None,
            homepage: None,
            labels: BTreeMap::new(),
            confirm: Vec::new(),
            tool_labels: Vec::new(),
            prefix: None,
            family: None,
            renamed: BTreeMap::new(),
            tools: Vec::new(),
            verified_at: None,
            auth: None,
            limits: ServerLimits::default(),
            guards: Guards::default(),
            connector: None,
        }
    }

    /// Whether a tool that the server lists is there: of a connector, those of its definition are.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.connector.as_ref().is_none_or(|offer| offer.tools.contains_key(tool))
    }

    /// Whether a resource or a template that the server lists is there.
    pub fn has_resource(&self, uri: &str) -> bool {
        self.connector.as_ref().is_none_or(|offer| offer.resources.iter().any(|it| it == uri))
    }

    /// Whether prompts that the server lists are there.
    pub fn has_prompts(&self) -> bool {
        self.connector.is_none()
    }
}

/// How a server is reached, with what that way needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks over its standard streams.
    Stdio(Program),
    /// Streamable HTTP.
    Http(Remote),
    /// HTTP with server-sent events, the protocol's first form.
    Sse(Remote),
}

impl Transport {
    /// Whether messages travel as HTTP requests, each with headers of its own.
    pub fn is_http(&self) -> bool {
        matches!(self, Self::Http(_))
    }
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, SecretRef>,
    /// Variables of our own environment that it gets beside those of its kind, each once, where they are set.
    pub inherit_env: Vec<String>,
    /// Its working directory; a relative one begins at the home folder.
    pub cwd: Option<PathBuf>,
}

/// An address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub url: Endpoint,
    /// Names as written, each once whatever its letter case.
    pub headers: BTreeMap<String, SecretRef>,
    /// What the values of headers are made of beside their secrets; those of connectors alone.
    pub forms: BTreeMap<String, HeaderForm>,
}

impl Remote {
    /// The headers whose value each principal has of its own, each with the name of the value.
    pub fn user_headers(&self) -> impl Iterator<Item = UserHeader<'_>> {
        self.headers.iter().filter_map(|(header, reference)| match reference {
            SecretRef::User(value) => Some(UserHeader { header, value }),
            _ => None,
        })
    }
}

/// A header whose value each principal has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserHeader<'a> {
    /// The header.
    pub header: &'a str,
    /// The name of the value, as it stands after `user:`.
    pub value: &'a str,
}

choice! {
    /// When a connection is made.
    Start {
        /// When it is needed first.
        Lazy = "lazy",
        /// With the gateway.
        Eager = "eager",
        /// When someone says so.
        Manual = "manual",
    }
}

choice! {
    /// Who shares a connection.
    SessionScope {
        /// Everyone.
        Shared = "shared",
        /// The clients of one principal.
        Principal = "principal",
        /// Calls that name the same handle.
        Handle = "handle",
        /// No one: one for each request.
        Request = "request",
    }
}

choice! {
    /// In which era of the protocol a server is spoken to.
    SpokenEra {
        /// In that of each client, where the server speaks it.
        Auto = "auto",
        /// With `initialize` and sessions, up to 2025-11-25.
        Legacy = "legacy",
        /// Without either, from 2026-07-28 on.
        Modern = "modern",
    }
}

choice! {
    /// What a server can ask a client for.
    Ask {
        /// Forms to fill in and addresses to open.
        Elicitation = "elicitation",
        /// A model's answer.
        Sampling = "sampling",
        /// The folders that it may work in.
        Roots = "roots",
    }
}

choice! {
    /// The words for [`Transport`].
    TransportKind {
        Stdio = "stdio",
        Http = "http",
        Sse = "sse",
    }
}

/// How long the server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From starting or connecting to being initialised. Without the key ten seconds, and for a program that installs
    /// itself as long as that takes.
    pub connect: Option<Period>,
    /// For one page of a list.
    pub list: Period,
    /// For one call.
    pub call: Period,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: None, list: Period::seconds(10), call: Period::seconds(60) }
    }
}

impl Timeouts {
    /// How long connecting may take where nothing is installed.
    pub fn connect(&self) -> Period {
        self.connect.unwrap_or(Period::seconds(10))
    }
}

/// One tool of a first snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolText {
    /// Its name, as in its text.
    pub name: String,
    /// The tool object of `tools/list` as JSON text.
    pub json: String,
}

// === impl Transport ===

impl Transport {
    /// Which of the three it is.
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::Http(_) => TransportKind::Http,
            Self::Sse(_) => TransportKind::Sse,
        }
    }
}

impl Definition for ServerDefinition {
    const KIND: DefinitionKind = DefinitionKind::Server;
    type Name = ServerName;

    fn name(&self) -> &ServerName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let fields = root.fields()?;
        let name = define::name(&fields, stem, ServerName::new);
        let transport = transport(&fields);
        let auth = auth::read(&fields, transport.as_ref());
        let definition = |name, transport| ServerDefinition {
            name,
            transport,
            title: fields.text("title"),
            description: fields.text("description"),
            start: fields.get("start").and_then(|cursor| cursor.choice()).unwrap_or(Start::Lazy),
            idle: idle(&fields),
            session: fields.get("session").and_then(|cursor| cursor.choice()).unwrap_or(SessionScope::Principal),
            era: era(&fields),
            declares: fields.get("declares").map(|cursor| declares(&cursor)).unwrap_or_default(),
            timeouts: fields.get("timeouts").and_then(timeouts).unwrap_or_default(),
            category: fields.text("category"),
            tags: fields.texts("tags"),
            keywords: fields.texts("keywords"),
            icon: fields.text("icon"),
            homepage: fields.get("homepage").and_then(|cursor| address(&cursor)),
            labels: fields.get("labels").map(|cursor| labels(&cursor)).unwrap_or_default(),
            confirm: fields.get("confirm").map(|cursor| tool_patterns(&cursor)).unwrap_or_default(),
            tool_labels: fields.get("tool_labels").map(|cursor| tool_labels::read(&cursor)).unwrap_or_default(),
            prefix: fields.get("prefix").and_then(|cursor| prefix(&cursor)),
            family: fields.get("family").and_then(family::family),
            renamed: fields.get("renamed").map(|cursor| labels(&cursor)).unwrap_or_default(),
            tools: fields.get("tools").map(|cursor| tools(&cursor)).unwrap_or_default(),
            verified_at: fields.text("verified_at"),
            auth,
            limits: fields.get("limits").and_then(limits::read).unwrap_or_default(),
            guards: fields.get("guards").and_then(guards::read_of_server).unwrap_or_default(),
            connector: None,
        };
        // Read even when the name or the transport is wrong, so that all problems are reported at once.
        let placeholder = || ServerName::new("unnamed").ok();
        let complete = name.is_some() && transport.is_some();
        let read = definition(name.or_else(placeholder)?, transport.unwrap_or_else(Transport::nowhere));
        fields.finish();
        complete.then_some(read)
    }
}

impl Transport {
    /// Stands in while the rest of a wrong definition is read.
    fn nowhere() -> Self {
        Self::Stdio(Program {
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            inherit_env: Vec::new(),
            cwd: None,
        })
    }
}

fn transport(fields: &Fields<'_>) -> Option<Transport> {
    let written = fields.get("transport");
    let kind = match &written {
        Some(cursor) => cursor.choice(),
        None if fields.has("url") && !fields.has("command") => {
            let hint = "add `transport: http`, or `transport: sse` for the older form".to_owned();
            fields.require("transport", "how the `url` is spoken to", hint);
            None
        }
        None => Some(TransportKind::Stdio),
    };
    match kind {
        Some(TransportKind::Stdio) => {
            misplaced(fields, &["url", "headers"], "belongs to `transport: http` or `sse`, this is `stdio`");
            program(fields).map(Transport::Stdio)
        }
        Some(kind @ (TransportKind::Http | TransportKind::Sse)) => {
            let why = format!("belongs to `transport: stdio`, this is `{kind}`");
            misplaced(fields, &["command", "args", "env", "inherit_env", "cwd"], &why);
            let remote = remote(fields)?;
            Some(if kind == TransportKind::Http { Transport::Http(remote) } else { Transport::Sse(remote) })
        }
        None => {
            // No one knows which keys belong here, so all of them are let pass.
            for key in ["command", "args", "env", "inherit_env", "cwd", "url", "headers"] {
                fields.get(key);
            }
            None
        }
    }
}

/// HTTP+SSE is a transport of the legacy era.
fn era(fields: &Fields<'_>) -> SpokenEra {
    let Some(cursor) = fields.get("era") else { return SpokenEra::Auto };
    let era = cursor.choice().unwrap_or(SpokenEra::Auto);
    let transport = fields.get("transport").and_then(|cursor| cursor.node().as_text().map(ToString::to_string));
    if era == SpokenEra::Modern && transport.as_deref() == Some("sse") {
        let hint = "write `transport: http`, or remove `era`".to_owned();
        cursor.problem("expected no `era: modern` beside `transport: sse`, which is of the legacy era", Some(hint));
    }
    era
}

/// Only a server that starts by itself at a call may be stopped without one.
fn idle(fields: &Fields<'_>) -> Option<Period> {
    let cursor = fields.get("idle")?;
    let start = fields.get("start").and_then(|cursor| cursor.node().as_text().map(ToString::to_string));
    if let Some(start) = start.filter(|start| start != "lazy") {
        let hint = "remove it, or write `start: lazy`".to_owned();
        cursor.problem(format!("expected no `idle` beside `start: {start}`, which never stops by itself"), Some(hint));
    }
    cursor.parsed()
}

pub(crate) fn misplaced(fields: &Fields<'_>, keys: &[&'static str], why: &str) {
    for key in keys {
        fields.misplaced(key, why);
    }
}

fn program(fields: &Fields<'_>) -> Option<Program> {
    let what = "the program to start";
    let command = fields.require("command", what, "add a line such as `command: npx`".to_owned());
    let args = fields.get("args").map(|cursor| cursor.list(|item| argument(&item))).unwrap_or_default();
    let env = fields.get("env").map(|cursor| define::environment(&cursor)).unwrap_or_default();
    let inherit_env = fields.get("inherit_env").map(|cursor| inherited(&cursor)).unwrap_or_default();
    let cwd = fields.get("cwd").and_then(|cursor| cursor.word("a folder")).map(PathBuf::from);
    for key in ["command", "args", "cwd", "env"] {
        fields.get(key).iter().for_each(no_placeholders);
    }
    Some(Program { command: command?.word(what)?, args, env, inherit_env, cwd })
}

/// Names of variables, each once; never a pattern, so that no secret comes along.
pub(crate) fn inherited(cursor: &Cursor<'_>) -> Vec<String> {
    let mut seen = HashSet::new();
    cursor.list(|item| {
        let name = item.text()?;
        if let Some((message, hint)) = expected::fault(name) {
            item.problem(message, Some(hint));
        } else if !seen.insert(name) {
            item.expected("each variable once");
        }
        Some(name.to_owned())
    })
}

/// Arguments may be empty and may have several lines.
pub(crate) fn argument(item: &Cursor<'_>) -> Option<String> {
    let text = item.text()?;
    if text.contains('\0') {
        item.expected("a text without NUL characters");
        return None;
    }
    Some(text.to_owned())
}

fn remote(fields: &Fields<'_>) -> Option<Remote> {
    let hint = "add a line such as `url: https://example.com/mcp`".to_owned();
    let url = fields.require("url", "the address of the server", hint);
    fields.get("headers").iter().for_each(no_placeholders);
    let headers = fields.get("headers").map(|cursor| define::headers(&cursor)).unwrap_or_default();
    Some(Remote { url: address(&url?)?, headers, forms: BTreeMap::new() })
}

/// Placeholders of editors would be passed on as they stand: only the editor fills them in.
fn no_placeholders(cursor: &Cursor<'_>) {
    let check = |cursor: &Cursor<'_>| {
        let Some(word) = cursor.node().as_text().and_then(|text| placeholder(text)) else { return };
        let hint = match word.split_once(':') {
            Some(("env", name)) => format!("write `env:{name}` as the whole value"),
            Some(("input", _)) => {
                "put the value into the vault with `toolcrib secret set NAME`, and write `vault:NAME`".to_owned()
            }
            _ => "write what it stands for".to_owned(),
        };
        let word = crate::problem::shown(&word);
        cursor.problem(format!("expected no placeholder of an editor, got `${{{word}}}`"), Some(hint));
    };
    check(cursor);
    cursor.each(&check);
}

/// What is wrong is repeated only where nothing in it can be a secret.
pub(crate) fn address(cursor: &Cursor<'_>) -> Option<Endpoint> {
    let text = cursor.text()?;
    cursor.fits(ADDRESS_PATTERN);
    let address = text.parse();
    if let Err(error) = &address {
        let error: &EndpointError = error;
        let got = if text.contains(['@', '?']) { "something else".to_owned() } else { cursor.describe() };
        cursor.problem(format!("{error}, got {got}"), None);
    }
    address.ok()
}

pub(crate) fn timeouts(cursor: Cursor<'_>) -> Option<Timeouts> {
    let fields = cursor.fields()?;
    let default = Timeouts::default();
    let period = |key, default| fields.get(key).and_then(|cursor| cursor.parsed()).unwrap_or(default);
    let timeouts = Timeouts {
        connect: fields.get("connect").and_then(|cursor| cursor.parsed()),
        list: period("list", default.list),
        call: period("call", default.call),
    };
    fields.finish();
    Some(timeouts)
}

fn declares(cursor: &Cursor<'_>) -> Vec<Ask> {
    let mut seen = Vec::new();
    cursor.list(|item| {
        let ask: Ask = item.choice()?;
        if seen.contains(&ask) {
            item.expected("each word once");
        }
        seen.push(ask);
        Some(())
    });
    // The order in the file means nothing, so that changing it does not restart the server.
    Ask::ALL.iter().map(|(_, ask)| *ask).filter(|ask| seen.contains(ask)).collect()
}

/// A map of texts.
/// Patterns over names of one server's tools.
fn tool_patterns(cursor: &Cursor<'_>) -> Vec<Glob> {
    cursor.list(|item| match Glob::new(item.text()?) {
        Ok(glob) => Some(glob),
        Err(error) => {
            item.problem(format!("expected a pattern, got {}: {error}", item.describe()), None);
            None
        }
    })
}

pub(crate) fn labels(cursor: &Cursor<'_>) -> BTreeMap<String, String> {
    cursor.map(|_, value| value.text().map(str::to_owned))
}

/// A prefix becomes part of names that clients hold to `[A-Za-z0-9_.-]{1,64}`.
fn prefix(cursor: &Cursor<'_>) -> Option<String> {
    let text = cursor.text()?;
    let fits = is_prefix(text);
    if !fits {
        cursor.expected("a prefix of 1 to 32 characters of A-Z, a-z, 0-9, `_`, `.` and `-`");
    }
    fits.then(|| text.to_owned())
}

/// Whether a text can stand before the names of tools.
pub(crate) fn is_prefix(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    !text.is_empty() && text.len() <= 32 && text.bytes().all(fits)
}

pub(crate) fn tools(cursor: &Cursor<'_>) -> Vec<ToolText> {
    let mut names = HashSet::new();
    cursor.list(|item| {
        let json = item.json();
        // The tool's other keys are the server's own, so this map is not finished.
        let fields = item.clone().fields()?;
        let name = fields.require("name", "the tool's name", "take tools as `tools/list` gives them".to_owned())?;
        let text = name.text()?;
        if text.is_empty() {
            name.expected("the tool's name");
        } else if !names.insert(text) {
            name.expected("each tool once");
        }
        if item.is_thorough() {
            toolschema::check(&fields);
        }
        Some(ToolText { name: text.to_owned(), json })
    })
}

#[cfg(test)]
mod tests;
