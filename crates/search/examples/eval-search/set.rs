//! Reading a set: tools as documents of the index, queries with what answers them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use toolcrib_base::{ServerName, ToolId};
use toolcrib_search::{Document, Index, ServerText, TextKey, schema, tool_texts};

#[derive(Debug)]
pub struct Set {
    pub name: String,
    /// By the name that the index knows the server by.
    servers: BTreeMap<String, Vec<Value>>,
    ids: HashMap<ToolId, String>,
    pub queries: Vec<LabeledQuery>,
}

/// One query with the ids of the tools that answer it.
#[derive(Debug)]
pub struct LabeledQuery {
    pub id: String,
    pub text: String,
    pub relevant: Vec<String>,
    line: Value,
}

// === impl Set ===

impl Set {
    pub fn read(folder: &Path) -> Result<Self> {
        let mut set = Self {
            name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            servers: BTreeMap::new(),
            ids: HashMap::new(),
            queries: lines(&folder.join("queries.jsonl"))?.into_iter().map(LabeledQuery::new).collect(),
        };
        for tool in lines(&folder.join("tools.jsonl"))? {
            set.add(tool)?;
        }
        Ok(set)
    }

    /// A set's servers have free names, and one may have several tools of a name: the second goes to a second server.
    fn add(&mut self, tool: Value) -> Result<()> {
        let slug: String = text(&tool, "server")
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(50)
            .collect();
        let slug = slug.trim_matches('-');
        let slug = if slug.is_empty() { "x" } else { slug };
        for nth in 0.. {
            let server = if nth == 0 { slug.to_owned() } else { format!("{slug}-{nth}") };
            let name = ServerName::new(&server).with_context(|| format!("`{server}` cannot be a server's name"))?;
            let id = ToolId::new(name, text(&tool, "name"));
            if let Entry::Vacant(free) = self.ids.entry(id) {
                free.insert(text(&tool, "id").to_owned());
                self.servers.entry(server).or_default().push(tool);
                break;
            }
        }
        Ok(())
    }

    pub fn index(&self) -> Index {
        let mut index = Index::new();
        for name in self.servers.keys() {
            self.add_server(&mut index, name);
        }
        index
    }

    /// Puts one server of the set into an index.
    fn add_server(&self, index: &mut Index, name: &str) {
        let tools = self.servers.get(name).map(Vec::as_slice).unwrap_or_default();
        add(index, name, tools);
    }

    /// What a model reads of all tools.
    pub fn texts(&self) -> Vec<(TextKey, String)> {
        let read = |(name, tools): (&String, &Vec<Value>)| with_documents(name, tools, tool_texts);
        self.servers.iter().filter_map(read).flatten().collect()
    }

    /// All tools in servers of at most `most`, for an index of many sets.
    pub fn parts(&self, most: usize) -> impl Iterator<Item = (String, &[Value])> {
        let chunks = self.servers.iter().flat_map(move |(name, tools)| tools.chunks(most).map(move |it| (name, it)));
        chunks.zip(0..).map(|((name, tools), at)| {
            let set: String = self.name.chars().filter(char::is_ascii_lowercase).take(8).collect();
            (format!("{}-{set}-{at}", name.chars().take(40).collect::<String>()), tools)
        })
    }

    /// What the set itself calls a tool.
    pub fn id(&self, id: &ToolId) -> &str {
        self.ids.get(id).map_or("", String::as_str)
    }
}

/// Puts tools into an index as those of one server.
pub fn add(index: &mut Index, name: &str, tools: &[Value]) {
    with_documents(name, tools, |server, documents| index.replace(server, documents));
}

/// `None` if the server can have no such name, or has no tools.
fn with_documents<T>(
    name: &str,
    tools: &[Value],
    read: impl FnOnce(&ServerText<'_>, &[Document<'_>]) -> T,
) -> Option<T> {
    let (Ok(server), Some(first)) = (ServerName::new(name), tools.first()) else { return None };
    let title = match text(first, "server_title") {
        "" => text(first, "server"),
        title => title,
    };
    let labels = [text(first, "category")];
    let server = ServerText {
        title,
        description: text(first, "server_description"),
        labels: &labels,
        ..ServerText::new(server)
    };
    let documents: Vec<Document<'_>> = tools.iter().map(document).collect();
    Some(read(&server, &documents))
}

fn document(tool: &Value) -> Document<'_> {
    Document {
        tool: text(tool, "name").into(),
        title: text(tool, "title"),
        description: text(tool, "description"),
        parameters: schema::parameters(&tool["input_schema"].to_string()),
        ..Document::default()
    }
}

// === impl LabeledQuery ===

impl LabeledQuery {
    fn new(line: Value) -> Self {
        let relevant = line["relevant"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            id: line["id"].as_str().map_or_else(|| line["id"].to_string(), str::to_owned),
            text: text(&line, "text").to_owned(),
            relevant: relevant.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            line,
        }
    }

    /// The value of a further field, or `-`.
    pub fn field(&self, name: &str) -> String {
        self.line[name].as_str().unwrap_or("-").to_owned()
    }
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    let content = fs::read_to_string(path).with_context(|| format!("failed to read `{}`", path.display()))?;
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).with_context(|| format!("`{}`, line {}, is no JSON", path.display(), at + 1))
        })
        .collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
