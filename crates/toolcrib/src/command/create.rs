//! `toolcrib create` and `toolcrib update`: from a file of one or more documents, or from flags.

mod file;
mod flags;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::SecretReference;
use toolcrib_protocol::Raw;

use super::call::arguments::ExtraArguments;
use super::start::sentence;
use crate::client::{Client, ClientFlags};
use crate::kind::{KindParser, KindSelection, Row, Verb};
use crate::output::table::field;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The kind of object [default: as the documents of `--file` say]
    #[arg(value_parser = KindParser(Verb::Create), required_unless_present = "file")]
    kind: Option<KindSelection>,
    /// Its name; for a service also the name of its class
    #[arg(value_name = "NAME")]
    words: Vec<String>,
    #[command(flatten)]
    loose: ExtraArguments,
    #[command(flatten)]
    from: DefinitionSource,
    /// Keep a service across restarts of the gateway
    #[arg(long)]
    persist: bool,
    /// Only check the definition, change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The kind of object [default: as the documents of `--file` say]
    #[arg(value_parser = KindParser(Verb::Update), required_unless_present = "file")]
    kind: Option<KindSelection>,
    /// Its name
    #[arg(value_name = "NAME", add = crate::names::of_kind())]
    words: Vec<String>,
    #[command(flatten)]
    from: DefinitionSource,
    /// Only check the definition, change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Where the definition comes from.
#[derive(Debug, clap::Args)]
struct DefinitionSource {
    /// A YAML or JSON file (may hold several documents), a folder of such files, or `-` for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Box<flags::Server>,
}

/// One thing to be created or updated.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(super) row: &'static Row,
    pub(super) name: String,
    /// The definition's own text, where the operation takes it.
    text: Option<String>,
    /// The definition.
    pub(super) value: Value,
    /// Whether it is only what changes, and the rest stays.
    changes: bool,
    /// What the definition refers to in the vault.
    secrets: Vec<SecretReference>,
}

/// Everything that is requested, read before any request is sent.
#[derive(Debug)]
pub(crate) struct ManifestSet {
    verb: Verb,
    pub(super) all: Vec<Manifest>,
    pub(super) dry_run: bool,
    /// What is reported beside them.
    pub(super) notes: Vec<String>,
}

// === impl Create ===

impl Create {
    pub(crate) fn manifests(&self) -> Result<ManifestSet, Problem> {
        if let Some(file) = &self.from.file {
            self.from.flags.refuse("--file")?;
            let files = std::slice::from_ref(file);
            return ManifestSet::of_files(files, self.kind.as_ref(), &self.words, Verb::Create, self.dry_run);
        }
        Ok(ManifestSet { verb: Verb::Create, all: vec![self.of_flags()?], dry_run: self.dry_run, notes: Vec::new() })
    }

    fn of_flags(&self) -> Result<Manifest, Problem> {
        let Some(kind) = &self.kind else { return Err(wrong("nothing to create")) };
        let names = kind.names(&self.words);
        let row = kind.row;
        match (row.one, &names[..]) {
            (_, []) => Err(super::get::nameless(row, "create")),
            ("server", [name]) => {
                let value = self.from.flags.definition()?;
                Ok(Manifest { row, name: name.clone(), text: None, value, changes: false, secrets: Vec::new() })
            }
            ("service", [name, class, pairs @ ..]) => {
                self.from.flags.refuse("a service")?;
                let arguments = self.loose.typed(pairs, &Value::Null)?;
                let mut value = json!({ "serviceClassName": class, "args": arguments.to_value() });
                if self.persist {
                    value["persist"] = true.into();
                }
                Ok(Manifest { row, name: name.clone(), text: None, value, changes: false, secrets: Vec::new() })
            }
            ("service", [name]) => Err(wrong(format!("no service class given for the service `{name}`")).hint(
                format!("write `toolcrib create service {name} CLASS --key value`; see `toolcrib list serviceclasses`"),
            )),
            ("profile", [name]) => {
                self.from.flags.refuse("a profile")?;
                Ok(Manifest {
                    row,
                    name: name.clone(),
                    text: None,
                    value: json!({}),
                    changes: false,
                    secrets: Vec::new(),
                })
            }
            (_, [name]) => Err(wrong(format!("a {} is created from a file", row.singular()))
                .hint(format!("write `toolcrib create {} {name} --file FILE`", row.one))),
            (_, [_, extra, ..]) => Err(wrong(format!("unexpected name `{extra}`"))),
        }
    }
}

// === impl Update ===

impl Update {
    pub(crate) fn manifests(&self) -> Result<ManifestSet, Problem> {
        let all = match (&self.from.file, &self.kind) {
            (Some(file), kind) => {
                self.from.flags.refuse("--file")?;
                let files = std::slice::from_ref(file);
                return ManifestSet::of_files(files, kind.as_ref(), &self.words, Verb::Update, self.dry_run);
            }
            (None, Some(kind)) if kind.row.one == "server" => {
                let [name] = &kind.names(&self.words)[..] else {
                    return Err(super::get::nameless(kind.row, "update"));
                };
                let value = self.from.flags.changes()?;
                vec![Manifest {
                    row: kind.row,
                    name: name.clone(),
                    text: None,
                    value,
                    changes: true,
                    secrets: Vec::new(),
                }]
            }
            (None, kind) => {
                let word = kind.as_ref().map_or("thing", |kind| kind.row.one);
                return Err(wrong(format!("a {word} is updated from a file"))
                    .hint(format!("write `toolcrib update {word} NAME --file FILE`")));
            }
        };
        Ok(ManifestSet { verb: Verb::Update, all, dry_run: self.dry_run, notes: Vec::new() })
    }
}

pub(crate) async fn run(manifests: &ManifestSet, client: &Client, output: Output) -> anyhow::Result<()> {
    manifests.notes.iter().for_each(|note| output.note(note));
    let mut failed: Option<Problem> = None;
    for manifest in &manifests.all {
        let doing =
            format!("{} {}", if manifests.verb == Verb::Create { "creating" } else { "updating" }, manifest.name);
        match output.busy(&doing, write(manifest, manifests, client, output)).await {
            Ok(()) => {}
            Err(problem) if failed.is_none() => failed = Some(problem),
            Err(problem) => output.note(&format!("error: {}", problem.message)),
        }
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

async fn write(manifest: &Manifest, manifests: &ManifestSet, client: &Client, output: Output) -> Result<(), Problem> {
    let row = manifest.row;
    let operation = row.act(manifests.verb).ok_or_else(|| wrong(format!("{} cannot be written", row.plural())))?;
    if manifests.dry_run {
        if manifest.changes {
            let message = "`--dry-run` cannot check a part of a definition";
            return Err(wrong(message).hint("pass the whole definition with `--file FILE`"));
        }
        return validate(manifest, manifests, operation, client, output).await;
    }
    manifest.keep_secrets(client, output).await?;
    let mut asked = manifest.asked();
    if manifests.verb == Verb::Update && matches!(row.one, "server" | "profile") && !manifest.changes {
        let get = row.act(Verb::Get).unwrap_or_default();
        let before = client.obtain(get, &json!({ "name": manifest.name })).await;
        let before = before.map_err(|problem| row.sought(problem))?.to_value();
        // Someone may have changed it in between: that is an error.
        asked["revision"] = before["revision"].clone();
    }
    let result = client.act(operation, &asked).await.map_err(|problem| row.sought(problem))?;
    let value = result.value();
    let printed = match output.format {
        Format::Json | Format::Yaml => output.answer(&value),
        Format::Name => output.text(&format!("{}/{}", row.one, manifest.name)),
        Format::Table | Format::Wide => output.text(&manifest.told(manifests.verb, &value, &result.text())),
    };
    warn(&value.to_value(), output);
    printed.map_err(|error| Problem::new(Kind::Internal, format!("cannot print: {error}")))
}

/// Says whether a definition would be right.
async fn validate(
    manifest: &Manifest,
    manifests: &ManifestSet,
    operation: &str,
    client: &Client,
    output: Output,
) -> Result<(), Problem> {
    let operation = operation.replace("_create", "_validate").replace("_update", "_validate");
    let mut asked = manifest.asked();
    if let Some(class) = manifests.class_of(manifest) {
        asked["serviceClass"] = class.clone();
    }
    let result = client.act(&operation, &asked).await?;
    let value = result.value().to_value();
    if value["valid"] == false {
        let first = value["problems"].as_array().and_then(|problems| problems.first()).cloned().unwrap_or_default();
        let said = [field(&first, "problem"), field(&value, "error")].into_iter().find(|said| !said.is_empty());
        let problem = Problem::new(Kind::Definition, said.unwrap_or_else(|| "the definition is not valid".to_owned()));
        let hint = field(&first, "hint");
        return Err(if hint.is_empty() { problem } else { problem.hint(hint) });
    }
    warn(&value, output);
    let text = if value.is_object() {
        format!("{} '{}' is valid", manifest.row.singular(), manifest.name)
    } else {
        result.text()
    };
    output.text(&text).map_err(|error| Problem::new(Kind::Internal, format!("cannot print: {error}")))
}

/// Says what the gateway holds to be doubtful and is not a fault.
pub(super) fn warn(said: &Value, output: Output) {
    for warning in said["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.note(&format!("warning: {warning}"));
    }
}

// === impl ManifestSet ===

impl ManifestSet {
    /// What files request, to be done by a verb, or only looked at.
    pub(super) fn of_files(
        files: &[PathBuf],
        kind: Option<&KindSelection>,
        words: &[String],
        verb: Verb,
        dry_run: bool,
    ) -> Result<Self, Problem> {
        let found = file::manifests(files, kind, words, verb)?;
        Ok(Self { verb, all: found.manifests, dry_run, notes: found.notes })
    }

    /// The class of a service that is requested too, and would be there by then.
    fn class_of(&self, service: &Manifest) -> Option<&Value> {
        let name = service.value.get("serviceClassName").or_else(|| service.value.get("service_class_name"))?;
        let is_it = |manifest: &&Manifest| manifest.row.one == "serviceclass" && manifest.name == *name;
        self.all.iter().filter(|_| service.row.one == "service").find(is_it).map(|manifest| &manifest.value)
    }
}

// === impl Manifest ===

impl Manifest {
    /// Puts the secrets into the vault that it does not have yet; what is kept already stays as it is.
    pub(super) async fn keep_secrets(&self, client: &Client, output: Output) -> Result<(), Problem> {
        if self.secrets.is_empty() {
            return Ok(());
        }
        let kept = client.obtain("core_secret_list", &json!({})).await?.to_value();
        let has = |name: &str| kept["secrets"].as_array().into_iter().flatten().any(|entry| entry["name"] == name);
        for secret in self.secrets.iter().filter(|secret| !has(&secret.name)) {
            let SecretReference { name, value, of } = secret;
            let Some(value) = value else {
                let how = format!("set it with `toolcrib secret set {name} --server {}`", self.name);
                output.note(&format!("{}: the secret for `{of}` is missing: {how}", self.name));
                continue;
            };
            let asked = json!({ "name": name, "value": value.expose(), "servers": [self.name] });
            client.act("core_secret_set", &asked).await?;
            output.note(&format!("{}: `{of}` is in the vault as `{name}`", self.name));
        }
        Ok(())
    }

    /// The arguments of the operation.
    pub(super) fn asked(&self) -> Value {
        match (self.row.one, &self.text) {
            ("server" | "profile", Some(text)) => json!({ "name": self.name, "yaml": text }),
            ("server" | "profile", None) if !self.changes => json!({ "name": self.name, "definition": self.value }),
            _ => {
                let mut asked = json!({ "name": self.name });
                for (key, value) in self.value.as_object().into_iter().flatten() {
                    asked[key] = value.clone();
                }
                asked["name"] = self.name.as_str().into();
                asked
            }
        }
    }

    /// What is reported of it: the gateway's own words, else ours.
    fn told(&self, verb: Verb, value: &Raw, text: &str) -> String {
        let value = value.to_value();
        if !value.is_object() {
            return sentence(text);
        }
        let done = if verb == Verb::Create { "created" } else { "updated" };
        let state = field(&value, "state");
        let state = if state.is_empty() { state } else { format!(" ({state})") };
        let file = field(&value, "file");
        let file = if file.is_empty() { file } else { format!(" in `{file}`") };
        format!("Successfully {done} {} '{}'{state}{file}", self.row.singular(), self.name)
    }
}

fn wrong(message: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParams, message)
}
