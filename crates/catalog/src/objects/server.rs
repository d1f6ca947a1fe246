//! A server in muster's form: whether its keys hold what they must. What becomes of them is `clients::translate`.

use crate::reader::{Cursor, Fields};

/// The words for how a server is reached, older ones included.
const TYPES: [&str; 6] = ["stdio", "streamable-http", "sse", "http", "streamableHttp", "localCommand"];
const PROGRAMS: [&str; 2] = ["stdio", "localCommand"];
const OF_CLIENTS: [&str; 5] = ["cwd", "disabled", "enabled", "envFile", "transport"];
/// The longest time that a server may take, in seconds.
const TIMEOUT_MAX: u32 = 300;

/// What is wrong goes to the cursor's sink.
pub(super) fn check(root: Cursor<'_>) {
    let Some(fields) = root.fields() else { return };
    fields.get_unlisted("name");
    let word = fields.get("type").and_then(|cursor| {
        let text = cursor.text()?;
        if !TYPES.contains(&text) {
            cursor.expected("`stdio`, `streamable-http` or `sse`");
        }
        Some(text)
    });
    for key in ["description", "toolPrefix", "title"] {
        fields.get(key).filter(|cursor| !cursor.node().is_null()).and_then(|cursor| cursor.text());
    }
    fields.get("autoStart").and_then(|cursor| cursor.flag());
    fields.get("timeout").and_then(|cursor| cursor.number(1, TIMEOUT_MAX));
    texts(&fields, "labels");
    // What of these cannot be taken over is told when it is.
    for key in ["auth", "family"] {
        fields.get(key).filter(|cursor| !cursor.node().is_null()).and_then(Cursor::fields);
    }
    texts(&fields, "env");
    texts(&fields, "headers");
    if let Some(args) = fields.get("args").filter(|cursor| !cursor.node().is_null()) {
        args.list(|item| item.text().map(str::to_owned));
    }
    let is_program = word.map(|word| PROGRAMS.contains(&word));
    let has_url = fields.has("url");
    if is_program.unwrap_or(!has_url) {
        let hint = "add `command:` with the program to start".to_owned();
        match fields.require("command", "the program to start", hint) {
            // Some files have the program with its arguments in one list.
            Some(command) if command.node().is_list() => {
                let words = command.list(|item| item.text().map(str::to_owned));
                if words.is_empty() && command.items().is_empty() {
                    command.expected("the program to start");
                }
            }
            command => drop(command.and_then(|cursor| cursor.word("a program"))),
        }
        fields.get_unlisted("url");
    } else {
        let hint = "add `url:` with the server's address".to_owned();
        fields.require("url", "the server's address", hint).and_then(|cursor| cursor.word("an address"));
        fields.get_unlisted("command");
    }
    // Keys of other clients' settings that `clients::translate` reads all the same.
    OF_CLIENTS.iter().for_each(|key| drop(fields.get_unlisted(key)));
    // What muster knows beside these, or knew once, changes nothing here.
    fields.finish_leniently();
}

/// A map of texts. What it says is never repeated: it may be a secret.
fn texts(fields: &Fields<'_>, key: &'static str) {
    let Some(cursor) = fields.get(key).filter(|cursor| !cursor.node().is_null()) else { return };
    cursor.map(|_, value| {
        if value.text_or_nothing().is_none() && !value.node().is_null() {
            value.problem("expected a text", None);
        }
        None::<()>
    });
}
