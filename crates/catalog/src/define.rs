//! What all kinds of definition share: how a file is read, its name, and the keys that mean the same in several kinds.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};
use toolcrib_base::{Glob, IdError};

use crate::kind::DefinitionKind;
use crate::object_name::{self, ObjectName};
use crate::problem::{DefinitionProblem, Findings, Sink, masked, shown};
use crate::reader::{Cursor, Fields};
use crate::secret::{SecretRef, is_variable};
use crate::yaml;

/// What the file of one kind says, and its reader. What else belongs to a kind stands in the table of `kind.rs`.
pub(crate) trait Definition: Sized + PartialEq {
    const KIND: DefinitionKind;
    type Name: Ord + Clone + fmt::Debug + fmt::Display;

    /// Reads the file `stem.yaml`. Whatever is wrong goes to the cursor's sink; a value beside problems is thrown away.
    fn read(stem: &str, root: Cursor<'_>) -> Option<Self>;

    fn name(&self) -> &Self::Name;
}

/// A value or what is wrong with the text. `file` is named in the problems, and its stem must be the definition's name.
pub(crate) fn read<D: Definition>(file: &Path, stem: &str, text: &str) -> Result<D, Vec<DefinitionProblem>> {
    let (definition, findings) = read_all(file, stem, text);
    definition.ok_or(findings.problems)
}

/// A value and what there is to say of the text. There is no value exactly when there are problems.
pub(crate) fn read_all<D: Definition>(file: &Path, stem: &str, text: &str) -> (Option<D>, Findings) {
    read_into(Sink::new(file), stem, text, D::read)
}

/// The same with any reader and sink, such as one that also looks at what is not needed for loading.
pub(crate) fn read_into<T>(
    sink: Sink,
    stem: &str,
    text: &str,
    read: impl FnOnce(&str, Cursor<'_>) -> Option<T>,
) -> (Option<T>, Findings) {
    let file = sink.file().to_owned();
    let text = if file.extension().is_some_and(|extension| extension == "json") { json(text) } else { text.into() };
    let definition = yaml::parse_into(&text, &sink).and_then(|root| read(stem, Cursor::root(&root, &sink)));
    let mut findings = sink.findings();
    match definition {
        Some(definition) if findings.problems.is_empty() => return (Some(definition), findings),
        _ if findings.problems.is_empty() => {
            findings.problems.push(DefinitionProblem::of_file(&file, "expected a definition"));
        }
        _ => {}
    }
    (None, findings)
}

/// JSON is YAML but for one thing: a character beyond the first 65,536 may be written as two escapes.
fn json(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") && !text.contains("\\U") {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = |at: usize| {
            let digits = rest.get(at..at + 6)?.strip_prefix("\\u")?;
            u32::from_str_radix(digits, 16).ok()
        };
        let pair = unit(0).filter(|high| (0xD800..0xDC00).contains(high)).zip(unit(6));
        if let Some((high, low)) = pair.filter(|(_, low)| (0xDC00..0xE000).contains(low)) {
            out.push_str(&format!("\\U{:08X}", 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)));
            rest = &rest[12..];
            continue;
        }
        // The backslash and what it escapes, which may be another backslash.
        let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out.into()
}

/// A value that is kept for later work: its JSON text. Not printed, as it may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct OpaqueValue(String);

impl OpaqueValue {
    pub(crate) fn of_json(text: String) -> Self {
        Self(text)
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OpaqueValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The key `name`: a name, and the stem of the file.
pub(crate) fn name<N>(fields: &Fields<'_>, stem: &str, new: impl FnOnce(&str) -> Result<N, IdError>) -> Option<N> {
    let cursor = fields.require("name", "the definition's name", format!("add `name: {}`", shown(stem)))?;
    let text = cursor.text()?;
    cursor.is_name();
    let name = new(text).map_err(|_| {
        let hint = "expected at most 64 characters of a-z, 0-9 and `-`, not starting with `-`";
        cursor.problem(format!("expected a name, got {}", cursor.describe()), Some(hint.to_owned()));
    });
    if name.is_ok() && text != stem {
        let (stem, text) = (shown(stem), masked(text));
        let message = format!("expected the file's stem `{stem}`, got `{text}`");
        cursor.problem(message, Some(format!("rename the file to `{text}.yaml` or write `name: {stem}`")));
    }
    name.ok()
}

/// The key `name` of a service class or a service: a name, and the stem of the file.
pub(crate) fn object_name(fields: &Fields<'_>, stem: &str) -> Option<ObjectName> {
    let cursor = fields.require("name", "the definition's name", format!("add `name: {}`", shown(stem)))?;
    cursor.is_name_like(object_name::PATTERN);
    named_as_file(&cursor, stem)
}

fn named_as_file(cursor: &Cursor<'_>, stem: &str) -> Option<ObjectName> {
    let name = an_object_name(cursor)?;
    if name.as_str() != stem {
        let (stem, name) = (shown(stem), masked(name.as_str()));
        let message = format!("expected the file's stem `{stem}`, got `{name}`");
        cursor.problem(message, Some(format!("rename the file to `{name}.yaml` or write `name: {stem}`")));
    }
    Some(name)
}

/// The name of a service class or a service, of whichever.
pub(crate) fn an_object_name(cursor: &Cursor<'_>) -> Option<ObjectName> {
    let text = cursor.text()?;
    cursor.fits(object_name::PATTERN);
    let name = ObjectName::new(text);
    if name.is_err() {
        let hint = "a name has at most 63 characters of A-Z, a-z, 0-9, `_`, `.` and `-`, the first a letter or a digit";
        cursor.problem(format!("expected a name, got {}", cursor.describe()), Some(hint.to_owned()));
    }
    name.ok()
}

/// What a file says, in whichever of its two forms.
pub(crate) struct Body<'a> {
    /// `None` where it has none that fits, which is reported already.
    pub(crate) name: Option<ObjectName>,
    /// Everything but the name and, in the form of Kubernetes, the labels.
    pub(crate) fields: Fields<'a>,
    /// The labels of the form of Kubernetes; those of the plain form are a key like any other.
    pub(crate) labels: Option<Cursor<'a>>,
}

/// The body of an object named as its file: plain, or in the form of Kubernetes objects with the name in `metadata` and the
/// rest in `spec`.
pub(crate) fn body<'a>(root: Cursor<'a>, stem: &str, kind: &str) -> Option<Body<'a>> {
    let fields = root.fields()?;
    if fields.has("apiVersion") {
        return of_kubernetes(fields, stem, kind);
    }
    Some(Body { name: object_name(&fields, stem), fields, labels: None })
}

/// What the cluster writes is left alone.
fn of_kubernetes<'a>(fields: Fields<'a>, stem: &str, kind: &str) -> Option<Body<'a>> {
    fields.get_unlisted("apiVersion");
    fields.get_unlisted("status");
    if let Some(found) = fields.get_unlisted("kind")
        && found.node().as_text().is_none_or(|text| **text != *kind)
    {
        found.expected(format_args!("`{kind}`"));
    }
    let hint = "add `metadata:` with `name:` in it".to_owned();
    let metadata = fields.require("metadata", "what it is called", hint).and_then(Cursor::fields);
    let name = metadata.as_ref().and_then(|metadata| {
        let cursor = metadata.require("name", "the definition's name", format!("add `name: {}`", shown(stem)))?;
        named_as_file(&cursor, stem)
    });
    let labels = metadata.and_then(|metadata| metadata.get_unlisted("labels"));
    let spec = fields.require("spec", "what it is", "add `spec:`".to_owned());
    fields.finish();
    Some(Body { name, fields: spec?.fields()?, labels })
}

/// What a file says, with its name first, wherever the file says it.
pub(crate) fn named_first(name: &ObjectName, spec: Value) -> Map<String, Value> {
    let mut named = Map::new();
    named.insert("name".to_owned(), name.as_str().into());
    if let Value::Object(spec) = spec {
        named.extend(spec.into_iter().filter(|(key, _)| key != "name"));
    }
    named
}

/// `env`: variables and where their values come from.
pub(crate) fn environment(cursor: &Cursor<'_>) -> BTreeMap<String, SecretRef> {
    cursor.map(|key, value| {
        if !is_variable(key) {
            value.problem("expected a variable's name of A-Z, a-z, 0-9 and `_`, the first not a digit", None);
        }
        let secret = secret(value)?;
        if let SecretRef::User(_) = secret {
            let hint = "write `vault:NAME`; `user:NAME` is for `headers` of a server with a URL".to_owned();
            value.problem("expected one value for all callers: a program runs with one environment", Some(hint));
        }
        Some(secret)
    })
}

/// Headers that the protocol sets itself.
pub(crate) const PROTOCOL_HEADERS: [&str; 8] =
    ["accept", "connection", "content-length", "content-type", "host", "last-event-id", "te", "transfer-encoding"];

/// `headers`: their names are one whatever their letter case, and those of the protocol are not the file's to set.
pub(crate) fn headers(cursor: &Cursor<'_>) -> BTreeMap<String, SecretRef> {
    let mut seen = HashMap::new();
    cursor.map(|key, value| {
        let Ok(name) = http::HeaderName::from_bytes(key.as_bytes()) else {
            value.problem("expected a header's name such as `X-Key`", None);
            return None;
        };
        if is_of_the_protocol(&name) {
            let hint = "remove it: the protocol sets this header".to_owned();
            value.problem("expected a header that is the server's own, got one of the protocol", Some(hint));
        }
        if let Some(earlier) = seen.insert(name, key) {
            value.problem(format!("expected each header once, got it again (first as `{earlier}`)"), None);
        }
        let secret = secret(value)?;
        if let SecretRef::Literal(text) = &secret
            && http::HeaderValue::from_str(text.expose()).is_err()
        {
            value.problem("expected a header's value in one line", None);
        }
        Some(secret)
    })
}

/// What is wrong with a header that a file wants to set.
pub(crate) fn header_fault(name: &str) -> Option<&'static str> {
    match http::HeaderName::from_bytes(name.as_bytes()) {
        Err(_) => Some("expected a header's name such as `X-Key`"),
        Ok(name) if is_of_the_protocol(&name) => {
            Some("expected a header that is the server's own, got one of the protocol")
        }
        Ok(_) => None,
    }
}

fn is_of_the_protocol(name: &http::HeaderName) -> bool {
    PROTOCOL_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("mcp-")
}

/// What a file says here is never repeated: it may be a secret.
pub(crate) fn secret(value: &Cursor<'_>) -> Option<SecretRef> {
    let Some(text) = value.text_or_nothing() else {
        value.problem("expected a text or a reference such as `env:API_KEY`", None);
        return None;
    };
    if text.contains('\0') {
        value.problem("expected a text without NUL characters", None);
        return None;
    }
    text.parse().map_err(|error: crate::SecretRefError| value.problem(error.to_string(), None)).ok()
}

/// What patterns are matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GlobTarget {
    /// Names of servers, and of entries that could become servers.
    Servers,
    /// `server/tool`.
    Tools,
}

/// A list of patterns; `default` when the key is absent. A pattern that can never match is a mistake, and in a list of
/// what to deny a dangerous one.
pub(crate) fn globs(cursor: Option<Cursor<'_>>, over: GlobTarget, default: &[&str]) -> Vec<Glob> {
    let Some(cursor) = cursor else {
        return default.iter().filter_map(|pattern| Glob::new(pattern).ok()).collect();
    };
    cursor.list(|item| {
        let text = item.text()?;
        let glob = match Glob::new(text) {
            Ok(glob) => glob,
            Err(error) => {
                let message = format!("expected a pattern, got {}: {error}", item.describe());
                item.problem(message, Some("write one pattern for each alternative".to_owned()));
                return None;
            }
        };
        if let Some(hint) = never_matches(text, over) {
            let what = if over == GlobTarget::Tools { "`server/tool`" } else { "the name of a server" };
            let message = format!("expected a pattern that can match {what}, got {}", item.describe());
            item.problem(message, Some(hint));
        }
        Some(glob)
    })
}

/// The hint for a pattern that matches nothing that can exist.
fn never_matches(pattern: &str, over: GlobTarget) -> Option<String> {
    let in_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    match over {
        GlobTarget::Servers => pattern
            .bytes()
            .any(|b| !in_name(b) && !matches!(b, b'*' | b'?'))
            .then(|| "names of servers are made of a-z, 0-9 and `-`; patterns for tools go into `tools`".to_owned()),
        GlobTarget::Tools => {
            let server = pattern.bytes().position(|b| matches!(b, b'*' | b'?' | b'/'));
            let fits = server.is_some_and(|end| pattern.bytes().take(end).all(in_name));
            (!fits).then(|| match server {
                None => format!("write `*/{pattern}` for this tool of any server, or `{pattern}/*` for a whole server"),
                Some(_) => format!("write `*/{pattern}`, or the name of the server in front"),
            })
        }
    }
}
