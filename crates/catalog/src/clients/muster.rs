//! muster's servers: the names that their tools keep when a server gets another name here.

use super::draft::Draft;
use super::settings::ClientServer;
use super::table::client;
use super::translate::{Surroundings, translate};
use crate::objects::Object;
use crate::server::is_prefix;

/// A server of muster's form as a draft; the reason why it is left out otherwise.
pub fn translate_object(object: &Object, around: &Surroundings<'_>) -> Result<Draft, String> {
    let muster = client("muster").ok_or("muster is not known")?;
    let entry = serde_json::Value::Object(object.value.clone());
    let found = ClientServer { key: object.name.clone(), entry, path: String::new() };
    let mut draft = translate(muster, object.place.file.clone(), &found, around)?;
    keep_names(&mut draft);
    Ok(draft)
}

/// The names of a server's tools begin with its name unless it has a prefix. So one that gets another name keeps the old
/// one as its prefix, where that can be; what changes is reported.
fn keep_names(draft: &mut Draft) {
    let (old, new) = (draft.origin.key.clone(), draft.name.to_string());
    if old == new {
        return;
    }
    let shown = crate::problem::shown(&old);
    let note = match draft.texts.get("prefix") {
        Some(prefix) => format!("renamed from `{shown}`; its tools keep their names, `x_{prefix}_…`"),
        None if is_prefix(&old) => {
            let note = format!("renamed from `{shown}`; its tools keep their names, `x_{old}_…`, by `prefix: {old}`");
            draft.texts.insert("prefix", old);
            note
        }
        None => format!(
            "renamed from `{shown}`; its tools `x_{shown}_…` are `x_{new}_…` now: change what names them, such as workflows"
        ),
    };
    draft.notes.insert(0, note);
}
