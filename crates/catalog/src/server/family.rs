//! `family`: servers with the same tools, such as one for each cluster, that are shown as one with an argument which says
//! which of them is meant.

use crate::reader::Cursor;

/// What the name of a family looks like: it becomes part of names that clients hold to `[A-Za-z0-9_.-]{1,64}`.
const NAME: &str = "^[A-Za-z0-9_.-]{1,32}$";
/// What an argument's name looks like.
const ARGUMENT: &str = "^[A-Za-z_][A-Za-z0-9_-]{0,63}$";

/// The family that a server belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Its name, which stands before the names of its tools.
    pub name: String,
    /// The argument that names the server.
    pub instance_arg: String,
}

impl Family {
    /// Whether a text can be its name.
    pub(crate) fn is_name(text: &str) -> bool {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        !text.is_empty() && text.len() <= 32 && text.bytes().all(fits)
    }

    /// Whether a text can be the argument.
    pub(crate) fn is_argument(text: &str) -> bool {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.len() <= 64 && text.bytes().all(fits)
    }
}

/// The key `family`.
pub(super) fn family(cursor: Cursor<'_>) -> Option<Family> {
    let fields = cursor.fields()?;
    let name = fields.require("name", "the family's name", "add `name: clusters`".to_owned());
    let argument = fields.require(
        "instance_arg",
        "the argument that names the server",
        "add a line such as `instance_arg: cluster`".to_owned(),
    );
    let name = name.and_then(|cursor| {
        fitting(&cursor, NAME, Family::is_name, "a name of 1 to 32 characters of A-Z, a-z, 0-9, `_`, `.` and `-`")
    });
    let argument = argument.and_then(|cursor| {
        let what = "a name of A-Z, a-z, 0-9, `_` and `-`, the first a letter or `_`";
        fitting(&cursor, ARGUMENT, Family::is_argument, what)
    });
    fields.finish();
    Some(Family { name: name?, instance_arg: argument? })
}

fn fitting(cursor: &Cursor<'_>, pattern: &'static str, is_good: fn(&str) -> bool, what: &str) -> Option<String> {
    let text = cursor.text()?;
    cursor.fits(pattern);
    let is_good = is_good(text);
    if !is_good {
        cursor.expected(what);
    }
    is_good.then(|| text.to_owned())
}
