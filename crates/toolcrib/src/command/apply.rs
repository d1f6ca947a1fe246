//! `toolcrib apply`: what files tell of is made so, as often as one likes: created where it is not there, changed where
//! it is another, else left as it is.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};

use super::create::{Manifest, ManifestSet};
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
    pub(crate) fn manifests(&self) -> Result<ManifestSet, Problem> {
        ManifestSet::of_files(&self.file, None, &[], Verb::Create, self.dry_run)
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

pub(crate) async fn run(manifests: &ManifestSet, client: &Client, output: Output) -> anyhow::Result<()> {
    if manifests.dry_run {
        return super::create::run(manifests, client, output).await;
    }
    manifests.notes.iter().for_each(|note| output.note(note));
    let mut all = Vec::new();
    let mut failed: Option<Problem> = None;
    for manifest in &manifests.all {
        let id = format!("{}/{}", manifest.row.one, manifest.name);
        match output.busy(&format!("applying {id}"), apply(manifest, client, output)).await {
            Ok(done) => {
                match output.format {
                    Format::Table | Format::Wide => output.text(&format!("{id} {}", done.as_str()))?,
                    Format::Name => output.text(&id)?,
                    Format::Json | Format::Yaml => {}
                }
                all.push(json!({ "kind": manifest.row.one, "name": manifest.name, "outcome": done.as_str() }));
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

async fn apply(manifest: &Manifest, client: &Client, output: Output) -> Result<ApplyOutcome, Problem> {
    let row = manifest.row;
    let get = row.act(Verb::Get).unwrap_or_default();
    let before = match client.obtain(get, &json!({ "name": manifest.name })).await {
        Ok(before) => Some(before.to_value()),
        Err(problem) if problem.kind == Kind::NotFound => None,
        Err(problem) => return Err(row.sought(problem)),
    };
    manifest.keep_secrets(client, output).await?;
    let Some(before) = before else {
        let create = row.act(Verb::Create).unwrap_or_default();
        let said = client.act(create, &manifest.asked()).await?;
        super::create::warn(&said.value().to_value(), output);
        return Ok(ApplyOutcome::Created);
    };
    let Some(update) = row.act(Verb::Update) else { return settled(manifest, &before) };
    if matches_manifest(manifest, &before) {
        return Ok(ApplyOutcome::Unchanged);
    }
    let mut asked = manifest.asked();
    if let Some(revision) = before["revision"].as_str() {
        // Someone may have changed it in between: that is an error.
        asked["revision"] = revision.into();
    }
    let said = client.act(update, &asked).await.map_err(|problem| row.sought(problem))?.value().to_value();
    super::create::warn(&said, output);
    let is_same = match (&said["revision"], &before["revision"]) {
        (Value::String(now), Value::String(earlier)) => now == earlier,
        // What has no revision is compared as it is shown.
        _ => client.obtain(get, &json!({ "name": manifest.name })).await?.to_value() == before,
    };
    Ok(if is_same { ApplyOutcome::Unchanged } else { ApplyOutcome::Configured })
}

/// Whether a workflow says already what is requested, in whichever form its file is written.
fn matches_manifest(manifest: &Manifest, before: &Value) -> bool {
    let (Some(there), Some(wanted)) = (before["workflow"].as_object(), manifest.value.as_object()) else {
        return false;
    };
    let outside = |key: &String| matches!(key.as_str(), "name" | "labels");
    let body = |members: &serde_json::Map<String, Value>| -> Vec<(String, Value)> {
        let inside = members.iter().filter(|(key, _)| !outside(key));
        let mut inside: Vec<_> = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
        inside.sort_by(|one, other| one.0.cmp(&other.0));
        inside
    };
    manifest.row.one == "workflow" && there.get("labels") == wanted.get("labels") && body(there) == body(wanted)
}

/// A service cannot be changed: it is as it is requested, or it must be made again.
fn settled(manifest: &Manifest, before: &Value) -> Result<ApplyOutcome, Problem> {
    let class = manifest.value.get("serviceClassName").or_else(|| manifest.value.get("service_class_name"));
    let has_class = class.is_none_or(|class| *class == before["serviceClassName"]);
    let mut given = manifest.value["args"].as_object().into_iter().flatten();
    if has_class && given.all(|(key, value)| before["args"][key] == *value) {
        return Ok(ApplyOutcome::Unchanged);
    }
    let (one, name) = (manifest.row.one, &manifest.name);
    Err(Problem::new(
        Kind::Conflict,
        format!("the {one} `{name}` already exists with another class or other arguments"),
    )
    .hint(format!("a {one} cannot be changed: remove it with `toolcrib delete {one} {name}` and apply again")))
}
