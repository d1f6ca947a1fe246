//! The text of one settings file: the servers in it, and our own entry put in and taken out. Whatever is changed is read
//! again and compared, so that nothing but our entry can be different.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::OURS;
use super::jsonc::Json;
use super::splice::{Splice, Splices};
use super::table::{Client, Format, Source, Transports};
use super::toml::Toml;
use crate::kind::DefinitionKind;
use crate::objects::objects_of_text;
use crate::placeholder::{Piece, pieces};
use crate::private::is_secret_name;
use crate::problem::{Position, masked};

/// What some editors put in front of a file.
const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// Why a file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read, or says something that we cannot add to.
    #[error("{}:{}: {message}", at.line, at.column)]
    Wrong { at: Position, message: String },
    /// What we would write is not what we meant.
    #[error("its format cannot be edited safely")]
    Unsure,
    /// A server that was taken out is there again with other words.
    #[error("the removed server `{}` exists again with different content", masked(key))]
    Conflict { key: String },
    /// This client or this file is only read.
    #[error("servers are only read from this file")]
    ReadOnly,
}

/// A server in a client's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientServer {
    /// What the client calls it.
    pub key: String,
    /// What it says of it.
    pub entry: Value,
    /// Where in the file, such as `projects./work.mcpServers`.
    pub path: String,
}

/// What connecting leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectOutcome {
    /// Our entry says already what it should.
    Already,
    /// The text with our entry, and how to get back to the text without it.
    New {
        text: String,
        /// From the text without our entry to the text with it.
        splices: Splices,
        /// Whether the map of servers is new.
        made_container: bool,
        /// Whether an entry of our name was there that said something else.
        replaces: bool,
    },
}

// === impl SettingsError ===

impl SettingsError {
    pub(super) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self::Wrong { at: Position { line: number(line), column: number(column) }, message: message.into() }
    }
}

/// What a client asks its person for, once for all of its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub id: String,
    pub description: Option<String>,
    pub is_secret: bool,
    pub default: Option<String>,
}

/// The questions of a text that its servers refer to; those that it does not describe as well.
pub fn inputs(client: &Client, text: &str, found: &[ClientServer]) -> Vec<Input> {
    let value = value_of(client.format, body(text).1).unwrap_or_default();
    let described = value.get("inputs").or_else(|| value.pointer("/mcp/inputs"));
    let described: Vec<&Value> = described.and_then(Value::as_array).into_iter().flatten().collect();
    let mut inputs: Vec<Input> = Vec::new();
    for id in found.iter().flat_map(|found| ids_in(&found.entry)) {
        if inputs.iter().any(|input| input.id == id) {
            continue;
        }
        let of = described.iter().find(|input| input["id"] == id.as_str());
        let text = |key: &str| of.and_then(|of| of.get(key)?.as_str()).map(str::to_owned);
        // Without a description it may be anything.
        let is_secret = of.is_none_or(|of| of["password"] == true) || is_secret_name(&id);
        inputs.push(Input { description: text("description"), default: text("default"), is_secret, id });
    }
    inputs
}

/// The names in `${input:…}` of all texts of a value.
fn ids_in(value: &Value) -> Vec<String> {
    let pieces = pieces_in(value).into_iter();
    pieces.filter_map(|piece| if let Piece::Input(id) = piece { Some(id) } else { None }).collect()
}

/// The pieces of all texts of a value.
pub(super) fn pieces_in(value: &Value) -> Vec<Piece> {
    match value {
        Value::String(text) => pieces(text, false),
        Value::Array(items) => items.iter().flat_map(pieces_in).collect(),
        Value::Object(members) => members.values().flat_map(pieces_in).collect(),
        _ => Vec::new(),
    }
}

/// The servers of a text, in its order. An entry that is no object is left out.
pub fn find(client: &Client, source: &Source, text: &str) -> Result<Vec<ClientServer>, SettingsError> {
    if client.format == Format::YamlFolder {
        return of_cluster(text);
    }
    let value = value_of(client.format, body(text).1)?;
    let mut found = Vec::new();
    for way in source.servers {
        walk(&value, way, "", &mut found);
    }
    Ok(found)
}

/// The servers among the objects of a text.
fn of_cluster(text: &str) -> Result<Vec<ClientServer>, SettingsError> {
    let objects = objects_of_text(text, Path::new(""), None, None);
    if let Some(wrong) = objects.problems.into_iter().next() {
        let at = wrong.problem.at.unwrap_or(Position::START);
        return Err(SettingsError::Wrong { at, message: wrong.problem.message });
    }
    let servers = objects.objects.into_iter().filter(|object| object.kind == DefinitionKind::Server);
    Ok(servers.map(|it| ClientServer { key: it.name, entry: Value::Object(it.value), path: String::new() }).collect())
}

fn walk(value: &Value, way: &[&str], path: &str, found: &mut Vec<ClientServer>) {
    let Some(members) = value.as_object() else { return };
    let Some((step, rest)) = way.split_first() else {
        let servers = members.iter().filter(|(_, entry)| entry.is_object());
        found.extend(servers.map(|(key, entry)| ClientServer {
            key: key.clone(),
            entry: flat(entry),
            path: path.to_owned(),
        }));
        return;
    };
    for (key, member) in members.iter().filter(|(key, _)| *step == "*" || key == step) {
        let dot = if path.is_empty() { "" } else { "." };
        walk(member, rest, &format!("{path}{dot}{key}"), found);
    }
}

/// An entry whose command is an object (`path`, `args`, `env`), as Zed had it, in the form of the others.
fn flat(entry: &Value) -> Value {
    let mut flat = entry.clone();
    if let (Some(members), Some(command)) = (flat.as_object_mut(), entry.get("command").and_then(Value::as_object)) {
        members.shift_remove("command");
        for (theirs, ours) in [("path", "command"), ("args", "args"), ("env", "env")] {
            members.extend(command.get(theirs).map(|value| (ours.to_owned(), value.clone())));
        }
    }
    flat
}

/// How a client reaches us: the address, or for those that only start programs the command with its arguments.
pub fn entry(client: &Client, url: &str, command: &str, args: &[String], prefer_stdio: bool) -> Option<Value> {
    match client.transports {
        Transports::ImportOnly => None,
        Transports::Http { url: key, kind, .. } if !prefer_stdio => {
            let mut entry = Map::new();
            entry.extend(kind.map(|kind| ("type".to_owned(), Value::from(kind))));
            entry.insert(key.to_owned(), Value::from(url));
            Some(Value::Object(entry))
        }
        Transports::Http { stdio_kind: Some(kind), .. } => {
            Some(json!({ "type": kind, "command": command, "args": args }))
        }
        Transports::Http { .. } | Transports::StdioOnly => Some(json!({ "command": command, "args": args })),
    }
}

/// How our entry is taken back out of a text.
#[derive(Debug, Clone, Copy)]
pub struct EntryUndo<'a> {
    /// From the text without us to the text with us.
    pub splices: &'a Splices,
    /// Whether the map of servers came with us.
    pub made_container: bool,
}

/// Puts our entry into a text. `undo` is what an earlier [`ConnectOutcome::New`] gave for this file.
pub fn connect(
    client: &Client,
    source: &Source,
    text: &str,
    entry: &Value,
    undo: Option<EntryUndo<'_>>,
) -> Result<ConnectOutcome, SettingsError> {
    let container = container(source)?;
    let ours = our_entry(client, container, text)?;
    if ours.as_ref().is_some_and(|ours| says(ours, entry)) {
        return Ok(ConnectOutcome::Already);
    }
    let base = disconnect(client, source, text, undo)?.unwrap_or_else(|| text.to_owned());
    let (mark, without) = body(&base);
    let before = value_of(client.format, without)?;
    let made_container = before.get(container).is_none();
    let splices = put_in(client.format, without, container, OURS, entry)?;
    let splices = shifted(&splices, mark.len());
    let text = splices.apply(&base).ok_or(SettingsError::Unsure)?;
    let mut expected = before;
    put(&mut expected, container, entry);
    if !value_of(client.format, body(&text).1).is_ok_and(|after| same(&after, &expected)) {
        return Err(SettingsError::Unsure);
    }
    Ok(ConnectOutcome::New { text, splices, made_container, replaces: ours.is_some() })
}

/// Takes our entry out of a text; `None` when it is not there. With `undo`, and as long as what we wrote is still there
/// as we wrote it, the bytes are those from before; otherwise the entry is cut out and what is around it tidied.
pub fn disconnect(
    client: &Client,
    source: &Source,
    text: &str,
    undo: Option<EntryUndo<'_>>,
) -> Result<Option<String>, SettingsError> {
    let container = container(source)?;
    if our_entry(client, container, text)?.is_none() {
        return Ok(None);
    }
    let (mark, inner) = body(text);
    let mut expected = value_of(client.format, inner)?;
    let is_empty = take(&mut expected, container);
    let made_container = undo.is_some_and(|undo| undo.made_container);
    let without_container = made_container && is_empty;
    let fits = |text: &String| {
        let after = value_of(client.format, body(text).1);
        let mut bare = expected.clone();
        if let Some(members) = bare.as_object_mut().filter(|_| without_container) {
            members.shift_remove(container);
        }
        // A document that held nothing but us may be no document at all.
        after.is_ok_and(|after| same(&after, &bare) || (after.is_null() && bare.as_object().is_some_and(Map::is_empty)))
    };
    if let Some(undo) = undo {
        let inverse = undo.splices.inverse();
        let back = inverse.apply(text).or_else(|| inverse.moved(text)?.apply(text)).filter(fits);
        if back.is_some() {
            return Ok(back);
        }
    }
    let cut = match client.format {
        Format::Json => Json::parse(inner)?.remove(container, OURS, without_container)?,
        Format::Toml => Toml::parse(inner)?.remove(container, OURS)?,
        Format::YamlFolder => None,
    };
    let cut = cut.ok_or(SettingsError::Unsure)?;
    let back = shifted(&cut, mark.len()).apply(text).ok_or(SettingsError::Unsure)?;
    let is_right = fits(&back) || {
        // In TOML a map of servers is there as long as one of them is.
        let after = value_of(client.format, body(&back).1)?;
        let mut bare = expected.clone();
        if let Some(members) = bare.as_object_mut().filter(|_| is_empty && client.format == Format::Toml) {
            members.shift_remove(container);
        }
        same(&after, &bare)
    };
    if is_right { Ok(Some(back)) } else { Err(SettingsError::Unsure) }
}

/// What a text says of a server, in the map of servers that we write to.
pub fn find_entry(client: &Client, text: &str, key: &str) -> Option<Value> {
    let source = client.sources.iter().find(|source| source.is_written)?;
    let value = value_of(client.format, body(text).1).ok()?;
    value.get(container(source).ok()?)?.get(key).cloned()
}

/// Whether a text has an entry of our name.
pub fn is_connected(client: &Client, source: &Source, text: &str) -> Result<bool, SettingsError> {
    Ok(our_entry(client, container(source)?, text)?.is_some())
}

fn our_entry(client: &Client, container: &str, text: &str) -> Result<Option<Value>, SettingsError> {
    let value = value_of(client.format, body(text).1)?;
    Ok(value.get(container).and_then(|servers| servers.get(OURS)).cloned())
}

/// Puts a server into the map of servers.
pub(super) fn put_in(
    format: Format,
    text: &str,
    container: &str,
    name: &str,
    entry: &Value,
) -> Result<Splices, SettingsError> {
    match format {
        Format::Json => Json::parse(text)?.insert(container, name, entry),
        Format::Toml => Toml::parse(text)?.insert(container, name, entry),
        Format::YamlFolder => Err(SettingsError::ReadOnly),
    }
}

/// Cuts a server out of the map of servers, which stays; `None` when it is not there.
pub(super) fn cut(format: Format, text: &str, container: &str, name: &str) -> Result<Option<Splices>, SettingsError> {
    match format {
        Format::Json => Json::parse(text)?.remove(container, name, false),
        Format::Toml => Toml::parse(text)?.remove(container, name),
        Format::YamlFolder => Err(SettingsError::ReadOnly),
    }
}

pub(super) fn container(source: &Source) -> Result<&'static str, SettingsError> {
    match source.servers.first() {
        Some([container]) if source.is_written => Ok(container),
        _ => Err(SettingsError::ReadOnly),
    }
}

pub(super) fn value_of(format: Format, text: &str) -> Result<Value, SettingsError> {
    match format {
        Format::Json => Ok(Json::parse(text)?.value()),
        Format::Toml => Ok(Toml::parse(text)?.value()),
        Format::YamlFolder => Err(SettingsError::ReadOnly),
    }
}

/// The byte order mark, and the rest.
pub(super) fn body(text: &str) -> (&str, &str) {
    let mark = text.strip_prefix(BYTE_ORDER_MARK).map_or(0, |rest| text.len() - rest.len());
    text.split_at(mark)
}

pub(super) fn shifted(splices: &Splices, by: usize) -> Splices {
    Splices::new(splices.as_slice().iter().map(|splice| Splice { at: splice.at + by, ..splice.clone() }).collect())
}

/// Whether an entry says what ours should; a person may have added keys, such as one that switches it off.
fn says(entry: &Value, wanted: &Value) -> bool {
    let wanted = wanted.as_object();
    wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| entry.get(key) == Some(value)))
}

fn put(value: &mut Value, container: &str, entry: &Value) {
    if value.is_null() {
        *value = json!({});
    }
    if let Some(members) = value.as_object_mut() {
        let servers = members.entry(container).or_insert_with(|| json!({}));
        if let Some(servers) = servers.as_object_mut() {
            servers.insert(OURS.to_owned(), entry.clone());
        }
    }
}

/// Takes our entry out; whether the map of servers is empty then.
fn take(value: &mut Value, container: &str) -> bool {
    let servers = value.get_mut(container).and_then(Value::as_object_mut);
    servers.is_some_and(|servers| {
        servers.shift_remove(OURS);
        servers.is_empty()
    })
}

/// Equal also in the order of members, except for ours.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = |members: &Map<String, Value>| -> Vec<String> {
                members.keys().filter(|key| *key != OURS).cloned().collect()
            };
            keys(left) == keys(right)
                && left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (left, right) => left == right,
    }
}
