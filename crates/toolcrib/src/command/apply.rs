//! `toolcrib apply`: what files tell of is made so, as often as one likes: created where it is not there, changed where
//! it is another, else left as it is.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};

use super::create::{Wish, Wishes};
use crate::client::{Client, ClientFlags};
use crate::kind::Verb;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A YAML or JSON file (may hold several documents), a folder of such files, or `-` for stdin
    #[arg(short, long, value_name = "FILE", required = true)]
    file: Vec<PathBuf>,
    /// Only report errors, change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The outcome of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApplyOutcome {
    Created,
    Configured,
    Unchanged,
}

// === impl Arguments ===

impl Arguments {
    pub(crate) fn wishes(&self) -> Result<Wishes, Problem> {
        Wishes::of_files(&self.file, None, &[], Verb::Create, self.dry_run)
    }
}

// === impl ApplyOutcome ===

impl ApplyOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

pub(crate) async fn run(wishes: &Wishes, client: &Client, output: Output) -> anyhow::Result<()> {
    if wishes.dry_run {
        return super::create::run(wishes, client, output).await;
    }
    wishes.notes.iter().for_each(|note| output.note(note));
    let mut all = Vec::new();
    let mut failed: Option<Problem> = None;
    for wish in &wishes.all {
        let id = format!("{}/{}", wish.row.one, wish.name);
        match output.busy(&format!("applying {id}"), apply(wish, client, output)).await {
            Ok(done) => {
                match output.format {
                    Format::Table | Format::Wide => output.text(&format!("{id} {}", done.as_str()))?,
                    Format::Name => output.text(&id)?,
                    Format::Json | Format::Yaml => {}
                }
                all.push(json!({ "kind": wish.row.one, "name": wish.name, "outcome": done.as_str() }));
            }
            Err(problem) if failed.is_none() => failed = Some(problem),
            Err(problem) => output.note(&format!("error: {}", problem.message)),
        }
    }
    if matches!(output.format, Format::Json | Format::Yaml) {
        output.answer(&toolcrib_protocol::Raw::from_value(&json!({ "applied": all })))?;
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

async fn apply(wish: &Wish, client: &Client, output: Output) -> Result<ApplyOutcome, Problem> {
    let row = wish.row;
    let get = row.act(Verb::Get).unwrap_or_default();
    let before = match client.obtain(get, &json!({ "name": wish.name })).await {
        Ok(before) => Some(before.to_value()),
        Err(problem) if problem.kind == Kind::NotFound => None,
        Err(problem) => return Err(row.sought(problem)),
    };
    wish.keep_secrets(client, output).await?;
    let Some(before) = before else {
        let create = row.act(Verb::Create).unwrap_or_default();
        let said = client.act(create, &wish.asked()).await?;
        super::create::warn(&said.value().to_value(), output);
        return Ok(ApplyOutcome::Created);
    };
    let Some(update) = row.act(Verb::Update) else { return settled(wish, &before) };
    if is_as_wished(wish, &before) {
        return Ok(ApplyOutcome::Unchanged);
    }
    let mut asked = wish.asked();
    if let Some(revision) = before["revision"].as_str() {
        // Someone may have changed it in between: that is an error.
        asked["revision"] = revision.into();
    }
    let said = client.act(update, &asked).await.map_err(|problem| row.sought(problem))?.value().to_value();
    super::create::warn(&said, output);
    let is_same = match (&said["revision"], &before["revision"]) {
        (Value::String(now), Value::String(earlier)) => now == earlier,
        // What has no revision is compared as it is shown.
        _ => client.obtain(get, &json!({ "name": wish.name })).await?.to_value() == before,
    };
    Ok(if is_same { ApplyOutcome::Unchanged } else { ApplyOutcome::Configured })
}

/// Whether a workflow says already what is requested, in whichever form its file is written.
fn is_as_wished(wish: &Wish, before: &Value) -> bool {
    let (Some(there), Some(wished)) = (before["workflow"].as_object(), wish.value.as_object()) else { return false };
    let outside = |key: &String| matches!(key.as_str(), "name" | "labels");
    let body = |members: &serde_json::Map<String, Value>| -> Vec<(String, Value)> {
        let inside = members.iter().filter(|(key, _)| !outside(key));
        let mut inside: Vec<_> = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
        inside.sort_by(|one, other| one.0.cmp(&other.0));
        inside
    };
    wish.row.one == "workflow" && there.get("labels") == wished.get("labels") && body(there) == body(wished)
}

/// A service cannot be changed: it is as it is requested, or it must be made again.
fn settled(wish: &Wish, before: &Value) -> Result<ApplyOutcome, Problem> {
    let class = wish.value.get("serviceClassName").or_else(|| wish.value.get("service_class_name"));
    let has_class = class.is_none_or(|class| *class == before["serviceClassName"]);
    let mut given = wish.value["args"].as_object().into_iter().flatten();
    if has_class && given.all(|(key, value)| before["args"][key] == *value) {
        return Ok(ApplyOutcome::Unchanged);
    }
    let (one, name) = (wish.row.one, &wish.name);
    Err(Problem::new(
        Kind::Conflict,
        format!("the {one} `{name}` already exists with another class or other arguments"),
    )
    .hint(format!("a {one} cannot be changed: remove it with `toolcrib delete {one} {name}` and apply again")))
}
