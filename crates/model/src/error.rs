//! What a failure of a model means: its kind, the provider's words, and how long to wait before the next attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolcrib_base::Timestamp;

use crate::json::Json;

/// How much of a provider's words is kept, in characters.
const MESSAGE: usize = 500;
/// The most that a provider can make us wait.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A failure of a model or its provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {message}", .kind.words())]
pub struct ModelError {
    /// What it means.
    pub kind: ErrorKind,
    /// The HTTP status; `None` when the failure came inside a stream.
    pub status: Option<u16>,
    /// The provider's own words.
    pub message: String,
    /// How many milliseconds to wait before the next attempt, if the provider says so.
    pub wait_ms: Option<u64>,
}

/// What a failure means for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Too many requests or tokens a minute.
    RateLimited,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed.
    Server,
    /// The key is missing, wrong, or may not do this.
    Auth,
    /// The account has no money or no quota left; waiting does not help.
    Quota,
    /// No such model or address.
    NotFound,
    /// The request is longer than the model's window.
    Window,
    /// The provider's filter refused the request.
    Filter,
    /// The body of the request has too many bytes.
    TooLarge,
    /// The request is wrong.
    Invalid,
}

impl ErrorKind {
    /// Whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Server)
    }

    /// Whether another model may be asked instead. Never after a request that is wrong or a key that is refused: those
    /// are faults of ours, which another model would hide.
    pub const fn allows_another_model(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Server | Self::Quota | Self::NotFound)
    }

    /// Its stable name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::NotFound => "not_found",
            Self::Window => "window",
            Self::Filter => "filter",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::RateLimited => "the model's provider limits requests",
            Self::Overloaded => "the model's provider is overloaded",
            Self::Server => "the model's provider failed",
            Self::Auth => "the model's provider refused the key",
            Self::Quota => "the account at the model's provider is used up",
            Self::NotFound => "the model's provider does not know the model",
            Self::Window => "the request is longer than the model's window",
            Self::Filter => "the model's provider filtered the request",
            Self::TooLarge => "the request has too many bytes for the model's provider",
            Self::Invalid => "the model's provider refused the request",
        }
    }
}

impl ModelError {
    /// What a response that is no success means. `headers` gives the value of a header by its lower-case name.
    pub fn of_response<'a>(
        status: u16,
        headers: impl Fn(&str) -> Option<&'a str>,
        body: &[u8],
        now: Timestamp,
    ) -> Self {
        let body = ErrorBody::of(body);
        let after = headers("retry-after-ms")
            .and_then(|text| text.trim().parse().ok().map(Duration::from_millis))
            .or_else(|| headers("retry-after").and_then(|text| retry_after(text, now)))
            .or(body.delay);
        let wait_ms = after.map(|wait| millis(wait.min(WAIT_MAX)));
        Self { kind: body.kind(Some(status)), status: Some(status), message: body.message, wait_ms }
    }

    /// What an error event inside a stream, or an error object inside a body, means.
    pub fn of_event(error: &Json) -> Self {
        let body = ErrorBody::of(error.bytes());
        Self { kind: body.kind(None), status: None, wait_ms: body.delay.map(millis), message: body.message }
    }

    /// How long to wait before the next attempt, if the provider says so.
    pub fn wait(&self) -> Option<Duration> {
        self.wait_ms.map(Duration::from_millis)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What the body of a failure says.
struct ErrorBody {
    /// Types and codes of the error, in lower case.
    words: Vec<String>,
    message: String,
    delay: Option<Duration>,
}

impl ErrorBody {
    fn of(body: &[u8]) -> Self {
        let whole = Json::parse(body.to_vec()).ok();
        // Gemini puts the error into an array.
        let whole =
            whole.map(|json| if json.is_array() { json.items().into_iter().next().unwrap_or(json) } else { json });
        let Some(whole) = whole.filter(|json| json.is_object()) else {
            let text = String::from_utf8_lossy(body);
            return Self { words: Vec::new(), message: shortened(text.trim()), delay: None };
        };
        let error = whole.member("error").filter(|error| error.is_object()).unwrap_or_else(|| whole.clone());
        let words = ["type", "code", "status"].iter().filter_map(|key| {
            let value = error.member(key)?;
            Some(value.string().unwrap_or_else(|| value.as_str().to_owned()).to_ascii_lowercase())
        });
        let message = error
            .string_at("message")
            .or_else(|| whole.string_at("error"))
            .or_else(|| whole.string_at("detail"))
            .unwrap_or_else(|| whole.as_str().to_owned());
        let details = error.member("details").map(|details| details.items()).unwrap_or_default();
        let delay = details.iter().find_map(|detail| seconds(detail.string_at("retryDelay")?.strip_suffix('s')?));
        Self { words: words.collect(), message: shortened(&message), delay }
    }

    fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|said| words.contains(&said.as_str()))
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    fn kind(&self, status: Option<u16>) -> ErrorKind {
        const WINDOW: [&str; 3] =
            ["context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"];
        const WINDOW_WORDS: [&str; 6] = [
            "prompt is too long",
            "maximum context length",
            "available context size",
            "exceeds the maximum number of tokens",
            "exceed context limit",
            "context window",
        ];
        const FILTER: [&str; 4] =
            ["content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt"];
        const FILTER_WORDS: [&str; 3] = ["content filtering policy", "content management policy", "safety system"];
        const QUOTA: [&str; 4] =
            ["insufficient_quota", "billing_error", "billing_hard_limit_reached", "insufficient_balance"];
        if self.has(&QUOTA) || status == Some(402) {
            return ErrorKind::Quota;
        }
        let is_of_request = matches!(status, None | Some(400 | 413 | 422)) || status == Some(500) && self.has(&WINDOW);
        if is_of_request && (self.has(&WINDOW) || self.says(&WINDOW_WORDS)) {
            return ErrorKind::Window;
        }
        if is_of_request && (self.has(&FILTER) || self.says(&FILTER_WORDS)) {
            return ErrorKind::Filter;
        }
        match status {
            Some(429) => ErrorKind::RateLimited,
            Some(503 | 529) => ErrorKind::Overloaded,
            Some(_) if self.has(&["overloaded_error"]) => ErrorKind::Overloaded,
            Some(408 | 409 | 425 | 500..) => ErrorKind::Server,
            Some(401 | 403) => ErrorKind::Auth,
            Some(404) => ErrorKind::NotFound,
            Some(413) => ErrorKind::TooLarge,
            Some(_) => ErrorKind::Invalid,
            None => self.kind_by_words(),
        }
    }

    /// Inside a stream there is no status, only its name.
    fn kind_by_words(&self) -> ErrorKind {
        const NAMES: [(&[&str], ErrorKind); 7] = [
            (&["overloaded_error", "server_is_overloaded", "unavailable", "503", "529"], ErrorKind::Overloaded),
            (&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "429"], ErrorKind::RateLimited),
            (&["authentication_error", "permission_error", "invalid_api_key", "401", "403"], ErrorKind::Auth),
            (&["not_found_error", "model_not_found", "404"], ErrorKind::NotFound),
            (&["request_too_large", "413"], ErrorKind::TooLarge),
            (&["billing_error", "402"], ErrorKind::Quota),
            (&["invalid_request_error", "invalid_argument", "badrequesterror", "400", "422"], ErrorKind::Invalid),
        ];
        NAMES.iter().find(|(names, _)| self.has(names)).map_or(ErrorKind::Server, |(_, kind)| *kind)
    }
}

fn shortened(text: &str) -> String {
    let mut out: String = text.chars().take(MESSAGE).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

/// Seconds, also with a fraction; nothing else that a number could be.
fn seconds(text: &str) -> Option<Duration> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = text.parse().ok().filter(|_| is_plain)?;
    Some(Duration::from_secs_f64(seconds.min(WAIT_MAX.as_secs_f64())))
}

/// `Retry-After` (RFC 9110, section 10.2.3): seconds or a date.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    seconds(text).or_else(|| Some(Duration::from_millis(http_date(text)?.since(now))))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_once(", ")?.1.split(' ').collect();
    let [day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests;
