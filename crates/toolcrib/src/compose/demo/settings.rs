//! What a person pastes into the settings of a client.

use std::path::Path;

use serde_json::{Value, json};

/// The name of the gateway in the settings.
const NAME: &str = "toolcrib";

/// Every form, each with the clients that take it.
pub(super) fn render(url: &str, home: &Path) -> String {
    let program = std::env::current_exe().map_or_else(|_| NAME.to_owned(), |path| path.display().to_string());
    let by_http = json!({ "mcpServers": { NAME: { "type": "http", "url": url } } });
    let of_vs_code = json!({ "servers": { NAME: { "type": "http", "url": url } } });
    let by_stdio = json!({ "mcpServers": { NAME: { "command": program, "args": ["stdio", "--home", home] } } });
    format!(
        "
Connect a client
   The gateway serves {url} until Ctrl-C.

   Clients that speak HTTP (`mcpServers`):
{}
   VS Code (`.vscode/mcp.json`):
{}
   Clients that speak only stdio:
{}
   Another terminal:
      {} list tools --home {}

This home is temporary: {}
It is deleted when the demo ends. For your own servers: `toolcrib serve`.
",
        block(&by_http),
        block(&of_vs_code),
        block(&by_stdio),
        quoted(&program),
        quoted(&home.display().to_string()),
        home.display(),
    )
}

/// JSON to paste: what is short stays on one line.
fn block(settings: &Value) -> String {
    let mut text = String::new();
    let (list, entry) = settings.as_object().and_then(|object| object.iter().next()).expect("built above");
    text.push_str(&format!(
        "      {{\n        \"{list}\": {{\n          \"{NAME}\": {}\n        }}\n      }}\n",
        spaced(&entry[NAME])
    ));
    text
}

/// An object on one line as a person writes it.
fn spaced(entry: &Value) -> String {
    let members: Vec<String> =
        entry.as_object().into_iter().flatten().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    format!("{{ {} }}", members.join(", "))
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_valid_json() {
        let text = render("http://127.0.0.1:9/mcp", Path::new("/tmp/it's \"here\""));
        let blocks: Vec<&str> =
            text.split("\n      {\n").skip(1).map(|rest| rest.split("\n      }\n").next().unwrap()).collect();
        let settings: Vec<Value> =
            blocks.iter().map(|block| serde_json::from_str(&format!("{{{block}}}")).unwrap()).collect();
        assert_eq!(settings.len(), 3, "{text}");
        assert_eq!(settings[0]["mcpServers"][NAME]["url"], "http://127.0.0.1:9/mcp");
        assert_eq!(settings[1]["servers"][NAME]["type"], "http");
        assert_eq!(settings[2]["mcpServers"][NAME]["args"], json!(["stdio", "--home", "/tmp/it's \"here\""]));
        assert!(text.contains(r#"--home '/tmp/it'\''s "here"'"#), "{text}");
    }
}
