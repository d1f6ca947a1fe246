//! The arguments of a call from the command line: one JSON object, `key=value` pairs, or both.

use std::io::Read;

use bytes::Bytes;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::{self, Fault, Rules};
use toolcrib_protocol::raw::Edit;

/// The largest arguments, in bytes; the gateway's own limit may be lower.
const BYTES: u64 = 64 << 20;
/// How deep they may nest; the gateway's own limit may be lower.
const DEPTH: usize = 120;

/// Arguments as they are written on the command line.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Given {
    /// The arguments: `key=value`, where true, false, null, numbers, {…} and […] are JSON and anything else is text;
    /// `key:=JSON` insists on JSON; after `--` also `--key value`
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// One argument more
    #[arg(short, long = "arg", value_name = "KEY=VALUE")]
    args: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from stdin, `@FILE` from a file
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    json: Option<String>,
}

impl Given {
    /// The arguments as one object.
    pub(in crate::command) fn gather(&self) -> Result<Raw, Problem> {
        gather(self.json.as_deref(), &[&self.pairs[..], &self.args[..]].concat())
    }
}

/// The arguments as one object. JSON goes out as it was written: no number is rounded.
fn gather(json: Option<&str>, pairs: &[String]) -> Result<Raw, Problem> {
    let mut arguments = match json {
        Some(text) => object(read(text)?)?,
        None => Raw::empty_object(),
    };
    let mut seen = Vec::new();
    for (key, value) in read_pairs(pairs)? {
        if seen.contains(&key) {
            return Err(wrong(format!("the argument `{key}` is given twice")));
        }
        arguments = arguments.edit(&[(&key, Edit::Set(&value))]);
        seen.push(key);
    }
    Ok(arguments)
}

/// Keys with their values as raw JSON.
fn read_pairs(words: &[String]) -> Result<Vec<(String, String)>, Problem> {
    let mut pairs = Vec::new();
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        if let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) {
            // Everything after `--` on the command line may be written like flags.
            let (key, value) = match flag.split_once('=') {
                Some((key, value)) => (key, value),
                None => (flag, words.next_if(|next| !next.starts_with("--")).unwrap_or("true")),
            };
            pairs.push((key.to_owned(), coerce(key, value)?));
        } else if let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) {
            match key.strip_suffix(':') {
                Some(key) => pairs.push((key.to_owned(), checked(key, value)?)),
                None => pairs.push((key.to_owned(), coerce(key, value)?)),
            }
        } else {
            return Err(wrong(format!("`{word}` is not an argument"))
                .hint("write arguments as `key=value`, or all of them as `--json '{…}'`"));
        }
    }
    Ok(pairs)
}

/// JSON where the text is JSON, else a string.
fn coerce(key: &str, text: &str) -> Result<String, Problem> {
    match json::scan_text(text.trim(), Rules::strict(DEPTH)) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(Fault::Syntax { .. }) => Ok(serde_json::Value::from(text).to_string()),
        Err(fault) => Err(wrong(format!("the value of `{key}` cannot be sent: {fault}"))),
    }
}

fn checked(key: &str, text: &str) -> Result<String, Problem> {
    match json::scan_text(text.trim(), Rules::strict(DEPTH)) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(fault) => Err(wrong(format!("the value of `{key}` is not JSON: {fault}"))
            .hint(format!("`{key}=…` sends what is no JSON as text"))),
    }
}

fn object(text: Vec<u8>) -> Result<Raw, Problem> {
    let text = Bytes::from(text).slice(..);
    let raw =
        Raw::parse(text, Rules::strict(DEPTH)).map_err(|fault| wrong(format!("`--json` cannot be sent: {fault}")))?;
    if raw.is_object() { Ok(raw) } else { Err(wrong("`--json` is not an object").hint("write `{\"key\": …}`")) }
}

/// The text itself, stdin for `-`, a file for `@FILE`.
fn read(text: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let outcome = match text.strip_prefix('@') {
        Some(path) => std::fs::File::open(path).and_then(|file| file.take(BYTES + 1).read_to_end(&mut bytes)),
        None if text == "-" => std::io::stdin().lock().take(BYTES + 1).read_to_end(&mut bytes),
        None => return Ok(text.as_bytes().to_vec()),
    };
    outcome.map_err(|error| wrong(format!("cannot read the arguments from `{text}`: {error}")))?;
    if bytes.len() as u64 > BYTES {
        return Err(wrong(format!("the arguments from `{text}` have more than {BYTES} bytes")));
    }
    Ok(bytes)
}

fn wrong(message: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParams, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(json: Option<&str>, pairs: &[&str]) -> Result<String, String> {
        let pairs: Vec<String> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        gather(json, &pairs).map(|raw| raw.as_str().to_owned()).map_err(|problem| problem.message)
    }

    #[test]
    fn values_become_what_they_look_like() {
        for (pair, expected) in [
            ("a=true", r#"{"a":true}"#),
            ("a=null", r#"{"a":null}"#),
            ("a=7", r#"{"a":7}"#),
            ("a=-1.5e3", r#"{"a":-1.5e3}"#),
            ("a=123456789012345678901234567890", r#"{"a":123456789012345678901234567890}"#),
            ("a=007", r#"{"a":"007"}"#),
            ("a=True", r#"{"a":"True"}"#),
            (r#"a={"b":[1]}"#, r#"{"a":{"b":[1]}}"#),
            ("a={hello}", r#"{"a":"{hello}"}"#),
            (r#"a="7""#, r#"{"a":"7"}"#),
            ("a=b=c", r#"{"a":"b=c"}"#),
            ("a=", r#"{"a":""}"#),
            ("a= x ", r#"{"a":" x "}"#),
            ("a:=[1]", r#"{"a":[1]}"#),
            ("a\"b=x", r#"{"a\"b":"x"}"#),
        ] {
            assert_eq!(from(None, &[pair]).as_deref(), Ok(expected), "{pair}");
        }
        assert_eq!(from(None, &[]).as_deref(), Ok("{}"));
        let flags = ["--a", "1", "--b=x", "--c", "--d", "-2", "e=5"];
        assert_eq!(from(None, &flags).as_deref(), Ok(r#"{"a":1,"b":"x","c":true,"d":-2,"e":5}"#));
        assert_eq!(from(Some(r#"{"a":1.0, "b":2}"#), &["b=x", "c=3"]).as_deref(), Ok(r#"{"a":1.0,"b":"x","c":3}"#));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (json, pairs, part) in [
            (None, &["x"][..], "`x` is not an argument"),
            (None, &["=x"], "`=x` is not an argument"),
            (None, &[":=1"], "`:=1` is not an argument"),
            (None, &["--"], "`--` is not an argument"),
            (None, &["a=1", "a=2"], "`a` is given twice"),
            (None, &["a:=x"], "the value of `a` is not JSON"),
            (None, &[r#"a={"b":1,"b":2}"#], "stands twice"),
            (Some("{"), &[], "`--json` cannot be sent: not valid JSON"),
            (Some(r#"{"a":1,"a":2}"#), &[], "stands twice"),
            (Some("[1]"), &[], "`--json` is not an object"),
            (Some("@/nowhere/at/all"), &[], "cannot read the arguments"),
        ] {
            let message = from(json, pairs).unwrap_err();
            assert!(message.contains(part), "{message} for {json:?} {pairs:?}");
        }
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        assert!(from(None, &[&format!("a={deep}")]).unwrap_err().contains("nested deeper"));
    }
}
