//! The example server `notes`: notes in memory, each also a resource; they end with the process.

mod shelf;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use toolcrib_base::Clock;

use super::tool::{self, Effect};
use super::{ArgumentError, Arguments, Content, Example, ExampleInfo, Tool, ToolReply};
use shelf::{Change, Note, Shelf, TAGS, TEXT_CHARS, TITLE_CHARS};

/// How many notes one answer may have.
const MOST: i64 = 100;
/// How a note's URI begins; its number follows.
const URI: &str = "note:///";

const ABOUT: ExampleInfo = ExampleInfo {
    name: "notes",
    title: "Notes",
    instructions: "Keeps short notes while it runs. They are in memory only and gone when it ends. Each note is also a \
                   resource `note:///<id>`.",
};

/// The server.
pub(crate) struct NotesServer {
    clock: Arc<dyn Clock>,
    shelf: Mutex<Shelf>,
    has_changes: AtomicBool,
}

const TOOLS: &[Tool<NotesServer>] = &[
    Tool {
        name: "add_note",
        title: "Write a note",
        description: "Write down a new note with a title, a text and tags. Returns its id.",
        effect: Effect::Adds,
        properties: || {
            json!({
                "title": { "type": "string", "minLength": 1, "maxLength": TITLE_CHARS, "description": "One line that says what the note is about" },
                "text": { "type": "string", "maxLength": TEXT_CHARS, "description": "The note itself, as Markdown" },
                "tags": tags("Words to find the note by"),
            })
        },
        required: &["title", "text"],
        run: add_note,
    },
    Tool {
        name: "get_note",
        title: "Read a note",
        description: "Read one note whole: title, text, tags and when it was written and changed.",
        effect: Effect::Reads,
        properties: || json!({ "id": id() }),
        required: &["id"],
        run: get_note,
    },
    Tool {
        name: "update_note",
        title: "Change a note",
        description: "Replace the title, the text or the tags of a note. What is left out stays as it is.",
        effect: Effect::Replaces,
        properties: || {
            json!({
                "id": id(),
                "title": { "type": "string", "minLength": 1, "maxLength": TITLE_CHARS, "description": "The new title" },
                "text": { "type": "string", "maxLength": TEXT_CHARS, "description": "The new text" },
                "tags": tags("The new tags; an empty list removes all"),
            })
        },
        required: &["id"],
        run: update_note,
    },
    Tool {
        name: "append_to_note",
        title: "Append to a note",
        description: "Add a paragraph to the end of a note's text.",
        effect: Effect::Adds,
        properties: || {
            json!({
                "id": id(),
                "text": { "type": "string", "minLength": 1, "maxLength": TEXT_CHARS, "description": "The paragraph to add" },
            })
        },
        required: &["id", "text"],
        run: append_to_note,
    },
    Tool {
        name: "delete_note",
        title: "Delete a note",
        description: "Delete a note for good.",
        effect: Effect::Replaces,
        properties: || json!({ "id": id() }),
        required: &["id"],
        run: delete_note,
    },
    Tool {
        name: "list_notes",
        title: "List notes",
        description: "List the notes with id, title and tags, the ones changed last first.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "tag": { "type": "string", "description": "Only notes with this tag" },
                "limit": limit(),
            })
        },
        required: &[],
        run: list_notes,
    },
    Tool {
        name: "search_notes",
        title: "Search notes",
        description: "Search the notes for words in title, text and tags, regardless of case. A note must have all of the \
                      words; those with more matches come first.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "query": { "type": "string", "minLength": 1, "description": "Words to look for" },
                "tag": { "type": "string", "description": "Only notes with this tag" },
                "limit": limit(),
            })
        },
        required: &["query"],
        run: search_notes,
    },
    Tool {
        name: "list_tags",
        title: "List tags",
        description: "List all tags in use with the number of notes that have them.",
        effect: Effect::Reads,
        properties: || json!({}),
        required: &[],
        run: list_tags,
    },
    Tool {
        name: "rename_tag",
        title: "Rename a tag",
        description: "Rename a tag in every note that has it; merges it with the new one where both are there.",
        effect: Effect::Replaces,
        properties: || {
            json!({
                "from": { "type": "string", "description": "The tag as it is" },
                "to": { "type": "string", "minLength": 1, "description": "The tag as it shall be" },
            })
        },
        required: &["from", "to"],
        run: rename_tag,
    },
];

fn id() -> Value {
    json!({ "type": "integer", "minimum": 1, "description": "The note's id" })
}

fn tags(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "maxItems": TAGS, "description": description })
}

fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": MOST, "default": 20, "description": "How many notes at most" })
}

// === impl NotesServer ===

impl NotesServer {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, shelf: Mutex::default(), has_changes: AtomicBool::new(false) }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change that the list of resources shows.
    fn changed(&self) {
        self.has_changes.store(true, Ordering::Relaxed);
    }
}

impl Example for NotesServer {
    fn about(&self) -> &'static ExampleInfo {
        &ABOUT
    }

    fn tools(&self) -> Vec<Value> {
        tool::entries(TOOLS)
    }

    fn call(&self, name: &str, arguments: &Arguments) -> Option<Result<ToolReply, ArgumentError>> {
        tool::call(TOOLS, self, name, arguments)
    }

    fn content(&self) -> Option<&dyn Content> {
        Some(self)
    }
}

impl Content for NotesServer {
    fn resources(&self) -> Vec<Value> {
        let entry = |note: &Note| json!({ "uri": format!("{URI}{}", note.id), "name": note.title, "mimeType": "text/markdown", "size": note.text.len() });
        self.shelf().all().map(entry).collect()
    }

    fn templates(&self) -> Vec<Value> {
        vec![json!({
            "uriTemplate": format!("{URI}{{id}}"),
            "name": "note",
            "title": "A note by its id",
            "mimeType": "text/markdown",
        })]
    }

    fn read(&self, uri: &str) -> Option<Value> {
        let id = uri.strip_prefix(URI)?.parse().ok()?;
        let shelf = self.shelf();
        let note = shelf.get(id).ok()?;
        Some(json!({ "uri": uri, "mimeType": "text/markdown", "text": note.text }))
    }

    fn prompts(&self) -> Vec<Value> {
        vec![json!({
            "name": "summarize_notes",
            "title": "Summarize notes",
            "description": "Ask for a summary of all notes, or of those with a tag.",
            "arguments": [{ "name": "tag", "description": "Only notes with this tag", "required": false }],
        })]
    }

    fn prompt(&self, name: &str, arguments: &Arguments) -> Option<Result<Value, ArgumentError>> {
        (name == "summarize_notes").then(|| {
            let tag = arguments.text("tag")?;
            let shelf = self.shelf();
            let notes: Vec<String> = shelf
                .tagged(tag)
                .take(MOST as usize)
                .map(|note| format!("# {}\n\n{}", note.title, note.text))
                .collect();
            let text = if notes.is_empty() {
                "There are no notes to summarize.".to_owned()
            } else {
                format!(
                    "Summarize these notes in a few sentences and list what is still to do.\n\n{}",
                    notes.join("\n\n")
                )
            };
            Ok(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }))
        })
    }

    fn has_changes(&self) -> bool {
        self.has_changes.swap(false, Ordering::Relaxed)
    }
}

fn id_of(arguments: &Arguments) -> Result<u64, ArgumentError> {
    let id = arguments.whole("id", 1, i64::MAX)?.ok_or_else(|| super::arguments::missing("id"))?;
    Ok(id.unsigned_abs())
}

fn add_note(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let (title, text) = (arguments.needed_text("title")?, arguments.needed_text("text")?);
    let tags = arguments.texts("tags", TAGS)?.unwrap_or_default();
    let id = server.shelf().add(title, text, &tags, server.clock.now())?;
    server.changed();
    Ok(ToolReply::new(format!("wrote note {id}: {}", title.trim()), json!({ "id": id, "uri": format!("{URI}{id}") })))
}

fn get_note(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let shelf = server.shelf();
    let note = shelf.get(id_of(arguments)?)?;
    let tags = if note.tags.is_empty() { String::new() } else { format!("\ntags: {}", note.tags.join(", ")) };
    let text = format!("# {}{tags}\nwritten {}, changed {}\n\n{}", note.title, note.written, note.changed, note.text);
    Ok(ToolReply::new(text, whole(note)))
}

fn update_note(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let (id, title, text) = (id_of(arguments)?, arguments.text("title")?, arguments.text("text")?);
    let tags = arguments.texts("tags", TAGS)?;
    if title.is_none() && text.is_none() && tags.is_none() {
        return Err(ArgumentError("give a new `title`, `text` or `tags`".to_owned()));
    }
    let mut shelf = server.shelf();
    let note = shelf.update(id, &Change { title, text, tags: tags.as_deref() }, server.clock.now())?;
    server.changed();
    Ok(ToolReply::new(format!("changed note {id}: {}", note.title), whole(note)))
}

fn append_to_note(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let (id, more) = (id_of(arguments)?, arguments.needed_text("text")?);
    let mut shelf = server.shelf();
    let before = &shelf.get(id)?.text;
    let text = if before.is_empty() { more.to_owned() } else { format!("{before}\n\n{more}") };
    let note = shelf.update(id, &Change { text: Some(&text), ..Change::default() }, server.clock.now())?;
    server.changed();
    let chars = note.text.chars().count();
    Ok(ToolReply::new(format!("note {id} has {chars} characters now"), json!({ "id": id, "characters": chars })))
}

fn delete_note(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let id = id_of(arguments)?;
    let note = server.shelf().remove(id)?;
    server.changed();
    Ok(ToolReply::new(format!("deleted note {id}: {}", note.title), json!({ "id": id, "title": note.title })))
}

fn list_notes(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let limit = arguments.whole("limit", 1, MOST)?.unwrap_or(20) as usize;
    let shelf = server.shelf();
    let mut notes: Vec<&Note> = shelf.tagged(arguments.text("tag")?).collect();
    notes.sort_by_key(|note| std::cmp::Reverse((note.changed, note.id)));
    Ok(listed(&notes, limit))
}

fn search_notes(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let limit = arguments.whole("limit", 1, MOST)?.unwrap_or(20) as usize;
    let shelf = server.shelf();
    let notes = shelf.search(arguments.needed_text("query")?, arguments.text("tag")?);
    Ok(listed(&notes, limit))
}

fn list_tags(server: &NotesServer, _: &Arguments) -> Result<ToolReply, ArgumentError> {
    let tags = server.shelf().tags();
    let lines: Vec<String> = tags.iter().map(|(tag, count)| format!("{tag}: {count}")).collect();
    let text = if lines.is_empty() { "no tags".to_owned() } else { lines.join("\n") };
    let tags: Vec<Value> = tags.iter().map(|(tag, count)| json!({ "tag": tag, "notes": count })).collect();
    Ok(ToolReply::new(text, json!({ "tags": tags })))
}

fn rename_tag(server: &NotesServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let (from, to) = (arguments.needed_text("from")?, arguments.needed_text("to")?);
    let count = server.shelf().rename_tag(from, to, server.clock.now())?;
    Ok(ToolReply::new(format!("renamed the tag in {count} notes"), json!({ "notes": count })))
}

fn listed(notes: &[&Note], limit: usize) -> ToolReply {
    let shown = &notes[..notes.len().min(limit)];
    let line = |note: &&Note| {
        let tags: String = note.tags.iter().map(|tag| format!(" #{tag}")).collect();
        format!("{}. {}{tags}", note.id, note.title)
    };
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    if notes.is_empty() {
        lines.push("no notes".to_owned());
    } else if shown.len() < notes.len() {
        lines.push(format!("… {} of {}", shown.len(), notes.len()));
    }
    let brief = |note: &&Note| json!({ "id": note.id, "title": note.title, "tags": note.tags });
    let entries: Vec<Value> = shown.iter().map(brief).collect();
    ToolReply::new(lines.join("\n"), json!({ "total": notes.len(), "notes": entries }))
}

fn whole(note: &Note) -> Value {
    json!({
        "id": note.id, "title": note.title, "text": note.text, "tags": note.tags,
        "written": note.written.to_string(), "changed": note.changed.to_string(),
    })
}
