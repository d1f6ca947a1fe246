//! What a server wants to know from the person who configures it: keys, tokens, folders.

use std::collections::HashSet;

use crate::define;
use crate::endpoint::Link;
use crate::pattern::Pattern;
use crate::reader::{Cursor, Fields, choice};

/// How many variables an entry may have: each may have a pattern, which takes time to check.
pub(super) const VARIABLES_MAX: usize = 64;

/// How a server authenticates its calls, and which variables it needs before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    pub kind: AuthorizationKind,
    pub description: Option<String>,
    /// Where to get the key, or how.
    pub help_url: Option<Link>,
    pub variables: Vec<Variable>,
    /// With `oauth2` and `bearer`: what the token must allow.
    pub scopes: Vec<String>,
    /// With `oauth2`, where the server does not say so itself.
    pub authorization_url: Option<Link>,
    pub token_url: Option<Link>,
}

choice! {
    /// The kinds of authorization.
    AuthorizationKind {
        /// Nothing is needed.
        None = "none",
        /// A key in a variable or a header.
        ApiKey = "api_key",
        /// A token in a variable, or in the header `Authorization`.
        Bearer = "bearer",
        /// A token that is fetched with a browser. Variables are alternatives to it.
        OAuth2 = "oauth2",
        /// Variables of any kind.
        Custom = "custom",
    }
}

/// One variable that the server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The variable of a program's environment, and what `${NAME}` stands for in its arguments or its address.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    pub description: Option<String>,
    pub help_url: Option<Link>,
    /// A regular expression that values fit.
    pub pattern: Option<Pattern>,
    /// Whether it may only be given as a reference. Without the key: it is.
    pub secret: bool,
    /// Whether nothing runs without it. Without the key: it is.
    pub required: bool,
    /// Never of a secret.
    pub default: Option<String>,
    /// The only values; empty means that there are others.
    pub options: Vec<String>,
    /// For a server over HTTP: the header that carries it.
    pub header: Option<String>,
}

impl Default for Authorization {
    fn default() -> Self {
        Self {
            kind: AuthorizationKind::None,
            description: None,
            help_url: None,
            variables: Vec::new(),
            scopes: Vec::new(),
            authorization_url: None,
            token_url: None,
        }
    }
}

// === impl Authorization ===

impl Authorization {
    /// The variable of that name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }
}

// === impl Variable ===

impl Variable {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: None,
            description: None,
            help_url: None,
            pattern: None,
            secret: true,
            required: true,
            default: None,
            options: Vec::new(),
            header: None,
        }
    }

    /// Whether the server would take this value, as far as the entry knows.
    pub fn accepts(&self, value: &str) -> bool {
        (self.options.is_empty() || self.options.iter().any(|option| option == value))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(value))
    }
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<Authorization> {
    let fields = cursor.fields()?;
    let what = "the kind of authorization";
    let kind = fields.require("type", what, "add a line such as `type: none`".to_owned());
    let kind = kind.and_then(|cursor| cursor.choice());
    let listed = fields.get("variables");
    let authorization = Authorization {
        kind: kind.unwrap_or(AuthorizationKind::Custom),
        description: fields.text("description"),
        help_url: fields.get("help_url").and_then(|cursor| super::link(&cursor)),
        variables: listed.as_ref().map(variables).unwrap_or_default(),
        scopes: fields.texts("scopes"),
        authorization_url: fields.get("authorization_url").and_then(|cursor| super::link(&cursor)),
        token_url: fields.get("token_url").and_then(|cursor| super::link(&cursor)),
    };
    match kind {
        Some(AuthorizationKind::None) if !authorization.variables.is_empty() => {
            if let Some(listed) = &listed {
                listed.problem("belongs to another type, this is `none`", Some("write `type: custom`".to_owned()));
            }
        }
        Some(AuthorizationKind::ApiKey | AuthorizationKind::Bearer) if listed.is_none() => {
            let hint = "add `variables: [{name: API_KEY}]`".to_owned();
            fields.require("variables", "the variable that holds it", hint);
        }
        _ => {}
    }
    fields.finish();
    kind.map(|_| authorization)
}

fn variables(cursor: &Cursor<'_>) -> Vec<Variable> {
    let (mut names, mut headers, mut count) = (HashSet::new(), HashSet::new(), 0);
    cursor.list(|item| {
        count += 1;
        if count > VARIABLES_MAX {
            item.problem(format!("expected at most {VARIABLES_MAX} variables, got more"), None);
            return None;
        }
        let variable = variable(item.clone().fields()?)?;
        if !variable.header.as_ref().is_none_or(|header| headers.insert(header.to_ascii_lowercase())) {
            item.problem("expected each header for one variable, got it again", None);
        }
        if !names.insert(variable.name.clone()) {
            item.problem("expected each variable once, got it again", None);
        }
        Some(variable)
    })
}

fn variable(fields: Fields<'_>) -> Option<Variable> {
    let name = fields.require("name", "the variable's name", "add its `name`, such as `API_KEY`".to_owned());
    let name = name.and_then(|cursor| variable_name(&cursor));
    let flag = |key, default| fields.get(key).and_then(|cursor| cursor.flag()).unwrap_or(default);
    let written_default = fields.get("default");
    let variable = Variable {
        name: name.clone().unwrap_or_default(),
        title: fields.text("title"),
        description: fields.text("description"),
        help_url: fields.get("help_url").and_then(|cursor| super::link(&cursor)),
        pattern: fields.get("pattern").and_then(|cursor| pattern(&cursor)),
        secret: flag("secret", true),
        required: flag("required", true),
        default: written_default.as_ref().and_then(plain),
        options: fields.get("options").map(|cursor| cursor.list(|item| plain(&item))).unwrap_or_default(),
        header: fields.get("header").and_then(|cursor| header(&cursor)),
    };
    if let Some(cursor) = written_default.filter(|_| variable.secret) {
        cursor.problem(
            "belongs to a variable that is not a secret",
            Some("remove it, or write `secret: false`".to_owned()),
        );
    }
    fields.finish();
    name.map(|_| variable)
}

pub(super) fn variable_name(cursor: &Cursor<'_>) -> Option<String> {
    let text = cursor.text()?;
    cursor.fits("^[A-Za-z_][A-Za-z0-9_]*$");
    if !crate::secret::is_variable(text) {
        cursor.expected("a variable's name of A-Z, a-z, 0-9 and `_`, the first not a digit");
        return None;
    }
    Some(text.to_owned())
}

pub(super) fn pattern(cursor: &Cursor<'_>) -> Option<Pattern> {
    let text = cursor.text()?;
    let pattern = text.parse();
    pattern.map_err(|error: crate::pattern::PatternError| cursor.problem(error.to_string(), None)).ok()
}

fn header(cursor: &Cursor<'_>) -> Option<String> {
    let text = cursor.text()?;
    cursor.fits("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$");
    if let Some(message) = define::header_fault(text) {
        cursor.problem(message, None);
        return None;
    }
    Some(text.to_owned())
}

/// A text that is no reference: an entry, which others may have written, must not say which of our secrets its server
/// gets. The person who configures it does.
pub(super) fn plain(cursor: &Cursor<'_>) -> Option<String> {
    let text = cursor.text()?;
    let is_plain = matches!(text.parse(), Ok(crate::SecretRef::Literal(_)));
    if !is_plain || text.contains('\0') {
        let hint = "name the secret under `authorization.variables`; its place is set when the server is configured";
        cursor.problem("expected plain text, got a reference", Some(hint.to_owned()));
        return None;
    }
    Some(text.to_owned())
}
