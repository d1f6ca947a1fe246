//! What a server offers, read from its lists: each entry stays raw, a few fields are extracted beside it.
//!
//! One odd entry is left out with a warning; it never takes the others with it.

use std::collections::HashSet;

use crate::json;
use crate::raw::Raw;

/// How many warnings one page gives, so that a page of two million odd entries does not become as many warnings.
const WARNINGS: usize = 20;
/// How much of a name a warning shows, in characters.
const SHOWN: usize = 100;

/// Which list a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Listing {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `prompts/list`
    Prompts,
}

impl Listing {
    /// All of them.
    pub const ALL: [Listing; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    /// The method that lists.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => crate::method::TOOLS_LIST,
            Self::Resources => crate::method::RESOURCES_LIST,
            Self::Templates => crate::method::RESOURCE_TEMPLATES_LIST,
            Self::Prompts => crate::method::PROMPTS_LIST,
        }
    }

    /// The member of the result that holds the entries.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The member of an entry that identifies it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

/// One entry of a list: a tool, a resource, a template or a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, URI or URI template.
    pub key: String,
    /// `title`, or the title among a tool's annotations.
    pub title: Option<String>,
    /// `description`
    pub description: Option<String>,
    /// The whole entry as the server sent it.
    pub raw: Raw,
}

/// The hints among a tool's annotations. They are the server's claim, absent where it makes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}

impl Entry {
    /// Reads one entry; the error says what is odd about it.
    pub fn from_raw(listing: Listing, raw: Raw) -> Result<Self, String> {
        if !raw.is_object() {
            return Err(format!("an entry of `{}` is not an object", listing.member()));
        }
        let key = listing.key();
        let Some(name) = raw.text(key).filter(|name| !name.is_empty()) else {
            return Err(format!("an entry of `{}` has no text in `{key}`", listing.member()));
        };
        if listing == Listing::Tools && raw.get("inputSchema").is_some_and(|schema| !schema.is_object()) {
            let name = shown(&name);
            return Err(format!("the tool `{name}` has an `inputSchema` that is not an object"));
        }
        let title = raw.text("title").or_else(|| raw.get("annotations").and_then(|hints| hints.text("title")));
        Ok(Self { key: name, title, description: raw.text("description"), raw })
    }

    /// `inputSchema` of a tool.
    pub fn input_schema(&self) -> Option<Raw> {
        self.raw.get("inputSchema")
    }

    /// `outputSchema` of a tool.
    pub fn output_schema(&self) -> Option<Raw> {
        self.raw.get("outputSchema")
    }

    /// The hints of a tool.
    pub fn hints(&self) -> Hints {
        let annotations = self.raw.get("annotations");
        let flag = |key: &str| match annotations.as_ref().and_then(|hints| hints.get(key))?.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Hints {
            read_only: flag("readOnlyHint"),
            destructive: flag("destructiveHint"),
            idempotent: flag("idempotentHint"),
            open_world: flag("openWorldHint"),
        }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The entries that can be served, in the server's order.
    pub entries: Vec<Entry>,
    /// Where the next page begins. The empty text is a cursor too.
    pub next: Option<String>,
    /// What was left out and why.
    pub warnings: Vec<String>,
}

/// Reads a page of a list from a raw result.
pub fn page(listing: Listing, result: &Raw) -> Page {
    let mut page = Page { next: result.text("nextCursor"), ..Page::default() };
    let Some(list) = result.get(listing.member()) else {
        page.warnings.push(format!("the answer to `{}` has no `{}`", listing.method(), listing.member()));
        return page;
    };
    let json::Outline::Array(items) = list.outline() else {
        page.warnings.push(format!("`{}` is not an array", listing.member()));
        return page;
    };
    for item in items {
        match Entry::from_raw(listing, list.part(item)) {
            Ok(entry) => page.entries.push(entry),
            Err(warning) => warn(&mut page.warnings, || warning),
        }
    }
    page
}

/// Adds a warning unless there are enough; the last one says that there are more.
fn warn(warnings: &mut Vec<String>, warning: impl FnOnce() -> String) {
    match warnings.len() {
        0..WARNINGS => warnings.push(warning()),
        WARNINGS => warnings.push("more of the same is not shown".to_owned()),
        _ => {}
    }
}

fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}

/// Takes out entries whose key came before, with a warning for the first ones.
pub fn without_duplicates(entries: Vec<Entry>, warnings: &mut Vec<String>) -> Vec<Entry> {
    let mut twice = Vec::new();
    let mut seen = HashSet::new();
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries {
        if seen.insert(entry.key.clone()) {
            kept.push(entry);
        } else {
            warn(&mut twice, || format!("`{}` is listed twice; the first one is used", shown(&entry.key)));
        }
    }
    warnings.append(&mut twice);
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_odd_entry_does_not_take_the_others_with_it() {
        let result = Raw::from_value(&json!({
            "tools": [
                {"name": "a", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "title": "A"}},
                {"name": 7}, "x", {"name": ""}, {"name": "b", "inputSchema": []},
                {"name": "c", "future": {"x": 1}}, {"name": "a", "description": "again"}
            ],
            "nextCursor": ""
        }));
        let mut page = page(Listing::Tools, &result);
        assert_eq!(page.next.as_deref(), Some(""));
        assert_eq!(page.warnings.len(), 4, "{:?}", page.warnings);
        let entries = without_duplicates(page.entries, &mut page.warnings);
        assert_eq!(page.warnings.len(), 5);
        let keys: Vec<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "c"]);
        assert_eq!(entries[0].hints(), Hints { read_only: Some(true), ..Hints::default() });
        assert_eq!(entries[0].title.as_deref(), Some("A"));
        assert_eq!(entries[1].raw.as_str(), r#"{"name":"c","future":{"x":1}}"#);
    }

    #[test]
    fn a_page_of_odd_entries_does_not_become_as_many_warnings() {
        let odd: Vec<_> = (0..100_000).map(|_| json!(1)).collect();
        let mut page = page(Listing::Tools, &Raw::from_value(&json!({ "tools": odd })));
        assert_eq!(page.warnings.len(), WARNINGS + 1);
        let name = "n".repeat(10_000);
        let same: Vec<_> = (0..1_000).map(|_| Raw::from_value(&json!({ "name": name }))).collect();
        let same = same.into_iter().map(|raw| Entry::from_raw(Listing::Tools, raw).unwrap()).collect();
        assert_eq!(without_duplicates(same, &mut page.warnings).len(), 1);
        assert_eq!(page.warnings.len(), 2 * (WARNINGS + 1));
        assert!(page.warnings.iter().all(|warning| warning.len() < 2 * SHOWN));
    }

    #[test]
    fn other_lists_have_their_own_keys() {
        let templates = Raw::from_value(&json!({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "n"}]}));
        assert_eq!(page(Listing::Templates, &templates).entries[0].key, "a:{b}");
        assert_eq!(page(Listing::Prompts, &Raw::from_value(&json!({}))).warnings.len(), 1);
        assert_eq!(page(Listing::Prompts, &Raw::from_value(&json!({"prompts": 1}))).warnings.len(), 1);
    }
}
