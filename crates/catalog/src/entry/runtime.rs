//! How the server of an entry runs: a program or an address, with the places that variables fill.

use std::collections::BTreeMap;

use super::authorization::{Authorization, plain};
use crate::define;
use crate::endpoint::Endpoint;
use crate::reader::{Cursor, Fields};
use crate::server::{self, Timeouts, TransportKind};

/// How it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    pub reach: Reach,
    pub timeouts: Timeouts,
}

/// What is started or connected to. `${NAME}` in arguments, folder and address stands for a variable of the entry that
/// is no secret: arguments are seen by everyone on the machine, addresses by everyone on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Stdio {
        command: String,
        args: Vec<String>,
        /// Plain texts; the entry's variables come on top.
        env: BTreeMap<String, String>,
        inherit_env: Vec<String>,
        cwd: Option<String>,
    },
    /// Streamable HTTP or, when `is_sse`, its older form.
    Http { is_sse: bool, url: String, headers: BTreeMap<String, String> },
}

// === impl Reach ===

impl Reach {
    /// The word for it.
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio { .. } => TransportKind::Stdio,
            Self::Http { is_sse: false, .. } => TransportKind::Http,
            Self::Http { is_sse: true, .. } => TransportKind::Sse,
        }
    }

    /// The texts in which `${NAME}` is replaced.
    pub(super) fn places(&self) -> Vec<&str> {
        match self {
            Self::Stdio { args, cwd, .. } => args.iter().chain(cwd).map(String::as_str).collect(),
            Self::Http { url, .. } => vec![url],
        }
    }
}

pub(super) fn read(cursor: Cursor<'_>, authorization: &Authorization) -> Option<Runtime> {
    let fields = cursor.fields()?;
    let kind = match fields.get("transport") {
        Some(cursor) => cursor.choice(),
        None if fields.has("url") && !fields.has("command") => {
            let hint = "add `transport: http`, or `transport: sse` for the older form".to_owned();
            fields.require("transport", "how the `url` is spoken to", hint);
            None
        }
        None => Some(TransportKind::Stdio),
    };
    let reach = match kind {
        Some(TransportKind::Stdio) => {
            server::misplaced(&fields, &["url", "headers"], "belongs to `transport: http` or `sse`, this is `stdio`");
            stdio(&fields, authorization)
        }
        Some(kind) => {
            let why = format!("belongs to `transport: stdio`, this is `{kind}`");
            server::misplaced(&fields, &["command", "args", "env", "inherit_env", "cwd"], &why);
            http(&fields, kind == TransportKind::Sse, authorization)
        }
        None => {
            // No one knows which keys belong here, so all of them are let pass.
            for key in ["command", "args", "env", "inherit_env", "cwd", "url", "headers"] {
                fields.get(key);
            }
            None
        }
    };
    let timeouts = fields.get("timeouts").and_then(server::timeouts).unwrap_or_default();
    fields.finish();
    Some(Runtime { reach: reach?, timeouts })
}

fn stdio(fields: &Fields<'_>, authorization: &Authorization) -> Option<Reach> {
    let what = "the program to start";
    let command = fields.require("command", what, "add a line such as `command: npx`".to_owned());
    let argument = |item: Cursor<'_>| {
        let text = server::argument(&item)?;
        check_places(&item, &text, authorization);
        Some(text)
    };
    Some(Reach::Stdio {
        args: fields.get("args").map(|cursor| cursor.list(argument)).unwrap_or_default(),
        env: fields.get("env").map(|cursor| environment(&cursor)).unwrap_or_default(),
        inherit_env: fields.get("inherit_env").map(|cursor| server::inherited(&cursor)).unwrap_or_default(),
        cwd: fields.get("cwd").and_then(|cursor| {
            let folder = cursor.word("a folder")?;
            check_places(&cursor, &folder, authorization);
            Some(folder)
        }),
        command: command?.word(what)?,
    })
}

pub(super) fn environment(cursor: &Cursor<'_>) -> BTreeMap<String, String> {
    cursor.map(|key, value| {
        if !crate::secret::is_variable(key) {
            value.problem("expected a variable's name of A-Z, a-z, 0-9 and `_`, the first not a digit", None);
        }
        plain(value)
    })
}

fn http(fields: &Fields<'_>, is_sse: bool, authorization: &Authorization) -> Option<Reach> {
    let hint = "add a line such as `url: https://example.com/mcp`".to_owned();
    let url = fields.require("url", "the address of the server", hint);
    let headers = fields.get("headers").map(|cursor| headers(&cursor)).unwrap_or_default();
    Some(Reach::Http { is_sse, url: address(&url?, authorization)?, headers })
}

pub(super) fn headers(cursor: &Cursor<'_>) -> BTreeMap<String, String> {
    // What is wrong with their names is told there; here it is the values that must be plain.
    define::headers(cursor);
    cursor.map(|_, value| plain(value))
}

pub(super) fn address(cursor: &Cursor<'_>, authorization: &Authorization) -> Option<String> {
    let text = cursor.text()?;
    cursor.fits(server::ADDRESS_PATTERN);
    check_places(cursor, text, authorization);
    // With something in each place it must be an address; the host is the entry's own.
    let filled = fill(text, |_| Some("x".to_owned()));
    let has_open_host = text.split('/').nth(2).is_some_and(|host| host.contains("${"));
    if has_open_host {
        cursor.problem("expected an address whose host is fixed, got one that a variable fills", None);
        return None;
    }
    if let Err(error) = filled.parse::<Endpoint>() {
        let got = if text.contains(['@', '?']) { "something else".to_owned() } else { cursor.describe() };
        cursor.problem(format!("{error}, got {got}"), None);
        return None;
    }
    Some(text.to_owned())
}

/// What stands in places must be a variable that everyone may see.
fn check_places(cursor: &Cursor<'_>, text: &str, authorization: &Authorization) {
    fill(text, |name| {
        match authorization.variable(name) {
            None => {
                let hint = "name it under `authorization.variables`".to_owned();
                cursor.problem(
                    format!("expected a variable of this entry, got `${{{}}}`", crate::problem::masked(name)),
                    Some(hint),
                );
            }
            Some(variable) if variable.secret => {
                let hint = "a program gets it in its environment, a server over HTTP in a `header`".to_owned();
                cursor.problem(
                    format!("expected no secret here, got `${{{name}}}`, which everyone could see"),
                    Some(hint),
                );
            }
            Some(_) => {}
        }
        None
    });
}

/// The text with what `value` says in each place `${NAME}`; where it says nothing, the place stays as it is.
pub(super) fn fill(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let name = after.split_once('}').map(|(name, _)| name).filter(|name| crate::secret::is_variable(name));
        match name.and_then(|name| Some((name, value(name)?))) {
            Some((name, value)) => {
                out.push_str(&value);
                rest = &after[name.len() + 1..];
            }
            None => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
