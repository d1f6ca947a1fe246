//! The arguments of a call from the command line: one JSON object, `key=value` pairs, or both.

use std::io::Read;

use bytes::Bytes;
use serde_json::Value;
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
pub(in crate::command) struct ArgumentFlags {
    /// The arguments: `key=value`, where true, false, null, numbers, {…} and […] are JSON and anything else is text;
    /// `key:=JSON` requires JSON; after `--` also `--key value`
    #[arg(value_name = "KEY=VALUE", add = crate::names::arguments())]
    pairs: Vec<String>,
    /// One more argument
    #[arg(short, long = "arg", value_name = "KEY=VALUE")]
    args: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from stdin, `@FILE` from a file
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    json: Option<String>,
}

impl ArgumentFlags {
    /// Whether none are given.
    pub(in crate::command) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.args.is_empty() && self.json.is_none()
    }

    /// The arguments as one object.
    pub(in crate::command) fn gather(&self) -> Result<Raw, Problem> {
        gather(self.json.as_deref(), &self.words())
    }

    /// The values that look like JSON and that no one said to be it: `id=007` and `text=true` may be meant as texts.
    pub(in crate::command) fn doubtful(&self) -> Result<Vec<(String, String)>, Problem> {
        let pairs = read_pairs(&self.words())?.into_iter().filter(|pair| !pair.is_json);
        let is_doubtful = |pair: &Pair| coerce(&pair.key, &pair.text).is_ok_and(|value| !value.starts_with('"'));
        Ok(pairs.filter(is_doubtful).map(|pair| (pair.key, pair.text)).collect())
    }

    fn words(&self) -> Vec<String> {
        [&self.pairs[..], &self.args[..]].concat()
    }
}

/// Arguments where words of the command line mean something else: what is written like an unknown flag is one (see
/// `free.rs`), so that flags of the gateway never get among them.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct ExtraArguments {
    /// One argument; `--KEY VALUE` does the same unless KEY is a flag of this command
    #[arg(id = "arg", long, value_name = "KEY=VALUE")]
    args: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from stdin, `@FILE` from a file
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    json: Option<String>,
}

impl ExtraArguments {
    pub(in crate::command) fn is_empty(&self) -> bool {
        self.args.is_empty() && self.json.is_none()
    }

    /// The arguments as one object, each of the type that the schema gives it.
    pub(in crate::command) fn typed(&self, more: &[String], schema: &Value) -> Result<Raw, Problem> {
        let pairs = [more, &self.args].concat();
        assemble(self.json.as_deref(), &pairs, |pair| typed(pair, &schema["properties"]))
    }
}

/// The arguments with those of the doubtful ones as texts that the schema wants as texts.
pub(in crate::command) fn settled(given: &Raw, doubtful: &[(String, String)], schema: &Value) -> Raw {
    let texts = doubtful.iter().filter(|(key, _)| schema["properties"][key]["type"] == "string");
    texts.fold(given.clone(), |given, (key, text)| {
        let text = Value::from(text.as_str()).to_string();
        given.edit(&[(key, Edit::Set(&text))])
    })
}

/// A key with its value as it was written.
struct Pair {
    key: String,
    text: String,
    /// Whether it was said that the value is JSON.
    is_json: bool,
}

/// The arguments as one object. JSON goes out as it was written: no number is rounded.
fn gather(json: Option<&str>, pairs: &[String]) -> Result<Raw, Problem> {
    assemble(json, pairs, |pair| {
        let value = if pair.is_json { checked(&pair.key, &pair.text)? } else { coerce(&pair.key, &pair.text)? };
        Ok((pair.key.clone(), value))
    })
}

/// Puts the object and the pairs together; `value` gives a pair's key and its raw JSON.
fn assemble(
    json: Option<&str>,
    pairs: &[String],
    value: impl Fn(&Pair) -> Result<(String, String), Problem>,
) -> Result<Raw, Problem> {
    let mut arguments = match json {
        Some(text) => object(read(text)?)?,
        None => Raw::empty_object(),
    };
    let mut seen = Vec::new();
    for pair in read_pairs(pairs)? {
        let (key, value) = value(&pair)?;
        if seen.contains(&key) {
            return Err(wrong(format!("the argument `{key}` is given twice")));
        }
        arguments = arguments.edit(&[(&key, Edit::Set(&value))]);
        seen.push(key);
    }
    Ok(arguments)
}

/// A pair as the schema wants it: a text stays a text whatever it looks like, and what is no number is none.
fn typed(pair: &Pair, properties: &Value) -> Result<(String, String), Problem> {
    // Flags are written with `-` where names have `_`.
    let plain = pair.key.replace('-', "_");
    let key = if properties[&pair.key].is_null() && !properties[&plain].is_null() { plain } else { pair.key.clone() };
    if pair.is_json {
        return checked(&key, &pair.text).map(|value| (key, value));
    }
    let Some(wanted) = properties[&key]["type"].as_str() else {
        return coerce(&key, &pair.text).map(|value| (key, value));
    };
    if wanted == "string" {
        return Ok((key, Value::from(pair.text.as_str()).to_string()));
    }
    let value = coerce(&key, &pair.text)?;
    let fits = match (wanted, serde_json::from_str(&value)) {
        ("boolean", Ok(Value::Bool(_))) | ("object", Ok(Value::Object(_))) | ("array", Ok(Value::Array(_))) => true,
        ("number" | "integer", Ok(Value::Number(number))) => wanted == "number" || !number.is_f64(),
        ("null", Ok(Value::Null)) => true,
        ("boolean" | "object" | "array" | "number" | "integer" | "null", _) => false,
        _ => true,
    };
    if fits {
        return Ok((key, value));
    }
    let shown: String = pair.text.chars().take(80).collect();
    Err(wrong(format!("the argument `{key}` has the wrong type: expected {wanted}, got `{shown}`")))
}

/// Keys with their values.
fn read_pairs(words: &[String]) -> Result<Vec<Pair>, Problem> {
    let mut pairs = Vec::new();
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        if let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) {
            // Everything after `--` on the command line may be written like flags.
            let (key, value) = match flag.split_once('=') {
                Some((key, value)) => (key, value),
                None => (flag, words.next_if(|next| !next.starts_with("--")).unwrap_or("true")),
            };
            pairs.push(Pair { key: key.to_owned(), text: value.to_owned(), is_json: false });
        } else if let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) {
            let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
            pairs.push(Pair { key: key.to_owned(), text: value.to_owned(), is_json });
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
        Err(Fault::Syntax { .. }) => Ok(Value::from(text).to_string()),
        Err(fault) => Err(wrong(format!("the value of `{key}` cannot be sent: {fault}"))),
    }
}

fn checked(key: &str, text: &str) -> Result<String, Problem> {
    match json::scan_text(text.trim(), Rules::strict(DEPTH)) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(fault) => Err(wrong(format!("the value of `{key}` is not JSON: {fault}"))
            .hint(format!("`{key}=…` sends anything that is not JSON as text"))),
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
    fn values_become_what_the_schema_says() {
        let properties = serde_json::json!({
            "id": { "type": "string" }, "n": { "type": "integer" }, "on": { "type": "boolean" },
            "dry_run": { "type": "boolean" }, "list": { "type": "array" }, "any": {},
        });
        let schema = serde_json::json!({ "properties": properties });
        let of = |pairs: &[&str]| {
            let loose = ExtraArguments { args: pairs.iter().map(|&pair| pair.to_owned()).collect(), json: None };
            loose.typed(&[], &schema).map(|raw| raw.as_str().to_owned()).map_err(|problem| problem.message)
        };
        let given = ["id=007", "n=12345678901234567890", "on=false", "dry-run=true", "list=[1]", "any=x", "other=1"];
        let expected =
            r#"{"id":"007","n":12345678901234567890,"on":false,"dry_run":true,"list":[1],"any":"x","other":1}"#;
        assert_eq!(of(&given).as_deref(), Ok(expected));
        assert_eq!(of(&["id=true"]).as_deref(), Ok(r#"{"id":"true"}"#));
        assert_eq!(of(&["id:=1"]).as_deref(), Ok(r#"{"id":1}"#));
        for (pair, part) in [
            ("n=many", "`n` has the wrong type: expected integer, got `many`"),
            ("n=1.5", "expected integer"),
            ("on=yes", "expected boolean"),
            ("list=a,b", "expected array"),
            ("dry_run=1", "expected boolean"),
        ] {
            assert!(of(&[pair]).unwrap_err().contains(part), "{pair}");
        }
        assert!(of(&["dry-run=true", "dry_run=true"]).unwrap_err().contains("given twice"));
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
            (None, &[r#"a={"b":1,"b":2}"#], "duplicate key"),
            (Some("{"), &[], "`--json` cannot be sent: not valid JSON"),
            (Some(r#"{"a":1,"a":2}"#), &[], "duplicate key"),
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
