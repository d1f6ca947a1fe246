//! `toolcrib list`: what the gateway has, by kind.

mod select;
mod watch;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};

use crate::client::{Client, ClientFlags};
use crate::contexts::Contexts;
use crate::home::{Environment, Home};
use crate::kind::listing::{entries, fetch, unknown};
use crate::kind::{self, KindParser, KindSelection, Row, Source, Verb};
use crate::output::table::field;
use crate::output::{Format, Output};

/// How many runs and events are shown by default.
const NEWEST: usize = 50;
/// How many of them the gateway gives at once.
const MOST: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::List))]
    kind: KindSelection,
    /// Only these: names, ids or globs
    #[arg(add = crate::names::of_kind())]
    names: Vec<String>,
    /// Only the tools of this server
    #[arg(long, value_name = "SERVER", add = crate::names::servers())]
    server: Option<String>,
    /// Only names that match this glob
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Only descriptions that contain this text
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Sort by this column; `-COLUMN` reverses the order
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort_by: Option<String>,
    /// Show at most N
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Skip the first N
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
    /// Print changes until interrupted
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

// === impl Arguments ===

impl Arguments {
    /// All of one kind, or what is named.
    pub(super) fn of(kind: KindSelection, names: Vec<String>, watch: bool, client: ClientFlags) -> Self {
        Self {
            kind,
            names,
            server: None,
            filter: Vec::new(),
            description: None,
            sort_by: None,
            limit: None,
            offset: 0,
            watch,
            client,
        }
    }

    /// How many of a list without an end are asked for.
    fn newest(&self, wanted: &select::Selection) -> usize {
        let shown = self.offset.saturating_add(self.limit.unwrap_or(NEWEST));
        // What is wanted may be far down.
        if wanted.is_all() && !wanted.is_sorted() { shown.clamp(1, MOST) } else { MOST }
    }

    /// Whether no gateway is needed.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.kind.row.source, Source::Contexts)
    }
}

/// What is in the home.
pub(crate) fn run_local(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    if arguments.watch {
        return Err(Problem::new(Kind::InvalidParams, "`--watch` does not apply to contexts").into());
    }
    let home = Home::find(arguments.client.home(), environment)?;
    let mut contexts = Contexts::load(&home)?;
    let names = arguments.kind.names(&arguments.names);
    for name in &names {
        contexts.named(name, "the command line")?;
    }
    contexts.all.retain(|context| names.is_empty() || names.contains(&context.name));
    super::context::list(&contexts, arguments.client.output(environment)?)
}

pub(crate) async fn run(
    arguments: &Arguments,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let row = arguments.kind.row;
    if arguments.server.is_some() && row.one != "tool" {
        return Err(
            Problem::new(Kind::InvalidParams, format!("`--server` does not apply to `list {}`", row.many)).into()
        );
    }
    let wanted = select::Selection::new(
        row,
        arguments.kind.names(&arguments.names),
        &arguments.filter,
        arguments.description.as_deref(),
        arguments.sort_by.as_deref(),
    )?;
    let mut asked = arguments.server.as_ref().map_or_else(|| json!({}), |server| json!({ "server": server }));
    if arguments.watch {
        let watched = watch::Target { row, wanted: &wanted, asked: &asked, flags: &arguments.client };
        return watch::run(&watched, client, environment, output).await;
    }
    let newest = row.is_endless().then(|| arguments.newest(&wanted));
    if let Some(newest) = newest {
        asked["limit"] = newest.into();
    }
    let answer = output.busy(&format!("listing {}", row.plural()), fetch(row, client, &asked)).await?;
    let known = entries(row, &answer.to_value()).len();
    let all = answer.get("total").and_then(|total| total.as_str().parse().ok()).unwrap_or(known);
    let (answer, missing) = wanted.of(&answer);
    let value = answer.to_value();
    let in_all = if wanted.is_all() { all } else { 0 };
    let (offset, limit) = (arguments.offset, arguments.limit.unwrap_or(usize::MAX));
    if output.is_for_programs() {
        let is_whole = offset == 0 && limit == usize::MAX && !wanted.is_sorted();
        output.answer(&if is_whole { answer } else { wanted.part(&answer, offset, limit, in_all)? })?;
    } else {
        let rows = wanted.rows(&value)?;
        let all = in_all.max(rows.len());
        let rows: Vec<Value> = rows.into_iter().skip(offset).take(limit).collect();
        if rows.len() < all {
            output.note(&format!("{} of {all} {}", rows.len(), row.plural()));
        } else if newest == Some(known) {
            // A list without an end does not say how many there are.
            output.note(&format!("the newest {known} {}; more with `--limit N`", row.plural()));
        }
        if !rows.is_empty() || missing.is_empty() {
            print(row, &rows, output)?;
        }
        if row.one == "tool" {
            note_logins(client, arguments.server.as_deref(), output).await;
        }
        // Definitions that could not be read are servers that someone misses in the table.
        for problem in value["problems"].as_array().into_iter().flatten() {
            output.note(&format!("bad definition: {}", field(problem, "problem")));
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(name) => Err(unknown(row, name).into()),
    }
}

/// Names the servers whose tools are missing until someone logs in, and the command. It is a remark: where the servers
/// cannot be listed, there is none.
pub(super) async fn note_logins(client: &Client, server: Option<&str>, output: Output) {
    let Some(row) = kind::named("server").filter(|_| !output.quiet) else { return };
    let Ok(answer) = fetch(row, client, &json!({})).await else { return };
    let is_meant = |name: &str| server.is_none_or(|server| server == name);
    for entry in entries(row, &answer.to_value()).iter().filter(|entry| entry["state"] == "needs-login") {
        let name = field(entry, "name");
        if is_meant(&name) {
            output.note(&format!("{name} needs a login: toolcrib login {name}"));
        }
    }
}

/// Rows as a table, or as names.
pub(super) fn print(row: &Row, rows: &[Value], output: Output) -> anyhow::Result<()> {
    if output.format == Format::Name {
        for entry in rows {
            output.text(&crate::text::line(&format!("{}/{}", row.one, field(entry, row.names[0]))))?;
        }
        return Ok(());
    }
    Ok(output.rows(&row.plural(), row.columns, rows)?)
}
