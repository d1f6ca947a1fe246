//! What a run says to the model in its own words.

use std::fmt::Write as _;

use toolcrib_base::nearest::prefix;

use crate::conversation::ShownResult;
use crate::entry::{CallId, Refusal, RefusalKind, Settlement};

/// Of a result that is shown by its beginning, the bytes that are shown.
const SHOWN_BYTES: usize = 2_048;

pub(super) fn refusal(refusal: &Refusal) -> String {
    let first = match refusal.kind {
        RefusalKind::UnknownTool => "unknown tool: ",
        RefusalKind::Invalid => "invalid arguments: ",
        RefusalKind::Denied => "denied: ",
        RefusalKind::Disapproved => "not approved: ",
        RefusalKind::TooMany | RefusalKind::Unsettled | RefusalKind::RunEnded => "not called: ",
    };
    let mut text = format!("{first}{}", refusal.why);
    if !refusal.nearest.is_empty() {
        let _ = write!(text, ". Nearest names: {}", refusal.nearest.join(", "));
    }
    text
}

pub(super) fn too_many(most: u32) -> String {
    format!("one answer may have at most {most} calls; call the rest in your next answer")
}

pub(super) fn not_json(problem: &str) -> String {
    format!("they are not a JSON object ({problem}); call again with a JSON object")
}

pub(super) fn unknown_end(call: CallId, why: &str) -> String {
    format!(
        "it is not known whether call {call} happened ({why}). Do not repeat it: the same call is refused until a \
         person settles it. Look for its effects with other tools, or go on without it."
    )
}

pub(super) fn unsettled(call: CallId) -> String {
    format!("it is not known whether the same call {call} happened, and no person has settled it")
}

pub(super) fn settled(call: CallId, settlement: &Settlement, bound: u64, reader: Option<&str>) -> String {
    match settlement {
        Settlement::Happened(result) => {
            let text = beginning(call, &result.text, bound, reader);
            format!("call {call} was settled: it happened, with this result:\n{text}")
        }
        Settlement::DidNot => format!("call {call} was settled: it did not happen. It may be called again."),
        Settlement::Repeat => format!("call {call} was settled: it may be called once more."),
    }
}

pub(super) const DID_NOT_HAPPEN: &str = "this call did not happen; it may be called again";

pub(super) fn repeated(text: &mut String, count: u32) {
    let _ = write!(
        text,
        "\n\n[this call gave the same result {count} times in a row; do something else, the run ends at the fifth]"
    );
}

pub(super) fn gave_up(attempts: u32, why: &str) -> String {
    format!("no result after {attempts} attempts: {why}")
}

/// A long result by its beginning.
pub(super) fn beginning(call: CallId, text: &str, bound: u64, reader: Option<&str>) -> String {
    let most = usize::try_from(bound).unwrap_or(usize::MAX);
    if text.len() <= most {
        return text.to_owned();
    }
    let shown = prefix(text, most.min(SHOWN_BYTES));
    let total = text.len();
    format!("{shown}\n[the first {} of {total} bytes{}]", shown.len(), more(call, reader, shown.len()))
}

/// An old result that makes room.
pub(super) fn handle(result: &ShownResult, reader: Option<&str>) -> String {
    format!("[a result of {} bytes that was shown before{}]", result.text.len(), more(result.call, reader, 0))
}

fn more(call: CallId, reader: Option<&str>, offset: usize) -> String {
    let Some(reader) = reader else { return String::new() };
    format!("; read more with `{reader}` and {{\"result\": \"{call}\", \"offset\": {offset}}}")
}

pub(super) fn misfit(problem: &str) -> String {
    format!("Your output does not fit its schema: {problem}. Answer again with JSON that fits, and nothing else.")
}

pub(super) fn summary_request(transcript: &str) -> String {
    format!(
        "Below is a conversation in which you work on a task with tools. It is too long to go on. Summarize it so that \
         you can go on from the summary alone: what is done, what was found (exact names, ids and numbers), what \
         is open. Call no tools.\n\n{transcript}"
    )
}

pub(super) fn after_summary(task: &str, summary: &str, message: Option<&str>, unsettled: &[CallId]) -> String {
    let mut text = format!("{task}\n\n[Summary of your work so far]\n{summary}");
    if let Some(message) = message {
        let _ = write!(text, "\n\n[The newest message, which the summary covers]\n{message}");
    }
    for call in unsettled {
        let _ = write!(text, "\n[It is not known whether call {call} happened; the same call is refused.]");
    }
    text
}
