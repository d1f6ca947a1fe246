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
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        fitting(&cursor, NAME, 32, "a name of 1 to 32 characters of A-Z, a-z, 0-9, `_`, `.` and `-`", fits)
    });
    let argument = argument.and_then(|cursor| {
        let what = "a name of A-Z, a-z, 0-9, `_` and `-`, the first a letter or `_`";
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let text = fitting(&cursor, ARGUMENT, 64, what, fits)?;
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins_well {
            cursor.expected(what);
        }
        begins_well.then_some(text)
    });
    fields.finish();
    Some(Family { name: name?, instance_arg: argument? })
}

fn fitting(
    cursor: &Cursor<'_>,
    pattern: &'static str,
    most: usize,
    what: &str,
    fits: impl Fn(u8) -> bool,
) -> Option<String> {
    let text = cursor.text()?;
    cursor.fits(pattern);
    let is_good = !text.is_empty() && text.len() <= most && text.bytes().all(fits);
    if !is_good {
        cursor.expected(what);
    }
    is_good.then(|| text.to_owned())
}
