//! `toolcrib list`: what the gateway has, by kind.

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_protocol::inventory::Listing;
use toolcrib_protocol::raw::{self, Writer};
use toolcrib_protocol::{Raw, json as scanner};

use crate::client::{Client, ClientFlags};
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to list
    #[arg(value_enum)]
    kind: ListKind,
    /// Only these: names, ids or globs
    names: Vec<String>,
    /// Only the tools of this server
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ListKind {
    #[value(alias = "tool")]
    Tools,
    #[value(aliases = ["server", "mcpservers", "mcpserver"])]
    Servers,
    #[value(alias = "profile")]
    Profiles,
    #[value(alias = "resource")]
    Resources,
    #[value(alias = "prompt")]
    Prompts,
}

/// One row of the table of kinds.
pub(super) struct Listed {
    /// The singular, for errors.
    one: &'static str,
    /// The plural, and the member of the answer that holds the entries.
    many: &'static str,
    member: &'static str,
    source: Source,
    /// The members of an entry that a name is compared with.
    names: &'static [&'static str],
    pub(super) columns: &'static [Column],
}

enum Source {
    /// An operation, with its name.
    Operation(&'static str),
    /// A list of MCP.
    List(Listing),
}

const TOOLS: Listed = Listed {
    one: "tool",
    many: "tools",
    member: "tools",
    source: Source::Operation("core_tool_list"),
    names: &["id", "name"],
    columns: &[
        Column::new("NAME", |tool| field(tool, "name")),
        Column::new("SERVER", |tool| field(tool, "server")),
        Column::new("STATE", |tool| field(tool, "state")),
        Column::wide("ID", |tool| field(tool, "id")),
        Column::wide("TITLE", |tool| field(tool, "title")),
        Column::new("DESCRIPTION", |tool| field(tool, "description")),
    ],
};

pub(super) const SERVERS: Listed = Listed {
    one: "server",
    many: "servers",
    member: "mcpServers",
    source: Source::Operation("core_mcpserver_list"),
    names: &["name"],
    columns: &[
        Column::new("NAME", |server| field(server, "name")),
        Column::new("STATE", |server| field(server, "state")),
        Column::new("TRANSPORT", |server| field(server, "transport")),
        Column::new("TOOLS", |server| field(server, "tools")),
        Column::wide("RESOURCES", |server| field(server, "resources")),
        Column::wide("PROMPTS", |server| field(server, "prompts")),
        Column::wide("RESTARTS", |server| field(server, "restarts")),
        Column::new("SINCE", |server| moment(server, "since")),
        Column::wide("NEXT RETRY", |server| moment(server, "nextRetry")),
        Column::wide("TITLE", |server| field(server, "title")),
        Column::new("LAST ERROR", |server| field(server, "lastError")),
        Column::wide("WARNINGS", |server| field(server, "warnings")),
    ],
};

pub(super) const PROFILES: Listed = Listed {
    one: "profile",
    many: "profiles",
    member: "profiles",
    source: Source::Operation("core_profile_list"),
    names: &["name"],
    columns: &[
        Column::new("NAME", |profile| field(profile, "name")),
        Column::new("EXPOSURE", |profile| field(profile, "exposure")),
        Column::new("DIALECT", |profile| field(profile, "dialect")),
        Column::new("SERVERS", |profile| field(profile, "servers")),
        Column::new("TOOLS", |profile| field(profile, "tools")),
        Column::wide("TITLE", |profile| field(profile, "title")),
        Column::new("URL", |profile| field(profile, "url")),
    ],
};

const RESOURCES: Listed = Listed {
    one: "resource",
    many: "resources",
    member: "resources",
    source: Source::List(Listing::Resources),
    names: &["uri", "name"],
    columns: &[
        Column::new("URI", |resource| field(resource, "uri")),
        Column::new("NAME", |resource| field(resource, "name")),
        Column::new("TYPE", |resource| field(resource, "mimeType")),
        Column::wide("SIZE", |resource| field(resource, "size")),
        Column::wide("TITLE", |resource| field(resource, "title")),
        Column::new("DESCRIPTION", |resource| field(resource, "description")),
    ],
};

const PROMPTS: Listed = Listed {
    one: "prompt",
    many: "prompts",
    member: "prompts",
    source: Source::List(Listing::Prompts),
    names: &["name"],
    columns: &[
        Column::new("NAME", |prompt| field(prompt, "name")),
        Column::new("ARGUMENTS", prompt_arguments),
        Column::wide("TITLE", |prompt| field(prompt, "title")),
        Column::new("DESCRIPTION", |prompt| field(prompt, "description")),
    ],
};

/// `city, unit?`
fn prompt_arguments(prompt: &Value) -> String {
    let arguments = prompt["arguments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = |argument: &Value| {
        let optional = if argument["required"] == true { "" } else { "?" };
        format!("{}{optional}", field(argument, "name"))
    };
    arguments.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub(crate) async fn run(arguments: &Arguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let listed = match arguments.kind {
        ListKind::Tools => &TOOLS,
        ListKind::Servers => &SERVERS,
        ListKind::Profiles => &PROFILES,
        ListKind::Resources => &RESOURCES,
        ListKind::Prompts => &PROMPTS,
    };
    if arguments.server.is_some() && arguments.kind != ListKind::Tools {
        return Err(Problem::new(Kind::InvalidParams, format!("`--server` does not fit `list {}`", listed.many)).into());
    }
    let patterns = patterns(&arguments.names)?;
    let answer = match listed.source {
        Source::Operation(name) => {
            let wanted = arguments.server.as_ref().map_or_else(|| json!({}), |server| json!({ "server": server }));
            client.operate(name, &wanted).await?
        }
        Source::List(listing) => wrap(listed.member, &client.list(listing).await?),
    };
    let (answer, missing) = select(&answer, listed, &patterns);
    if output.is_for_programs() {
        output.answer(&answer)?;
    } else {
        let rows = answer.to_value()[listed.member].as_array().cloned().unwrap_or_default();
        if !rows.is_empty() || missing.is_empty() {
            output.rows(listed.many, listed.columns, &rows)?;
        }
        // Definitions that could not be read are servers that somebody misses in the table.
        for problem in answer.to_value()["problems"].as_array().into_iter().flatten() {
            output.note(&format!("bad definition: {}", field(problem, "problem")));
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(name) => Err(Problem::new(Kind::NotFound, format!("no {} `{name}`", listed.one))
            .hint(format!("see all with `toolcrib list {}`", listed.many))
            .into()),
    }
}

/// What the person asked for; a plain name that fits nothing is an error, a glob is not.
fn patterns(names: &[String]) -> Result<Vec<(&str, Glob)>, Problem> {
    let pattern = |name: &'_ String| {
        Glob::new(name).map_err(|error| Problem::new(Kind::InvalidParams, format!("`{name}` is not a name: {error}")))
    };
    names.iter().map(|name| pattern(name).map(|glob| (name.as_str(), glob))).collect()
}

/// The answer with the wanted entries only, and the names that fitted nothing.
fn select<'a>(answer: &Raw, listed: &Listed, patterns: &[(&'a str, Glob)]) -> (Raw, Vec<&'a str>) {
    if patterns.is_empty() {
        return (answer.clone(), Vec::new());
    }
    let entries = answer.get(listed.member);
    let items = match entries.as_ref().map(Raw::outline) {
        Some(scanner::Outline::Array(items)) => items,
        _ => Vec::new(),
    };
    let mut seen = vec![false; patterns.len()];
    let mut kept = Vec::new();
    for item in items {
        let entry: Value = serde_json::from_str(item).unwrap_or_default();
        let mut fits = false;
        for ((_, glob), seen) in patterns.iter().zip(&mut seen) {
            let found = listed.names.iter().filter_map(|key| entry[*key].as_str()).any(|name| glob.matches(name));
            *seen |= found;
            fits |= found;
        }
        if fits {
            kept.push(item);
        }
    }
    let missing = patterns.iter().zip(seen).filter(|((name, _), seen)| !seen && !name.contains(['*', '?', '[', '{']));
    (wrap_texts(listed.member, &kept), missing.map(|((name, _), _)| *name).collect())
}

fn wrap(member: &str, entries: &[Raw]) -> Raw {
    wrap_texts(member, &entries.iter().map(Raw::as_str).collect::<Vec<_>>())
}

/// `{<member>: […], "total": N}`, as operations answer.
fn wrap_texts(member: &str, entries: &[&str]) -> Raw {
    let mut out = Writer::object(64);
    out.member(member, raw::array(entries.iter().copied()).as_str());
    out.member("total", &entries.len().to_string());
    out.finish()
}
