//! What a tool asks during its call: answered from `--answer`, else by the person at the terminal, field by
//! field as the question's schema describes them.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
#[cfg(unix)]
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::ask::{InputKind, InputRequest};

use crate::client::Answer;
use crate::text;

/// How often a field is asked for again.
const TRIES: usize = 5;
/// How often the terminal is looked at while a person types.
#[cfg(unix)]
const LOOK_AGAIN: Duration = Duration::from_millis(30);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES: usize = 64 << 10;

/// Who answers: fields that were given on the command line, and a person if there is a terminal.
#[derive(Debug)]
pub(crate) struct Person {
    given: Vec<(String, String)>,
    is_there: bool,
}

/// One field of a form.
#[derive(Debug)]
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    is_required: bool,
}

// === impl Person ===

impl Person {
    /// `given` are pairs `field=value`. `None` when there are none and there is no terminal.
    pub(crate) fn find(given: &[String]) -> Result<Option<Arc<dyn Answer>>, Problem> {
        let given = given.iter().map(|pair| {
            let (field, value) = pair.split_once('=').filter(|(field, _)| !field.is_empty()).ok_or_else(|| {
                Problem::new(Kind::InvalidParams, format!("`--answer {pair}` is not of the form FIELD=VALUE"))
            })?;
            Ok((field.to_owned(), value.to_owned()))
        });
        let given = given.collect::<Result<Vec<_>, Problem>>()?;
        let is_there = io::stdin().is_terminal() && io::stderr().is_terminal();
        let answers = is_there || !given.is_empty();
        Ok(answers.then(|| Arc::new(Self { given, is_there }) as Arc<dyn Answer>))
    }

    async fn fill(&self, asked: &InputRequest) -> Result<Value, Problem> {
        let params = asked.params.to_value();
        let fields = fields(&params["requestedSchema"]);
        if self.is_there {
            say(&format!("The tool asks: {}", text::line(params["message"].as_str().unwrap_or("for input"))))?;
        }
        let mut content = Map::new();
        for field in &fields {
            let given = self.given.iter().find(|(name, _)| name == field.name);
            if let Some((_, given)) = given {
                let value = field.read(given).map_err(|wrong| {
                    Problem::new(Kind::InvalidParams, format!("`--answer {}`: {wrong}", text::line(field.name)))
                })?;
                content.extend(value.map(|value| (field.name.to_owned(), value)));
                continue;
            }
            if !self.is_there {
                if field.is_required && field.usual().is_none() {
                    let problem = format!("the tool requires `{}`, which was not given", text::line(field.name));
                    let hint = format!("add `--answer {}=…`, or run the command in a terminal", text::line(field.name));
                    return Err(Problem::new(Kind::InvalidParams, problem).hint(hint));
                }
                content.extend(field.usual().map(|value| (field.name.to_owned(), value.clone())));
                continue;
            }
            match field.ask().await? {
                Some(value) => content.extend(value.map(|value| (field.name.to_owned(), value))),
                None => return Ok(json!({ "action": "cancel" })),
            }
        }
        if self.is_there && fields.is_empty() {
            return match confirmed("Agree? [y/N] ").await? {
                Some(true) => Ok(json!({ "action": "accept", "content": {} })),
                Some(false) => Ok(json!({ "action": "decline" })),
                None => Ok(json!({ "action": "cancel" })),
            };
        }
        Ok(json!({ "action": "accept", "content": content }))
    }

    async fn open_page(&self, asked: &InputRequest) -> Result<Value, Problem> {
        let url = asked.params.text("url").unwrap_or_default();
        let message = asked.params.text("message").unwrap_or_default();
        say(&format!("The tool asks you to open a page: {}\n  {}", text::line(&message), text::line(&url)))?;
        if !self.is_there {
            let problem = Problem::new(Kind::InvalidParams, "the tool asks to open a web page, which needs a terminal");
            return Err(problem.hint("run the command in a terminal"));
        }
        match confirmed("Open it only if you trust the server. Opened? [y/N] ").await? {
            Some(true) => Ok(json!({ "action": "accept" })),
            Some(false) => Ok(json!({ "action": "decline" })),
            None => Ok(json!({ "action": "cancel" })),
        }
    }
}

impl Answer for Person {
    fn answer<'a>(&'a self, asked: &'a InputRequest) -> BoxFuture<'a, Result<Raw, Problem>> {
        Box::pin(async move {
            let answer = match InputKind::of(&asked.method, &asked.params) {
                Some(InputKind::Form) => self.fill(asked).await?,
                Some(InputKind::Url) => self.open_page(asked).await?,
                _ => {
                    let method = text::line(&asked.method);
                    return Err(Problem::new(
                        Kind::BadServer,
                        format!("the tool sent `{method}`, which this client does not support"),
                    ));
                }
            };
            Ok(Raw::from_value(&answer))
        })
    }
}

// === impl Field ===

impl Field<'_> {
    fn usual(&self) -> Option<&Value> {
        self.schema.get("default")
    }

    /// The values to choose from, where the field has such.
    fn choices(&self) -> Vec<&str> {
        choices_of(if self.is_list() { &self.schema["items"] } else { self.schema })
    }

    fn is_list(&self) -> bool {
        self.schema["type"] == "array"
    }

    /// The value that a text means; `None` for an optional field that is left out.
    fn read(&self, text: &str) -> Result<Option<Value>, String> {
        let text = text.trim();
        if text.is_empty() {
            return match (self.usual(), self.is_required) {
                (Some(usual), _) => Ok(Some(usual.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("a value is required".to_owned()),
            };
        }
        let choices = self.choices();
        if self.is_list() {
            let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
            if let Some(wrong) = words.iter().find(|word| !choices.is_empty() && !choices.contains(word)) {
                return Err(format!("`{wrong}` is not one of {}", choices.join(", ")));
            }
            return Ok(Some(json!(words)));
        }
        if !choices.is_empty() {
            return match choices.contains(&text) {
                true => Ok(Some(json!(text))),
                false => Err(format!("`{text}` is not one of {}", choices.join(", "))),
            };
        }
        match self.schema["type"].as_str() {
            Some("boolean") => match text.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Some(json!(true))),
                "n" | "no" | "false" => Ok(Some(json!(false))),
                _ => Err("answer `y` or `n`".to_owned()),
            },
            Some("integer") => {
                text.parse::<i64>().map(|number| Some(json!(number))).map_err(|_| not_a("a whole number", text))
            }
            Some("number") => match text.parse::<f64>().ok().filter(|number| number.is_finite()) {
                Some(number) => Ok(Some(json!(number))),
                None => Err(not_a("a number", text)),
            },
            _ => Ok(Some(json!(text))),
        }
    }

    /// Asks the person; the outer `None` when they end it with Ctrl-D.
    async fn ask(&self) -> Result<Option<Option<Value>>, Problem> {
        for _ in 0..TRIES {
            let Some(answer) = line(&self.prompt()).await? else { return Ok(None) };
            match self.read(&answer) {
                Ok(value) => return Ok(Some(value)),
                Err(wrong) => say(&wrong)?,
            }
        }
        Err(Problem::new(Kind::InvalidParams, format!("no answer for `{}`", text::line(self.name))))
    }

    fn prompt(&self) -> String {
        let title = self.schema["title"].as_str().unwrap_or(self.name);
        let mut prompt = format!("  {}", text::line(title));
        if let Some(description) = self.schema["description"].as_str() {
            prompt.push_str(&format!(" – {}", text::line(description)));
        }
        let choices = self.choices();
        let kind = match self.schema["type"].as_str() {
            _ if self.is_list() => format!("any of {}, separated by commas", choices.join(", ")),
            _ if !choices.is_empty() => choices.join(" | "),
            Some("boolean") => "y/n".to_owned(),
            Some(kind @ ("integer" | "number")) => kind.to_owned(),
            _ => String::new(),
        };
        let usual = match self.usual() {
            Some(Value::String(usual)) => format!("Enter: {usual}"),
            Some(usual) => format!("Enter: {usual}"),
            None if self.is_required => String::new(),
            None => "optional".to_owned(),
        };
        let notes: Vec<String> = [kind, usual]
            .into_iter()
            .filter(|note| !note.is_empty())
            .map(|note| text::line(&note).into_owned())
            .collect();
        if !notes.is_empty() {
            prompt.push_str(&format!(" [{}]", notes.join("; ")));
        }
        prompt.push_str(": ");
        prompt
    }
}

/// The words of `enum`, or of titled choices.
fn choices_of(schema: &Value) -> Vec<&str> {
    let plain = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let titled = ["oneOf", "anyOf"].into_iter().flat_map(|key| schema[key].as_array().into_iter().flatten());
    plain.chain(titled.filter_map(|choice| choice["const"].as_str())).collect()
}

fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, schema)| Field { name, schema, is_required: required.iter().any(|required| required == name) })
        .collect()
}

fn not_a(what: &str, text: &str) -> String {
    format!("`{text}` is not {what}")
}

async fn confirmed(question: &str) -> Result<Option<bool>, Problem> {
    let answer = line(question).await?;
    Ok(answer.map(|answer| matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")))
}

fn say(line: &str) -> Result<(), Problem> {
    // Takes a line of progress away.
    writeln!(io::stderr().lock(), "\r\x1b[K{line}").map_err(|error| unread(&error))
}

/// A line from the terminal; `None` at its end. Dropping this reads nothing.
async fn line(prompt: &str) -> Result<Option<String>, Problem> {
    let mut stderr = io::stderr();
    write!(stderr, "{prompt}").and_then(|()| stderr.flush()).map_err(|error| unread(&error))?;
    let line = read_line().await.map_err(|error| unread(&error))?;
    if line.is_none() {
        writeln!(stderr).map_err(|error| unread(&error))?;
    }
    Ok(line)
}

/// The terminal is looked at and not waited for, so that Ctrl-C is heard and no thread keeps reading from it. It gives
/// whole lines, so nothing is read that another reader waits for.
#[cfg(unix)]
async fn read_line() -> io::Result<Option<String>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let terminal = io::stdin();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    while poll(&mut [PollFd::new(&terminal, PollFlags::IN)], Some(&at_once))? == 0 {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let mut bytes = vec![0; ANSWER_BYTES];
    match rustix::io::read(&terminal, &mut bytes)? {
        0 => Ok(None),
        length => Ok(Some(String::from_utf8_lossy(&bytes[..length]).into_owned())),
    }
}

#[cfg(not(unix))]
async fn read_line() -> io::Result<Option<String>> {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt};

    let limit = u64::try_from(ANSWER_BYTES).unwrap_or(u64::MAX);
    let mut line = String::new();
    let length = tokio::io::BufReader::new(tokio::io::stdin().take(limit)).read_line(&mut line).await?;
    Ok((length > 0).then_some(line))
}

fn unread(error: &io::Error) -> Problem {
    Problem::new(Kind::Internal, format!("cannot read from the terminal: {error}"))
        .hint("pass the answers with `--answer FIELD=VALUE`")
}

#[cfg(test)]
mod tests;
