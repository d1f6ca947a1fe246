//! What a client can be asked, as far as it is relayed: read from either era, offered to a server of either era.
//!
//! A server is offered exactly what the client behind the call declared, never more: a question that no one can answer
//! is worse than one that is not asked.

use crate::raw::{Raw, Writer};
use crate::revision::{Era, Revision};

/// The tasks extension, which works between modern ends only.
const TASKS: &str = "io.modelcontextprotocol/tasks";
/// How large the declaration of a client's extensions may be to be relayed, in bytes.
const EXTENSIONS_MAX: usize = 4_096;

/// The capabilities of a client that are relayed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Capabilities {
    /// Forms may be shown.
    pub form: bool,
    /// URLs may be opened.
    pub url: bool,
    /// A model may be asked.
    pub sampling: bool,
    /// A model may be asked with tools.
    pub sampling_tools: bool,
    /// A model may be given context of servers.
    pub sampling_context: bool,
    /// Roots may be asked for.
    pub roots: bool,
    /// The client notifies changes of its roots.
    pub roots_changed: bool,
    /// Its extensions with their settings, an object; absent when there are none.
    pub extensions: Option<String>,
}

impl Capabilities {
    /// Nothing can be asked.
    pub const NONE: Capabilities = Capabilities {
        form: false,
        url: false,
        sampling: false,
        sampling_tools: false,
        sampling_context: false,
        roots: false,
        roots_changed: false,
        extensions: None,
    };

    /// Reads what a client that speaks `revision` declares. What is no object counts as not declared.
    pub fn read(declared: &Raw, revision: Revision) -> Self {
        let object = |key: &str| declared.get(key).filter(Raw::is_object);
        let (elicitation, sampling, roots) = (object("elicitation"), object("sampling"), object("roots"));
        let has = |of: &Option<Raw>, key: &str| of.as_ref().and_then(|it| it.get(key)).is_some_and(|it| it.is_object());
        // Without a mode, forms are meant (2025-11-25, client/elicitation, capabilities).
        let modes = revision.has_url_elicitation() && (has(&elicitation, "form") || has(&elicitation, "url"));
        let extensions = object("extensions").filter(|it| it.bytes().len() <= EXTENSIONS_MAX && it.as_str() != "{}");
        Self {
            form: elicitation.is_some() && revision.has_elicitation() && (!modes || has(&elicitation, "form")),
            url: revision.has_url_elicitation() && has(&elicitation, "url"),
            sampling: sampling.is_some(),
            sampling_tools: revision.has_sampling_tools() && has(&sampling, "tools"),
            sampling_context: has(&sampling, "context"),
            roots: roots.is_some(),
            roots_changed: roots.is_some_and(|it| it.get("listChanged").is_some_and(|flag| flag.as_str() == "true")),
            extensions: extensions.and_then(|it| {
                // Tasks work between modern ends that say so with an object.
                let tasks = it.get(TASKS).is_some_and(|settings| revision.era() == Era::Modern && settings.is_object());
                let kept = if tasks { it } else { it.edit(&[(TASKS, crate::raw::Edit::Remove)]) };
                (kept.as_str() != "{}").then(|| kept.as_str().to_owned())
            }),
        }
    }

    /// Whether a server may ask anything at all.
    pub fn can_be_asked(&self) -> bool {
        self.form || self.url || self.sampling || self.roots
    }

    /// Whether nothing is declared.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// What a server that is spoken to in `revision` can make use of.
    #[must_use]
    pub fn within(&self, revision: Revision) -> Self {
        let modern = revision.era() == Era::Modern;
        Self {
            form: self.form && revision.has_elicitation(),
            url: self.url && revision.has_url_elicitation(),
            sampling_tools: self.sampling_tools && revision.has_sampling_tools(),
            // No client sends notifications of its own in the modern era.
            roots_changed: self.roots_changed && !modern,
            extensions: self.extensions.as_deref().and_then(|text| extensions_within(text, modern)),
            ..*self
        }
    }

    /// The declaration as `initialize` or `_meta` carries it, for a server that is spoken to in `revision`.
    pub fn to_raw(&self, revision: Revision) -> Raw {
        let it = self.within(revision);
        let mut out = Writer::object(128);
        if it.form || it.url {
            // Before there were modes, the empty object was the whole declaration.
            let modes = match (revision.has_url_elicitation(), it.form, it.url) {
                (false, ..) => "{}",
                (true, true, true) => r#"{"form":{},"url":{}}"#,
                (true, true, false) => r#"{"form":{}}"#,
                (true, false, _) => r#"{"url":{}}"#,
            };
            out.member("elicitation", modes);
        }
        if it.sampling {
            let parts = match (it.sampling_tools, it.sampling_context) {
                (true, true) => r#"{"tools":{},"context":{}}"#,
                (true, false) => r#"{"tools":{}}"#,
                (false, true) => r#"{"context":{}}"#,
                (false, false) => "{}",
            };
            out.member("sampling", parts);
        }
        if it.roots {
            out.member("roots", if it.roots_changed { r#"{"listChanged":true}"# } else { "{}" });
        }
        if let Some(extensions) = &it.extensions {
            out.member("extensions", extensions);
        }
        out.finish()
    }

    /// Whether the client declares the extension `name`.
    pub fn has_extension(&self, name: &str) -> bool {
        let text = self.extensions.as_deref().unwrap_or("{}");
        crate::json::scan(text.as_bytes(), crate::json::Rules::relayed(64)).is_ok_and(|outline| match outline {
            crate::json::Outline::Object(members) => crate::json::find(&members, name).is_some(),
            _ => false,
        })
    }
}

/// Extensions for a server of the other era: tasks work between modern ends only.
fn extensions_within(text: &str, modern: bool) -> Option<String> {
    if modern {
        return Some(text.to_owned());
    }
    let raw = Raw::parse(text.to_owned().into(), crate::json::Rules::relayed(64)).ok()?;
    let kept = raw.edit(&[(TASKS, crate::raw::Edit::Remove)]);
    (kept.as_str() != "{}").then(|| kept.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(revision: Revision, declared: &Value, to: Revision, offered: &Value) {
        let read = Capabilities::read(&Raw::from_value(declared), revision);
        assert_eq!(&read.to_raw(to).to_value(), offered, "{declared} of {revision} to {to}");
    }

    #[test]
    fn a_server_is_offered_what_the_client_declared_and_it_can_use() {
        let (old, legacy, modern) = (Revision::V2025_06_18, Revision::V2025_11_25, Revision::LATEST);
        check(legacy, &json!({}), modern, &json!({}));
        check(legacy, &json!({"elicitation": {}}), modern, &json!({"elicitation": {"form": {}}}));
        check(legacy, &json!({"elicitation": {"url": {}}}), old, &json!({}));
        check(legacy, &json!({"elicitation": {"form": {}, "url": {}}}), old, &json!({"elicitation": {}}));
        check(old, &json!({"elicitation": {"url": {}}}), modern, &json!({"elicitation": {"form": {}}}));
        check(Revision::V2025_03_26, &json!({"elicitation": {}}), modern, &json!({}));
        check(legacy, &json!({"sampling": {"tools": {}, "new": {}}}), modern, &json!({"sampling": {"tools": {}}}));
        check(legacy, &json!({"sampling": {"tools": {}}}), old, &json!({"sampling": {}}));
        check(legacy, &json!({"roots": {"listChanged": true}}), modern, &json!({"roots": {}}));
        check(legacy, &json!({"roots": {"listChanged": true}}), legacy, &json!({"roots": {"listChanged": true}}));
        check(modern, &json!({"roots": [], "sampling": null, "elicitation": 1}), legacy, &json!({}));
        let extensions =
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": {"a": 1}}});
        check(modern, &extensions, modern, &extensions);
        check(modern, &extensions, legacy, &json!({"extensions": {"io.modelcontextprotocol/ui": {"a": 1}}}));
        check(modern, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}), legacy, &json!({}));
        check(modern, &json!({"extensions": {"io.modelcontextprotocol/tasks": true}}), modern, &json!({}));
        check(legacy, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}), modern, &json!({}));
    }

    #[test]
    fn extensions_are_known_by_name() {
        let raw = Raw::from_value(&json!({"extensions": {"a/b": {}}}));
        let read = Capabilities::read(&raw, Revision::LATEST);
        assert!(read.has_extension("a/b") && !read.has_extension("a/c") && !Capabilities::NONE.has_extension("a/b"));
        assert!(!read.can_be_asked() && !read.is_none());
    }
}
