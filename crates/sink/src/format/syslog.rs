//! Syslog messages as RFC 5424 has them, and their frames on a stream (RFC 6587, octet counting).

use std::fmt::Write as _;

use super::cef::{CUTS, cef_within};
use super::{camel_case, cut, is_unsafe, json_line, value_text};
use crate::Entry;
use crate::entry::Severity;

/// What a message has at most, in bytes: what rsyslog takes unless it is told to take more.
pub const MESSAGE_MAX: usize = 8 * 1024;

/// Facility 13, `log audit` (RFC 5424, 6.2.1).
const FACILITY: u8 = 13;
/// Names of our own structured data carry the number of an enterprise (RFC 5424, 7.2.2). This is the one for examples
/// (RFC 5612): we have none.
const ENTERPRISE: u32 = 32_473;
/// The largest `sequenceId` (RFC 5424, 7.3.1); after it comes 1.
const SEQUENCE_MAX: u64 = 2_147_483_647;
/// Lengths of the header's fields (RFC 5424, 6).
const HOST_MAX: usize = 255;
const PROCESS_MAX: usize = 128;
const MESSAGE_ID_MAX: usize = 32;
/// The longest message text that leaves room for the header and the structured data.
const BODY_MAX: usize = MESSAGE_MAX - 2 * 1024;

/// Fields that stand in the structured data, for receivers that file by them; of a checkpoint all, to verify it by.
const DATA: [&str; 6] = ["seq", "principal", "target", "decision", "outcome", "hash"];
const CHECKPOINT_DATA: [&str; 10] =
    ["number", "first", "seq", "hash", "root", "at", "previous", "key", "next", "signature"];

/// Which process of which machine sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The machine's name.
    pub host: String,
    /// The process, for people.
    pub process: String,
}

/// What the text of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyslogBody {
    /// A line of CEF.
    Cef,
    /// The JSON object; where that is too long, CEF.
    Json,
}

/// A message, without a frame, of at most [`MESSAGE_MAX`] bytes.
pub fn syslog(entry: &Entry, origin: &Origin, body: SyslogBody) -> String {
    // The text begins with no mark of UTF-8, as RFC 5424 has it: readers of CEF look for `CEF:`.
    let text = match body {
        SyslogBody::Json => Some(json_line(entry)).filter(|line| line.len() <= BODY_MAX),
        SyslogBody::Cef => None,
    };
    let text = text.unwrap_or_else(|| cef_within(entry, BODY_MAX));
    let mut message = String::new();
    for most in CUTS {
        message = header(entry, origin);
        structured_data(entry, most, &mut message);
        if message.len() + 1 + text.len() <= MESSAGE_MAX {
            break;
        }
    }
    message.push(' ');
    message.push_str(&text);
    message
}

/// A message in its frame: the number of its bytes, a space, and these.
pub fn framed(message: &str) -> String {
    format!("{} {message}", message.len())
}

fn header(entry: &Entry, origin: &Origin) -> String {
    let severity = match entry.severity() {
        Severity::Info => 6,
        Severity::Notice => 5,
        Severity::Warning => 4,
    };
    let priority = FACILITY * 8 + severity;
    let host = printable(&origin.host, HOST_MAX);
    let process = printable(&origin.process, PROCESS_MAX);
    let id = printable(entry.method(), MESSAGE_ID_MAX);
    format!("<{priority}>1 {} {host} toolcrib {process} {id} ", entry.at)
}

fn structured_data(entry: &Entry, most: usize, out: &mut String) {
    // A text takes what is written to it.
    let names = if entry.checkpoint.is_some() {
        let _ = write!(out, "[checkpoint@{ENTERPRISE}");
        &CHECKPOINT_DATA[..]
    } else {
        let sequence = entry.seq.saturating_sub(1) % SEQUENCE_MAX + 1;
        let _ = write!(out, "[meta sequenceId=\"{sequence}\"][toolcrib@{ENTERPRISE}");
        &DATA[..]
    };
    for name in names {
        let name = *name;
        let Some(value) = entry.fields.get(name) else { continue };
        let _ = write!(out, " {}=\"", camel_case(name));
        for character in cut(&value_text(value), most).chars() {
            match character {
                '"' | '\\' | ']' => out.extend(['\\', character]),
                character if is_unsafe(character) => out.push(char::REPLACEMENT_CHARACTER),
                character => out.push(character),
            }
        }
        out.push('"');
    }
    out.push(']');
}

/// A field of the header: printable ASCII without blanks, `-` where nothing is left.
fn printable(text: &str, most: usize) -> String {
    let shown: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if shown.is_empty() { "-".to_owned() } else { shown }
}
