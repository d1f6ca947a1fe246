//! The bounds of everything that a template makes, and values as text within them.

use std::cell::Cell;
use std::io;

use serde_json::Value;

use super::error::{Fault, TemplateError};

/// The longest text that a template may make, in bytes.
pub(super) const TEXT_BYTES: usize = 4 * 1024 * 1024;
/// How many values a list or a map that a template makes may hold, with all that is in them.
pub(super) const VALUES: usize = 200_000;
/// How many steps of the engine a rendering may take.
pub(super) const FUEL: u64 = 2_000_000;
/// How much the functions of a rendering may go through together: bytes of texts, and items of lists eightfold. The
/// engine counts its own steps only, and one step may sort a long list.
const WORK: usize = 32 * 1024 * 1024;
/// How deep blocks, brackets and calls may nest.
pub(super) const DEPTH: usize = 40;

/// The longest action, quoted texts not counted, in bytes: what reads one goes as deep as it is long.
pub(super) const ACTION: usize = 2_000;

thread_local! {
    /// A rendering is done on one thread, without a pause.
    static LEFT: Cell<usize> = const { Cell::new(WORK) };
}

/// A rendering begins.
pub(super) fn begin() {
    LEFT.set(WORK);
}

/// Something goes through so much. Errors when the rendering has gone through too much.
pub(super) fn work(amount: usize) -> Result<(), TemplateError> {
    let left = LEFT.get().checked_sub(amount);
    LEFT.set(left.unwrap_or(0));
    let message = "the template exceeds the limit of work in functions";
    left.map(drop).ok_or_else(|| TemplateError::new(Fault::TooMuch, message))
}

/// A text that ends with an error when it grows too long.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn push(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.0.len() + text.len() > TEXT_BYTES {
            return Err(too_long());
        }
        work(text.len())?;
        self.0.push_str(text);
        Ok(())
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.push(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn too_long() -> TemplateError {
    TemplateError::new(Fault::TooMuch, format!("the template renders to more than {TEXT_BYTES} bytes"))
}

/// A value as text: texts as they are, lists and maps as JSON.
pub(super) fn show(value: &Value, out: &mut Text) -> Result<(), TemplateError> {
    match value {
        Value::String(text) => out.push(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push(&float.to_string()),
            _ => out.push(&number.to_string()),
        },
        Value::Null | Value::Bool(_) => out.push(&value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            let mut bytes = Bytes(Vec::new());
            serde_json::to_writer(&mut bytes, value).map_err(|_| too_long())?;
            out.push(&String::from_utf8_lossy(&bytes.0))
        }
    }
}

/// Bytes that end with an error when they are too many; characters may come in parts.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_BYTES {
            return Err(io::Error::other("too much"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
