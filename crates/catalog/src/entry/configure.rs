//! An available entry becomes the text of a server's definition. Nothing is written here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};

use super::rate;
use super::runtime::fill;
use super::value::{self, Members};
use super::{AuthorizationKind, Reach, RegistryEntry, Variable};
use crate::define;
use crate::kind::DefinitionKind;
use crate::problem::{DefinitionProblem, shown};
use crate::secret::SecretRef;
use crate::server::{AuthType, ServerDefinition, ToolText};
use crate::yaml;

/// What the person who configures the server says.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// The server's name; the entry's own without it.
    pub name: Option<String>,
    /// Values of the entry's variables: references for secrets, references or plain texts for the others.
    pub values: BTreeMap<String, SecretRef>,
}

/// A definition that is ready to be written.
#[derive(Clone)]
pub struct NewDefinition {
    pub name: ServerName,
    /// Relative to the home folder.
    pub file: PathBuf,
    pub text: String,
}

/// Why an entry cannot be configured in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigureError {
    #[error("`{0}` is not a name for a server")]
    Name(String),
    #[error("entry `{0}` does not say how its server runs")]
    NoRuntime(ServerName),
    #[error("entry `{entry}` has no variable `{variable}`")]
    Unknown { entry: ServerName, variable: String },
    #[error("{} of entry `{entry}` {} no value", names(.variables), if .variables.len() == 1 { "has" } else { "have" })]
    Missing { entry: ServerName, variables: Vec<String> },
    #[error("`{0}` is a secret and must not be stored in a file")]
    PlainSecret(String),
    #[error("the server does not accept this value of `{0}`")]
    Refused(String),
    #[error("`{0}` is in arguments or a URL, where references are not resolved")]
    ReferenceInPlace(String),
    #[error("no header is defined for `{0}`")]
    NoHeader(String),
    #[error("the definition would be invalid: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Definition(Vec<DefinitionProblem>),
}

fn names(variables: &[String]) -> String {
    variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Debug for NewDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The text may hold plain values that are no one else's business.
        f.debug_struct("Configured").field("name", &self.name).field("file", &self.file).finish_non_exhaustive()
    }
}

// === impl ConfigureError ===

impl ConfigureError {
    /// The next step.
    pub fn hint(&self) -> String {
        match self {
            Self::Name(_) => "expected at most 64 characters of a-z, 0-9 and `-`, not starting with `-`".to_owned(),
            Self::NoRuntime(_) => "add `runtime` to the entry, or write the server's definition yourself".to_owned(),
            Self::Unknown { entry, .. } => format!("see its variables with `toolcrib registry show {entry}`"),
            Self::Missing { entry, .. } => format!("see what each is for with `toolcrib registry show {entry}`"),
            Self::PlainSecret(name) => format!("give a reference such as `env:{name}` or `vault:NAME`"),
            Self::Refused(_) => "the entry names the values or the pattern that fit".to_owned(),
            Self::ReferenceInPlace(_) => "give the value itself".to_owned(),
            Self::NoHeader(_) => "name its `header` in the entry".to_owned(),
            Self::Definition(problems) => {
                problems.first().and_then(|problem| problem.hint.clone()).unwrap_or_else(|| "fix the entry".to_owned())
            }
        }
    }
}

impl From<&ConfigureError> for Problem {
    fn from(error: &ConfigureError) -> Self {
        Problem { kind: Kind::InvalidParams, message: error.to_string(), hint: Some(error.hint()) }
    }
}

/// The tools whose calls a person confirms, as MCP Scooter's entries say it (`requiresApproval`); nothing without any.
fn confirmed(tools: &[ToolText]) -> Value {
    let asks = |tool: &&ToolText| {
        let value: Option<Value> = serde_json::from_str(&tool.json).ok();
        value.is_some_and(|value| value["annotations"]["requiresApproval"] == true)
    };
    // A name that would be a pattern asks before others, too: rather that than not at all.
    let names: Vec<&str> = tools.iter().filter(asks).map(|tool| tool.name.as_str()).collect();
    if names.is_empty() { Value::Null } else { json!(names) }
}

// === impl RegistryEntry ===

impl RegistryEntry {
    /// The definition of a server as this entry describes it, filled with `answers`. The text is what the reader of
    /// definitions takes, with references where secrets would be.
    pub fn to_definition(&self, answers: &Answers) -> Result<NewDefinition, ConfigureError> {
        let wanted = answers.name.as_deref().unwrap_or(self.name.as_str());
        let name = ServerName::new(wanted).map_err(|_| ConfigureError::Name(shown(wanted)))?;
        let runtime = self.runtime.as_ref().ok_or_else(|| ConfigureError::NoRuntime(self.name.clone()))?;
        let values = self.values(answers, &runtime.reach)?;
        let mut members = Members::default();
        members.set("name", name.as_str());
        members.set("title", self.title.clone());
        members.set("description", self.description.clone());
        members.set("transport", runtime.reach.kind().as_str());
        self.set_reach(&mut members, &runtime.reach, &values)?;
        members.set("timeouts", value::timeouts(&runtime.timeouts));
        members.set("category", self.category.clone());
        members.set("tags", self.tags.clone());
        members.set("icon", self.icon.clone());
        members.set("homepage", self.homepage.as_ref().map(|link| link.page().to_owned()));
        members.set("renamed", json!(self.renamed));
        members.set("confirm", confirmed(&self.tools));
        members.set("limits", rate::limits(&self.tools));
        if self.authorization.kind == AuthorizationKind::OAuth2 && values.is_empty() {
            members.set("auth", self.login());
        }
        let file = Path::new(DefinitionKind::Server.folder()).join(format!("{name}.yaml"));
        let text = format!("# From the registry entry `{}`.\n{}", self.name, yaml::render(&members.into_value()));
        // What the entry says was checked as an entry; whether it is a definition its own reader knows best.
        define::read::<ServerDefinition>(&file, name.as_str(), &text).map_err(ConfigureError::Definition)?;
        Ok(NewDefinition { name, file, text })
    }

    /// The value of each variable that has one, all of them checked.
    fn values(&self, answers: &Answers, reach: &Reach) -> Result<BTreeMap<&str, Value>, ConfigureError> {
        let variables = &self.authorization.variables;
        if let Some(name) = answers.values.keys().find(|name| self.authorization.variable(name).is_none()) {
            return Err(ConfigureError::Unknown { entry: self.name.clone(), variable: shown(name) });
        }
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        for variable in variables {
            let value = match (answers.values.get(&variable.name), &variable.default) {
                (Some(given), _) => checked(variable, given, is_placed(reach, &variable.name))?,
                (None, Some(default)) => default.clone(),
                (None, None) if variable.required => {
                    missing.push(variable.name.clone());
                    continue;
                }
                (None, None) => continue,
            };
            values.insert(variable.name.as_str(), Value::String(value));
        }
        if missing.is_empty() {
            Ok(values)
        } else {
            Err(ConfigureError::Missing { entry: self.name.clone(), variables: missing })
        }
    }

    fn set_reach(
        &self,
        members: &mut Members,
        reach: &Reach,
        values: &BTreeMap<&str, Value>,
    ) -> Result<(), ConfigureError> {
        let filled = |text: &str| fill(text, |name| values.get(name).and_then(Value::as_str).map(str::to_owned));
        // Variables in places are there and nowhere else.
        let rest = values.iter().filter(|(name, _)| !is_placed(reach, name));
        match reach {
            Reach::Stdio { command, args, env, inherit_env, cwd } => {
                let mut env = json!(env);
                for (name, value) in rest {
                    env[*name] = value.clone();
                }
                members.set("command", command.clone());
                members.set("args", args.iter().map(|text| filled(text)).collect::<Vec<_>>());
                members.set("env", env);
                members.set("inherit_env", inherit_env.clone());
                members.set("cwd", cwd.as_deref().map(filled));
            }
            Reach::Http { url, headers, .. } => {
                let mut headers = json!(headers);
                for (name, value) in rest {
                    let header = self.authorization.variable(name).and_then(|variable| variable.header.as_deref());
                    let header = match header {
                        Some(header) => header,
                        None if self.authorization.kind == AuthorizationKind::Bearer => "Authorization",
                        None => return Err(ConfigureError::NoHeader((*name).to_owned())),
                    };
                    headers[header] = value.clone();
                }
                members.set("url", filled(url));
                members.set("headers", headers);
            }
        }
        Ok(())
    }

    /// What the login needs to know, for the key `auth`.
    fn login(&self) -> Value {
        let mut members = Members::default();
        members.set("type", AuthType::OAuth.as_str());
        members.set("scopes", self.authorization.scopes.clone());
        members.into_value()
    }
}

/// Whether a variable stands somewhere as `${NAME}`.
fn is_placed(reach: &Reach, name: &str) -> bool {
    let place = format!("${{{name}}}");
    reach.places().iter().any(|text| text.contains(&place))
}

/// What stands in the file for a given value.
fn checked(variable: &Variable, given: &SecretRef, is_placed: bool) -> Result<String, ConfigureError> {
    let name = || variable.name.clone();
    match given {
        SecretRef::Literal(_) if variable.secret => Err(ConfigureError::PlainSecret(name())),
        SecretRef::Literal(text)
            if variable.accepts(text.expose()) && (is_placed || is_no_reference(text.expose())) =>
        {
            Ok(text.expose().to_owned())
        }
        SecretRef::Literal(_) => Err(ConfigureError::Refused(name())),
        // What a reference stands for is not known before it is used.
        _ if is_placed => Err(ConfigureError::ReferenceInPlace(name())),
        reference => Ok(reference.to_string()),
    }
}

/// In a file, a text that looks like a reference would be one.
fn is_no_reference(text: &str) -> bool {
    matches!(text.parse(), Ok(SecretRef::Literal(_)))
}
