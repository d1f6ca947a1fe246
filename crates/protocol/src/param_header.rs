//! `x-mcp-header`: arguments of a tool that are mirrored into `Mcp-Param-*` headers (2026-07-28, SEP-2243).
//!
//! Source: the specification, Streamable HTTP, "Custom Headers from Tool Parameters". An annotation is good on a
//! property of type string, integer or boolean that is reached from the schema's root through `properties` alone; any
//! other makes the whole tool invalid. Values that are data (`default`, `const`, `enum`, `examples`) are no
//! annotations.

mod decimal;

use std::collections::HashSet;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{HEADER_MISMATCH, RpcError};
use crate::header;
use crate::json::{self, Member, Outline, Rules};
use crate::raw::Raw;
use decimal::Decimal;

/// The key of the annotation.
pub const ANNOTATION: &str = "x-mcp-header";
/// What the header's name begins with.
pub const PREFIX: &str = "Mcp-Param-";

/// How many headers one tool may ask for. HTTP libraries take about 100 in all.
const HEADERS: usize = 64;
/// How long the name of one may be.
const NAME: usize = 128;
/// The longest schema that is followed, in bytes: each level is read again. Only one that has the key is followed at
/// all.
const SCHEMA: usize = 256 * 1024;
/// How deep a schema is followed; what arrives over the network is bounded below this already.
const DEPTH: usize = 128;
/// How much of a name a reason shows, in characters.
const SHOWN: usize = 100;

/// Why the annotations of a tool are wrong; the tool must not be offered to clients that use HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`x-mcp-header` of `{property}` {reason}")]
pub struct Invalid {
    /// The property, its parents before it with dots between; the schema's root is the empty text.
    pub property: String,
    /// What is wrong.
    pub reason: &'static str,
}

/// One mirrored argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    name: HeaderName,
    /// The name as the server wrote it, for errors.
    shown: String,
    /// The names of the properties, outermost first.
    path: Vec<String>,
}

impl ParamHeader {
    /// The header's name, `mcp-param-…` in lower case.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    /// Where the value is in the arguments, outermost property first.
    pub fn path(&self) -> &[String] {
        &self.path
    }
}

/// The mirrored arguments of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParamHeaders(Vec<ParamHeader>);

impl ParamHeaders {
    /// Reads the annotations of an `inputSchema`.
    pub fn read(input_schema: &Raw) -> Result<Self, Invalid> {
        let mut reading = Reading { found: Vec::new(), names: HashSet::new(), path: Vec::new() };
        if may_annotate(input_schema.as_str()) {
            if input_schema.bytes().len() > SCHEMA {
                return Err(reading.invalid("stands in a schema that is too large"));
            }
            reading.schema(input_schema.as_str())?;
        }
        Ok(Self(reading.found))
    }

    /// Whether nothing is mirrored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mirrored arguments.
    pub fn iter(&self) -> impl Iterator<Item = &ParamHeader> {
        self.0.iter()
    }

    /// The headers of a call that we send with these `arguments`. Absent and `null` values have none, nor have values
    /// that no header can mirror: the server refuses these by its schema.
    pub fn mirror(&self, arguments: &Raw) -> Vec<(HeaderName, HeaderValue)> {
        let value = |header: &ParamHeader| match Value::at(arguments, &header.path) {
            Value::Absent | Value::Other => None,
            Value::Text(text) => Some(header::encode_value(&text)),
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(number) => Some(Decimal::parse(&number).and_then(|n| n.to_integer()).unwrap_or(number)),
        };
        let headers = self.0.iter().filter_map(|header| {
            let value = HeaderValue::from_str(&value(header)?).ok()?;
            Some((header.name.clone(), value))
        });
        headers.collect()
    }

    /// Checks the headers of a call that we get against its `arguments`.
    ///
    /// Errors carry [`HEADER_MISMATCH`], HTTP status 400. Headers that the schema does not name are ignored.
    pub fn check(&self, headers: &HeaderMap, arguments: &Raw) -> Result<(), RpcError> {
        self.0.iter().try_for_each(|header| header.check(headers, arguments))
    }
}

impl ParamHeader {
    fn check(&self, headers: &HeaderMap, arguments: &Raw) -> Result<(), RpcError> {
        let shown = &self.shown;
        let wrong = |reason: String| RpcError::new(HEADER_MISMATCH, format!("the header `{PREFIX}{shown}` {reason}"));
        let argument = self.path.join(".");
        // The errors of these two do not name the header in the server's spelling.
        let given =
            header::single(headers, self.name.as_str()).map_err(|error| wrong(format!("is bad: {}", error.message)))?;
        let given =
            given.map(header::decode_value).transpose().map_err(|error| wrong(format!("is bad: {}", error.message)))?;
        let fits = match (Value::at(arguments, &self.path), given) {
            // A list or an object has no header; the schema refuses it where it is validated.
            (Value::Absent, None) => true,
            (Value::Other, None) => !is_text_at(arguments, &self.path),
            (Value::Absent, Some(_)) => {
                return Err(wrong(format!("is given, but the argument `{argument}` is not")));
            }
            (_, None) => return Err(wrong(format!("is missing; it must mirror the argument `{argument}`"))),
            (Value::Other, Some(_)) => false,
            (Value::Text(text), Some(given)) => text == given,
            (Value::Bool(value), Some(given)) => given == if value { "true" } else { "false" },
            (Value::Number(number), Some(given)) => {
                number == given || Decimal::parse(&number).is_some_and(|number| Decimal::parse(&given) == Some(number))
            }
        };
        if fits { Ok(()) } else { Err(wrong(format!("must mirror the argument `{argument}`"))) }
    }
}

/// The argument that a header mirrors.
enum Value {
    /// Not there, or `null`.
    Absent,
    Text(String),
    Bool(bool),
    /// As it was written.
    Number(String),
    /// An object, an array or a text with half a surrogate pair.
    Other,
}

impl Value {
    fn at(arguments: &Raw, path: &[String]) -> Self {
        let Some(value) = raw_at(arguments, path) else { return Value::Absent };
        match value.as_str() {
            "null" => Value::Absent,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text if text.starts_with('"') => {
                json::text(text).map_or(Value::Other, |text| Value::Text(text.into_owned()))
            }
            text if text.starts_with(['{', '[']) => Value::Other,
            number => Value::Number(number.to_owned()),
        }
    }
}

fn raw_at(arguments: &Raw, path: &[String]) -> Option<Raw> {
    path.iter().try_fold(arguments.clone(), |value, key| value.get(key))
}

fn is_text_at(arguments: &Raw, path: &[String]) -> bool {
    raw_at(arguments, path).is_some_and(|value| value.as_str().starts_with('"'))
}

/// Whether the annotation's key can stand somewhere in this text, as it is or with escapes.
fn may_annotate(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Escapes of other characters are common: some writers escape all that is not ASCII, others `<`, `>` and `&`.
    let spells = |at: usize| {
        let digits = bytes.get(at + 4..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| ANNOTATION.as_bytes().contains(&byte))
    };
    memchr::memmem::find(bytes, ANNOTATION.as_bytes()).is_some()
        || memchr::memmem::find_iter(bytes, b"\\u00").any(spells)
}

/// A walk through a schema.
struct Reading {
    found: Vec<ParamHeader>,
    /// In lower case.
    names: HashSet<String>,
    /// The properties from the root to here.
    path: Vec<String>,
}

impl Reading {
    fn invalid(&self, reason: &'static str) -> Invalid {
        Invalid { property: self.path.join(".").chars().take(SHOWN).collect(), reason }
    }

    /// A schema that is reached through `properties` alone.
    fn schema(&mut self, text: &str) -> Result<(), Invalid> {
        if self.path.len() > DEPTH {
            return Err(self.invalid("cannot be read: the schema is nested too deep"));
        }
        let Some(members) = json::object(text) else { return Ok(()) };
        self.annotation(&members)?;
        for member in &members {
            match &*member.key {
                ANNOTATION | "default" | "const" | "enum" | "examples" => {}
                "properties" => self.properties(member.value, &members)?,
                key if hides(member.value, maps_names(key), 0) => {
                    return Err(self.invalid("stands below something else than `properties`"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn properties(&mut self, text: &str, around: &[Member<'_>]) -> Result<(), Invalid> {
        if !may_annotate(text) {
            return Ok(());
        }
        // Readers disagree about which of two counts, and a header must not depend on it.
        if count(around, "properties") > 1 {
            return Err(self.invalid("is ambiguous: `properties` stands twice"));
        }
        let properties = json::object(text).unwrap_or_default();
        for property in &properties {
            if may_annotate(property.value) {
                self.path.push(property.key.clone().into_owned());
                if count(&properties, &property.key) > 1 {
                    return Err(self.invalid("is ambiguous: the property stands twice"));
                }
                self.schema(property.value)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    /// The annotation of the schema at `self.path`, if it has one.
    fn annotation(&mut self, members: &[Member<'_>]) -> Result<(), Invalid> {
        let Some(value) = json::find(members, ANNOTATION) else { return Ok(()) };
        if self.path.is_empty() {
            return Err(self.invalid("stands at the root of the schema"));
        }
        if count(members, ANNOTATION) > 1 || count(members, "type") > 1 {
            return Err(self.invalid("is ambiguous: a keyword stands twice"));
        }
        let Some(name) = json::text(value) else { return Err(self.invalid("is not a text")) };
        if name.is_empty() {
            return Err(self.invalid("is empty"));
        }
        if name.len() > NAME {
            return Err(self.invalid("is too long"));
        }
        if !name.bytes().all(is_token) {
            return Err(self.invalid("has characters that no header name may have"));
        }
        let kind = json::find(members, "type").and_then(json::text);
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(self.invalid("needs the type `string`, `integer` or `boolean`"));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(self.invalid("has a name that another property has too"));
        }
        if self.found.len() == HEADERS {
            return Err(self.invalid("is one too many"));
        }
        let header = HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes());
        let header = header.map_err(|_| self.invalid("has characters that no header name may have"))?;
        self.found.push(ParamHeader { name: header, shown: name.into_owned(), path: self.path.clone() });
        Ok(())
    }
}

/// Whether the values of this keyword map names to schemas, so that a key in it is a name and not a keyword.
fn maps_names(keyword: &str) -> bool {
    matches!(keyword, "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas")
}

/// Whether an annotation stands anywhere in `text`. `names`: the keys of `text` itself are names.
fn hides(text: &str, names: bool, depth: usize) -> bool {
    if !may_annotate(text) {
        return false;
    }
    if depth > DEPTH {
        return true;
    }
    match json::scan_text(text, Rules::checked()) {
        Ok(Outline::Object(members)) => members.iter().any(|member| match &*member.key {
            _ if names => hides(member.value, false, depth + 1),
            ANNOTATION => true,
            "default" | "const" | "enum" | "examples" => false,
            key => hides(member.value, maps_names(key), depth + 1),
        }),
        Ok(Outline::Array(items)) => items.into_iter().any(|item| hides(item, false, depth + 1)),
        Ok(Outline::Scalar(_)) | Err(_) => false,
    }
}

fn count(members: &[Member<'_>], key: &str) -> usize {
    json::values(members, key).count()
}

/// A character of a token, RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
