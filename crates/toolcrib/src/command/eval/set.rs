//! A set of tools and queries: read from its folder, written as definitions of servers that are never started.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use serde_json::{Map, Value, json};
use toolcrib_base::ServerName;

use crate::compose::Question;

const TOOLS: &str = "tools.jsonl";
const QUERIES: &str = "queries.jsonl";
/// How many characters of a server's name are kept.
const NAME: usize = 50;
/// How much of a server's instructions the gateway reads for its searches, in bytes.
const INSTRUCTIONS: usize = 400;
/// What is before a package's name in a set: where it comes from.
const ORIGINS: [&str; 3] = ["npm:", "pypi:", "oci:"];
/// A definition's tools are at most so many bytes, half of what a file may have; more become a further server.
const PART: usize = 512 * 1024;

/// A set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: String,
    /// The definitions by name.
    servers: BTreeMap<String, Offer>,
    pub(super) questions: Vec<Question>,
}

/// What one server offers.
#[derive(Debug, Default)]
struct Offer {
    texts: Map<String, Value>,
    /// Its package, by which the gateway recognises it.
    package: Option<String>,
    tools: Vec<Value>,
    names: HashSet<String>,
    bytes: usize,
}

/// The folders of sets in a folder, or the folder itself, by name.
pub(super) fn folders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_set = |folder: &Path| folder.join(TOOLS).is_file() && folder.join(QUERIES).is_file();
    if is_set(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("read `{}`", folder.display()))?;
    let mut sets: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|it| is_set(it)).collect();
    ensure!(!sets.is_empty(), "`{}` is not an evaluation set: it needs `{TOOLS}` and `{QUERIES}`", folder.display());
    sets.sort();
    Ok(sets)
}

// === impl Set ===

impl Set {
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut set = Self { name, servers: BTreeMap::new(), questions: Vec::new() };
        // What the set calls a tool, and what the gateway does.
        let mut ids: HashMap<String, String> = HashMap::new();
        each(&folder.join(TOOLS), |line| {
            let id = text(line, "id")?.to_owned();
            let known = set.add(line)?;
            ensure!(ids.insert(id.clone(), known).is_none(), "duplicate tool id `{id}`");
            Ok(())
        })?;
        each(&folder.join(QUERIES), |line| {
            set.questions.push(question(line, &ids)?);
            Ok(())
        })?;
        for (file, is_empty) in [(TOOLS, ids.is_empty()), (QUERIES, set.questions.is_empty())] {
            ensure!(!is_empty, "`{}` is empty", folder.join(file).display());
        }
        Ok(set)
    }

    pub(super) fn tools(&self) -> usize {
        self.servers.values().map(|offer| offer.tools.len()).sum()
    }

    /// Writes a home: the definitions and the default profile.
    pub(super) fn write(&self, home: &Path, ranking: &str) -> anyhow::Result<()> {
        for (name, offer) in &self.servers {
            let mut definition = offer.texts.clone();
            definition.insert("name".to_owned(), json!(name));
            // It is never started; what a definition needs is a way to.
            definition.insert("command".to_owned(), json!("never-started"));
            definition.insert("args".to_owned(), json!(offer.package.as_slice()));
            definition.insert("start".to_owned(), json!("manual"));
            definition.insert("tools".to_owned(), json!(offer.tools));
            put(&home.join("servers"), name, &definition)?;
        }
        let mut profile = Map::new();
        profile.insert("name".to_owned(), json!("default"));
        profile.insert("ranking".to_owned(), json!(ranking));
        put(&home.join("profiles"), "default", &profile)
    }

    /// Takes a tool in; gives its id in the gateway. A set's servers have free names, one may have several tools of a
    /// name or more than fits into a definition: what does not fit goes to a further server.
    fn add(&mut self, line: &Value) -> anyhow::Result<String> {
        let name = text(line, "name")?;
        let schema = match &line["input_schema"] {
            schema @ Value::Object(_) => schema.clone(),
            Value::Null => json!({ "type": "object" }),
            _ => return Err(anyhow!("`input_schema` is not an object")),
        };
        let tool = json!({ "name": name, "description": optional(line, "description")?, "inputSchema": schema });
        let bytes = tool.to_string().len();
        ensure!(bytes <= PART, "the tool is larger than {PART} bytes");
        let server = optional(line, "server")?;
        let slug = slug(server);
        let mut number = 0_usize;
        let (server_name, offer) = loop {
            let server_name = if number == 0 { slug.clone() } else { format!("{slug}-{number}") };
            let offer = self.servers.entry(server_name.clone()).or_default();
            if offer.bytes + bytes <= PART && !offer.names.contains(name) {
                // Borrowed again: a borrow that leaves the loop would last for all of it.
                break (server_name.clone(), self.servers.entry(server_name).or_default());
            }
            number += 1;
        };
        ServerName::new(&server_name).with_context(|| format!("`{server_name}` is not a valid server name"))?;
        if offer.tools.is_empty() {
            let title = optional(line, "server_title")?;
            let title = if title.is_empty() { server } else { title };
            let described = described(line)?;
            let texts = [("title", title), ("description", &*described), ("category", optional(line, "category")?)];
            let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
            offer.texts = texts.map(|(key, text)| (key.to_owned(), json!(text))).collect();
            offer.package = package(line)?.map(str::to_owned);
        }
        offer.bytes += bytes;
        offer.names.insert(name.to_owned());
        offer.tools.push(tool);
        Ok(format!("{server_name}/{name}"))
    }
}

/// What a server says of itself. A definition has no instructions, since servers give them when they start: as much of
/// them as the gateway reads stands after the description.
fn described(line: &Value) -> anyhow::Result<String> {
    let instructions = optional(line, "instructions")?;
    let ends = instructions.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= INSTRUCTIONS).last().unwrap_or(0);
    let texts = [optional(line, "server_description")?, &instructions[..end]].map(str::trim);
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"))
}

/// The name of a server's package.
fn package(line: &Value) -> anyhow::Result<Option<&str>> {
    let package = optional(line, "package")?;
    let name = ORIGINS.iter().find_map(|origin| package.strip_prefix(origin)).unwrap_or(package);
    Ok(Some(name).filter(|name| !name.is_empty()))
}

fn slug(server: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let slug: String = server.to_lowercase().chars().map(plain).take(NAME).collect();
    match slug.trim_matches('-') {
        "" => "x".to_owned(),
        slug => slug.to_owned(),
    }
}

fn question(line: &Value, ids: &HashMap<String, String>) -> anyhow::Result<Question> {
    let relevant = line["relevant"].as_array().ok_or_else(|| anyhow!("`relevant` is not a list"))?;
    ensure!(!relevant.is_empty(), "`relevant` is empty");
    let known = |id: &Value| {
        let id = id.as_str().ok_or_else(|| anyhow!("`relevant` contains something that is not a string"))?;
        ids.get(id).cloned().ok_or_else(|| anyhow!("`relevant` names `{id}`, which is not in `{TOOLS}`"))
    };
    let relevant = relevant.iter().map(known).collect::<Result<_, _>>()?;
    Ok(Question { text: text(line, "text")?.to_owned(), relevant })
}

/// Reads a file line by line; errors name their line.
fn each(path: &Path, mut take: impl FnMut(&Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let content = fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))?;
    for (line, number) in content.lines().zip(1_usize..).filter(|(line, _)| !line.trim().is_empty()) {
        let place = || format!("read `{}`, line {number}", path.display());
        let value: Value = serde_json::from_str(line).with_context(place)?;
        let object = value.is_object().then_some(&value).ok_or_else(|| anyhow!("it is not a JSON object"));
        object.and_then(&mut take).with_context(place)?;
    }
    Ok(())
}

fn text<'a>(line: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    let text = optional(line, key)?;
    ensure!(!text.is_empty(), "`{key}` is missing");
    Ok(text)
}

fn optional<'a>(line: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    match &line[key] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        _ => Err(anyhow!("`{key}` is not a string")),
    }
}

/// Writes a definition: JSON is YAML.
fn put(folder: &Path, name: &str, definition: &Map<String, Value>) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
    let path = folder.join(name).with_extension("yaml");
    let text = Value::Object(definition.clone()).to_string();
    fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))
}
