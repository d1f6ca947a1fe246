//! Functions on texts.

use std::cell::RefCell;

use minijinja::{Error, Value as Cell};
use regex::{Regex, RegexBuilder};

use super::number::count;
use super::printf::printf;
use super::{MANY, Row, at, failed, made, row, text_of, too_long};
use crate::template::engine::caused;
use crate::template::limit::{self, TEXT_BYTES};

/// The largest compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 20;
/// What reading a pattern counts for.
const PATTERN_WORK: usize = 64 * 1024;

thread_local! {
    /// The pattern that was read last: mostly a loop asks for it again and again.
    static LAST: RefCell<Option<Regex>> = const { RefCell::new(None) };
}

pub(super) const ROWS: &[Row] = &[
    row("upper", 1, 1, |a| on(a, str::to_uppercase)),
    row("lower", 1, 1, |a| on(a, str::to_lowercase)),
    row("title", 1, 1, |a| on(a, |text| each_word(text, |c| c.to_uppercase().collect()))),
    row("untitle", 1, 1, |a| on(a, |text| each_word(text, |c| c.to_lowercase().collect()))),
    row("trim", 1, 1, |a| on(a, |text| text.trim().to_owned())),
    row("trimAll", 2, 2, |a| on_two(a, |set, text| text.trim_matches(|c| set.contains(c)).to_owned())),
    row("trimPrefix", 2, 2, |a| on_two(a, |prefix, text| text.strip_prefix(prefix).unwrap_or(text).to_owned())),
    row("trimSuffix", 2, 2, |a| on_two(a, |suffix, text| text.strip_suffix(suffix).unwrap_or(text).to_owned())),
    row("nospace", 1, 1, |a| on(a, |text| text.split_whitespace().collect())),
    row("trunc", 2, 2, trunc),
    row("abbrev", 2, 2, abbrev),
    row("contains", 2, 2, |a| test(a, |part, text| text.contains(part))),
    row("hasPrefix", 2, 2, |a| test(a, |prefix, text| text.starts_with(prefix))),
    row("hasSuffix", 2, 2, |a| test(a, |suffix, text| text.ends_with(suffix))),
    row("quote", 0, MANY, quote),
    row("squote", 0, MANY, |a| surrounded(a, |text| format!("'{text}'"))),
    row("cat", 0, MANY, |a| surrounded(a, str::to_owned)),
    row("indent", 2, 2, |a| indent_by(count(at(a, 0)?)?, &text_of(at(a, 1)?)?)),
    row("nindent", 2, 2, |a| {
        let indented = indent_by(count(at(a, 0)?)?, &text_of(at(a, 1)?)?)?;
        made(format!("\n{}", text_of(&indented)?))
    }),
    row("replace", 3, 3, |a| replace_in(&text_of(at(a, 2)?)?, &text_of(at(a, 0)?)?, &text_of(at(a, 1)?)?)),
    row("repeat", 2, 2, |a| {
        let (times, text) = (count(at(a, 0)?)?, text_of(at(a, 1)?)?);
        match text.len().checked_mul(times) {
            Some(bytes) if bytes <= TEXT_BYTES => Ok(Cell::from(text.repeat(times))),
            _ => Err(too_long()),
        }
    }),
    row("substr", 3, 3, substr),
    row("toString", 1, 1, |a| on(a, str::to_owned)),
    row("print", 0, MANY, |a| Ok(Cell::from(a.iter().map(text_of).collect::<Result<String, _>>()?))),
    row("println", 0, MANY, |a| made(format!("{}\n", a.iter().map(text_of).collect::<Result<Vec<_>, _>>()?.join(" ")))),
    row("printf", 1, MANY, printf),
    row("b64enc", 1, 1, |a| on(a, |text| base64_of(text.as_bytes()))),
    row("base", 1, 1, |a| on(a, |text| file_name(text).to_owned())),
    row("basename", 1, 1, |a| on(a, |text| file_name(text).to_owned())),
    row("dir", 1, 1, |a| {
        on(a, |text| match text.trim_end_matches('/').rsplit_once('/') {
            Some(("", _)) => "/".to_owned(),
            Some((folder, _)) => folder.to_owned(),
            None => ".".to_owned(),
        })
    }),
    row("ext", 1, 1, |a| {
        on(a, |text| {
            let name = file_name(text);
            name.rfind('.').map_or_else(String::new, |at| name[at..].to_owned())
        })
    }),
    row("camelcase", 1, 1, |a| on(a, |text| parts(text).iter().map(|part| capital(part)).collect())),
    row("snakecase", 1, 1, |a| on(a, |text| parts(text).join("_").to_lowercase())),
    row("kebabcase", 1, 1, |a| on(a, |text| parts(text).join("-").to_lowercase())),
    row("regexMatch", 2, 2, |a| Ok(Cell::from(pattern(at(a, 0)?)?.is_match(&text_of(at(a, 1)?)?)))),
    row("regexFind", 2, 2, |a| {
        let text = text_of(at(a, 1)?)?;
        Ok(Cell::from(pattern(at(a, 0)?)?.find(&text).map_or("", |found| found.as_str())))
    }),
    row("regexReplaceAll", 3, 3, |a| {
        let (text, by) = (text_of(at(a, 1)?)?, text_of(at(a, 2)?)?);
        // Every place may grow by all that is put in; groups are at most the text once more.
        if (text.len() + 1).saturating_mul(by.len() + 1) > TEXT_BYTES * 4 && text.len() > 4096 {
            return Err(failed("`regexReplaceAll`: the text and the replacement are too long"));
        }
        made(pattern(at(a, 0)?)?.replace_all(&text, by.as_str()).into_owned())
    }),
];

fn on(arguments: &[Cell], change: impl Fn(&str) -> String) -> Result<Cell, Error> {
    made(change(&text_of(at(arguments, 0)?)?))
}

fn on_two(arguments: &[Cell], change: impl Fn(&str, &str) -> String) -> Result<Cell, Error> {
    made(change(&text_of(at(arguments, 0)?)?, &text_of(at(arguments, 1)?)?))
}

fn test(arguments: &[Cell], is: impl Fn(&str, &str) -> bool) -> Result<Cell, Error> {
    Ok(Cell::from(is(&text_of(at(arguments, 0)?)?, &text_of(at(arguments, 1)?)?)))
}

pub(super) fn quote(arguments: &[Cell]) -> Result<Cell, Error> {
    surrounded(arguments, |text| serde_json::Value::from(text).to_string())
}

/// Every value that is there, changed, with blanks between.
fn surrounded(arguments: &[Cell], change: impl Fn(&str) -> String) -> Result<Cell, Error> {
    let some = arguments.iter().filter(|value| !value.is_none() && !value.is_undefined());
    made(some.map(|value| Ok(change(&text_of(value)?))).collect::<Result<Vec<_>, Error>>()?.join(" "))
}

pub(super) fn replace_in(text: &str, old: &str, new: &str) -> Result<Cell, Error> {
    let places = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    if text.len().saturating_add(places.saturating_mul(new.len())) > TEXT_BYTES * 2 {
        return Err(too_long());
    }
    made(text.replace(old, new))
}

pub(super) fn indent_by(blanks: usize, text: &str) -> Result<Cell, Error> {
    let lines = text.matches('\n').count() + 1;
    if blanks.saturating_mul(lines) > TEXT_BYTES {
        return Err(too_long());
    }
    let pad = " ".repeat(blanks);
    made(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}

/// The first characters; with a negative number the last ones.
fn trunc(arguments: &[Cell]) -> Result<Cell, Error> {
    let text = text_of(at(arguments, 1)?)?;
    let length = super::number::whole(at(arguments, 0)?)?;
    let many = usize::try_from(length.unsigned_abs()).unwrap_or(usize::MAX);
    let kept: String = if length >= 0 {
        text.chars().take(many).collect()
    } else {
        text.chars().skip(text.chars().count().saturating_sub(many)).collect()
    };
    Ok(Cell::from(kept))
}

fn abbrev(arguments: &[Cell]) -> Result<Cell, Error> {
    let (width, text) = (count(at(arguments, 0)?)?, text_of(at(arguments, 1)?)?);
    if text.chars().count() <= width || width < 4 {
        return Ok(Cell::from(text));
    }
    let start: String = text.chars().take(width - 3).collect();
    Ok(Cell::from(format!("{start}...")))
}

fn substr(arguments: &[Cell]) -> Result<Cell, Error> {
    let (start, end) = (super::number::whole(at(arguments, 0)?)?, super::number::whole(at(arguments, 1)?)?);
    let text = text_of(at(arguments, 2)?)?;
    let start = usize::try_from(start).unwrap_or(0);
    let end = usize::try_from(end).unwrap_or(usize::MAX);
    Ok(Cell::from(text.chars().take(end).skip(start).collect::<String>()))
}

fn each_word(text: &str, change: impl Fn(char) -> String) -> String {
    let mut begins = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if begins {
            out.push_str(&change(c));
        } else {
            out.push(c);
        }
        begins = !(c.is_alphanumeric() || c == '_' || c == '\'');
    }
    out
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + chars.as_str()
}

/// The words of an identifier, whatever joins them.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut open = false;
    let mut was_lower = false;
    for c in text.chars() {
        if !c.is_alphanumeric() {
            open = false;
            continue;
        }
        if !open || c.is_uppercase() && was_lower {
            parts.push(String::new());
        }
        parts.last_mut().into_iter().for_each(|part| part.push(c));
        open = true;
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    parts
}

fn file_name(text: &str) -> &str {
    let bare = text.trim_end_matches('/');
    bare.rsplit('/').next().unwrap_or(bare)
}

fn pattern(value: &Cell) -> Result<Regex, Error> {
    let text = text_of(value)?;
    if let Some(last) = LAST.with_borrow(|last| last.clone().filter(|last| last.as_str() == text)) {
        return Ok(last);
    }
    limit::work(PATTERN_WORK).map_err(caused)?;
    let built = RegexBuilder::new(&text).size_limit(PATTERN_BYTES).build();
    let built = built.map_err(|error| failed(format!("`{text}`: {error}")))?;
    LAST.set(Some(built.clone()));
    Ok(built)
}

fn base64_of(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sign = SIGNS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(sign) } else { '=' });
        }
    }
    out
}
