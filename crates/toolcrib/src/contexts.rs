//! `contexts.yaml` of the home: gateways by name, each with what is needed to come to it. The current one is where
//! commands go by default.
//!
//! A token is a reference (`file:`, `env:`, `keyring:`); its text is in the file only for anyone who insists, and then
//! the file must be its owner's alone. Read and written whole: comments are not kept.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, Secret};
use toolcrib_catalog::{MASK, SecretRef, is_secret_value, without_secrets};

use crate::home::{Environment, Home};
use crate::output::Format;
use crate::{secrets, token};

/// The file's name in the home.
const FILE: &str = "contexts.yaml";
/// Larger files are not ours.
const FILE_BYTES: u64 = 1 << 20;
/// The longest name.
const NAME_MAX: usize = 63;

/// Everything that the file says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contexts {
    pub(crate) current: Option<String>,
    /// In the file's order.
    pub(crate) all: Vec<Context>,
    path: PathBuf,
}

/// One gateway and how to come to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) endpoint: String,
    pub(crate) profile: Option<ProfileName>,
    pub(crate) token: Option<SecretRef>,
    pub(crate) output: Option<Format>,
}

// === impl Contexts ===

impl Contexts {
    /// Reads the file of a home; without one there are no contexts.
    pub(crate) fn load(home: &Home) -> Result<Self, Problem> {
        Self::read(home.path().join(FILE)).map_err(without_secrets)
    }

    fn read(path: PathBuf) -> Result<Self, Problem> {
        let Some((text, is_private)) = read(&path)? else { return Ok(Self { path, ..Self::default() }) };
        let wrong = |why: &str| {
            Problem::new(Kind::Definition, format!("`{}`: {why}", path.display()))
                .hint("fix the file, or remove it and add the contexts again with `toolcrib context add`")
        };
        let documents = toolcrib_catalog::documents(&text, &path).map_err(|problem| {
            Problem::new(Kind::Definition, problem.to_string()).hint("fix the file, or remove it")
        })?;
        let value = match &documents[..] {
            [] => json!({}),
            [document] => document.value.clone(),
            _ => return Err(wrong("more than one document")),
        };
        let mut contexts = Self { path: path.clone(), ..Self::parse(&value).map_err(|why| wrong(&why))? };
        if !is_private && let Some(open) = contexts.all.iter().find(|context| context.holds_token()) {
            let why = format!("other users can read it, and the context `{}` holds a token in plain text", open.name);
            return Err(Problem::new(Kind::Definition, format!("`{}`: {why}", path.display()))
                .hint(format!("create a new token, then run `chmod 600 {}`", path.display())));
        }
        contexts.current = contexts.current.filter(|name| !name.is_empty());
        Ok(contexts)
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let members = value.as_object().ok_or("expected a map")?;
        check_keys(members, &["current-context", "contexts"], "")?;
        let mut contexts = Self { current: text(members, "current-context", "")?, ..Self::default() };
        let entries = match members.get("contexts") {
            None | Some(Value::Null) => &Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err("`contexts`: expected a list".to_owned()),
        };
        for (index, entry) in entries.iter().enumerate() {
            let context = Context::parse(entry, &format!("contexts[{index}]"))?;
            if contexts.find(&context.name).is_some() {
                return Err(format!("the context `{}` appears twice", context.name));
            }
            contexts.all.push(context);
        }
        Ok(contexts)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Context> {
        self.all.iter().find(|context| context.name == name)
    }

    /// The context of a name that someone gave.
    pub(crate) fn named(&self, name: &str, place: &str) -> Result<&Context, Problem> {
        self.find(name).ok_or_else(|| {
            let message = format!("no context `{name}` (from {place})");
            let hint = if self.all.is_empty() {
                "add one with `toolcrib context add NAME --endpoint URL`".to_owned()
            } else {
                let names: Vec<String> = self.all.iter().map(|context| format!("`{}`", context.name)).collect();
                format!("known contexts: {}; see `toolcrib context list`", names.join(", "))
            };
            without_secrets(Problem::new(Kind::NotFound, message).hint(hint))
        })
    }

    /// The context that commands go to by default.
    pub(crate) fn current(&self) -> Result<Option<&Context>, Problem> {
        let place = format!("`current-context` of `{}`", self.path.display());
        self.current.as_deref().map(|name| self.named(name, &place)).transpose()
    }

    /// Writes the file, for its owner only, in one step.
    pub(crate) fn save(&self) -> Result<(), Problem> {
        let value = json!({
            "current-context": self.current.as_deref().unwrap_or_default(),
            "contexts": self.all.iter().map(Context::to_value).collect::<Vec<_>>(),
        });
        let text = toolcrib_catalog::to_yaml(&value);
        token::write_private(&self.path, text.as_bytes())
            .map_err(|error| Problem::new(Kind::Internal, format!("cannot write `{}`: {error}", self.path.display())))
    }
}

// === impl Context ===

impl Context {
    fn parse(value: &Value, place: &str) -> Result<Self, String> {
        let members = value.as_object().ok_or_else(|| format!("`{place}`: expected a map"))?;
        check_keys(members, &["name", "endpoint", "profile", "token", "settings"], place)?;
        let missing = |key: &str| format!("`{place}`: the key `{key}` is missing");
        let name = text(members, "name", place)?.ok_or_else(|| missing("name"))?;
        check_name(&name)?;
        let endpoint = text(members, "endpoint", place)?.ok_or_else(|| missing("endpoint"))?;
        let profile = text(members, "profile", place)?;
        let profile = profile.map(|name| ProfileName::new(&name)).transpose().map_err(|error| error.to_string())?;
        let token = text(members, "token", place)?.map(|text| token_of(&text)).transpose()?;
        let mut context = Self { name, endpoint, profile, token, output: None };
        if let Some(settings) = members.get("settings").filter(|settings| !settings.is_null()) {
            let place = format!("{place}.settings");
            let settings = settings.as_object().ok_or_else(|| format!("`{place}`: expected a map"))?;
            check_keys(settings, &["output"], &place)?;
            let output = text(settings, "output", &place)?;
            context.output = output.map(|word| Format::from_str(&word, false)).transpose().map_err(|_| {
                let names = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
                let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
                format!("`{place}.output`: expected one of {}", names.join(", "))
            })?;
        }
        Ok(context)
    }

    fn to_value(&self) -> Value {
        let mut value = self.shown();
        if let Some(SecretRef::Literal(secret)) = &self.token {
            value["token"] = secret.expose().into();
        }
        value
    }

    /// All of it but a token in plain text, which is `****`.
    pub(crate) fn shown(&self) -> Value {
        let mut value = json!({ "name": self.name, "endpoint": self.endpoint });
        if let Some(profile) = &self.profile {
            value["profile"] = profile.as_str().into();
        }
        if let Some(token) = &self.token {
            value["token"] = token.to_string().into();
        }
        if let Some(output) = self.output.and_then(|output| output.to_possible_value()) {
            value["settings"] = json!({ "output": output.get_name() });
        }
        value
    }

    fn holds_token(&self) -> bool {
        matches!(self.token, Some(SecretRef::Literal(_)))
    }

    /// The token that its gateway takes, if it names one.
    pub(crate) fn resolve(&self, home: &Home, environment: &Environment) -> Result<Option<Secret>, Problem> {
        let Some(reference) = &self.token else { return Ok(None) };
        let failed = |why: &str| {
            Problem::new(Kind::Unauthenticated, format!("cannot read the token of the context `{}`: {why}", self.name))
                .hint(format!("see `toolcrib context show {}`", self.name))
        };
        let secret = match reference {
            SecretRef::Literal(secret) => secret.clone(),
            SecretRef::Env(name) => match environment.text(name)? {
                Some(text) => Secret::new(text.trim()),
                None => return Err(failed(&format!("the variable `{name}` is not set"))),
            },
            SecretRef::File(path) => return token::read(&home.path().join(path)).map(Some),
            SecretRef::Keyring(name) => secrets::of_keyring(name, environment).map_err(|why| failed(&why))?,
            SecretRef::Vault(_) | SecretRef::User(_) => {
                return Err(failed("values of callers and the vault's secrets are for servers only"));
            }
        };
        if token::is_token(secret.expose()) { Ok(Some(secret)) } else { Err(failed("it contains no token")) }
    }
}

/// What names look like: of muster's form, so that its files can be read.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let bytes = name.as_bytes();
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = bytes.len() <= NAME_MAX
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().all(|byte| is_end(byte) || *byte == b'-');
    let shown = if is_secret_value(name) { MASK.to_owned() } else { name.chars().take(80).collect() };
    let expected =
        format!("expected at most {NAME_MAX} characters of a-z, 0-9 and `-`, not starting or ending with `-`");
    if fits { Ok(()) } else { Err(format!("`{shown}` is not a name: {expected}")) }
}

/// A token's place; `plain:` is for anyone who insists on its text.
fn token_of(text: &str) -> Result<SecretRef, String> {
    match text.parse::<SecretRef>() {
        Ok(SecretRef::Vault(_)) => {
            Err("`token`: the vault holds secrets of servers only; use `file:`, `env:` or `keyring:`".into())
        }
        Ok(SecretRef::User(_)) => {
            Err("`token`: values of callers are for headers of servers; use `file:`, `env:` or `keyring:`".into())
        }
        Ok(reference) => Ok(reference),
        Err(error) => Err(format!("`token`: {error}")),
    }
}

/// The context that a command is to use, with where its name was taken from: flag, variable, `current-context`.
pub(crate) fn wanted(
    flag: Option<&str>,
    home: Result<&Home, Problem>,
    environment: &Environment,
) -> Result<Option<(Context, String)>, Problem> {
    const VARIABLE: &str = "TOOLCRIB_CONTEXT";
    let variable = environment.text(VARIABLE)?;
    let home = match home {
        Ok(home) => home,
        // Without a home there is no file, which only matters to anyone who names a context.
        Err(problem) if flag.is_some() || variable.is_some() => return Err(problem),
        Err(_) => return Ok(None),
    };
    let contexts = Contexts::load(home)?;
    let found = match (flag, variable) {
        (Some(name), _) => (contexts.named(name, "`--context`")?, "`--context`".to_owned()),
        (None, Some(name)) => {
            let place = format!("`{VARIABLE}`");
            (contexts.named(name, &place)?, place)
        }
        (None, None) => match contexts.current()? {
            Some(context) => (context, format!("the context `{}`", context.name)),
            None => return Ok(None),
        },
    };
    Ok(Some((found.0.clone(), found.1)))
}

/// The file's text, and whether only its owner can read it.
fn read(path: &Path) -> Result<Option<(String, bool)>, Problem> {
    let failed = |why: &str| {
        Problem::new(Kind::Definition, format!("cannot read `{}`: {why}", path.display()))
            .hint("fix or remove the file; `--endpoint URL` works without it")
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error.to_string())),
    };
    let metadata = file.metadata().map_err(|error| failed(&error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("it is not a file"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error.to_string()))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(failed(&format!("it has more than {FILE_BYTES} bytes")));
    }
    Ok(Some((text, metadata.mode() & 0o077 == 0)))
}

fn check_keys(members: &Map<String, Value>, keys: &[&str], place: &str) -> Result<(), String> {
    match members.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let place = if place.is_empty() { String::new() } else { format!("`{place}`: ") };
            let shown: String = if is_secret_value(key) { MASK.to_owned() } else { key.chars().take(80).collect() };
            Err(format!("{place}unknown key `{shown}`; known keys are {}", keys.join(", ")))
        }
    }
}

fn text(members: &Map<String, Value>, key: &str, place: &str) -> Result<Option<String>, String> {
    match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => {
            let place = if place.is_empty() { String::new() } else { format!("{place}.") };
            Err(format!("`{place}{key}`: expected a text"))
        }
    }
}

#[cfg(test)]
mod tests;
