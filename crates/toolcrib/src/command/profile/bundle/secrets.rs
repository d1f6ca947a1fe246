//! Where the secrets of an imported bundle come from: the command line, a terminal, or what the bundle says where the
//! person agrees. A bundle alone does not choose which of someone's secrets its servers get.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use serde_json::{Map, Value};
use toolcrib_auth::vault::VALUE_BYTES;
use toolcrib_auth::{EntryName, KeyPreference, Reach, SecretEntry, Vault};
use toolcrib_base::{Clock, Kind, Problem, ProfileName, Secret, ServerName, SystemClock};
use toolcrib_catalog::SecretRef;

use super::{can_ask, describe_need};
use crate::client::{ClientFlags, Rest};
use crate::home::{Environment, Home};
use crate::output::table::field;
use crate::secrets;
use crate::terminal::ask_hidden;
use crate::text;

/// `NAME=VALUE` of the command line.
#[derive(Clone)]
pub(in crate::command) struct SecretAssignment {
    name: String,
    value: SecretRef,
}

impl std::fmt::Debug for SecretAssignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretAssignment").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FromStr for SecretAssignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What follows is never repeated: it may be a secret.
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        if name.is_empty() || value.is_empty() {
            return Err("expected NAME=VALUE, both not empty".to_owned());
        }
        let value = value.parse().map_err(|error: toolcrib_catalog::SecretRefError| error.to_string())?;
        Ok(Self { name: name.to_owned(), value })
    }
}

/// Where one need is met.
enum SecretSource {
    /// Where the bundle says.
    AsWritten,
    Reference(SecretRef),
    /// To be kept in the vault.
    Value(Secret),
}

/// All that a bundle needs.
pub(super) struct Plan {
    profile: String,
    needs: Vec<(Value, Option<SecretSource>)>,
}

/// How asking ended.
pub(super) enum Answer {
    All,
    Interrupted,
}

// === impl Plan ===

impl Plan {
    /// What the command line says of each need.
    pub(super) fn new(seen: &Value, given: &[SecretAssignment], keeps: bool) -> Result<Self, Problem> {
        let needs: Vec<Value> = seen["needs"].as_array().cloned().unwrap_or_default();
        let fits =
            |given: &SecretAssignment, need: &Value| need["id"] == *given.name || need["variable"] == *given.name;
        if let Some(unused) = given.iter().find(|given| !needs.iter().any(|need| fits(given, need))) {
            let ids: Vec<String> = needs.iter().map(|need| format!("`{}`", field(need, "id"))).collect();
            let problem = Problem::new(Kind::InvalidParams, format!("the bundle needs no secret `{}`", unused.name));
            return Err(problem.hint(if ids.is_empty() {
                "it needs none".to_owned()
            } else {
                format!("it needs {}", ids.join(", "))
            }));
        }
        let mut lines = BTreeMap::new();
        let mut all = Vec::new();
        for need in needs {
            // The one that is for this server alone goes first.
            let exact = given.iter().rev().find(|given| need["id"] == *given.name);
            let met = match exact.or_else(|| given.iter().rev().find(|given| fits(given, &need))) {
                Some(SecretAssignment { name, value: SecretRef::Literal(value) }) if value.matches("-") => {
                    let line = match lines.get(name) {
                        Some(line) => Secret::clone(line),
                        None => line_of_stdin(name)?,
                    };
                    lines.insert(name.clone(), line.clone());
                    Some(SecretSource::Value(line))
                }
                Some(SecretAssignment { value: SecretRef::Literal(value), .. }) => {
                    Some(SecretSource::Value(value.clone()))
                }
                Some(SecretAssignment { value, .. }) => Some(SecretSource::Reference(value.clone())),
                None => keeps.then_some(SecretSource::AsWritten),
            };
            all.push((need, met));
        }
        Ok(Self { profile: field(seen, "name"), needs: all })
    }

    /// Asks for what the command line did not say.
    pub(super) fn ask_for_the_rest(&mut self, file: &Path) -> anyhow::Result<Answer> {
        let open: Vec<&Value> = self.needs.iter().filter(|(_, met)| met.is_none()).map(|(need, _)| need).collect();
        if open.is_empty() {
            return Ok(Answer::All);
        }
        if !can_ask(file) {
            let lines: Vec<String> = open.iter().map(|need| describe_need(need)).collect();
            let first = field(open[0], "id");
            let problem =
                Problem::new(Kind::InvalidParams, format!("nothing was written: missing {}", lines.join("; ")));
            let variable = if open[0]["kind"] == "url" { "KEY".to_owned() } else { field(open[0], "variable") };
            let hint = format!(
                "set each, such as with `--set {first}=env:{variable}`, or keep the bundle's references with \
                 `--keep-references`"
            );
            return Err(problem.hint(hint).into());
        }
        for (need, met) in self.needs.iter_mut().filter(|(_, met)| met.is_none()) {
            let question =
                format!("{}\n  value, a reference, or Enter for `{}`: ", describe_need(need), field(need, "reference"));
            let asked = ask_hidden(&mut io::stdin().lock(), &text::block(&question)).context("ask for a secret")?;
            let Some(value) = asked else { return Ok(Answer::Interrupted) };
            *met = Some(match value.expose().parse() {
                _ if value.expose().is_empty() => SecretSource::AsWritten,
                Ok(SecretRef::Literal(_)) | Err(_) => SecretSource::Value(value),
                Ok(reference) => SecretSource::Reference(reference),
            });
        }
        Ok(Answer::All)
    }

    /// The references that are not as the bundle has them, by need.
    pub(super) fn references(&self) -> Value {
        let mut references = Map::new();
        for (need, met) in &self.needs {
            let reference = match met {
                Some(SecretSource::Reference(reference)) => reference.to_string(),
                Some(SecretSource::Value(_)) => format!("vault:{}", field(need, "vault_name")),
                Some(SecretSource::AsWritten) | None => continue,
            };
            references.insert(field(need, "id"), reference.into());
        }
        Value::Object(references)
    }
}

fn line_of_stdin(name: &str) -> Result<Secret, Problem> {
    let mut line = String::new();
    let read = io::stdin().lock().take(VALUE_BYTES as u64 + 3).read_line(&mut line);
    let line = line.trim_end_matches(['\n', '\r']);
    if read.is_err() || line.is_empty() {
        return Err(Problem::new(Kind::InvalidParams, format!("stdin has no line for `{name}`")));
    }
    Ok(Secret::new(line))
}

/// The vault of the gateway that is spoken to, if it is one of this home.
pub(super) struct VaultLocation(Result<Vault, Problem>);

impl VaultLocation {
    pub(super) fn new(flags: &ClientFlags, environment: &Environment, rest: &Rest) -> Self {
        if rest.is_elsewhere() {
            let problem = Problem::new(
                Kind::InvalidParams,
                "the gateway was given by URL, so its vault may be on another machine",
            );
            let hint =
                "set the secret there with `toolcrib secret set` and pass its reference, such as `KEY=vault:key`";
            return Self(Err(problem.hint(hint)));
        }
        Self(Home::find(flags.home(), environment).map(|home| secrets::vault(&home, environment)))
    }

    /// Keeps the values that were given, each for its server and this profile only. All of them, or none.
    pub(super) fn keep(&self, plan: &Plan, replace: bool) -> Result<Vec<EntryName>, Problem> {
        let values = plan.needs.iter().filter_map(|(need, met)| match met {
            Some(SecretSource::Value(value)) => Some((need, value)),
            _ => None,
        });
        let values: Vec<(&Value, &Secret)> = values.collect();
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let vault = self.0.as_ref().map_err(Clone::clone)?;
        let there = vault.list().map_err(|error| secrets::problem(&error))?;
        let mut kept = Vec::new();
        for (need, value) in values {
            let done = entry(need, &plan.profile, value, &there, replace).and_then(|entry| {
                vault.set(&entry, value, KeyPreference::Keyring).map_err(|error| secrets::problem(&error))?;
                Ok(entry.name)
            });
            match done {
                Ok(name) => kept.push(name),
                Err(problem) => {
                    self.take_back(&kept);
                    return Err(problem);
                }
            }
        }
        Ok(kept.into_iter().filter(|name| there.iter().all(|it| it.name != *name)).collect())
    }

    /// Removes what was kept, because the import failed.
    pub(super) fn take_back(&self, kept: &[EntryName]) {
        if let Ok(vault) = &self.0 {
            // What cannot be removed is of no use to anyone: nothing refers to it.
            kept.iter().for_each(|name| drop(vault.remove(name)));
        }
    }
}

/// The entry of a need. A definition's variables serve every profile, so a server's entry is for the server only.
fn entry(
    need: &Value,
    profile: &str,
    value: &Secret,
    there: &[SecretEntry],
    replace: bool,
) -> Result<SecretEntry, Problem> {
    let fault = |text: String| Problem::new(Kind::InvalidParams, text);
    if value.expose().is_empty() {
        return Err(fault(format!("the value of `{}` is empty", field(need, "id"))));
    }
    let name = EntryName::new(&field(need, "vault_name")).map_err(|error| fault(error.to_string()))?;
    if !replace && there.iter().any(|it| it.name == name) {
        let problem = Problem::new(Kind::Conflict, format!("the vault already has an entry `{name}`"));
        return Err(problem.hint(format!("use it with `--set {}=vault:{name}`, or add `--replace`", field(need, "id"))));
    }
    let reach = match need["server"].as_str() {
        Some(server) => Reach::new(ServerName::new(server).into_iter().collect(), Vec::new()),
        None => Reach::new(Vec::new(), ProfileName::new(profile).into_iter().collect()),
    };
    Ok(SecretEntry { name, reach, set_at: SystemClock.now() })
}
