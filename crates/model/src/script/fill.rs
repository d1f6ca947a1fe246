//! Values that fit a schema, made of the words of a task: numbers, quoted texts, paths, words that are named.

use serde_json::{Map, Value, json};

/// How deep objects and lists are filled.
const DEPTH: usize = 8;
/// Properties whose text is the whole task.
const WHOLE: [&str; 9] = ["query", "q", "text", "message", "prompt", "content", "input", "task", "intent"];

/// What of a task has been used so far.
#[derive(Debug)]
pub(super) struct Words<'a> {
    task: &'a str,
    numbers: Vec<String>,
    quoted: Vec<&'a str>,
    paths: Vec<&'a str>,
    /// Where the last choice that was named ends in the task.
    chosen_until: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(task: &'a str) -> Self {
        let words: Vec<&str> = task.split_whitespace().map(trimmed).collect();
        let numbers = words
            .iter()
            .filter(|word| word.parse::<f64>().is_ok_and(f64::is_finite) && !word.contains(['i', 'n', 'N']));
        let mut numbers: Vec<String> = numbers.map(|word| (*word).to_owned()).collect();
        numbers.reverse();
        let mut quoted = quoted(task);
        quoted.reverse();
        let is_path = |word: &&&str| word.contains('/') || word.contains('.') && word.parse::<f64>().is_err();
        let mut paths: Vec<&str> = words.iter().filter(is_path).copied().collect();
        paths.reverse();
        Self { task, numbers, quoted, paths, chosen_until: 0 }
    }

    /// A value for `schema`, which is that of the property `name`.
    pub(super) fn fill(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        if depth > DEPTH {
            return Value::Null;
        }
        if let Some(value) = schema.get("const").or_else(|| schema.get("default")) {
            return value.clone();
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array).filter(|choices| !choices.is_empty()) {
            return self.choice(choices);
        }
        let choice = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array()?.first());
        if let Some(choice) = choice {
            return self.fill(name, choice, depth + 1);
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
            }
            _ if schema.get("properties").is_some() => "object",
            _ => "string",
        };
        match kind {
            "object" => self.object(schema, depth),
            "array" => match schema.get("items") {
                Some(items) => json!([self.fill(name, items, depth + 1)]),
                None => json!([]),
            },
            "integer" => self.number(schema, true),
            "number" => self.number(schema, false),
            "boolean" => json!(self.task.to_lowercase().contains(&name.to_lowercase())),
            "null" => Value::Null,
            _ => Value::String(self.text(name, schema)),
        }
    }

    /// The choice that the task names first and that no other property got; the longest of those that begin there.
    fn choice(&mut self, choices: &[Value]) -> Value {
        let task = self.task.to_lowercase();
        let at = |choice: &Value| {
            let text = choice.as_str()?.to_lowercase();
            let found = task.match_indices(&text).map(|(at, _)| at).find(|at| *at >= self.chosen_until)?;
            Some((found, usize::MAX - text.len()))
        };
        let named = choices.iter().filter_map(|choice| Some((at(choice)?, choice))).min_by_key(|(at, _)| *at);
        let Some(((begin, rest), choice)) = named else { return choices[0].clone() };
        self.chosen_until = begin + (usize::MAX - rest);
        choice.clone()
    }

    /// The required properties, or the first one where none is required.
    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return json!({}) };
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut out = Map::new();
        for (index, (name, schema)) in properties.iter().enumerate() {
            let is_wanted = required.contains(&name.as_str()) || required.is_empty() && index == 0;
            if is_wanted {
                out.insert(name.clone(), self.fill(name, schema, depth + 1));
            }
        }
        Value::Object(out)
    }

    fn number(&mut self, schema: &Value, is_whole: bool) -> Value {
        let at = self.numbers.iter().rposition(|number| !is_whole || number.parse::<i64>().is_ok());
        let said = at.map(|at| self.numbers.remove(at)).and_then(|number| serde_json::from_str(&number).ok());
        said.or_else(|| schema.get("minimum").cloned()).unwrap_or_else(|| json!(1))
    }

    fn text(&mut self, name: &str, schema: &Value) -> String {
        if let Some(quoted) = self.quoted.pop() {
            return quoted.to_owned();
        }
        match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => return "2026-01-01T00:00:00Z".to_owned(),
            Some("date") => return "2026-01-01".to_owned(),
            Some("email") => return "ada@example.com".to_owned(),
            _ => {}
        }
        let name = name.to_lowercase();
        if ["path", "file", "uri", "url", "dir"].iter().any(|part| name.contains(part))
            && let Some(path) = self.paths.pop()
        {
            return path.to_owned();
        }
        if WHOLE.contains(&name.as_str()) {
            return self.task.trim().to_owned();
        }
        let words: Vec<&str> = self.task.split_whitespace().map(trimmed).filter(|word| !word.is_empty()).collect();
        let named = words.iter().position(|word| word.to_lowercase() == name).and_then(|at| words.get(at + 1));
        let proper = || words.iter().skip(1).rev().find(|word| word.starts_with(char::is_uppercase));
        named.or_else(proper).or(words.last()).map_or_else(|| "x".to_owned(), |word| (*word).to_owned())
    }
}

/// A word without the punctuation around it.
fn trimmed(word: &str) -> &str {
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
    word.trim_matches(['"', '\'', '`', '(', '“', '”'])
}

/// The texts in quotes.
fn quoted(task: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = task;
    while let Some(begin) = rest.find(['"', '`', '“']) {
        let open = rest[begin..].chars().next().unwrap_or('"');
        let close = if open == '“' { '”' } else { open };
        let inner = &rest[begin + open.len_utf8()..];
        let Some(end) = inner.find(close) else { break };
        out.push(&inner[..end]);
        rest = &inner[end + close.len_utf8()..];
    }
    out
}
