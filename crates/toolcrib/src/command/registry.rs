//! `toolcrib registry`: what could become a server, and whether what people wrote is right. Reads the home folder
//! itself; a gateway needs to run only for [`add`].

pub(super) mod add;
mod validate;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_catalog::{Answers, Available, Catalog, DefinitionKind, SecretRef};
use toolcrib_protocol::Raw;

use crate::home::{Environment, Home};
use crate::output::table::{Column, field};
use crate::output::{self, Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Add a server from an entry to a running gateway
    Add(add::Arguments),
    #[command(flatten)]
    Local(Local),
}

/// What needs no gateway.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Local {
    /// List the entries, built-in and from `registry/` in the home folder
    List(ListArguments),
    /// Show an entry and its requirements
    Show(ShowArguments),
    /// Print the server definition that an entry produces
    Definition(DefinitionArguments),
    /// Check definition files, with folders recursively
    Validate(validate::Arguments),
    /// Print the JSON Schema of a kind of file, for editors
    Schema(SchemaArguments),
}

/// How to print, and which home.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Home and output")]
pub(crate) struct LocalFlags {
    /// The format of the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    /// Leave out the headers of tables
    #[arg(long)]
    no_headers: bool,
    /// Print the result only, no notes
    #[arg(short, long)]
    quiet: bool,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Only these: names or globs
    names: Vec<Glob>,
    /// Only entries of this category
    #[arg(long, value_name = "NAME")]
    category: Option<String>,
    #[command(flatten)]
    local: LocalFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArguments {
    /// The entry
    name: String,
    #[command(flatten)]
    local: LocalFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct DefinitionArguments {
    /// The entry
    entry: String,
    /// The name of the server [default: the entry's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A variable of the entry: a text, or for secrets a reference such as `env:NAME`
    #[arg(long, value_name = "VARIABLE=VALUE", value_parser = assignment)]
    set: Vec<(String, SecretRef)>,
    #[command(flatten)]
    local: LocalFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct SchemaArguments {
    /// entry, server, profile, service-class, service …
    #[arg(default_value = "entry", value_parser = kind)]
    kind: DefinitionKind,
}

fn assignment(text: &str) -> Result<(String, SecretRef), String> {
    // What is wrong is not repeated: it may be a secret.
    let (name, value) = text.split_once('=').ok_or("expected VARIABLE=VALUE")?;
    let value = value.parse().map_err(|error: toolcrib_catalog::SecretRefError| error.to_string())?;
    Ok((name.to_owned(), value))
}

fn kind(text: &str) -> Result<DefinitionKind, String> {
    text.parse()
}

const COLUMNS: &[Column] = &[
    Column::new("NAME", |entry| field(entry, "name")),
    Column::new("CATEGORY", |entry| field(entry, "category")),
    Column::new("NEEDS", |entry| field(entry, "needs")),
    Column::new("FROM", |entry| field(entry, "origin")),
    Column::new("INSTEAD OF", |entry| field(entry, "shadows")),
    Column::wide("TRANSPORT", |entry| field(&entry["runtime"], "transport")),
    Column::wide("SOURCE", |entry| field(entry, "source")),
    Column::wide("TITLE", |entry| field(entry, "title")),
    Column::wide("VERIFIED", |entry| field(entry, "verified_at")),
    Column::new("DESCRIPTION", |entry| field(entry, "description")),
];

// === impl LocalFlags ===

impl LocalFlags {
    fn output(&self) -> Output {
        Output { format: self.output, headers: !self.no_headers, quiet: self.quiet }
    }

    fn home(&self, environment: &Environment) -> Result<Home, Problem> {
        Home::find(self.home.as_deref(), environment)
    }

    fn load(&self, environment: &Environment) -> Result<Catalog, Problem> {
        Ok(toolcrib_catalog::load(self.home(environment)?.path()))
    }
}

pub(super) fn run(action: &Local, environment: &Environment) -> anyhow::Result<()> {
    match action {
        Local::List(action) => list(action, environment),
        Local::Show(action) => show(action, environment),
        Local::Definition(action) => definition(action, environment),
        Local::Validate(action) => validate::run(action, environment),
        Local::Schema(action) => {
            let schema = Raw::from_value(&toolcrib_catalog::schema(action.kind));
            Ok(output::print(&output::json::pretty(schema.as_str()))?)
        }
    }
}

fn list(arguments: &ListArguments, environment: &Environment) -> anyhow::Result<()> {
    let output = arguments.local.output();
    let loaded = arguments.local.load(environment)?;
    let is_wanted = |available: &Available| {
        let entry = &available.entry;
        let fits = arguments.names.is_empty() || arguments.names.iter().any(|glob| glob.matches(entry.name.as_str()));
        fits && arguments.category.as_ref().is_none_or(|category| entry.category.as_ref() == Some(category))
    };
    let wanted = loaded.registry.values().filter(|available| is_wanted(available));
    let rows: Vec<Value> = wanted.map(|available| row(available)).collect();
    if output.is_for_programs() {
        let answer = json!({ "entries": rows, "total": rows.len() });
        output.answer(&Raw::from_value(&answer))?;
    } else {
        output.rows("entries", COLUMNS, &rows)?;
    }
    print_problems(&loaded, output);
    Ok(())
}

/// An entry with where it comes from and, in a word, what it wants.
fn row(available: &Available) -> Value {
    let mut row = available.entry.to_value();
    let required = available.entry.authorization.variables.iter().filter(|variable| variable.required);
    let mut needs: Vec<&str> = required.map(|variable| variable.name.as_str()).collect();
    if available.entry.authorization.kind == toolcrib_catalog::AuthorizationKind::OAuth2 && needs.is_empty() {
        needs.push("login");
    }
    row["needs"] = json!(needs);
    row["origin"] = json!(available.origin.to_string());
    row["shadows"] = json!(available.shadows.iter().map(ToString::to_string).collect::<Vec<_>>());
    row
}

fn show(arguments: &ShowArguments, environment: &Environment) -> anyhow::Result<()> {
    let output = arguments.local.output();
    let loaded = arguments.local.load(environment)?;
    let available = find(&loaded, &arguments.name)?;
    if output.is_for_programs() {
        output.answer(&Raw::from_value(&row(available)))?;
    } else {
        output.text(&available.entry.to_yaml())?;
    }
    output.note(&format!("from: {}", available.origin));
    for hidden in &available.shadows {
        output.note(&format!("overrides: {hidden}"));
    }
    Ok(())
}

fn definition(arguments: &DefinitionArguments, environment: &Environment) -> anyhow::Result<()> {
    let loaded = arguments.local.load(environment)?;
    let available = find(&loaded, &arguments.entry)?;
    let answers = Answers { name: arguments.name.clone(), values: arguments.set.iter().cloned().collect() };
    let configured = available.entry.to_definition(&answers).map_err(|error| Problem::from(&error))?;
    output::print(&configured.text)?;
    if loaded.servers.contains_key(&configured.name) {
        arguments.local.output().note(&format!("server `{}` already exists", configured.name));
    }
    Ok(())
}

fn find<'a>(loaded: &'a Catalog, name: &str) -> Result<&'a Available, Problem> {
    loaded.registry.get(name).map(AsRef::as_ref).ok_or_else(|| {
        let near = toolcrib_base::nearest::similar(name, loaded.registry.keys().map(toolcrib_base::ServerName::as_str));
        let hint = match near.first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => "see all with `toolcrib registry list`".to_owned(),
        };
        let short: String = name.chars().take(80).collect();
        Problem::new(Kind::NotFound, format!("no entry `{short}`")).hint(hint)
    })
}

/// Entries that could not be read are missed by someone.
fn print_problems(loaded: &Catalog, output: Output) {
    for problem in loaded.problems.iter().filter(|problem| problem.file.starts_with("registry")) {
        output.note(&format!("bad entry: {problem}"));
    }
}
