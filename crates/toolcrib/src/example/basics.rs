//! The example server `basics`: the smallest tools of each kind, to try a gateway with. One echoes, one adds, one
//! counts its calls, one reads a variable, one shows a picture and one always fails; a prompt and two resources come
//! with them.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::tool::{self, Effect};
use super::{ArgumentError, Arguments, Content, Example, ExampleInfo, Tool, ToolReply};

/// A PNG of one pixel, in base64.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const TEXT_URI: &str = "basics:///text";
const PICTURE_URI: &str = "basics:///picture";

const ABOUT: ExampleInfo = ExampleInfo {
    name: "basics",
    title: "Basics",
    instructions: "Echoes, adds, counts, fails on demand, and shows a picture and a variable of its environment. For \
                   trying things out.",
};

/// The server. It keeps the number of calls of `count`.
#[derive(Debug, Default)]
pub(crate) struct BasicsServer {
    count: AtomicU64,
}

const TOOLS: &[Tool<BasicsServer>] = &[
    Tool {
        name: "echo",
        title: "Echo",
        description: "Return the text it is given.",
        effect: Effect::Reads,
        properties: || json!({ "text": { "type": "string", "description": "The text to return" } }),
        required: &["text"],
        run: |_, arguments| Ok(ToolReply::text(arguments.needed_text("text")?)),
    },
    Tool {
        name: "add",
        title: "Add",
        description: "Add two numbers.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "a": { "type": "number", "description": "The first number" },
                "b": { "type": "number", "description": "The second number" },
            })
        },
        required: &["a", "b"],
        run: add,
    },
    Tool {
        name: "count",
        title: "Count",
        description: "Tell how many times this tool was called since the server started.",
        effect: Effect::Adds,
        properties: || json!({}),
        required: &[],
        run: |server, _| {
            let count = server.count.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(ToolReply::new(count.to_string(), json!({ "count": count })))
        },
    },
    Tool {
        name: "env",
        title: "Environment variable",
        description: "Return a variable of the server's environment.",
        effect: Effect::Reads,
        properties: || json!({ "name": { "type": "string", "description": "Its name, such as `LANG`" } }),
        required: &["name"],
        run: |_, arguments| {
            let value = std::env::var_os(arguments.needed_text("name")?);
            Ok(ToolReply::text(value.map_or("(unset)".into(), |value| value.to_string_lossy().into_owned())))
        },
    },
    Tool {
        name: "fail",
        title: "Fail",
        description: "Fail with the message it is given.",
        effect: Effect::Reads,
        properties: || json!({ "message": { "type": "string", "default": "the tool failed", "description": "What to fail with" } }),
        required: &[],
        run: |_, arguments| Err(ArgumentError(arguments.text("message")?.unwrap_or("the tool failed").to_owned())),
    },
    Tool {
        name: "picture",
        title: "Picture",
        description: "Show a picture of one pixel.",
        effect: Effect::Reads,
        properties: || json!({}),
        required: &[],
        run: |_, _| Ok(ToolReply::picture(PICTURE)),
    },
];

// === impl BasicsServer ===

impl Example for BasicsServer {
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

impl Content for BasicsServer {
    fn resources(&self) -> Vec<Value> {
        vec![
            json!({ "uri": TEXT_URI, "name": "text", "mimeType": "text/plain" }),
            json!({ "uri": PICTURE_URI, "name": "picture", "mimeType": "image/png" }),
        ]
    }

    fn templates(&self) -> Vec<Value> {
        Vec::new()
    }

    fn read(&self, uri: &str) -> Option<Value> {
        match uri {
            TEXT_URI => Some(json!({ "uri": uri, "mimeType": "text/plain", "text": "A short text.\n" })),
            PICTURE_URI => Some(json!({ "uri": uri, "mimeType": "image/png", "blob": PICTURE })),
            _ => None,
        }
    }

    fn prompts(&self) -> Vec<Value> {
        vec![json!({
            "name": "greet",
            "title": "Greet",
            "description": "Greet somebody.",
            "arguments": [{ "name": "who", "description": "Who is greeted", "required": true }],
        })]
    }

    fn prompt(&self, name: &str, arguments: &Arguments) -> Option<Result<Value, ArgumentError>> {
        (name == "greet").then(|| {
            let text = format!("Greet {} in one friendly sentence.", arguments.needed_text("who")?);
            Ok(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }))
        })
    }

    fn has_changes(&self) -> bool {
        false
    }
}

fn add(_: &BasicsServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let sum = arguments.needed_number("a")? + arguments.needed_number("b")?;
    if !sum.is_finite() {
        return Err(ArgumentError("the sum is too large for a number".to_owned()));
    }
    Ok(ToolReply::new(sum.to_string(), json!({ "sum": sum })))
}
