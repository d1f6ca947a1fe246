//! A JSON schema as a tree that people read: names, types, what is required, descriptions, bounds. References are
//! followed; where one leads back to itself the tree says so and ends.
//!
//! ```
//! use toolcrib_ui::schema::SchemaTree;
//!
//! let schema = serde_json::json!({"properties": {"path": {"type": "string", "description": "Where"}}});
//! let html = SchemaTree::of(&schema).to_string();
//! assert!(html.contains("path") && html.contains("Where"));
//! ```

use std::fmt::{self, Write};
use std::sync::Arc;

use askama::filters::HtmlSafe;
use serde_json::Value;

use crate::json::Json;
use crate::text::{Visible, clipped};

/// Bounds of a tree: its depth, and references that are followed for one line.
const MAX_DEPTH: usize = 16;
const MAX_HOPS: usize = 16;
/// Its lines, and the bytes of its HTML.
const WHOLE: Bounds = Bounds { lines: 1_000, html: 256 * 1024 };
/// The same of its beginning, so that an ordinary page stays small.
const BEGINNING: Bounds = Bounds { lines: 60, html: 10 * 1024 };
/// Levels that are open at first.
const OPEN_DEPTH: usize = 2;
/// Characters of a description, and of a value.
const MAX_DESCRIPTION: usize = 500;
const MAX_VALUE: usize = 80;
/// Choices that a line names.
const MAX_CHOICES: usize = 12;
/// Keywords whose value stands in the line as it is.
const FACTS: [(&str, &str); 14] = [
    ("const", "always"),
    ("default", "default"),
    ("format", "format"),
    ("pattern", "pattern"),
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("multipleOf", "multiple of"),
    ("minLength", "characters ≥"),
    ("maxLength", "characters ≤"),
    ("minItems", "items ≥"),
    ("maxItems", "items ≤"),
    ("deprecated", "deprecated"),
];

/// A schema. It displays as HTML: nested lists, of which the deeper ones are folded.
#[derive(Debug, Clone)]
pub struct SchemaTree {
    html: String,
    is_cut: bool,
}

/// How large a tree may become.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    lines: usize,
    html: usize,
}

/// Writes one tree.
struct TreeWriter<'a> {
    document: &'a Json,
    bounds: Bounds,
    out: String,
    lines: usize,
    is_cut: bool,
}

/// What a line is called.
enum Name<'a> {
    Property(&'a str, bool),
    /// A part that has no name of its own, such as `each item`.
    Part(String),
}

// === impl SchemaTree ===

impl SchemaTree {
    /// The tree of a schema. Use [`SchemaTree::parse`] where its text is at hand: a [`Value`] has lost the digits of
    /// numbers beyond 64 bits.
    pub fn of(schema: &Value) -> Self {
        Self::from(Json::of(schema))
    }

    /// The tree of a schema's text.
    ///
    /// # Errors
    /// Where the text stops being JSON.
    pub fn parse(schema: &str) -> Result<Self, crate::json::JsonError> {
        Ok(Self::from(Json::parse(schema)?))
    }

    /// The beginning of the tree of a schema.
    pub fn beginning(schema: &Json) -> Self {
        // Where it ends is said beside it, with the way to all of it.
        Self { is_cut: false, ..Self::within(schema, BEGINNING) }
    }

    fn within(schema: &Json, bounds: Bounds) -> Self {
        let mut writer = TreeWriter { document: schema, bounds, out: String::new(), lines: 0, is_cut: false };
        let mut trail = vec![Arc::from("#")];
        let resolved = writer.resolved(schema, &mut trail);
        if is_empty(&resolved) {
            return Self { html: "<p class=\"quiet\">Takes no named arguments.</p>".to_owned(), is_cut: false };
        }
        writer.out.push_str("<ul class=\"schema\">");
        if resolved.get("properties").is_some() {
            writer.parts(&resolved, &mut trail, 0);
        } else {
            writer.line(&Name::Part("the value".to_owned()), &resolved, &mut trail, 0);
        }
        writer.out.push_str("</ul>");
        Self { html: writer.out, is_cut: writer.is_cut }
    }
}

impl From<Json> for SchemaTree {
    fn from(schema: Json) -> Self {
        Self::within(&schema, WHOLE)
    }
}

impl fmt::Display for SchemaTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.html)?;
        if self.is_cut {
            f.write_str("<p class=\"quiet\">The schema is larger than what is shown here: look at it raw.</p>")?;
        }
        Ok(())
    }
}

impl HtmlSafe for SchemaTree {}

// === impl TreeWriter ===

impl TreeWriter<'_> {
    /// A schema after its references; each one is added to the trail. One that is in the trail is not followed.
    fn resolved(&self, schema: &Json, trail: &mut Vec<Arc<str>>) -> Json {
        let mut schema = schema.clone();
        for _ in 0..MAX_HOPS {
            let Some(Json::Text(target)) = schema.get("$ref") else { break };
            if trail.contains(target) {
                break;
            }
            let Some(found) = crate::json::pointed(self.document, target) else { break };
            trail.push(Arc::clone(target));
            // What stands beside the reference counts more.
            let own = schema.entries().iter().filter(|(word, _)| &**word != "$ref").cloned();
            let mut entries = found.entries().to_vec();
            entries.extend(own);
            schema = Json::object(entries);
        }
        schema
    }

    fn line(&mut self, name: &Name<'_>, schema: &Json, trail: &mut Vec<Arc<str>>, depth: usize) {
        self.lines += 1;
        if self.lines > self.bounds.lines || self.out.len() > self.bounds.html {
            self.is_cut = true;
            return;
        }
        let length = trail.len();
        let schema = self.resolved(schema, trail);
        let has_parts = !schema.get("$ref").is_some_and(|_| true) && parts(&schema).next().is_some();
        let is_nested = has_parts && depth < MAX_DEPTH;
        self.is_cut |= has_parts && !is_nested;
        self.out.push_str("<li>");
        if is_nested {
            self.out.push_str(if depth < OPEN_DEPTH { "<details open><summary>" } else { "<details><summary>" });
        }
        match name {
            Name::Property(name, is_required) => {
                let _ = write!(self.out, "<span class=\"id\">{}</span>", shown(name, 200));
                self.kind(&schema);
                if *is_required {
                    self.out.push_str(" <span class=\"tag\">required</span>");
                }
            }
            Name::Part(text) => {
                let _ = write!(self.out, "<span class=\"quiet\">{}</span>", shown(text, 200));
                if let Some(title) = schema.get("title").and_then(Json::as_text) {
                    let _ = write!(self.out, " {}", shown(title, 120));
                }
                self.kind(&schema);
            }
        }
        self.facts(&schema);
        if let Some(description) = schema.get("description").and_then(Json::as_text) {
            let _ = write!(self.out, " <span class=\"prose\">{}</span>", shown(description.trim(), MAX_DESCRIPTION));
        }
        if is_nested {
            self.out.push_str("</summary><ul>");
            self.parts(&schema, trail, depth + 1);
            self.out.push_str("</ul></details>");
        }
        self.out.push_str("</li>");
        trail.truncate(length);
    }

    fn parts(&mut self, schema: &Json, trail: &mut Vec<Arc<str>>, depth: usize) {
        for (name, part) in parts(schema) {
            if self.is_cut && self.lines > self.bounds.lines {
                return;
            }
            self.line(&name, &part, trail, depth);
        }
    }

    fn kind(&mut self, schema: &Json) {
        let types = match schema.get("type") {
            Some(Json::Text(name)) => clipped(name, 40),
            Some(Json::List(names)) => {
                let names: Vec<String> =
                    names.iter().take(8).filter_map(Json::as_text).map(|name| clipped(name, 40)).collect();
                names.join(" or ")
            }
            _ if schema.get("properties").is_some() => "object".to_owned(),
            _ if schema.get("items").is_some() => "array".to_owned(),
            _ => String::new(),
        };
        let text = match schema {
            Json::Bool(true) => "anything".to_owned(),
            Json::Bool(false) => "nothing".to_owned(),
            _ => match schema.get("$ref").and_then(Json::as_text) {
                Some("#") => "↻ the whole again".to_owned(),
                Some(target) if crate::json::pointed(self.document, target).is_some() => {
                    format!("↻ as {} above", clipped(target.rsplit('/').next().unwrap_or(target), 60))
                }
                Some(target) => format!("see {}", clipped(target, MAX_VALUE)),
                None => types,
            },
        };
        if !text.is_empty() {
            let _ = write!(self.out, " <span class=\"type\">{}</span>", Visible(text));
        }
    }

    fn facts(&mut self, schema: &Json) {
        if let Some(Json::List(choices)) = schema.get("enum") {
            let mut names: Vec<String> = choices.iter().take(MAX_CHOICES).map(value).collect();
            if choices.len() > MAX_CHOICES {
                names.push(format!("and {} more", choices.len() - MAX_CHOICES));
            }
            let _ = write!(self.out, " <span class=\"fact\">one of {}</span>", Visible(names.join(", ")));
        }
        for (word, label) in FACTS {
            match schema.get(word) {
                None | Some(Json::Bool(false)) if word == "deprecated" => {}
                Some(_) if word == "deprecated" => self.out.push_str(" <span class=\"tag warn\">deprecated</span>"),
                Some(found) => {
                    let _ = write!(self.out, " <span class=\"fact\">{label} {}</span>", Visible(value(found)));
                }
                None => {}
            }
        }
    }
}

fn is_empty(schema: &Json) -> bool {
    let is_object = schema.get("type").and_then(Json::as_text) == Some("object");
    is_object && parts(schema).next().is_none() && schema.get("enum").is_none()
}

fn shown(text: &str, max: usize) -> Visible {
    Visible(clipped(text, max))
}

fn value(value: &Json) -> String {
    match value {
        Json::Text(text) => clipped(&Json::text(&clipped(text, MAX_VALUE)).to_string(), MAX_VALUE),
        other => clipped(&other.to_string(), MAX_VALUE),
    }
}

/// The schemas within a schema, with what they are called.
fn parts(schema: &Json) -> impl Iterator<Item = (Name<'_>, Json)> {
    let required: std::collections::HashSet<&str> =
        schema.get("required").map_or(&[][..], Json::items).iter().filter_map(Json::as_text).collect();
    let properties = schema.get("properties").map_or(&[][..], Json::entries);
    let named =
        properties.iter().map(move |(name, part)| (Name::Property(name, required.contains(&**name)), part.clone()));
    let single = [
        ("items", "each item"),
        ("additionalProperties", "each other property"),
        ("propertyNames", "each name"),
        ("contains", "at least one item"),
        ("not", "but not"),
        ("if", "if"),
        ("then", "then"),
        ("else", "else"),
    ];
    let single = single.into_iter().filter_map(|(word, label)| match schema.get(word) {
        Some(part @ Json::Object(_)) => Some((Name::Part(label.to_owned()), part.clone())),
        _ => None,
    });
    let lists = [
        ("prefixItems", "item"),
        ("items", "item"),
        ("allOf", "and also"),
        ("oneOf", "exactly one: alternative"),
        ("anyOf", "alternative"),
    ];
    let lists = lists.into_iter().flat_map(|(word, label)| {
        let all = schema.get(word).map_or(&[][..], Json::items);
        all.iter().enumerate().map(move |(index, part)| (Name::Part(format!("{label} {}", index + 1)), part.clone()))
    });
    let patterns = schema.get("patternProperties").map_or(&[][..], Json::entries).iter();
    let patterns = patterns
        .map(|(pattern, part)| (Name::Part(format!("properties like {}", clipped(pattern, MAX_VALUE))), part.clone()));
    named.chain(single).chain(lists).chain(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(schema: &str) -> String {
        let html = SchemaTree::parse(schema).expect("a schema").to_string();
        assert!(html.len() < 3 * WHOLE.html, "{} bytes", html.len());
        html
    }

    #[test]
    fn a_line_says_what_a_property_takes() {
        let html = tree(
            r##"{"properties": {"n": {"type": ["integer", "null"], "minimum": 9007199254740993, "default": null},
            "e": {"enum": ["a", 1], "description": "<b>Which"}, "r": {"$ref": "#/$defs/x", "description": "Own"},
            "gone": {"$ref": "#/$defs/y"}}, "required": ["e"],
            "$defs": {"x": {"type": "array", "items": {"type": "string"}, "description": "Theirs"}}}"##,
        );
        for part in [
            "<span class=\"id\">n</span> <span class=\"type\">integer or null</span>",
            "<span class=\"fact\">default null</span> <span class=\"fact\">≥ 9007199254740993</span>",
            "<span class=\"id\">e</span> <span class=\"tag\">required</span> <span class=\"fact\">one of &quot;a&quot;, 1</span>",
            "<span class=\"prose\">&lt;b&gt;Which</span>",
            "<details open><summary><span class=\"id\">r</span> <span class=\"type\">array</span> <span class=\"prose\">Own</span>",
            "<span class=\"quiet\">each item</span> <span class=\"type\">string</span>",
            "<span class=\"type\">see #/$defs/y</span>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(tree(r#"{"type": "object"}"#).contains("Takes no named arguments."));
        assert!(tree(r#"{"type": "string"}"#).contains("the value"));
    }

    #[test]
    fn recursion_is_marked_and_ends() {
        let html = tree(
            r##"{"type": "object", "properties": {"next": {"$ref": "#"}, "all": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
            "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}}"##,
        );
        assert!(html.contains("↻ the whole again") && html.contains("↻ as n above"), "{html}");
        for schema in [r##"{"$ref": "#"}"##, r##"{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}"##] {
            tree(schema);
        }
    }

    #[test]
    fn a_tree_stays_small() {
        let object = |count: usize, part: &str| {
            let all: Vec<String> = (0..count).map(|n| format!("\"p{n}\":{part}")).collect();
            format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", all.join(","))
        };
        let long = format!("{{\"type\":\"string\",\"description\":\"{}\"}}", "\u{202e}".repeat(2_000));
        let wide = Json::parse(&object(200, "{}")).unwrap();
        let beginning = SchemaTree::beginning(&wide);
        assert!(beginning.to_string().len() < 2 * BEGINNING.html && !beginning.to_string().contains(">p199<"));
        assert!(!SchemaTree::from(wide).is_cut);
        for schema in [object(2_000, "{}"), object(300, &long), object(60, &object(60, &object(2, "{}")))] {
            assert!(tree(&schema).contains("larger than what is shown here"));
        }
        let deep = format!("{}{{}}{}", "{\"properties\":{\"a\":".repeat(60), "}}".repeat(60));
        assert!(tree(&deep).contains("larger than what is shown here"));
        let doubled: Vec<String> =
            (0..40).map(|n| format!("\"d{n}\":{{\"properties\":{{\"a\":{{\"$ref\":\"#/$defs/d{0}\"}},\"b\":{{\"$ref\":\"#/$defs/d{0}\"}}}}}}", n + 1)).collect();
        tree(&format!("{{\"properties\":{{\"a\":{{\"$ref\":\"#/$defs/d0\"}}}},\"$defs\":{{{}}}}}", doubled.join(",")));
    }
}
