//! `toolcrib context`: gateways by name. Only the file `contexts.yaml` of the home is read and written; no one is
//! asked.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, Secret};
use toolcrib_catalog::SecretRef;
use toolcrib_protocol::Raw;

use crate::client;
use crate::contexts::{self, Context, Contexts};
use crate::home::{Environment, Home};
use crate::kind::rows::CONTEXTS;
use crate::output::table::field;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    local: Local,
}

/// What every action takes.
#[derive(Debug, Clone, clap::Args)]
struct Local {
    /// The format of the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table", global = true)]
    output: Format,
    /// Leave out the headers of tables
    #[arg(long, global = true)]
    no_headers: bool,
    /// Print the result only, no notes
    #[arg(short, long, global = true)]
    quiet: bool,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR", global = true)]
    home: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the contexts
    #[command(alias = "ls")]
    List,
    /// Print the name of the current context
    Current,
    /// Make a context the current one
    #[command(alias = "switch")]
    Use(ContextArgument),
    /// Add a context
    Add(Add),
    /// Change a context
    #[command(alias = "set")]
    Update(Update),
    /// Remove contexts
    #[command(aliases = ["rm", "remove"])]
    Delete(Delete),
    /// Rename a context
    Rename(Rename),
    /// Show a context
    #[command(aliases = ["describe", "get"])]
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct ContextArgument {
    /// The context's name
    #[arg(add = crate::names::contexts())]
    name: String,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The context's name [default: the current one]
    #[arg(add = crate::names::contexts())]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Add {
    /// The new context's name
    name: String,
    /// The gateway's URL, such as `https://tools.example.com/mcp`
    #[arg(long, value_name = "URL")]
    endpoint: String,
    #[command(flatten)]
    more: ContextFlags,
    /// Make it the current one
    #[arg(long = "use")]
    and_use: bool,
}

#[derive(Debug, clap::Args)]
struct Update {
    /// The context's name
    #[arg(add = crate::names::contexts())]
    name: String,
    /// The gateway's URL
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    #[command(flatten)]
    more: ContextFlags,
    /// Remove the token reference
    #[arg(long, conflicts_with_all = ["token", "plain_token"])]
    no_token: bool,
}

/// What may be said of a context beside its endpoint.
#[derive(Debug, clap::Args)]
struct ContextFlags {
    /// The profile to use at that gateway
    #[arg(long, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// Where the gateway's token is stored: `file:PATH`, `env:NAME` or `keyring:NAME`
    #[arg(long, value_name = "REFERENCE")]
    token: Option<String>,
    /// Store the token itself in the file; anyone who can read the file can then administer that gateway
    #[arg(long, value_name = "TOKEN", conflicts_with = "token")]
    plain_token: Option<String>,
    /// The default format of results
    #[arg(long, value_name = "FORMAT", value_enum)]
    default_output: Option<Format>,
}

#[derive(Debug, clap::Args)]
struct Delete {
    /// The contexts' names
    #[arg(required = true, add = crate::names::contexts())]
    names: Vec<String>,
    /// Delete it even if it is the current one
    #[arg(short, long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct Rename {
    /// The context's name
    #[arg(add = crate::names::contexts())]
    name: String,
    /// Its new name
    new_name: String,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let local = &arguments.local;
    let output = Output { format: local.output, headers: !local.no_headers, quiet: local.quiet };
    let home = Home::find(local.home.as_deref(), environment)?;
    let mut contexts = Contexts::load(&home)?;
    match arguments.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(&contexts, output)?,
        Action::Current => {
            let current = contexts.current()?.ok_or_else(no_current)?;
            output.text(&current.name)?;
        }
        Action::Show(Show { name }) => {
            let context = match name {
                Some(name) => contexts.named(name, "the command line")?,
                None => contexts.current()?.ok_or_else(no_current)?,
            };
            show(context, &contexts, output)?;
        }
        Action::Use(ContextArgument { name }) => {
            let endpoint = contexts.named(name, "the command line")?.endpoint.clone();
            contexts.current = Some(name.clone());
            contexts.save()?;
            output.text(&format!("Switched to context `{name}` ({endpoint})"))?;
        }
        Action::Add(add) => {
            contexts::check_name(&add.name).map_err(wrong)?;
            if contexts.find(&add.name).is_some() {
                let problem = Problem::new(Kind::Conflict, format!("the context `{}` already exists", add.name));
                return Err(problem.hint(format!("change it with `toolcrib context update {}`", add.name)).into());
            }
            let mut context = Context {
                name: add.name.clone(),
                endpoint: checked(&add.endpoint)?,
                profile: None,
                token: None,
                output: None,
            };
            add.more.put_into(&mut context, output)?;
            contexts.all.push(context);
            if add.and_use {
                contexts.current = Some(add.name.clone());
            }
            contexts.save()?;
            output.text(&format!("Added context `{}`", add.name))?;
            if !add.and_use {
                output.note(&format!("use it with `toolcrib context use {}`", add.name));
            }
        }
        Action::Update(update) => {
            contexts.named(&update.name, "the command line")?;
            for context in contexts.all.iter_mut().filter(|context| context.name == update.name) {
                if let Some(endpoint) = &update.endpoint {
                    let endpoint = checked(endpoint)?;
                    // A token belongs to one gateway: it does not move along to another one.
                    let moves = !same_gateway(&context.endpoint, &endpoint);
                    if moves && context.token.is_some() && !update.more.says_token() && !update.no_token {
                        let message = format!("the token of `{}` belongs to `{}`", context.name, context.endpoint);
                        return Err(Problem::new(Kind::InvalidParams, message)
                            .hint("set the token for the new URL with `--token`, or use `--no-token`")
                            .into());
                    }
                    context.endpoint = endpoint;
                }
                if update.no_token {
                    context.token = None;
                }
                update.more.put_into(context, output)?;
            }
            contexts.save()?;
            output.text(&format!("Updated context `{}`", update.name))?;
        }
        Action::Delete(delete) => remove(&mut contexts, delete, output)?,
        Action::Rename(rename) => {
            contexts.named(&rename.name, "the command line")?;
            contexts::check_name(&rename.new_name).map_err(wrong)?;
            if contexts.find(&rename.new_name).is_some() {
                return Err(
                    Problem::new(Kind::Conflict, format!("the context `{}` already exists", rename.new_name)).into()
                );
            }
            for context in contexts.all.iter_mut().filter(|context| context.name == rename.name) {
                context.name.clone_from(&rename.new_name);
            }
            if contexts.current.as_ref() == Some(&rename.name) {
                contexts.current = Some(rename.new_name.clone());
            }
            contexts.save()?;
            output.text(&format!("Renamed context `{}` to `{}`", rename.name, rename.new_name))?;
        }
    }
    Ok(())
}

// === impl ContextFlags ===

impl ContextFlags {
    fn says_token(&self) -> bool {
        self.token.is_some() || self.plain_token.is_some()
    }

    fn put_into(&self, context: &mut Context, output: Output) -> Result<(), Problem> {
        if let Some(profile) = &self.profile {
            context.profile = Some(profile.clone());
        }
        if let Some(format) = self.default_output {
            context.output = Some(format);
        }
        if let Some(text) = &self.token {
            let reference: SecretRef = text.parse().map_err(|error| wrong(format!("`--token`: {error}")))?;
            if !matches!(reference, SecretRef::File(_) | SecretRef::Env(_) | SecretRef::Keyring(_)) {
                return Err(wrong("`--token` takes a reference, not the token itself".to_owned())
                    .hint("write `file:PATH`, `env:NAME` or `keyring:NAME`; `--plain-token` to store it anyway"));
            }
            context.token = Some(reference);
        }
        if let Some(text) = &self.plain_token {
            if !crate::token::is_token(text) || text.contains(':') {
                return Err(wrong("`--plain-token` is not a token: expected visible ASCII without `:`".to_owned()));
            }
            output.note("the token is stored in `contexts.yaml` as plain text; `--token keyring:NAME` is safer");
            context.token = Some(SecretRef::Literal(Secret::new(text.as_str())));
        }
        Ok(())
    }
}

/// All contexts, for `context list` and `list contexts`.
pub(super) fn list(contexts: &Contexts, output: Output) -> anyhow::Result<()> {
    let mut rows: Vec<Value> = contexts.all.iter().map(|context| row(context, contexts)).collect();
    rows.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    match output.format {
        Format::Json | Format::Yaml => {
            let whole = json!({ "currentContext": contexts.current, "contexts": rows });
            output.answer(&Raw::from_value(&whole))?;
        }
        Format::Name => rows.iter().try_for_each(|row| output.text(&field(row, "name")))?,
        Format::Table | Format::Wide => {
            let rows: Vec<Value> = rows
                .into_iter()
                .map(|mut row| {
                    row["current"] = if row["current"] == true { "*".into() } else { " ".into() };
                    row
                })
                .collect();
            output.rows("contexts", CONTEXTS.columns, &rows)?;
            if rows.is_empty() {
                output.note("add one with `toolcrib context add NAME --endpoint URL`");
            }
        }
    }
    Ok(())
}

fn row(context: &Context, contexts: &Contexts) -> Value {
    let mut row = context.shown();
    row["current"] = (contexts.current.as_ref() == Some(&context.name)).into();
    row
}

fn show(context: &Context, contexts: &Contexts, output: Output) -> anyhow::Result<()> {
    let row = row(context, contexts);
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&row))?);
    }
    let format = context.output.and_then(|format| format.to_possible_value());
    let format = format.map_or_else(|| "table".to_owned(), |format| format.get_name().to_owned());
    let lines = [
        ("Name:", context.name.clone()),
        ("Endpoint:", context.endpoint.clone()),
        ("Profile:", context.profile.as_ref().map_or_else(|| "that of the URL".to_owned(), ToString::to_string)),
        ("Token:", context.token.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)),
        ("Output:", format),
        ("Current:", if row["current"] == true { "yes" } else { "no" }.to_owned()),
    ];
    let text: String = lines.iter().map(|(label, value)| format!("{label:<10} {value}\n")).collect();
    Ok(output.text(&text)?)
}

fn remove(contexts: &mut Contexts, delete: &Delete, output: Output) -> anyhow::Result<()> {
    // All of them or none.
    for name in &delete.names {
        contexts.named(name, "the command line")?;
        if contexts.current.as_ref() == Some(name) && !delete.force {
            return Err(Problem::new(Kind::Conflict, format!("`{name}` is the current context"))
                .hint("switch to another one first, or add `--force`")
                .into());
        }
    }
    contexts.all.retain(|context| !delete.names.contains(&context.name));
    if contexts.current.as_ref().is_some_and(|current| delete.names.contains(current)) {
        contexts.current = None;
    }
    contexts.save()?;
    delete.names.iter().try_for_each(|name| output.text(&format!("Deleted context `{name}`")))?;
    Ok(())
}

fn checked(endpoint: &str) -> Result<String, Problem> {
    if client::is_endpoint(endpoint) {
        return Ok(endpoint.trim().to_owned());
    }
    let shown: String = endpoint.chars().take(200).collect();
    Err(wrong(format!("`{shown}` is not an endpoint")).hint("an endpoint looks like `http://127.0.0.1:8700/mcp`"))
}

/// Whether two URLs lead to the same machine and port.
fn same_gateway(one: &str, other: &str) -> bool {
    let origin = |url: &str| {
        let uri: http::Uri = url.parse().ok()?;
        Some((uri.scheme_str()?.to_owned(), uri.authority()?.to_string()))
    };
    origin(one).is_some() && origin(one) == origin(other)
}

fn no_current() -> Problem {
    Problem::new(Kind::NotFound, "there is no current context").hint("choose one with `toolcrib context use NAME`")
}

fn wrong(message: String) -> Problem {
    Problem::new(Kind::InvalidParams, message)
}
