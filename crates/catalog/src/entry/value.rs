//! An entry as a value and as the text of our own form. What has its default is left out.

use serde_json::{Map, Value, json};

use super::{Authorization, AuthorizationKind, Package, Reach, RegistryEntry, Runtime, Variable};
use crate::endpoint::ShownAddress;
use crate::private::MASK;
use crate::server::Timeouts;
use crate::yaml;

/// Members in the order they are set; nothing and empty lists and maps are left out.
#[derive(Default)]
pub(super) struct Members(Map<String, Value>);

impl Members {
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        let is_nothing = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !is_nothing {
            self.0.insert(key.to_owned(), value);
        }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

impl RegistryEntry {
    /// The entry as a JSON value with the keys of its YAML form.
    pub fn to_value(&self) -> Value {
        let link = |link: &Option<crate::Link>| link.as_ref().map(|link| link.as_str().to_owned());
        let mut members = Members::default();
        members.set("name", self.name.as_str());
        members.set("version", self.version.clone());
        members.set("title", self.title.clone());
        members.set("description", self.description.clone());
        members.set("category", self.category.clone());
        members.set("source", self.source.as_str());
        members.set("tags", self.tags.clone());
        members.set("keywords", self.keywords.clone());
        members.set("aliases", self.aliases.clone());
        members.set("icon", self.icon.clone());
        members.set("about", self.about.clone());
        members.set("homepage", link(&self.homepage));
        members.set("repository", link(&self.repository));
        members.set("documentation", link(&self.documentation));
        members.set("authorization", authorization(&self.authorization));
        members.set("runtime", self.runtime.as_ref().map(runtime));
        members.set("package", self.package.as_ref().map(package));
        members.set("renamed", json!(self.renamed));
        members.set("tools", self.tools.iter().map(|tool| parsed(&tool.json)).collect::<Vec<_>>());
        members.set("verified_at", self.verified_at.clone());
        members.set("metadata", self.metadata.as_ref().map(|metadata| parsed(metadata.as_json())));
        members.into_value()
    }

    /// The same for anyone who may look at it: values that its author may have meant to be secrets are `****`.
    pub fn to_shown_value(&self) -> Value {
        let mut value = self.to_value();
        for key in ["env", "headers"] {
            for text in
                value["runtime"].get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
            {
                *text = MASK.into();
            }
        }
        if let Some(url) = value["runtime"].get_mut("url") {
            *url = url.as_str().map(|text| ShownAddress(text).to_string()).into();
        }
        value
    }

    /// The entry as the text of a file `registry/<name>.yaml`.
    pub fn to_yaml(&self) -> String {
        yaml::render(&self.to_value())
    }
}

/// What was made of a tree is JSON.
fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn authorization(authorization: &Authorization) -> Value {
    if *authorization == Authorization::default() {
        return Value::Null;
    }
    let link = |link: &Option<crate::Link>| link.as_ref().map(|link| link.as_str().to_owned());
    let mut members = Members::default();
    members.set("type", authorization.kind.as_str());
    members.set("description", authorization.description.clone());
    members.set("help_url", link(&authorization.help_url));
    members.set("variables", authorization.variables.iter().map(variable).collect::<Vec<_>>());
    members.set("scopes", authorization.scopes.clone());
    members.set("authorization_url", link(&authorization.authorization_url));
    members.set("token_url", link(&authorization.token_url));
    // Only the kinds that hold one need the key although it is empty.
    let needs_one = matches!(authorization.kind, AuthorizationKind::ApiKey | AuthorizationKind::Bearer);
    if needs_one && authorization.variables.is_empty() {
        members.0.insert("variables".to_owned(), json!([]));
    }
    members.into_value()
}

fn variable(variable: &Variable) -> Value {
    let mut members = Members::default();
    members.set("name", variable.name.clone());
    members.set("title", variable.title.clone());
    members.set("description", variable.description.clone());
    members.set("help_url", variable.help_url.as_ref().map(|link| link.as_str().to_owned()));
    members.set("pattern", variable.pattern.as_ref().map(|pattern| pattern.as_str().to_owned()));
    members.set("secret", (!variable.secret).then_some(false));
    members.set("required", (!variable.required).then_some(false));
    members.set("default", variable.default.clone());
    members.set("options", variable.options.clone());
    members.set("header", variable.header.clone());
    members.into_value()
}

fn runtime(runtime: &Runtime) -> Value {
    let mut members = Members::default();
    members.set("transport", runtime.reach.kind().as_str());
    match &runtime.reach {
        Reach::Stdio { command, args, env, inherit_env, cwd } => {
            members.set("command", command.clone());
            members.set("args", args.clone());
            members.set("env", json!(env));
            members.set("inherit_env", inherit_env.clone());
            members.set("cwd", cwd.clone());
        }
        Reach::Http { url, headers, .. } => {
            members.set("url", url.clone());
            members.set("headers", json!(headers));
        }
    }
    members.set("timeouts", timeouts(&runtime.timeouts));
    members.into_value()
}

pub(super) fn timeouts(timeouts: &Timeouts) -> Value {
    let usual = Timeouts::default();
    let mut members = Members::default();
    members.set("connect", timeouts.connect.map(|period| period.to_string()));
    for (key, period, usual) in [("list", timeouts.list, usual.list), ("call", timeouts.call, usual.call)] {
        members.set(key, (period != usual).then(|| period.to_string()));
    }
    members.into_value()
}

fn package(package: &Package) -> Value {
    let mut members = Members::default();
    members.set("type", package.kind.as_str());
    members.set("name", package.name.clone());
    members.set("version", package.version.clone());
    members.into_value()
}
