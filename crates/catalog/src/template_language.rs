//! Which language the templates of a workflow or a service class are written in. `flow` reads the templates.

use crate::reader::{Fields, choice};

choice! {
    /// The key `templates` of a definition.
    TemplateLanguage {
        /// Go's `{{ .input.x }}`, as in muster's files: what holds without the key.
        Go = "go",
        /// Jinja's `{{ input.x }}`.
        Jinja = "jinja",
    }
}

/// What the definition says.
pub(crate) fn template_language(fields: &Fields<'_>) -> TemplateLanguage {
    fields.get("templates").and_then(|cursor| cursor.choice()).unwrap_or(TemplateLanguage::Go)
}
