//! What a scenario expects of a run: assertions, each of which counts and each of which can fail.

use regex::Regex;
use serde_json::{Map, Value};
use toolcrib_model::Money;

/// The ends that a run may have, and `waiting` for a person.
pub(super) const ENDS: [&str; 18] = [
    "done",
    "stuck",
    "limit of rounds",
    "limit of calls",
    "limit of tokens",
    "limit of money",
    "limit of time",
    "limit of the day",
    "denied",
    "unknown",
    "refused by the model",
    "filtered",
    "cut at its length",
    "output does not fit",
    "failed",
    "window is full",
    "cancelled",
    "waiting",
];

/// A pattern on the name of a tool, as it was written.
#[derive(Debug, Clone)]
pub(super) struct ToolPattern {
    pub(super) text: String,
    regex: Regex,
    /// It is searched for in a name, as Scooter's patterns are.
    is_scooter: bool,
}

/// A call that must be among those of the run.
#[derive(Debug)]
pub(super) struct CallExpectation {
    pub(super) tool: ToolPattern,
    pub(super) arguments: ValueExpectation,
    pub(super) error: Option<bool>,
    pub(super) times: Option<u64>,
}

/// What must be in a JSON value.
#[derive(Debug, Default)]
pub(super) struct ValueExpectation {
    pub(super) part: Option<Value>,
    pub(super) paths: Vec<(String, Value)>,
    pub(super) matches: Vec<(String, Regex)>,
}

/// What must be in a text and what must not.
#[derive(Debug, Default)]
pub(super) struct TextExpectation {
    pub(super) equals: Option<String>,
    pub(super) contains: Vec<String>,
    pub(super) not_contains: Vec<String>,
    pub(super) matches: Vec<Regex>,
    pub(super) not_matches: Vec<Regex>,
    /// The text is JSON with this in it.
    pub(super) json: ValueExpectation,
    /// Letter case does not count, as for Scooter.
    pub(super) ignores_case: bool,
}

/// A call after the run, and what it must give.
#[derive(Debug)]
pub(super) struct StateExpectation {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) text: TextExpectation,
    pub(super) error: bool,
}

/// A range of numbers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Range {
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
}

/// Everything that is expected of a run.
#[derive(Debug, Default)]
pub(super) struct Expectation {
    /// How it ends; `done` where none is written.
    pub(super) end: Vec<String>,
    pub(super) calls: Vec<CallExpectation>,
    /// One of these is called.
    pub(super) any_of: Vec<ToolPattern>,
    pub(super) order: Vec<ToolPattern>,
    pub(super) forbidden: Vec<ToolPattern>,
    pub(super) text: TextExpectation,
    pub(super) state: Vec<StateExpectation>,
    pub(super) rounds: Range,
    pub(super) call_count: Range,
    pub(super) tokens: Range,
    pub(super) cost: Option<Money>,
}

/// A call that a run made, or tried to make.
#[derive(Debug, Clone, Default)]
pub(super) struct MadeCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) is_refused: bool,
    pub(super) is_error: bool,
}

/// What a run was.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    pub(super) run: String,
    pub(super) end: String,
    pub(super) output: String,
    pub(super) calls: Vec<MadeCall>,
    pub(super) rounds: u64,
    pub(super) tokens: u64,
    pub(super) cost: Money,
}

// === impl ToolPattern ===

impl ToolPattern {
    /// A name or an id; `*` stands for anything.
    pub(super) fn glob(text: &str) -> Result<Self, regex::Error> {
        let escaped = regex::escape(&plain(text)).replace("\\*", ".*");
        Ok(Self { text: text.to_owned(), regex: Regex::new(&format!("^(?s:{escaped})$"))?, is_scooter: false })
    }

    /// A regular expression that is searched for.
    pub(super) fn searched(text: &str) -> Result<Self, regex::Error> {
        Ok(Self { text: text.to_owned(), regex: Regex::new(text)?, is_scooter: true })
    }

    /// Whether this is the pattern of that tool.
    pub(super) fn holds(&self, tool: &str) -> bool {
        if self.is_scooter { self.regex.is_match(tool) } else { self.regex.is_match(&plain(tool)) }
    }

    /// Whether every name fits.
    pub(super) fn is_everything(&self) -> bool {
        is_certain(&self.regex)
    }
}

/// An id `server/tool` and the name `server_tool` are one.
fn plain(name: &str) -> String {
    name.replace('/', "_")
}

/// Whether a pattern is found in every text, as far as texts of every sort can show it.
pub(super) fn is_certain(regex: &Regex) -> bool {
    ["", "x", "7", "-\n#", "Lorem ipsum, 12.", "\u{1F600}"].iter().all(|text| regex.is_match(text))
}

// === impl ValueExpectation ===

impl ValueExpectation {
    pub(super) fn is_empty(&self) -> bool {
        self.part.is_none() && self.paths.is_empty() && self.matches.is_empty()
    }

    /// What is not as expected, of the first thing that is not.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if let Some(part) = &self.part
            && !is_part(part, value)
        {
            return Err(format!("{part} is not in {}", shortened(value)));
        }
        for (path, wanted) in &self.paths {
            match at(value, path) {
                Some(found) if is_equal(wanted, found) => {}
                Some(found) => return Err(format!("`{path}` is {}, not {wanted}", shortened(found))),
                None => return Err(format!("`{path}` is not in {}", shortened(value))),
            }
        }
        for (path, regex) in &self.matches {
            let found = at(value, path).ok_or_else(|| format!("`{path}` is not in {}", shortened(value)))?;
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            if !regex.is_match(&text) {
                return Err(format!("`{path}` is {}, which does not match `{regex}`", shortened(found)));
            }
        }
        Ok(())
    }
}

/// The parts of a path such as `$.a.b[0]` or `a.b`; nothing for one that is none.
pub(super) fn path_parts(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('$').map_or(path, |rest| rest.strip_prefix('.').unwrap_or(rest));
    let mut parts = Vec::new();
    for part in path.split('.') {
        let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !name.is_empty() {
            parts.push(name.to_owned());
        } else if rest.is_empty() || !parts.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let (index, more) = rest.strip_prefix('[')?.split_once(']')?;
            index.parse::<usize>().ok()?;
            parts.push(index.to_owned());
            rest = more;
        }
    }
    Some(parts)
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path_parts(path)?.iter().try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

/// Whether every member of `part` is in `whole`; lists are of one length, their items parts of each other.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|other| is_part(value, other)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(one, other)| is_part(one, other))
        }
        (part, whole) => is_equal(part, whole),
    }
}

/// Equal, where `3` and `3.0` are one number.
fn is_equal(one: &Value, other: &Value) -> bool {
    one == other
        || one.is_number()
            && other.is_number()
            && matches!((one.as_f64(), other.as_f64()), (Some(a), Some(b)) if a.total_cmp(&b).is_eq())
}

fn shortened(value: &Value) -> String {
    cut(&value.to_string())
}

/// The beginning of a text.
pub(super) fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

// === impl TextExpectation ===

impl TextExpectation {
    /// Everything that is not as expected.
    pub(super) fn check(&self, what: &str, text: &str) -> Vec<String> {
        let case = |text: &str| if self.ignores_case { text.to_lowercase() } else { text.to_owned() };
        let (whole, shown) = (case(text), cut(text));
        let mut wrong = Vec::new();
        if let Some(equals) = &self.equals
            && equals.trim_end() != text.trim_end()
        {
            wrong.push(format!("{what} is `{shown}`, not `{equals}`"));
        }
        for part in self.contains.iter().filter(|part| !whole.contains(&case(part))) {
            wrong.push(format!("{what} does not contain `{part}`: `{shown}`"));
        }
        for part in self.not_contains.iter().filter(|part| whole.contains(&case(part))) {
            wrong.push(format!("{what} contains `{part}`: `{shown}`"));
        }
        for regex in self.matches.iter().filter(|regex| !regex.is_match(text)) {
            wrong.push(format!("{what} does not match `{regex}`: `{shown}`"));
        }
        for regex in self.not_matches.iter().filter(|regex| regex.is_match(text)) {
            wrong.push(format!("{what} matches `{regex}`: `{shown}`"));
        }
        if !self.json.is_empty() {
            match serde_json::from_str::<Value>(text) {
                Ok(value) => wrong.extend(self.json.check(&value).err().map(|problem| format!("{what}: {problem}"))),
                Err(_) => wrong.push(format!("{what} is no JSON: `{shown}`")),
            }
        }
        wrong
    }
}

// === impl Range ===

impl Range {
    fn check(self, what: &str, number: u64) -> Vec<String> {
        let low = self.min.filter(|min| number < *min).map(|min| format!("{number} {what}, fewer than {min}"));
        let high = self.max.filter(|max| number > *max).map(|max| format!("{number} {what}, more than {max}"));
        low.into_iter().chain(high).collect()
    }
}

// === impl Expectation ===

impl Expectation {
    /// Everything that is not as expected of a run, the end state aside.
    pub(super) fn check(&self, trace: &Trace) -> Vec<String> {
        let mut wrong = Vec::new();
        let is_end = if self.end.is_empty() { trace.end == "done" } else { self.end.contains(&trace.end) };
        if !is_end {
            let wanted = if self.end.is_empty() { "done".to_owned() } else { self.end.join(", ") };
            let text = if trace.output.is_empty() { String::new() } else { format!(": {}", cut(&trace.output)) };
            wrong.push(format!("it ended as `{}`, not as `{wanted}`{text}", trace.end));
        }
        let made: Vec<&MadeCall> = trace.calls.iter().filter(|call| !call.is_refused).collect();
        wrong.extend(self.calls.iter().filter_map(|call| call.check(&made)));
        let is_any = self.any_of.iter().any(|pattern| made.iter().any(|call| pattern.holds(&call.tool)));
        if !self.any_of.is_empty() && !is_any {
            let names: Vec<&str> = self.any_of.iter().map(|pattern| pattern.text.as_str()).collect();
            wrong.push(format!("no call of any of `{}`; {}", names.join("`, `"), listed(&made)));
        }
        wrong.extend(self.check_order(&made));
        for call in &trace.calls {
            if let Some(pattern) = self.forbidden.iter().find(|pattern| pattern.holds(&call.tool)) {
                wrong.push(format!("call {} is of `{}`, which `{}` forbids", call.id, call.tool, pattern.text));
            }
        }
        wrong.extend(self.text.check("the output", &trace.output));
        wrong.extend(self.rounds.check("rounds", trace.rounds));
        wrong.extend(self.call_count.check("calls", made.len() as u64));
        wrong.extend(self.tokens.check("tokens", trace.tokens));
        if self.tokens.max.is_some() && trace.tokens == 0 {
            wrong.push("the model reported no tokens, so their limit says nothing".to_owned());
        }
        if let Some(most) = self.cost {
            if trace.cost.0 > most.0 {
                wrong.push(format!("it cost {}, more than {most}", trace.cost));
            } else if trace.cost.0 == 0 {
                wrong.push("the model has no price, so a limit of its cost says nothing".to_owned());
            }
        }
        wrong
    }

    fn check_order(&self, made: &[&MadeCall]) -> Option<String> {
        let mut rest = made.iter();
        let missing = self.order.iter().find(|pattern| !rest.any(|call| pattern.holds(&call.tool)))?;
        let names: Vec<&str> = self.order.iter().map(|pattern| pattern.text.as_str()).collect();
        Some(format!("no `{}` in the order `{}`; {}", missing.text, names.join("`, `"), listed(made)))
    }
}

// === impl CallExpectation ===

impl CallExpectation {
    fn check(&self, made: &[&MadeCall]) -> Option<String> {
        let named: Vec<&&MadeCall> = made.iter().filter(|call| self.tool.holds(&call.tool)).collect();
        if named.is_empty() && self.times != Some(0) {
            return Some(format!("no call of `{}`; {}", self.tool.text, listed(made)));
        }
        let mut why = String::new();
        let mut count = 0;
        for call in named {
            let outcome = match self.error {
                Some(error) if error != call.is_error => {
                    Err(if error { "it did not fail".to_owned() } else { "it failed".to_owned() })
                }
                _ => self.arguments.check(&call.arguments),
            };
            match outcome {
                Ok(()) => count += 1,
                Err(problem) => why = format!("call {} of `{}`: {problem}", call.id, call.tool),
            }
        }
        match self.times {
            Some(times) if times != count => {
                let why = if why.is_empty() { why } else { format!("; {why}") };
                Some(format!("{count} calls of `{}` as expected, not {times}{why}", self.tool.text))
            }
            None if count == 0 => Some(why),
            _ => None,
        }
    }
}

fn listed(made: &[&MadeCall]) -> String {
    if made.is_empty() {
        return "no tool was called".to_owned();
    }
    let names: Vec<&str> = made.iter().map(|call| call.tool.as_str()).collect();
    cut(&format!("called were `{}`", names.join("`, `")))
}
