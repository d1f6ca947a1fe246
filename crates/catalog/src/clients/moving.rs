//! Servers that come through Toolcrib are taken out of a client's settings, and put back. Exactly as they were while
//! no one else changed that part of the file; else each by what it said, and never over what someone wrote since.

use serde_json::{Map, Value};

use super::OURS;
use super::settings::{self, EntryUndo, SettingsError};
use super::splice::{Splice, Splices};
use super::table::{Client, Source};

/// A server that was taken out: what the client called it, and what it said of it.
pub type MovedServer = (String, Value);

/// What an earlier connecting changed.
#[derive(Debug, Clone, Copy)]
pub struct Undo<'a> {
    /// From the text without us to the text with us and without what was taken out.
    pub splices: &'a Splices,
    /// Whether the map of servers came with us.
    pub made_container: bool,
    pub moved: &'a [MovedServer],
}

/// Takes these servers out of a text that has our entry; what is not there is passed over.
pub fn move_out(
    client: &Client,
    source: &Source,
    text: &str,
    keys: &[String],
) -> Result<(String, Vec<MovedServer>), SettingsError> {
    let container = settings::container(source)?;
    let (mut text, mut moved) = (text.to_owned(), Vec::new());
    for key in keys.iter().filter(|key| *key != OURS) {
        let (mark, inner) = settings::body(&text);
        let mut expected = settings::value_of(client.format, inner)?;
        let servers = expected.get_mut(container).and_then(Value::as_object_mut);
        let Some(entry) = servers.and_then(|servers| servers.shift_remove(key)) else { continue };
        let cut = settings::cut(client.format, inner, container, key)?.ok_or(SettingsError::Unsure)?;
        let without = settings::shifted(&cut, mark.len()).apply(&text).ok_or(SettingsError::Unsure)?;
        if settings::value_of(client.format, settings::body(&without).1)? != expected {
            return Err(SettingsError::Unsure);
        }
        moved.push((key.clone(), entry));
        text = without;
    }
    Ok((text, moved))
}

/// The change between two texts as one piece, with what stood there and what stands there now.
pub fn region(before: &str, after: &str) -> Splices {
    let same = before.bytes().zip(after.bytes()).take_while(|(before, after)| before == after).count();
    let start = (0..=same).rev().find(|at| before.is_char_boundary(*at) && after.is_char_boundary(*at)).unwrap_or(0);
    let rest = before.len().min(after.len()) - start;
    let tails = before.bytes().rev().zip(after.bytes().rev()).take(rest);
    let same = tails.take_while(|(before, after)| before == after).count();
    let fits =
        |tail: &usize| before.is_char_boundary(before.len() - tail) && after.is_char_boundary(after.len() - tail);
    let tail = (0..=same).rev().find(fits).unwrap_or(0);
    let piece = |text: &str| text[start..text.len() - tail].to_owned();
    Splices::new(vec![Splice { at: start, out: piece(before), into: piece(after) }])
}

// === impl Undo ===

impl<'a> Undo<'a> {
    /// What takes our entry back, where nothing else was changed.
    pub fn of_entry(&self) -> EntryUndo<'a> {
        EntryUndo { splices: self.splices, made_container: self.made_container }
    }
}

/// The text without our entry and with what was taken out; `None` where there is nothing to undo.
pub fn restore(
    client: &Client,
    source: &Source,
    text: &str,
    undo: Option<Undo<'_>>,
) -> Result<Option<String>, SettingsError> {
    let undo = match undo {
        Some(undo) if !undo.moved.is_empty() => undo,
        _ => {
            return settings::disconnect(client, source, text, undo.as_ref().map(Undo::of_entry));
        }
    };
    let container = settings::container(source)?;
    let now = settings::value_of(client.format, settings::body(text).1)?;
    let expected = expected(now, container, &undo)?;
    let fits =
        |text: &String| settings::value_of(client.format, settings::body(text).1).is_ok_and(|after| after == expected);
    let inverse = undo.splices.inverse();
    let exact = inverse.apply(text).filter(fits).or_else(|| inverse.moved(text)?.apply(text).filter(fits));
    if exact.is_some() {
        return Ok(exact);
    }
    // Someone changed that part: what we put in goes, and what is not there comes back.
    let mut back = settings::disconnect(client, source, text, None)?.unwrap_or_else(|| text.to_owned());
    for (key, entry) in undo.moved {
        let (mark, inner) = settings::body(&back);
        let servers = settings::value_of(client.format, inner)?;
        if servers.get(container).is_some_and(|servers| servers.get(key).is_some()) {
            continue;
        }
        let put = settings::put_in(client.format, inner, container, key, entry)?;
        back = settings::shifted(&put, mark.len()).apply(&back).ok_or(SettingsError::Unsure)?;
    }
    if fits(&back) { Ok(Some(back)) } else { Err(SettingsError::Unsure) }
}

/// What the text must say: nothing of us, and what was taken out, unless someone wrote something else in its place.
fn expected(mut now: Value, container: &str, undo: &Undo<'_>) -> Result<Value, SettingsError> {
    if now.is_null() {
        now = Value::Object(Map::new());
    }
    let members = now.as_object_mut().ok_or(SettingsError::Unsure)?;
    let servers = members.entry(container).or_insert_with(|| Value::Object(Map::new()));
    let servers = servers.as_object_mut().ok_or(SettingsError::Unsure)?;
    servers.shift_remove(OURS);
    for (key, entry) in undo.moved {
        match servers.get(key) {
            Some(there) if there != entry => return Err(SettingsError::Conflict { key: key.clone() }),
            Some(_) => {}
            None => drop(servers.insert(key.clone(), entry.clone())),
        }
    }
    Ok(now)
}
