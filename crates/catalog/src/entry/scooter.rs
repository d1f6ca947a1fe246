//! MCP Scooter's registry entries, read as they are. As tolerant as its own loader: whatever is missing or unknown
//! there is a warning here, and only what makes the entry unusable is a problem.

use std::collections::BTreeMap;

use toolcrib_base::ServerName;

use super::authorization::{self, Authorization, AuthorizationKind, Variable};
use super::rate;
use super::runtime::{self, Reach, Runtime};
use super::{Package, PackageKind, RegistryEntry, Source};
use crate::define::OpaqueValue;
use crate::endpoint::Link;
use crate::period::Period;
use crate::problem::{masked, shown};
use crate::reader::{Cursor, Fields};
use crate::server::{self, Timeouts, ToolText};

/// Words that it has for what we call otherwise.
const BEARER: &str = "bearer_token";

pub(super) fn read(stem: &str, root: Cursor<'_>) -> Option<RegistryEntry> {
    let file = root.file();
    let fields = root.fields()?;
    let name = name(&fields, stem);
    // Its look is its own matter.
    for key in ["$schema", "banner", "color", "icon_background", "installed"] {
        fields.get(key);
    }
    let authorization = fields.get("authorization").and_then(authorization).unwrap_or_default();
    let metadata = fields.get("metadata").filter(|cursor| cursor.node().is_map());
    let verified_at = metadata.clone().and_then(Cursor::fields).and_then(|metadata| metadata.text("verified_at"));
    let entry = RegistryEntry {
        name: name?,
        version: text(&fields, "version"),
        title: text(&fields, "title"),
        description: text(&fields, "description"),
        category: text(&fields, "category"),
        source: fields.get("source").and_then(|cursor| word(&cursor)).unwrap_or_else(|| super::source_of(file)),
        tags: fields.get("tags").map(|cursor| texts(&cursor)).unwrap_or_default(),
        keywords: Vec::new(),
        aliases: Vec::new(),
        icon: text(&fields, "icon"),
        about: text(&fields, "about"),
        homepage: link(&fields, "homepage"),
        repository: link(&fields, "repository"),
        documentation: link(&fields, "documentation"),
        runtime: fields.get("runtime").and_then(|cursor| runtime(&cursor)),
        authorization,
        package: fields.get("package").and_then(|cursor| package(&cursor)),
        renamed: BTreeMap::new(),
        tools: fields.get("tools").map(|cursor| tools(&cursor)).unwrap_or_default(),
        verified_at: verified_at.or_else(|| text(&fields, "verified_at")),
        metadata: metadata.map(|cursor| OpaqueValue::of_json(cursor.json())),
    };
    super::warn_of_gaps(&fields, &entry);
    fields.finish_leniently();
    Some(entry)
}

/// A wrong name is a problem, one that is not the file's only a warning: its own loader looks at the name alone.
fn name(fields: &Fields<'_>, stem: &str) -> Option<ServerName> {
    let cursor = fields.require("name", "the entry's name", format!("add `\"name\": \"{}\"`", shown(stem)))?;
    let text = cursor.text()?;
    cursor.is_name();
    let Ok(name) = ServerName::new(text) else {
        let hint = "expected at most 64 characters of a-z, 0-9 and `-`, not starting with `-`";
        cursor.problem(format!("expected a name, got {}", cursor.describe()), Some(hint.to_owned()));
        return None;
    };
    if text != stem {
        let hint = format!("rename the file to `{text}.json`");
        let text = masked(text);
        cursor.warn(format!("is `{text}` in a file called `{}`", shown(stem)), Some(hint));
    }
    Some(name)
}

/// A text, or a warning.
fn text(fields: &Fields<'_>, key: &'static str) -> Option<String> {
    let cursor = fields.get(key).filter(|cursor| !cursor.node().is_null())?;
    let text = cursor.text_or_nothing().filter(|text| !text.is_empty());
    if text.is_none() {
        cursor.warn(format!("expected a text, got {}", cursor.describe()), None);
    }
    text.map(str::to_owned)
}

fn texts(cursor: &Cursor<'_>) -> Vec<String> {
    if !cursor.node().is_list() {
        cursor.warn(format!("expected a list, got {}", cursor.describe()), None);
        return Vec::new();
    }
    cursor.list(|item| item.text_or_nothing().map(str::to_owned))
}

fn word(cursor: &Cursor<'_>) -> Option<Source> {
    use crate::reader::Choice;
    let text = cursor.text_or_nothing().unwrap_or_default();
    let found = Source::ALL.iter().find(|(word, _)| *word == text).map(|(_, source)| *source);
    if found.is_none() {
        cursor.warn(format!("expected a known source, got {}", cursor.describe()), None);
    }
    found
}

fn link(fields: &Fields<'_>, key: &'static str) -> Option<Link> {
    let written = text(fields, key)?;
    let link = written.parse();
    if link.is_err()
        && let Some(cursor) = fields.get(key)
    {
        cursor.warn(format!("expected an address such as `https://example.com`, got {}", cursor.describe()), None);
    }
    link.ok()
}

/// Its tools; of their annotations the rates mean something here.
fn tools(cursor: &Cursor<'_>) -> Vec<ToolText> {
    let tools = server::tools(cursor);
    cursor.each(&|tool: &Cursor<'_>| {
        if let Some(fault) = rate::fault(&tool.value()) {
            tool.warn(fault, None);
        }
    });
    tools
}

fn flag(fields: &Fields<'_>, key: &'static str, default: bool) -> bool {
    fields.get(key).and_then(|cursor| cursor.flag()).unwrap_or(default)
}

fn authorization(cursor: Cursor<'_>) -> Option<Authorization> {
    let fields = cursor.fields()?;
    let written = fields.get("type").and_then(|cursor| cursor.text().map(|text| (cursor.clone(), text)));
    let kind = match written.as_ref().map_or("none", |(_, text)| *text) {
        "none" => AuthorizationKind::None,
        "api_key" => AuthorizationKind::ApiKey,
        BEARER | "bearer" => AuthorizationKind::Bearer,
        "oauth2" => AuthorizationKind::OAuth2,
        "custom" => AuthorizationKind::Custom,
        _ => {
            let (cursor, _) = written.as_ref()?;
            cursor.problem(format!("expected a kind of authorization, got {}", cursor.describe()), None);
            return None;
        }
    };
    // Its schema says that what is absent is required, its loader the opposite. Asking once too often does less harm.
    let required = flag(&fields, "required", true);
    for key in ["recommended", "provider"] {
        fields.get(key);
    }
    let pattern = fields.get("validation").and_then(validation);
    let mut authorization = Authorization {
        kind,
        description: text(&fields, "description"),
        help_url: link(&fields, "help_url"),
        scopes: fields.get("scopes").map(|cursor| texts(&cursor)).unwrap_or_default(),
        ..Authorization::default()
    };
    let title = text(&fields, "display_name");
    if let Some(name) = fields.get("env_var").and_then(|cursor| authorization::variable_name(&cursor)) {
        authorization.variables.push(Variable { title, pattern, required, ..Variable::new(&name) });
    }
    if let Some(oauth) = fields.get("oauth") {
        read_oauth(oauth, required, &mut authorization);
    }
    if let Some(listed) = fields.get("env_vars") {
        let few = listed.items().into_iter().take(authorization::VARIABLES_MAX);
        if listed.items().len() > authorization::VARIABLES_MAX {
            listed
                .warn(format!("has more than {} variables; the rest is left out", authorization::VARIABLES_MAX), None);
        }
        for variable in few.filter_map(variable) {
            if authorization.variable(&variable.name).is_some() {
                listed.warn(format!("names `{}` twice; the first one is used", variable.name), None);
            } else {
                authorization.variables.push(variable);
            }
        }
    }
    if kind == AuthorizationKind::None {
        authorization.variables.clear();
    }
    fields.finish_leniently();
    Some(authorization)
}

fn validation(cursor: Cursor<'_>) -> Option<crate::Pattern> {
    let fields = cursor.fields()?;
    fields.get("test_endpoint");
    let cursor = fields.get("pattern");
    let pattern = cursor.as_ref().and_then(Cursor::text_or_nothing).map(str::parse);
    if let (Some(Err(error)), Some(cursor)) = (&pattern, &cursor) {
        let error: &crate::PatternError = error;
        cursor.warn(error.to_string(), None);
    }
    fields.finish_leniently();
    pattern?.ok()
}

/// Its tokens arrive in variables; where they come from is kept for the login.
fn read_oauth(cursor: Cursor<'_>, required: bool, authorization: &mut Authorization) {
    let Some(fields) = cursor.fields() else { return };
    for key in ["scope_descriptions", "pkce_required", "client_id_env", "client_secret_env", "refresh_token_env"] {
        fields.get(key);
    }
    authorization.authorization_url = link(&fields, "authorization_url");
    authorization.token_url = link(&fields, "token_url");
    if let Some(scopes) = fields.get("scopes") {
        authorization.scopes = texts(&scopes);
    }
    let token = fields.get("token_env").and_then(|cursor| authorization::variable_name(&cursor));
    if let Some(name) = token.filter(|name| authorization.variable(name).is_none()) {
        authorization.variables.push(Variable { required, ..Variable::new(&name) });
    }
    fields.finish_leniently();
}

fn variable(cursor: Cursor<'_>) -> Option<Variable> {
    let fields = cursor.fields()?;
    let hint = "add its `name`, such as `API_KEY`".to_owned();
    let name =
        fields.require("name", "the variable's name", hint).and_then(|cursor| authorization::variable_name(&cursor))?;
    let secret = flag(&fields, "secret", true);
    let default = fields.get("default").filter(|cursor| !cursor.node().is_null());
    let variable = Variable {
        title: text(&fields, "display_name"),
        description: text(&fields, "description"),
        help_url: link(&fields, "help_url"),
        pattern: fields.get("validation").and_then(validation),
        secret,
        required: flag(&fields, "required", true),
        // A secret with a default is none that anyone should use.
        default: default.filter(|_| !secret).and_then(|cursor| authorization::plain(&cursor)),
        options: fields
            .get("options")
            .map(|cursor| cursor.list(|item| authorization::plain(&item)))
            .unwrap_or_default(),
        ..Variable::new(&name)
    };
    fields.finish_leniently();
    Some(variable)
}

fn runtime(cursor: &Cursor<'_>) -> Option<Runtime> {
    if cursor.node().is_null() {
        return None;
    }
    let fields = cursor.clone().fields()?;
    fields.get("healthCheck");
    let timeouts = fields.get("timeout").and_then(|cursor| timeout(&cursor)).unwrap_or_default();
    let transport = fields.get("transport");
    let word = transport.as_ref().and_then(Cursor::text_or_nothing).unwrap_or("stdio");
    let reach = match word {
        "stdio" => stdio(&fields),
        "http" | "streamable-http" | "sse" => http(&fields, word == "sse"),
        _ => {
            cursor.warn(
                format!("has the transport `{}`, which is not known: nothing can be configured", masked(word)),
                None,
            );
            None
        }
    };
    // Those of the other transport mean nothing to it either.
    for key in ["command", "args", "env", "cwd", "url", "headers"] {
        fields.get(key);
    }
    fields.finish_leniently();
    Some(Runtime { reach: reach?, timeouts })
}

fn stdio(fields: &Fields<'_>) -> Option<Reach> {
    let cursor = fields.get("command").filter(|cursor| !cursor.node().is_null());
    let Some(cursor) = cursor else {
        fields.warn("command", "is missing: nothing can be configured", None);
        return None;
    };
    let present = |key| fields.get(key).filter(|cursor: &Cursor<'_>| !cursor.node().is_null());
    Some(Reach::Stdio {
        command: cursor.word("the program to start")?,
        args: present("args").map(|cursor| cursor.list(|item| server::argument(&item))).unwrap_or_default(),
        env: present("env").map(|cursor| runtime::environment(&cursor)).unwrap_or_default(),
        inherit_env: Vec::new(),
        cwd: present("cwd").and_then(|cursor| cursor.word("a folder")),
    })
}

fn http(fields: &Fields<'_>, is_sse: bool) -> Option<Reach> {
    let Some(cursor) = fields.get("url").filter(|cursor| !cursor.node().is_null()) else {
        fields.warn("url", "is missing: nothing can be configured", None);
        return None;
    };
    let url = cursor.text()?;
    if url.parse::<crate::Endpoint>().is_err() {
        cursor.expected("an address such as `https://example.com/mcp`");
        return None;
    }
    let headers = fields.get("headers").map(|cursor| runtime::headers(&cursor)).unwrap_or_default();
    Some(Reach::Http { is_sse, url: url.to_owned(), headers })
}

/// Its one deadline, in milliseconds, is that of a call.
fn timeout(cursor: &Cursor<'_>) -> Option<Timeouts> {
    let period = cursor.text_or_nothing().and_then(|text| format!("{text}ms").parse::<Period>().ok());
    if period.is_none() {
        cursor.warn(format!("expected milliseconds, got {}", cursor.describe()), None);
    }
    Some(Timeouts { call: period?, ..Timeouts::default() })
}

/// `{"type": "npm", "name": …}` or `{"npm": {"name": …}}`.
fn package(cursor: &Cursor<'_>) -> Option<Package> {
    use crate::reader::Choice;
    let fields = cursor.clone().fields()?;
    let named = fields.get("type").and_then(|cursor| cursor.text_or_nothing());
    let kind = PackageKind::ALL.iter().find(|(word, _)| named.map_or_else(|| fields.has(word), |named| named == *word));
    let Some((word, kind)) = kind else {
        cursor.warn("names no known kind of package", None);
        return None;
    };
    let inner = fields.get(word).and_then(Cursor::fields);
    let fields = inner.as_ref().unwrap_or(&fields);
    let name = ["name", "image", "url"].into_iter().find_map(|key| text(fields, key));
    let version = text(fields, "version");
    Some(Package { kind: *kind, name: name?, version })
}
