//! From what a client says of a server to a draft of a definition.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_base::{Secret, ServerName};

use super::OURS;
use super::address::address_pieces;
use super::draft::{Draft, Origin, Setting, UrlPart, words};
use super::settings::{ClientServer, pieces_in};
use super::table::Client;
use crate::endpoint::Endpoint;
use crate::period::Period;
use crate::placeholder::{Piece, pieces};
use crate::private::{MASK, is_harmless, is_name, is_secret_address, is_secret_name, is_secret_value};
use crate::problem::{masked, masked_quotes};
use crate::secret::{SecretRef, is_variable};
use crate::server::{Family, TransportKind};

/// Keys of clients that say which tools may be used, and which the profiles of ours say instead.
const TOOL_RULES: [&str; 12] = [
    "alwaysAllow",
    "autoApprove",
    "coreTools",
    "default_tools_approval_mode",
    "disabledTools",
    "disabled_tools",
    "enabled_tools",
    "excludeTools",
    "includeTools",
    "tools",
    "trust",
    "autoapprove",
];
/// Keys about signing in, which starts again with us.
const SIGN_IN: [&str; 6] =
    ["auth", "authProviderType", "headersHelper", "http_headers_helper", "oauth", "oauth_resource"];
/// The keys of `auth` at every depth. None of them holds a secret itself: `client_secret` is taken as a reference alone.
const AUTH: [&str; 27] = [
    "type",
    "client_id",
    "client_secret",
    "redirect_uri",
    "private",
    "forwardToken",
    "fallbackToOwnAuth",
    "requiredAudiences",
    "teleport",
    "appName",
    "identityDir",
    "identitySecretName",
    "identitySecretNamespace",
    "tokenExchange",
    "enabled",
    "dexTokenEndpoint",
    "expectedIssuer",
    "connectorId",
    "connectorID",
    "scopes",
    "clientCredentialsSecretRef",
    "name",
    "namespace",
    "clientIdKey",
    "clientSecretKey",
    "authorizationServer",
    "issuer",
];
/// Keys that name a file with variables.
const FILES: [&str; 2] = ["envFile", "env_file"];

/// What a person answered for a placeholder of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub value: Secret,
    /// Whether it is kept apart, and never stands in a definition.
    pub is_secret: bool,
}

/// What a translation may know of the machine.
pub struct Surroundings<'a> {
    /// What stands in for placeholders, by what is in their braces: `workspaceFolder`, `input:key`.
    pub answers: &'a BTreeMap<String, Answer>,
    /// The person's own folder.
    pub home: Option<PathBuf>,
    /// The variables that are set now.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The address of our own gateway, `127.0.0.1:8700`: what leads there is not imported.
    pub own_authority: Option<String>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// Why our own entry is left out.
pub const ITSELF: &str = "it is Toolcrib itself";

/// One server; the reason why it is left out otherwise. What is reported about it repeats nothing that looks like a secret.
pub fn translate(
    client: &'static Client,
    file: PathBuf,
    found: &ClientServer,
    around: &Surroundings<'_>,
) -> Result<Draft, String> {
    let mut draft = read(client, file, found, around).map_err(|reason| masked_quotes(&reason))?;
    draft.notes.iter_mut().for_each(|note| *note = masked_quotes(note));
    Ok(draft)
}

fn read(
    client: &'static Client,
    file: PathBuf,
    found: &ClientServer,
    around: &Surroundings<'_>,
) -> Result<Draft, String> {
    let entry = Entry { value: &found.entry, client, around };
    if found.key == OURS || entry.is_ours() {
        return Err(ITSELF.to_owned());
    }
    if entry.text("command").is_none() && entry.list("command").is_none() && entry.address().is_none() {
        let reason = match entry.value.get("settings").or_else(|| entry.value.get("source")) {
            Some(_) => "it comes with an extension of the client",
            None => "it has neither a command nor an address",
        };
        return Err(reason.to_owned());
    }
    let name = match words(&found.key) {
        name if name.is_empty() => "server".to_owned(),
        name => name,
    };
    let name = ServerName::new(&name).map_err(|error| error.to_string())?;
    let origin =
        Origin { client: client.name, title: client.title, file, key: found.key.clone(), path: found.path.clone() };
    let kind = entry.kind()?;
    let mut draft = Draft {
        origin,
        name,
        is_disabled: entry.is_disabled(),
        notes: Vec::new(),
        kind,
        texts: BTreeMap::new(),
        command: None,
        args: Vec::new(),
        cwd: None,
        url: Vec::new(),
        env: BTreeMap::new(),
        headers: BTreeMap::new(),
        timeouts: entry.timeouts(),
        labels: entry.labels(),
        start: None,
        family: None,
        auth: None,
    };
    if draft.is_disabled {
        draft.start = Some("manual");
        draft.notes.push("it is disabled in the client, so it starts only on request".to_owned());
    } else if entry.value.get("autoStart") == Some(&Value::Bool(true)) {
        draft.start = Some("eager");
    }
    for (theirs, ours) in [("title", "title"), ("description", "description"), ("toolPrefix", "prefix")] {
        if let Some(text) = entry.text(theirs).filter(|text| !text.trim().is_empty()) {
            draft.texts.insert(ours, text.to_owned());
        }
    }
    match kind {
        TransportKind::Stdio => entry.program(&mut draft)?,
        TransportKind::Http | TransportKind::Sse => entry.remote(&mut draft)?,
    }
    if client.is_muster() {
        entry.family(&mut draft);
        entry.auth(&mut draft);
    }
    entry.notes(&mut draft.notes);
    if let Some(project) = found.path.strip_prefix("projects.").and_then(|path| path.strip_suffix(".mcpServers")) {
        draft.notes.push(format!("it was for the project `{project}` alone, and is for every client of Toolcrib"));
    }
    if let Some(command) = &draft.command {
        let is_given = |name: &str| draft.env.contains_key(name);
        let is_set = |name: &str| (around.variable)(name).is_some_and(|value| !value.is_empty());
        draft.notes.extend(crate::expected::missing(command, &draft.args, &is_given, &is_set));
    }
    Ok(draft)
}

/// One server's object.
struct Entry<'a> {
    value: &'a Value,
    client: &'static Client,
    around: &'a Surroundings<'a>,
}

// === impl Entry ===

impl Entry<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.value.get(key)?.as_str()
    }

    fn list(&self, key: &str) -> Option<&Vec<Value>> {
        self.value.get(key)?.as_array()
    }

    fn address(&self) -> Option<&str> {
        ["httpUrl", "serverUrl", "url"].iter().find_map(|key| self.text(key))
    }

    fn is_disabled(&self) -> bool {
        self.value.get("disabled") == Some(&Value::Bool(true)) || self.value.get("enabled") == Some(&Value::Bool(false))
    }

    fn is_ours(&self) -> bool {
        let stem =
            |command: &str| command.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".exe") == OURS;
        let authority = |url: &str| url.parse::<http::Uri>().ok()?.authority().map(|name| name.as_str().to_owned());
        let own = self.around.own_authority.as_deref();
        let leads_to_us = |url: &str| {
            let found = authority(url).map(|found| found.replace("localhost", "127.0.0.1"));
            own.is_some() && found.as_deref() == own
        };
        // Its example servers are servers like any other.
        let is_example = self.list("args").and_then(|args| args.first()).is_some_and(|first| first == "example");
        self.text("command").is_some_and(|command| stem(command) && !is_example)
            || self.address().is_some_and(leads_to_us)
            || self.list("args").into_iter().flatten().filter_map(Value::as_str).any(leads_to_us)
    }

    fn kind(&self) -> Result<TransportKind, String> {
        let written = ["type", "transport", "transportType"].iter().find_map(|key| self.text(key));
        let word: String = written.unwrap_or_default().chars().filter(char::is_ascii_alphabetic).collect();
        match word.to_ascii_lowercase().as_str() {
            "stdio" | "local" | "localcommand" | "custom" => Ok(TransportKind::Stdio),
            "http" | "streamablehttp" | "remote" => Ok(TransportKind::Http),
            "sse" => Ok(TransportKind::Sse),
            "" if self.address().is_none() => Ok(TransportKind::Stdio),
            // Both is a mistake that clients let pass; a program is what they then start.
            "" if self.value.get("command").is_some() => Ok(TransportKind::Stdio),
            "" if self.text("httpUrl").is_some() => Ok(TransportKind::Http),
            "" if self.address().is_some_and(|url| url.trim_end_matches('/').ends_with("/sse")) => {
                Ok(TransportKind::Sse)
            }
            "" => Ok(self.client.bare_url),
            _ => Err(format!("its transport `{}` is not known", written.unwrap_or_default())),
        }
    }

    fn program(&self, draft: &mut Draft) -> Result<(), String> {
        let texts = |items: &[Value]| items.iter().filter_map(plain).collect::<Vec<_>>();
        let mut words = match self.value.get("command") {
            Some(Value::String(command)) => vec![command.clone()],
            Some(Value::Array(words)) => texts(words),
            _ => Vec::new(),
        };
        words.extend(self.list("args").map(|args| texts(args)).unwrap_or_default());
        let mut words = words.into_iter();
        let command = words.next().filter(|command| !command.trim().is_empty()).ok_or("it has no command")?;
        draft.command = Some(self.filled("command", &command)?);
        let mut before = String::new();
        for word in words {
            let follows_name = before.starts_with('-') && is_secret_name(&before) && !word.starts_with('-');
            let assigned = word
                .split_once('=')
                .is_some_and(|(name, value)| name.starts_with('-') && is_secret_name(name) && !is_harmless(value));
            if follows_name || assigned || word.split([' ', '=', ':']).any(is_secret_value) || is_secret_value(&word) {
                let place = draft.args.len() + 1;
                draft.notes.push(format!("argument {place} looks like a secret and stands in the definition as it is: if the server can, let it read a variable"));
            }
            draft.args.push(self.filled("args", &word)?);
            before = word;
        }
        let cwd = self.text("cwd").filter(|cwd| !cwd.is_empty());
        draft.cwd = cwd.map(|cwd| self.filled("cwd", cwd)).transpose()?;
        for (name, value) in self.members("env") {
            if !is_variable(name) {
                // A variable with its value in one text has the secret in its name.
                let name = if name.contains(['=', ':']) { MASK } else { name };
                draft.notes.push(format!("`{name}` is left out of `env`: it is not a variable's name"));
            } else if let Some(value) = plain(value) {
                let setting = self.setting(name, &value, &mut draft.notes)?;
                draft.env.insert(name.clone(), setting);
            }
        }
        // Codex names variables that its own environment passes on.
        for name in self.list("env_vars").into_iter().flatten() {
            let name = name.as_str().or_else(|| name.get("name")?.as_str());
            if let Some(name) = name.filter(|name| is_variable(name)) {
                draft.env.entry(name.to_owned()).or_insert_with(|| Setting::Variable(name.to_owned()));
            }
        }
        Ok(())
    }

    fn remote(&self, draft: &mut Draft) -> Result<(), String> {
        let url = self.address().ok_or("it has no address")?;
        draft.url = self.url(url, draft)?;
        for (name, value) in self.members("headers").chain(self.members("http_headers")) {
            let Some(value) = plain(value) else { continue };
            if is_of_protocol(name) {
                draft.notes.push(format!("the header `{name}` is left out: the protocol sets it"));
            } else {
                let setting = self.setting(name, &value, &mut draft.notes)?;
                put(&mut draft.headers, name, setting);
            }
        }
        for (name, variable) in self.members("env_http_headers") {
            if let Some(variable) = variable.as_str().filter(|variable| is_variable(variable)) {
                put(&mut draft.headers, name, Setting::Variable(variable.to_owned()));
            }
        }
        if let Some(variable) = self.text("bearer_token_env_var").filter(|variable| is_variable(variable)) {
            let setting = self.setting("Authorization", &format!("Bearer ${{env:{variable}}}"), &mut draft.notes)?;
            put(&mut draft.headers, "Authorization", setting);
        }
        Ok(())
    }

    fn members(&self, key: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.value.get(key).and_then(Value::as_object).into_iter().flatten()
    }

    /// An address in pieces: its secrets are kept apart, a user with a password becomes a header.
    fn url(&self, written: &str, draft: &mut Draft) -> Result<Vec<UrlPart>, String> {
        let (scheme, rest) = written.split_once("://").unwrap_or(("", written));
        let (host, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let host = self.filled("url", host)?;
        let host = match host.rsplit_once('@') {
            Some((user, host)) => {
                let basic = format!("Basic {}", base64(&percent_decoded(user)));
                draft
                    .notes
                    .push("the user and password of its address are sent as the header `Authorization`".to_owned());
                draft.headers.insert("Authorization".to_owned(), Setting::Secret(Some(Secret::new(basic))));
                host.to_owned()
            }
            None => host,
        };
        let address = |path: &str| format!("{scheme}://{host}{path}");
        let mut parts = vec![UrlPart::Text(address(""))];
        let mut in_query = false;
        for piece in pieces(path, self.client.dollar_variables) {
            match piece {
                Piece::Text(text) => {
                    let pieces = address_pieces(&text, &mut in_query).into_iter();
                    parts.extend(pieces.map(|(text, of)| match of {
                        Some(of) => UrlPart::Secret(of, Some(Secret::new(text))),
                        None => UrlPart::Text(text),
                    }));
                }
                Piece::Variable { name, default: Some(default) } if (self.around.variable)(&name).is_none() => {
                    let is_secret = is_secret_name(&name) || is_secret_value(&default);
                    parts.push(if is_secret {
                        UrlPart::Secret(name, Some(Secret::new(default)))
                    } else {
                        UrlPart::Text(default)
                    });
                }
                Piece::Variable { name, .. } => parts.push(UrlPart::Variable(name)),
                Piece::Input(id) => match self.around.answers.get(&format!("input:{id}")) {
                    Some(Answer { value, is_secret: false }) => parts.push(UrlPart::Text(value.expose().to_owned())),
                    answer => parts.push(UrlPart::Secret(id, answer.map(|answer| answer.value.clone()))),
                },
                Piece::Unknown(name) => parts.push(UrlPart::Text(self.known("url", &name)?)),
            }
        }
        if parts.iter().any(|part| matches!(part, UrlPart::Secret(_, Some(_)))) {
            draft.notes.push("what is secret in its address goes into the vault".to_owned());
        }
        // With something in each place it must be an address.
        let shown = |part: &UrlPart| if let UrlPart::Text(text) = part { text.clone() } else { "x".to_owned() };
        let whole: String = parts.iter().map(shown).collect();
        whole.parse::<Endpoint>().map_err(|error| format!("its address is not one: {error}"))?;
        Ok(parts)
    }

    /// The value of a variable or a header.
    fn setting(&self, name: &str, value: &str, notes: &mut Vec<String>) -> Result<Setting, String> {
        let pieces = pieces(value, self.client.dollar_variables);
        let sorted = |value: &str| {
            let is_secret = (is_secret_name(name) && !is_harmless(value))
                || is_secret_value(value)
                // What a definition would take for a reference.
                || !matches!(value.parse(), Ok(SecretRef::Literal(_)));
            if is_secret { Setting::Secret(Some(Secret::new(value))) } else { Setting::Plain(value.to_owned()) }
        };
        match pieces.as_slice() {
            [Piece::Text(_)] => return Ok(sorted(value)),
            [Piece::Variable { name: variable, default }] => {
                let default = default.as_ref().filter(|default| !default.is_empty());
                if let Some(default) = default.filter(|_| (self.around.variable)(variable).is_none()) {
                    notes.push(format!("`{name}` gets its default, because the variable `{variable}` is not set here"));
                    return Ok(sorted(default));
                }
                if let Some(default) = default {
                    let is_secret = is_secret_value(default) || is_secret_name(name);
                    let default = if is_secret { "****" } else { default };
                    notes.push(format!("`{name}` is the variable `{variable}`, which must be set: there is no default such as `{default}`"));
                }
                return Ok(Setting::Variable(variable.clone()));
            }
            _ => {}
        }
        // A placeholder without a value is refused by its name.
        for piece in &pieces {
            if let Piece::Unknown(word) = piece {
                self.known(name, word)?;
            }
        }
        let (mut text, mut is_secret, mut missing) = (String::new(), false, None);
        for piece in &pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Unknown(word) => text.push_str(&self.known(name, word)?),
                Piece::Variable { name: variable, default } => {
                    // What a variable holds may be a secret, and definitions cannot put texts together.
                    is_secret = true;
                    match (self.around.variable)(variable).or_else(|| default.clone()) {
                        Some(value) => text.push_str(&value),
                        None => missing = Some(format!("the variable `{}`, which is not set here", masked(variable))),
                    }
                }
                Piece::Input(id) => match self.around.answers.get(&format!("input:{id}")) {
                    Some(answer) => {
                        is_secret |= answer.is_secret;
                        text.push_str(answer.value.expose());
                    }
                    None => missing = Some(format!("what the client asks for as `{}`", masked(id))),
                },
            }
        }
        Ok(match missing {
            Some(what) if pieces.len() == 1 => {
                notes.push(format!("`{name}` is {what}"));
                Setting::Secret(None)
            }
            Some(what) => {
                notes.push(format!("`{name}` is put together with {what}: give its whole value"));
                Setting::Secret(None)
            }
            None if is_secret => Setting::Secret(Some(Secret::new(text))),
            None => sorted(&text),
        })
    }

    /// A text in which every placeholder is filled in; the reason why it cannot be otherwise.
    fn filled(&self, key: &str, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        for piece in pieces(text, self.client.dollar_variables) {
            match piece {
                Piece::Text(plain) => filled.push_str(&plain),
                Piece::Unknown(word) => filled.push_str(&self.known(key, &word)?),
                // A program that gets the variable fills it in by itself, as `mcp-remote` does.
                Piece::Variable { name, .. }
                    if key == "args"
                        && self.members("env").any(|(own, _)| *own == name)
                        && !text.contains("${env:") =>
                {
                    filled.push_str(&format!("${{{name}}}"));
                }
                Piece::Variable { name, default } => match (self.around.variable)(&name).or(default) {
                    Some(value) if !is_secret_name(&name) && !is_secret_value(&value) => {
                        filled.push_str(&value);
                    }
                    // The value of such a variable must not come to stand in a definition.
                    Some(_) => {
                        let name = masked(&name);
                        return Err(format!(
                            "`{key}` holds the variable `{name}`, a secret, which a definition may not hold: let the program read it from `env`"
                        ));
                    }
                    None => {
                        let name = masked(&name);
                        return Err(format!(
                            "`{key}` needs the variable `{name}`, which is not set: set it, or give `--set {name}=VALUE`"
                        ));
                    }
                },
                Piece::Input(id) => match self.around.answers.get(&format!("input:{id}")) {
                    Some(Answer { value, is_secret: false }) => filled.push_str(value.expose()),
                    Some(_) => {
                        let id = masked(&id);
                        return Err(format!(
                            "`{key}` holds what the client asks for as `{id}`, a secret, which a definition may not hold: let the program read it from `env`"
                        ));
                    }
                    None => {
                        let id = masked(&id);
                        return Err(format!(
                            "`{key}` needs what the client asks for as `{id}`: answer on a terminal, or give `--set input:{id}=VALUE`"
                        ));
                    }
                },
            }
        }
        Ok(filled)
    }

    /// What stands for a placeholder that only the client knows.
    fn known(&self, key: &str, word: &str) -> Result<String, String> {
        let answer = self.around.answers.get(word).map(|answer| answer.value.expose().to_owned());
        answer.or_else(|| own_word(word, self.around.home.as_deref())).ok_or_else(|| {
            let word = masked(&word.chars().take(64).collect::<String>());
            format!("`{key}` needs `${{{word}}}`, which only the client knows: give it with `--set {word}=VALUE`")
        })
    }

    fn timeouts(&self) -> BTreeMap<&'static str, String> {
        let unit = self.client.timeout_unit;
        let keys = [
            ("startup_timeout_sec", "connect", 1_000),
            ("startup_timeout_ms", "connect", 1),
            ("tool_timeout_sec", "call", 1_000),
            ("timeout", "call", unit),
        ];
        let period = |(key, ours, unit): (&str, &'static str, u64)| {
            let number = self.value.get(key)?.as_f64().filter(|number| *number > 0.0 && *number < 1e9)?;
            let seconds = if unit == 1 { number / 1_000.0 } else { number };
            let millis = std::time::Duration::from_secs_f64(seconds).as_millis();
            let text =
                if millis.is_multiple_of(1_000) { format!("{}s", millis / 1_000) } else { format!("{millis}ms") };
            text.parse::<Period>().is_ok().then_some((ours, text))
        };
        keys.into_iter().filter_map(period).collect()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        self.members("labels").filter_map(|(key, value)| Some((key.clone(), plain(value)?))).collect()
    }

    /// The family of a server, where it is whole and of names that a definition takes.
    fn family(&self, draft: &mut Draft) {
        let Some(family) = self.value.get("family").filter(|family| !family.is_null()) else { return };
        let text = |key: &str| family.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let parts = text("name").zip(text("instanceArg"));
        match parts.filter(|(name, argument)| Family::is_name(name) && Family::is_argument(argument)) {
            Some((name, argument)) => draft.family = Some((name.to_owned(), argument.to_owned())),
            None => draft.notes.push(
                "`family` not imported: it requires a `name` and an `instanceArg` of letters, digits, `_` and `-`"
                    .to_owned(),
            ),
        }
    }

    /// What is said of signing in: kept as it is.
    fn auth(&self, draft: &mut Draft) {
        let Some(auth) = self.value.get("auth").filter(|auth| auth.as_object().is_some_and(|it| !it.is_empty())) else {
            return;
        };
        if draft.kind == TransportKind::Stdio {
            if auth["type"] != "none" {
                draft.notes.push("`auth` not imported: it applies to servers with a URL".to_owned());
            }
            return;
        }
        let mut left_out = Vec::new();
        draft.auth = Some(known_auth(auth, "auth", &mut left_out));
        if !left_out.is_empty() {
            draft.notes.push(format!("{} not imported: unknown, or looks like a secret", left_out.join(", ")));
        }
        if auth["type"] != "none" {
            draft.notes.push("`auth` is kept as it is: see how logins stand with `toolcrib auth status`".to_owned());
        }
    }

    /// What is not taken over.
    fn notes(&self, notes: &mut Vec<String>) {
        let says = |key: &&str| match self.value.get(*key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(members)) => !members.is_empty(),
            Some(_) => true,
        };
        let mut note = |keys: &[&'static str], what: &str| {
            let keys: Vec<String> = keys.iter().filter(|key| says(key)).map(|key| format!("`{key}`")).collect();
            if !keys.is_empty() {
                notes.push(format!("{} not imported: {what}", keys.join(", ")));
            }
        };
        note(&TOOL_RULES, "which tools may be used is said in a profile");
        let sign_in: Vec<&'static str> =
            SIGN_IN.into_iter().filter(|key| *key != "auth" || !self.client.is_muster()).collect();
        note(&sign_in, "sign in again");
        note(&FILES, "name the variables of that file in `env`");
    }
}

/// What of `auth` is known and no secret; the places of the rest are named.
fn known_auth(value: &Value, place: &str, left_out: &mut Vec<String>) -> Value {
    let Some(members) = value.as_object() else { return value.clone() };
    let mut known = serde_json::Map::new();
    for (key, value) in members {
        // A client's id looks like a secret and is none.
        let is_secret = |text: &str| key != "client_id" && (is_secret_value(text) || is_secret_address(text));
        let texts = value.as_array().into_iter().flatten().chain([value]).filter_map(Value::as_str);
        let is_plain = |text: &str| matches!(text.parse(), Ok(SecretRef::Literal(_)) | Err(_));
        let is_plain_secret = key == "client_secret" && value.as_str().is_none_or(is_plain);
        if !AUTH.contains(&key.as_str()) || is_plain_secret || texts.into_iter().any(is_secret) {
            let key = if is_name(key) { key.chars().take(64).collect() } else { MASK.to_owned() };
            left_out.push(format!("`{place}.{key}`"));
            continue;
        }
        known.insert(key.clone(), known_auth(value, &format!("{place}.{key}"), left_out));
    }
    // Without the address there is nothing to exchange at.
    if value.get("dexTokenEndpoint").is_some() && !known.contains_key("dexTokenEndpoint") {
        known.remove("enabled");
    }
    Value::Object(known)
}

/// A text, a number or a boolean as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Headers are one whatever their letter case: the later counts.
fn put(headers: &mut BTreeMap<String, Setting>, name: &str, setting: Setting) {
    headers.retain(|there, _| !there.eq_ignore_ascii_case(name));
    headers.insert(name.to_owned(), setting);
}

/// Headers that a definition may not set.
fn is_of_protocol(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    crate::define::PROTOCOL_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-")
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

/// What only a client can fill in, such as `workspaceFolder`, in the texts of its servers.
pub fn unknown_words(found: &[ClientServer], home: Option<&Path>) -> Vec<String> {
    let mut words = Vec::new();
    for piece in found.iter().flat_map(|found| pieces_in(&found.entry)) {
        if let Piece::Unknown(word) = piece
            && !words.contains(&word)
            && own_word(&word, home).is_none()
        {
            words.push(word);
        }
    }
    words
}

/// What of the client's own placeholders is the same for everyone: the person's folder, and what stands between
/// folders.
fn own_word(name: &str, home: Option<&Path>) -> Option<String> {
    match name {
        "userHome" | "HOME" | "env:HOME" => home.map(|home| home.display().to_string()),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR_STR.to_owned()),
        _ => None,
    }
}
