//! A definition in the making: everything but its name and the places of its secrets, which the importer decides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toolcrib_base::{Secret, ServerName};

use crate::define;
use crate::problem::DefinitionProblem;
use crate::server::{ServerDefinition, Transport, TransportKind};
use crate::yaml;

/// Where a draft comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client's name on our command line.
    pub client: &'static str,
    /// Its maker's name for it.
    pub title: &'static str,
    pub file: PathBuf,
    /// What the client calls the server.
    pub key: String,
    /// Where in the file, such as `projects./work.mcpServers`.
    pub path: String,
}

/// The value of a variable or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Setting {
    Plain(String),
    /// A variable of our own environment.
    Variable(String),
    /// Kept apart; nothing where it must be given first.
    Secret(Option<Secret>),
}

/// A piece of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UrlPart {
    Text(String),
    /// A variable of our own environment.
    Variable(String),
    /// Kept apart, with what it is called there; nothing where it must be given first.
    Secret(String, Option<Secret>),
}

/// A secret that a definition refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReference {
    /// What it is to be kept under, such as `github-token`: fit for a file's name and for an entry of a vault.
    pub name: String,
    /// The secret; nothing when the client's settings do not hold it and it must be given.
    pub value: Option<Secret>,
    /// The variable or header that it is for.
    pub of: String,
}

/// What a client's server says, checked and sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub origin: Origin,
    /// The name that the definition should get if no one else has it.
    pub name: ServerName,
    /// Whether the client has it switched off.
    pub is_disabled: bool,
    /// What a person should know: what was left out, what must be given.
    pub notes: Vec<String>,
    pub(super) kind: TransportKind,
    /// `title`, `description`, `prefix`: keys with plain texts.
    pub(super) texts: BTreeMap<&'static str, String>,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) url: Vec<UrlPart>,
    pub(super) env: BTreeMap<String, Setting>,
    pub(super) headers: BTreeMap<String, Setting>,
    /// `connect`, `call`.
    pub(super) timeouts: BTreeMap<&'static str, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) start: Option<&'static str>,
    /// The family's name, and the argument that names the server.
    pub(super) family: Option<(String, String)>,
    /// What is said of signing in, no secrets.
    pub(super) auth: Option<serde_json::Value>,
}

// === impl Draft ===

impl Draft {
    pub fn transport(&self) -> TransportKind {
        self.kind
    }

    /// Whether a definition starts the same program, or might connect to the same address.
    pub(super) fn runs_as(&self, known: &ServerDefinition) -> bool {
        match &known.transport {
            Transport::Stdio(program) => self.command.as_ref() == Some(&program.command) && self.args == program.args,
            Transport::Http(_) | Transport::Sse(_) => self.kind == known.transport.kind(),
        }
    }

    /// The secrets that the definition of this name refers to. Every one has a name of its own.
    pub fn secrets(&self, name: &ServerName) -> Vec<SecretReference> {
        let mut taken = BTreeSet::new();
        let mut wanted = Vec::new();
        let settings = self.env.iter().chain(&self.headers).filter_map(|(of, setting)| match setting {
            Setting::Secret(value) => Some((of.clone(), value)),
            Setting::Plain(_) | Setting::Variable(_) => None,
        });
        let of_url = self.url.iter().filter_map(|part| match part {
            UrlPart::Secret(of, value) => Some((format!("url {of}"), value)),
            UrlPart::Text(_) | UrlPart::Variable(_) => None,
        });
        for (of, value) in settings.chain(of_url) {
            let stem = format!("{name}-{}", words(&of));
            let stem = stem.trim_end_matches('-');
            let numbered = (2..).map(|number| format!("{stem}-{number}"));
            let free = std::iter::once(stem.to_owned()).chain(numbered).find(|name| !taken.contains(name));
            let name = free.unwrap_or_default();
            taken.insert(name.clone());
            wanted.push(SecretReference { name, value: value.clone(), of });
        }
        wanted
    }

    /// The text of the definition; `refer` gives the reference to a secret of [`Draft::secrets`].
    pub fn text(&self, name: &ServerName, refer: &dyn Fn(&str) -> String) -> String {
        let mut secrets = self.secrets(name);
        let in_url = self.url.iter().filter(|part| matches!(part, UrlPart::Secret(..))).count();
        let of_url = secrets.split_off(secrets.len() - in_url);
        let (mut secrets, mut of_url) = (secrets.into_iter(), of_url.into_iter());
        let mut lines = vec![format!("# From {}.", comment(self.origin.title)), format!("name: {name}")];
        lines.extend(self.texts.iter().map(|(key, text)| format!("{key}: {}", scalar(text))));
        lines.push(format!("transport: {}", self.kind.as_str()));
        let one = |key: &str, text: &Option<String>| text.as_ref().map(|text| format!("{key}: {}", scalar(text)));
        lines.extend(one("command", &self.command));
        if !self.args.is_empty() {
            let args: Vec<String> = self.args.iter().map(|arg| quoted(arg)).collect();
            lines.push(format!("args: [{}]", args.join(", ")));
        }
        let url: String = self
            .url
            .iter()
            .map(|part| match part {
                UrlPart::Text(text) => text.clone(),
                UrlPart::Variable(name) => format!("${{env:{name}}}"),
                UrlPart::Secret(..) => {
                    format!("${{{}}}", of_url.next().map(|secret| refer(&secret.name)).unwrap_or_default())
                }
            })
            .collect();
        lines.extend(one("url", &(!url.is_empty()).then_some(url)));
        let mut map = |key: &str, settings: &BTreeMap<String, Setting>| {
            if !settings.is_empty() {
                lines.push(format!("{key}:"));
            }
            for (name, setting) in settings {
                let value = match setting {
                    Setting::Plain(text) => quoted(text),
                    Setting::Variable(variable) => quoted(&format!("env:{variable}")),
                    Setting::Secret(_) => quoted(&secrets.next().map(|secret| refer(&secret.name)).unwrap_or_default()),
                };
                lines.push(format!("  {}: {value}", scalar(name)));
            }
        };
        map("env", &self.env);
        map("headers", &self.headers);
        lines.extend(one("cwd", &self.cwd));
        lines.extend(self.start.map(|start| format!("start: {start}")));
        if !self.timeouts.is_empty() {
            let periods: Vec<String> = self.timeouts.iter().map(|(key, period)| format!("{key}: {period}")).collect();
            lines.push(format!("timeouts: {{{}}}", periods.join(", ")));
        }
        if let Some((name, argument)) = &self.family {
            lines.push(format!("family: {{name: {}, instance_arg: {}}}", quoted(name), quoted(argument)));
        }
        if let Some(auth) = &self.auth {
            lines.push(yaml::render(&serde_json::json!({ "auth": auth })).trim_end().to_owned());
        }
        if !self.labels.is_empty() {
            lines.push("labels:".to_owned());
            lines.extend(self.labels.iter().map(|(key, value)| format!("  {}: {}", quoted(key), quoted(value))));
        }
        lines.join("\n") + "\n"
    }

    /// The definition that the text is; what is wrong with it otherwise.
    pub fn definition(
        &self,
        name: &ServerName,
        refer: &dyn Fn(&str) -> String,
    ) -> Result<ServerDefinition, Vec<DefinitionProblem>> {
        let file = Path::new("servers").join(format!("{name}.yaml"));
        define::read(&file, name.as_str(), &self.text(name, refer))
    }
}

/// A text as a name of `[a-z0-9-]`: everything else is a dash.
pub(super) fn words(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(48);
    name.trim_end_matches('-').to_owned()
}

fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text as YAML, plain where that is safe.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !text.ends_with(' ')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./ ".contains(&byte))
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        && text.parse::<f64>().is_err();
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// A text in double quotes: those of JSON are also those of YAML, except for what YAML does not let stand as it is.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in serde_json::Value::from(text).to_string().chars() {
        let code = u32::from(c);
        match code {
            0x7F..=0x9F | 0x2028 | 0x2029 | 0xFEFF | 0xFFFE | 0xFFFF => quoted.push_str(&format!("\\u{code:04x}")),
            _ => quoted.push(c),
        }
    }
    quoted
}
