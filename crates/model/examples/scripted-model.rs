//! For `acceptance/python/test_models.py`: prints requests as they are rendered, one line of JSON for each, then an empty
//! line. After that each line of input `{"wire": …, "request": …}` is answered by the demonstration as a line
//! `{"status": …, "type": …, "body": …}`.

use std::io::{BufRead, Write};

use serde_json::{Value, json};
use toolcrib_model::{
    Bounds, CacheMarks, Conversation, Item, Json, OutputSchema, Part, Script, Target, Tool, ToolChoice, ToolResult,
    Wire, read, render,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for wire in Wire::ALL {
        for (name, conversation) in conversations(wire)? {
            let request: Value = serde_json::from_slice(&render(&conversation, &Target::new(wire, "demo"))?)?;
            writeln!(out, "{}", json!({"wire": wire.name(), "name": name, "request": request}))?;
        }
    }
    writeln!(out)?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let wire = asked["wire"].as_str().and_then(Wire::named).ok_or("an unknown wire")?;
        let response = Script::demo().answer(wire, asked["request"].to_string().as_bytes());
        let body = String::from_utf8(response.body)?;
        writeln!(out, "{}", json!({"status": response.status, "type": response.content_type, "body": body}))?;
        out.flush()?;
    }
    Ok(())
}

/// Conversations that use everything that can be said.
fn conversations(wire: Wire) -> Result<Vec<(&'static str, Conversation)>, Box<dyn std::error::Error>> {
    let strict = json!({
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false
    });
    let tool = |name: &str, schema: &Value| Tool {
        name: name.to_owned(),
        description: "Reads a file".to_owned(),
        input_schema: Json::from(schema),
        deferred: false,
    };
    let mut plain = Conversation::default();
    plain.say("Hello");
    let mut full = Conversation {
        instructions: "You help.".to_owned(),
        tools: vec![tool("files_list", &json!({"type": "object"})), tool("files_read", &strict)],
        ..Conversation::default()
    };
    let image = Part::Image { media_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    full.items.push(Item::User(vec![Part::Text("Read a.txt, and list files".to_owned()), image.clone()]));
    full.options.max_output_tokens = Some(500);
    full.options.cache = CacheMarks::OneHour;
    let target = Target::new(wire, "demo");
    let script = Script::from_value(&json!({"turns": [
        {"think": "hm", "say": "wait", "calls": [{"name": "files_read", "arguments": {"path": "a.txt"}}, {"name": "files_list"}]}
    ]}))?;
    let answer = read(wire, &script.answer(wire, &render(&full, &target)?).body, Bounds::default())?;
    let mut results: Vec<ToolResult> = answer.calls.iter().map(|call| ToolResult::text(&call.id, "fine")).collect();
    results[0].content.push(image);
    results[1].is_error = true;
    let mut own = full.clone();
    own.answered(&target.origin, &answer);
    own.results(results.clone());
    own.options.stream = true;
    own.options.single_call = true;
    own.options.output = Some(OutputSchema { name: "answer".to_owned(), schema: Json::from(&strict) });
    let mut foreign = full.clone();
    foreign.answered("another", &answer);
    foreign.results(results);
    foreign.options.tool_choice = ToolChoice::None;
    let mut forced = full.clone();
    forced.options.tool_choice = ToolChoice::Tool("files_read".to_owned());
    let mut any = full.clone();
    any.options.tool_choice = ToolChoice::Any;
    Ok(vec![("plain", plain), ("full", full), ("own", own), ("foreign", foreign), ("forced", forced), ("any", any)])
}
