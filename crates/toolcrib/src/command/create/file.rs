//! What a file wishes for: each document is one thing. Its kind is the one that was named, or stands in `kind` as in
//! muster's own form (`apiVersion`, `kind`, `metadata`, `spec`).

use std::path::Path;

use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem};

use super::super::kind::{self, Chosen, Row, Verb};
use super::super::server::text_of;
use super::{Wish, wrong};

/// The wishes of a file.
pub(super) fn wishes(file: &Path, kind: Option<&Chosen>, words: &[String], verb: Verb) -> Result<Vec<Wish>, Problem> {
    let text = text_of(file)?;
    let file = if file.as_os_str() == "-" { Path::new("stdin") } else { file };
    let documents = toolcrib_catalog::documents(&text, file)
        .map_err(|problem| Problem { kind: Kind::InvalidParams, ..Problem::from(&problem) })?;
    if documents.is_empty() {
        return Err(wrong(format!("`{}` says nothing", file.display())));
    }
    let names = kind.map(|kind| kind.names(words)).unwrap_or_default();
    if names.len() > 1 || (names.len() == 1 && documents.len() > 1) {
        return Err(wrong(format!("`{}` has {} documents, and one name is given", file.display(), documents.len()))
            .hint("leave the name out: each document says its own"));
    }
    let place = |line: u32| format!("{}:{line}", file.display());
    documents
        .into_iter()
        .map(|document| {
            let place = place(document.line);
            let Value::Object(members) = document.value else {
                return Err(wrong(format!("{place}: expected a map of keys and values")));
            };
            one(members, document.text, kind.map(|kind| kind.row), names.first(), verb)
                .map_err(|problem| Problem { message: format!("{place}: {}", problem.message), ..problem })
        })
        .collect()
}

/// One document.
fn one(
    mut members: Map<String, Value>,
    text: String,
    wanted: Option<&'static Row>,
    name: Option<&String>,
    verb: Verb,
) -> Result<Wish, Problem> {
    let said = members.get("kind").and_then(Value::as_str).map(str::to_owned);
    let row = match (wanted, &said) {
        (Some(row), None) => row,
        (wanted, Some(word)) => {
            let row = kind::named(word).filter(|row| row.takes(verb));
            let row = row.ok_or_else(|| wrong(format!("`kind: {word}` cannot be written")).hint(kinds(verb)))?;
            if wanted.is_some_and(|wanted| wanted.one != row.one) {
                return Err(wrong(format!("it is a {}, as its `kind` says", row.singular())));
            }
            row
        }
        (None, None) => return Err(wrong("which kind of thing it is stands nowhere").hint(kinds(verb))),
    };
    // muster's form: the name in `metadata`, the rest in `spec`.
    let is_wrapped = members.contains_key("apiVersion") || members.contains_key("spec");
    let own_name = match members.get("metadata") {
        Some(metadata) if is_wrapped => metadata["name"].as_str().map(str::to_owned),
        _ => members.get("name").and_then(Value::as_str).map(str::to_owned),
    };
    let name = match (name, own_name) {
        (Some(given), Some(own)) if *given != own => {
            return Err(wrong(format!("it is called `{own}`, not `{given}`")));
        }
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name,
        (None, None) => return Err(wrong("it has no name").hint("write `name: …` or give the name behind the kind")),
    };
    let text = Some(text).filter(|_| said.is_none() && !is_wrapped);
    if is_wrapped {
        let labels = members.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
        members = match members.remove("spec") {
            Some(Value::Object(spec)) => spec,
            _ => return Err(wrong("`spec` is not a map")),
        };
        if let Some(labels) = labels.filter(|labels| !labels.is_null()) {
            members.entry("labels").or_insert(labels);
        }
    }
    members.remove("kind");
    members.remove("name");
    Ok(Wish { row, name, text, value: members.into(), changes: false })
}

fn kinds(verb: Verb) -> String {
    let fitting: Vec<&str> = kind::TABLE.iter().filter(|row| row.takes(verb)).map(|row| row.one).collect();
    let word = if verb == Verb::Create { "create" } else { "update" };
    format!("name it as in `toolcrib {word} KIND -f FILE`, or write `kind: …`: {}", fitting.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str, kind: Option<&str>, words: &[&str]) -> Result<Vec<Wish>, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.yaml");
        std::fs::write(&path, text).unwrap();
        let kind = kind.map(|word| Chosen { row: kind::named(word).unwrap(), name: None });
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        wishes(&path, kind.as_ref(), &words, Verb::Create)
    }

    #[test]
    fn documents_say_what_they_are() {
        let text = "# my server\nname: files\ncommand: npx\n";
        let [wish] = &read(text, Some("server"), &[]).unwrap()[..] else { panic!() };
        assert_eq!((wish.name.as_str(), wish.text.as_deref()), ("files", Some(text)));
        assert_eq!(wish.asked(), json!({ "name": "files", "yaml": text }));
        let wrapped = "apiVersion: muster.giantswarm.io/v1alpha1\nkind: Workflow\nmetadata: {name: w, labels: {a: b}}\nspec:\n  steps: [{id: s, tool: t}]\n";
        let text = format!("{wrapped}---\nkind: service\nname: s\nserviceClassName: c\n");
        let all = read(&text, None, &[]).unwrap();
        assert_eq!(all.len(), 2);
        let expected = json!({ "name": "w", "steps": [{ "id": "s", "tool": "t" }], "labels": { "a": "b" } });
        assert_eq!((all[0].row.one, all[0].asked()), ("workflow", expected));
        assert_eq!(all[1].asked(), json!({ "name": "s", "serviceClassName": "c" }));
        assert_eq!(read("steps: []", Some("wf"), &["x"]).unwrap()[0].asked(), json!({ "name": "x", "steps": [] }));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        for (text, kind, words, part) in [
            ("", Some("server"), &[][..], "says nothing"),
            ("[1]", Some("server"), &[], ":1: expected a map"),
            ("a: [", Some("server"), &[], "not valid YAML"),
            ("name: x", None, &[], ":1: which kind of thing it is"),
            ("kind: tool\nname: x", None, &[], "`kind: tool` cannot be written"),
            ("kind: workflow\nname: x", Some("server"), &[], "it is a workflow"),
            ("a: 1\n", Some("server"), &[], "it has no name"),
            ("name: x\n", Some("server"), &["y"], "it is called `x`, not `y`"),
            ("name: x\n---\nname: y\n", Some("server"), &["x"], "2 documents, and one name"),
            ("name: x\n---\n\nkind: none\n", Some("server"), &[], ":3: `kind: none`"),
            ("apiVersion: a\nmetadata: {name: x}\nspec: 1\n", Some("server"), &[], "`spec` is not a map"),
        ] {
            let problem = read(text, kind, words).unwrap_err();
            assert!(problem.message.contains(part), "{problem} for {text}");
        }
    }
}
