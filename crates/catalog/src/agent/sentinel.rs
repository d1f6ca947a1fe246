//! What is looked for in tasks and messages before an agent is given them: the key `sentinel`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::define;
use crate::object_name::ObjectName;
use crate::period::Period;
use crate::reader::{Cursor, Fields, TextPattern, choice};

/// More rules are no rules that anybody reads.
const RULES_MAX: usize = 100;
/// More words of a rule are a list that belongs elsewhere.
const WORDS_MAX: usize = 1_000;
/// The longest name of a rule, in bytes.
const NAME_MAX: usize = 64;
/// The largest compiled pattern, in bytes.
const PATTERN_MAX: usize = 1 << 20;
/// A client does not wait for longer.
const TIMEOUT_MAX: Duration = Duration::from_secs(120);

choice! {
    /// What is done with a text that a rule finds.
    SentinelAction {
        /// It is put on record and goes on.
        Record = "record",
        /// The run waits for a person.
        Quarantine = "quarantine",
        /// It goes no further.
        Block = "block",
    }
}

choice! {
    /// What is done with a text that the classifier cannot judge.
    OnFailure {
        /// It goes no further.
        Block = "block",
        /// It goes on.
        Allow = "allow",
    }
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelDefinition {
    /// What is done with texts that the rules of the program find; `None` does without them.
    pub builtin: Option<SentinelAction>,
    pub rules: Vec<SentinelRule>,
    pub classifier: Option<SentinelClassifier>,
    pub on_failure: OnFailure,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelRule {
    pub name: String,
    /// A regular expression that compiles.
    pub pattern: String,
    pub action: SentinelAction,
}

/// A model that judges texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelClassifier {
    pub model: ObjectName,
    /// From this score on a text goes no further.
    pub block: Score,
    /// From this score on a run waits for a person.
    pub quarantine: Score,
    pub timeout: Duration,
}

/// A number from 0 to 1, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(u16);

// === impl SentinelAction ===

impl SentinelAction {
    /// The strictest is the largest.
    pub fn severity(self) -> u8 {
        match self {
            Self::Record => 0,
            Self::Quarantine => 1,
            Self::Block => 2,
        }
    }
}

// === impl Score ===

impl Score {
    const BLOCK: Self = Self(850);
    const QUARANTINE: Self = Self(500);

    /// The number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

impl TextPattern for Score {
    const PATTERN: &'static str = r"^(0(\.[0-9]{1,3})?|1(\.0{1,3})?)$";
}

/// Why a text is no score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number from `0` to `1` with at most 3 digits after the point, such as `0.85`")]
pub struct ScoreError;

impl FromStr for Score {
    type Err = ScoreError;

    fn from_str(text: &str) -> Result<Self, ScoreError> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(rest) || rest.len() > 3 || !matches!(whole, "0" | "1") {
            return Err(ScoreError);
        }
        let thousandths: u16 = format!("{rest:0<3}").parse().map_err(|_| ScoreError)?;
        match (whole, thousandths) {
            ("0", thousandths) => Ok(Self(thousandths)),
            (_, 0) => Ok(Self(1_000)),
            _ => Err(ScoreError),
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<SentinelDefinition> {
    let fields = cursor.fields()?;
    let rules = fields.get("rules").map(|cursor| rules(&cursor)).unwrap_or_default();
    let definition = SentinelDefinition {
        builtin: fields.get("builtin").and_then(|cursor| cursor.choice()),
        rules,
        classifier: fields.get("classifier").and_then(classifier),
        on_failure: fields.get("on_failure").and_then(|cursor| cursor.choice()).unwrap_or(OnFailure::Block),
    };
    fields.finish();
    Some(definition)
}

fn rules(cursor: &Cursor<'_>) -> Vec<SentinelRule> {
    let items = cursor.items();
    if items.len() > RULES_MAX {
        cursor.problem(format!("expected at most {RULES_MAX} rules, got {}", items.len()), None);
    }
    let mut rules: Vec<SentinelRule> = Vec::new();
    for (number, item) in (1..).zip(items) {
        let Some(rule) = item.fields().and_then(|fields| rule(fields, number)) else { continue };
        rules.push(rule);
    }
    rules
}

fn rule(fields: Fields<'_>, number: usize) -> Option<SentinelRule> {
    let name = fields.text("name").unwrap_or_else(|| format!("rule {number}"));
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        fields.problem("name", format!("expected a name of at most {NAME_MAX} bytes"), None);
    }
    let action = fields.get("action").and_then(|cursor| cursor.choice()).unwrap_or(SentinelAction::Block);
    let (pattern, words) = (fields.get("pattern"), fields.get("words"));
    let pattern = match (pattern, words) {
        (Some(pattern), None) => pattern.text().filter(|text| compiles(&pattern, text)).map(str::to_owned),
        (None, Some(words)) => of_words(&words),
        (Some(pattern), Some(_)) => {
            pattern.problem("stands beside `words`", Some("keep one of the two".to_owned()));
            None
        }
        (None, None) => {
            let hint = "add `pattern: \"…\"`, a regular expression, or `words: [WORD]`".to_owned();
            fields.problem("pattern", "expected what the rule looks for, got nothing", Some(hint));
            None
        }
    };
    fields.finish();
    Some(SentinelRule { name, pattern: pattern?, action })
}

fn compiles(cursor: &Cursor<'_>, pattern: &str) -> bool {
    let problem = match regex::RegexBuilder::new(pattern).size_limit(PATTERN_MAX).build() {
        Ok(compiled) if compiled.is_match("") => "expected a pattern that does not fit everything".to_owned(),
        Ok(_) => return true,
        Err(error) => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("expected a regular expression: {last}")
        }
    };
    cursor.problem(problem, Some("write it for the crate `regex`: no look-around, no back-references".to_owned()));
    false
}

/// Words as one pattern: whole words, in any case.
fn of_words(cursor: &Cursor<'_>) -> Option<String> {
    let words: Vec<String> = cursor.list(|item| item.text().map(|word| word.trim().to_owned()));
    if words.is_empty() || words.len() > WORDS_MAX || words.iter().any(String::is_empty) {
        cursor.problem(format!("expected 1 to {WORDS_MAX} words"), None);
        return None;
    }
    let words: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
    let pattern = format!(r"(?i)(?:^|\W)(?:{})(?:\W|$)", words.join("|"));
    compiles(cursor, &pattern).then_some(pattern)
}

fn classifier(cursor: Cursor<'_>) -> Option<SentinelClassifier> {
    let fields = cursor.fields()?;
    let model = fields.get("model").and_then(|cursor| define::an_object_name(&cursor));
    if model.is_none() && fields.get("model").is_none() {
        fields.problem("model", "expected the model that judges, got nothing", Some("add `model: NAME`".to_owned()));
    }
    let score = |key, plain| fields.get(key).and_then(|cursor| cursor.parsed()).unwrap_or(plain);
    let (block, quarantine) = (score("block", Score::BLOCK), score("quarantine", Score::QUARANTINE));
    if quarantine > block {
        fields.problem("quarantine", format!("expected at most `block`, `{block}`, got `{quarantine}`"), None);
    }
    let timeout = fields.get("timeout").and_then(|cursor| {
        let period: Period = cursor.parsed()?;
        let is_short = period.duration() <= TIMEOUT_MAX;
        if !is_short {
            cursor.problem(format!("expected at most `120s`, got {}", cursor.describe()), None);
        }
        is_short.then(|| period.duration())
    });
    fields.finish();
    Some(SentinelClassifier { model: model?, block, quarantine, timeout: timeout.unwrap_or(Duration::from_secs(10)) })
}
