//! `toolcrib model add`: defines a model, or finds those of local servers and says how to add each.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{DefinitionId, DefinitionKind, Files, ModelDefinition, WriteError};
use toolcrib_protocol::Raw;
use toolcrib_transport::http::client::HttpClient;

use super::engine::{self, LocalModel};
use crate::command::on_this_thread;
use crate::home::{Environment, Home};
use crate::output::table::{Column, field};
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The model's name, as agents will name it [default: look for local servers]
    name: Option<String>,
    /// The base of its API, such as `https://api.example.com/v1`
    #[arg(long, value_name = "URL", requires = "name")]
    url: Option<String>,
    /// How it is asked: chat, responses or messages
    #[arg(long, value_name = "WIRE", default_value = "chat")]
    wire: String,
    /// What the provider calls it [default: NAME]
    #[arg(long, value_name = "MODEL", requires = "url")]
    model: Option<String>,
    /// Where its key is: `vault:NAME`, `env:NAME`, `file:PATH` or `keyring:NAME`
    #[arg(long, value_name = "REF", requires = "url")]
    key: Option<String>,
    /// Tokens that a request and its answer may have together
    #[arg(long, value_name = "TOKENS", requires = "url")]
    window: Option<u32>,
    /// Add every model of the local servers
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Look at this address instead of the usual ones; repeatable
    #[arg(long = "at", value_name = "HOST:PORT", conflicts_with = "url")]
    addresses: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

const COLUMNS: &[Column] = &[
    Column::new("NAME", |model| field(model, "name")),
    Column::new("ENGINE", |model| field(model, "engine")),
    Column::new("MODEL", |model| field(model, "model")),
    Column::new("WINDOW", windows),
    Column::new("TOOLS", |model| match model["tools"].as_bool() {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => "?".to_owned(),
    }),
    Column::state("STATE", |model| field(model, "state")),
];

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let home = Home::find(arguments.home.as_deref(), environment)?;
    let output =
        Output { format: if arguments.json { Format::Json } else { Format::Table }, headers: true, quiet: false };
    match (&arguments.name, &arguments.url) {
        (Some(name), Some(url)) => {
            let written = write(&home, name, &definition(arguments, url))?;
            said(output, &written)
        }
        (name, _) => {
            let found = found(arguments, &home)?;
            match name {
                Some(name) => add_named(output, &home, &found, name),
                None if arguments.all => add_all(output, &home, &found),
                None => show(output, &found),
            }
        }
    }
}

/// What the flags say.
fn definition(arguments: &Arguments, url: &str) -> Value {
    let mut definition = json!({ "wire": arguments.wire, "url": url });
    let texts = [("model", &arguments.model), ("key", &arguments.key)];
    for (key, value) in texts {
        if let Some(value) = value {
            definition[key] = value.as_str().into();
        }
    }
    if let Some(window) = arguments.window {
        definition["window"] = window.into();
    }
    definition
}

/// A model of a local server, beside what is defined already.
struct FoundModel {
    model: LocalModel,
    /// The name that it would get, which no other has.
    name: String,
    /// The definition that asks it already.
    defined_as: Option<String>,
}

/// The models of local servers. None is an error: whoever asks wants one.
fn found(arguments: &Arguments, home: &Home) -> anyhow::Result<Vec<FoundModel>> {
    let usual = || engine::ADDRESSES.iter().map(|address| (*address).to_owned()).collect();
    let addresses = if arguments.addresses.is_empty() { usual() } else { arguments.addresses.clone() };
    if let Some(odd) = addresses.iter().find(|address| !is_address(address)) {
        let problem = Problem::new(Kind::InvalidParams, format!("`{odd}` is no address"));
        return Err(problem.hint("write a host and a port, such as `--at 127.0.0.1:8081`").into());
    }
    let http = HttpClient::new().context("start the HTTP client")?;
    let models = on_this_thread(async { Ok(engine::find(&http, &addresses).await) })?;
    if models.is_empty() {
        let problem = Problem::new(Kind::NotFound, format!("no model server answers at {}", addresses.join(", ")));
        let hint = "start Ollama, llama.cpp, LM Studio or vLLM, name its address with `--at HOST:PORT`, or add a model of \
                    a provider with `toolcrib model add NAME --url URL --key vault:NAME`";
        return Err(problem.hint(hint).into());
    }
    let catalog = toolcrib_catalog::load(home.path());
    let is_it = |it: &ModelDefinition, model: &LocalModel| {
        it.base().is_some_and(|base| base.eq_ignore_ascii_case(&model.url)) && it.model == model.id
    };
    let mut names: Vec<String> = catalog.models.keys().map(ToString::to_string).collect();
    names.push(toolcrib_catalog::DEMO_MODEL.to_owned());
    let found = models.into_iter().map(|model| {
        let defined = catalog.models.values().find(|it| is_it(it, &model));
        let defined_as = defined.map(|it| it.name.to_string());
        let name = defined_as.clone().unwrap_or_else(|| free_name(&model.name().to_string(), &names));
        names.push(name.clone());
        FoundModel { model, name, defined_as }
    });
    Ok(found.collect())
}

/// A host and a port, and nothing that would make another URL of it.
fn is_address(text: &str) -> bool {
    let is_host =
        |host: &str| !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.[]:".contains(&b));
    text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// The name, or the same with a number.
fn free_name(name: &str, taken: &[String]) -> String {
    let mut names = std::iter::once(name.to_owned()).chain((2_u32..).map(|number| {
        let end = format!("-{number}");
        format!("{}{end}", &name[..name.len().min(63 - end.len())])
    }));
    names.find(|name| !taken.contains(name)).expect("there are more numbers than models")
}

fn show(output: Output, found: &[FoundModel]) -> anyhow::Result<()> {
    let rows: Vec<Value> = found.iter().map(FoundModel::row).collect();
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&json!({ "models": rows })))?);
    }
    output.rows("models", COLUMNS, &rows)?;
    let commands: Vec<String> = found.iter().filter(|it| it.defined_as.is_none()).map(FoundModel::command).collect();
    if !commands.is_empty() {
        output.text(&format!("\nAdd one, or all of them with `toolcrib model add --all`:\n{}", commands.join("\n")))?;
    }
    Ok(())
}

fn add_named(output: Output, home: &Home, found: &[FoundModel], name: &str) -> anyhow::Result<()> {
    let is_it = |it: &&FoundModel| it.name == name || it.model.id == name;
    let Some(one) = found.iter().find(is_it) else {
        let names: Vec<String> = found.iter().map(|it| format!("`{}`", it.name)).collect();
        let problem = Problem::new(Kind::NotFound, format!("no local server has a model `{name}`"));
        let hint = if name.contains('/') {
            "`toolcrib embedding add PATH` adds the model that helps to find tools".to_owned()
        } else {
            format!("there are {}; a model elsewhere needs `--url URL`", names.join(", "))
        };
        return Err(problem.hint(hint).into());
    };
    if let Some(defined) = &one.defined_as {
        return Ok(output.text(&format!("`{defined}` is defined already"))?);
    }
    said(output, &write(home, &one.name, &one.definition())?)
}

fn add_all(output: Output, home: &Home, found: &[FoundModel]) -> anyhow::Result<()> {
    let mut added = Vec::new();
    for one in found.iter().filter(|it| it.defined_as.is_none()) {
        added.push(write(home, &one.name, &one.definition())?);
    }
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&json!({ "added": added })))?);
    }
    if added.is_empty() {
        return Ok(output.text("all of them are defined already")?);
    }
    let lines: io::Result<()> = added.iter().try_for_each(|written| output.text(&line(written)));
    Ok(lines?)
}

fn said(output: Output, written: &Value) -> anyhow::Result<()> {
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&json!({ "added": [written] })))?);
    }
    output.text(&line(written))?;
    let name = field(written, "name");
    output.note(&format!("an agent asks it with `model: {name}`; `toolcrib model test {name}` says what works"));
    Ok(())
}

fn line(written: &Value) -> String {
    format!("added `{}`: {}", field(written, "name"), field(written, "file"))
}

/// Writes the definition; a running gateway takes it in by itself.
fn write(home: &Home, name: &str, definition: &Value) -> anyhow::Result<Value> {
    let which = DefinitionId::new(DefinitionKind::Model, name)
        .map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
    let text = which.text_of(definition);
    let written = Files::new(home.path()).create(&which, &text).map_err(|error| match error {
        WriteError::Exists(file) => {
            let problem = Problem::new(Kind::Conflict, format!("model `{name}` already exists: `{}`", file.display()));
            problem.hint(format!("choose another name, or remove it with `toolcrib delete model {name}`"))
        }
        error => Problem::from(error),
    })?;
    Ok(json!({ "name": name, "file": written.file }))
}

// === impl FoundModel ===

impl FoundModel {
    fn definition(&self) -> Value {
        let mut definition = Map::new();
        definition.insert("wire".to_owned(), "chat".into());
        definition.insert("url".to_owned(), self.model.url.as_str().into());
        definition.insert("model".to_owned(), self.model.id.as_str().into());
        if let Some(window) = self.model.window.or(self.model.trained) {
            definition.insert("window".to_owned(), window.into());
        }
        // Local engines know the older member.
        definition.insert("differs".to_owned(), json!({ "max_completion_tokens": false }));
        Value::Object(definition)
    }

    fn row(&self) -> Value {
        let LocalModel { engine, url, id, window, trained, tools } = &self.model;
        let state = self.defined_as.as_ref().map_or("found", |_| "added");
        let mut row = json!({
            "name": self.name, "engine": engine, "url": url, "model": id, "window": window, "trained": trained,
            "tools": tools, "state": state,
        });
        if self.defined_as.is_none() {
            row["command"] = self.command().into();
        }
        row
    }

    /// The command that adds it, for a shell.
    fn command(&self) -> String {
        let mut command = format!("toolcrib model add {}", self.name);
        let is_usual = engine::ADDRESSES.iter().any(|address| self.model.url == format!("http://{address}/v1"));
        if !is_usual {
            let address = self.model.url.trim_start_matches("http://").trim_end_matches("/v1");
            command.push_str(&format!(" --at {address}"));
        }
        command
    }
}

/// How much is read at a time, and how much of it the server does not use.
fn windows(model: &Value) -> String {
    match (model["window"].as_u64(), model["trained"].as_u64()) {
        (Some(window), Some(trained)) if window < trained => format!("{window} of {trained}"),
        (Some(window), _) | (None, Some(window)) => window.to_string(),
        (None, None) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports() {
        for good in ["127.0.0.1:8080", "localhost:1", "[::1]:8080", "gpu-box.lan:11434"] {
            assert!(is_address(good), "{good}");
        }
        for bad in
            ["", "127.0.0.1", "host:", "host:0", "host:99999", "a@b:80", "host/x:80", "host:80/v1", "a b:80", "?:1"]
        {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let taken = ["a".to_owned(), "a-2".to_owned(), "x".repeat(63)];
        assert_eq!((free_name("b", &taken), free_name("a", &taken)), ("b".to_owned(), "a-3".to_owned()));
        let long = free_name(&"x".repeat(63), &taken);
        assert!(long.len() == 63 && long.ends_with("x-2"), "{long}");
    }
}
