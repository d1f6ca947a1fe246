//! Each tool of the notes, their bounds, and the notes as resources.

use toolcrib_base::{ManualClock, Timestamp};

use super::*;

struct Desk {
    clock: Arc<ManualClock>,
    server: NotesServer,
}

impl Desk {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(0)));
        let server = NotesServer::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { clock, server }
    }

    fn ask(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        self.clock.advance(1_000);
        let arguments = Arguments::new(arguments).unwrap();
        self.server.call(tool, &arguments).unwrap().map(|told| told.structured).map_err(|wrong| wrong.0)
    }

    /// Three notes: milk (home, shop), release (work), shoes (shop).
    fn filled() -> Self {
        let desk = Self::new();
        for (title, text, tags) in [
            ("Buy milk", "Two bottles of milk", json!(["Home", "#shop"])),
            ("Release", "Tag the release, tell everybody", json!(["work"])),
            ("New shoes", "", json!(["shop", "shop"])),
        ] {
            desk.ask("add_note", json!({ "title": title, "text": text, "tags": tags })).unwrap();
        }
        desk
    }

    fn ids(&self, tool: &str, arguments: Value) -> Vec<u64> {
        let answer = self.ask(tool, arguments).unwrap();
        answer["notes"].as_array().unwrap().iter().map(|note| note["id"].as_u64().unwrap()).collect()
    }
}

#[test]
fn notes_are_kept_changed_and_deleted() {
    let desk = Desk::filled();
    let note = desk.ask("get_note", json!({"id": 1})).unwrap();
    assert_eq!((&note["title"], &note["tags"]), (&json!("Buy milk"), &json!(["home", "shop"])));
    assert_eq!(note["written"], "1970-01-01T00:00:01.000Z");
    desk.ask("append_to_note", json!({"id": 1, "text": "And bread"})).unwrap();
    desk.ask("append_to_note", json!({"id": 3, "text": "Size 42"})).unwrap();
    assert_eq!(desk.ask("get_note", json!({"id": 1})).unwrap()["text"], "Two bottles of milk\n\nAnd bread");
    assert_eq!(desk.ask("get_note", json!({"id": 3})).unwrap()["text"], "Size 42");
    let changed = desk.ask("update_note", json!({"id": 2, "title": "Release day", "tags": []})).unwrap();
    assert_eq!((&changed["title"], &changed["tags"]), (&json!("Release day"), &json!([])));
    assert_eq!(changed["text"], "Tag the release, tell everybody");
    assert!(desk.ask("update_note", json!({"id": 2})).unwrap_err().contains("give a new"));
    assert_eq!(desk.ask("delete_note", json!({"id": 2})).unwrap()["title"], "Release day");
    assert!(desk.ask("get_note", json!({"id": 2})).unwrap_err().contains("no note 2"));
    assert_eq!(desk.ask("add_note", json!({"title": "a", "text": ""})).unwrap()["id"], 4, "ids are not given twice");
}

#[test]
fn notes_are_listed_and_found() {
    let desk = Desk::filled();
    desk.ask("append_to_note", json!({"id": 2, "text": "."})).unwrap();
    assert_eq!(desk.ids("list_notes", json!({})), [2, 3, 1]);
    assert_eq!(desk.ids("list_notes", json!({"tag": "SHOP"})), [3, 1]);
    assert_eq!(desk.ids("list_notes", json!({"limit": 1})), [2]);
    assert_eq!(desk.ids("search_notes", json!({"query": "MILK bottles"})), [1]);
    assert_eq!(desk.ids("search_notes", json!({"query": "release"})), [2]);
    assert_eq!(desk.ids("search_notes", json!({"query": "shop", "tag": "home"})), [1]);
    assert_eq!(desk.ids("search_notes", json!({"query": "milk release"})), [0; 0]);
    assert_eq!(desk.ids("search_notes", json!({"query": " "})), [0; 0]);
    let tags = desk.ask("list_tags", json!({})).unwrap();
    assert_eq!(tags["tags"][1], json!({"tag": "shop", "notes": 2}));
    assert_eq!(desk.ask("rename_tag", json!({"from": "home", "to": "shop"})).unwrap()["notes"], 1);
    assert_eq!(desk.ask("get_note", json!({"id": 1})).unwrap()["tags"], json!(["shop"]));
    assert!(desk.ask("rename_tag", json!({"from": "home", "to": "x"})).unwrap_err().contains("no note has"));
}

#[test]
fn notes_are_bounded() {
    let desk = Desk::new();
    for (title, text, tags) in [
        ("", "x".to_owned(), json!([])),
        ("two\nlines", "x".to_owned(), json!([])),
        (&*"t".repeat(TITLE_CHARS + 1), "x".to_owned(), json!([])),
        ("t", "ä".repeat(TEXT_CHARS + 1), json!([])),
        ("t", "x".to_owned(), json!(vec!["a"; TAGS + 1])),
        ("t", "x".to_owned(), json!(["two words"])),
    ] {
        assert!(desk.ask("add_note", json!({ "title": title, "text": text, "tags": tags })).is_err(), "{title}");
    }
    let full = json!({ "title": "t", "text": "ä".repeat(TEXT_CHARS) });
    for _ in 0..1_000 {
        desk.ask("add_note", full.clone()).unwrap();
    }
    assert!(desk.ask("add_note", full).unwrap_err().contains("delete some"));
    assert!(desk.ask("append_to_note", json!({"id": 1, "text": "x"})).unwrap_err().contains("at most"));
}

#[test]
fn notes_are_resources() {
    let desk = Desk::filled();
    assert!(desk.server.has_changes() && !desk.server.has_changes());
    let resources = desk.server.resources();
    assert_eq!((resources.len(), &resources[0]["uri"]), (3, &json!("note:///1")));
    assert_eq!(desk.server.read("note:///1").unwrap()["text"], "Two bottles of milk");
    for missing in ["note:///9", "note:///x", "note:///", "file:///etc/passwd", "note:///-1"] {
        assert_eq!(desk.server.read(missing), None, "{missing}");
    }
    let prompt = |tag: Value| {
        let arguments = Arguments::new(json!({ "tag": tag })).unwrap();
        let messages = desk.server.prompt("summarize_notes", &arguments).unwrap().unwrap();
        messages["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    };
    assert!(prompt(json!(null)).contains("# Release") && !prompt(json!("home")).contains("# Release"));
    assert!(prompt(json!("none")).starts_with("There are no notes"));
    assert_eq!(desk.server.prompt("other", &Arguments::default()), None);
}
