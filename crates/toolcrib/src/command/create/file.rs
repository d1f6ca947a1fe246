//! What files request: each document, or each item of a list, is one thing, in our form or in muster's. How they are
//! read is `toolcrib_catalog::objects`; `create`, `update` and `apply` ask for what stands in them.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::DefinitionKind;
use toolcrib_catalog::clients::{Surroundings, translate_object};
use toolcrib_catalog::objects::{Object, ObjectForm, ObjectProblem, Objects, kind_named, objects_at, objects_of_text};

use super::super::server::text_of;
use super::{Manifest, wrong};
use crate::clients::keep;
use crate::kind::{self, KindSelection, Row, Verb};

/// How many errors are reported at once.
const TOLD_MAX: usize = 20;

/// What stands in files.
#[derive(Debug, Default)]
pub(in crate::command) struct ParsedFiles {
    pub(in crate::command) manifests: Vec<Manifest>,
    /// What is reported beside them: what is left out, what has another name.
    pub(in crate::command) notes: Vec<String>,
}

/// The manifests of files. `chosen` is the kind, and the name behind it, that the command line says.
pub(in crate::command) fn manifests(
    files: &[PathBuf],
    chosen: Option<&KindSelection>,
    words: &[String],
    verb: Verb,
) -> Result<ParsedFiles, Problem> {
    let names = chosen.map(|kind| kind.names(words)).unwrap_or_default();
    let kind = chosen.and_then(|chosen| kind_named(chosen.row.one));
    let mut read = Vec::new();
    for file in files {
        read.push(objects(file, kind, names.first().map(String::as_str))?);
    }
    let total: usize = read.iter().map(|objects| objects.objects.len()).sum();
    if names.len() > 1 || (names.len() == 1 && total > 1) {
        let files: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
        return Err(wrong(format!("{} defines {total} objects, but one name is given", files.join(", ")))
            .hint("omit the name: each document has its own"));
    }
    refuse_wrong(&read, verb)?;
    let mut found = ParsedFiles::default();
    for objects in read {
        found.notes.extend(objects.warnings.iter().map(ObjectProblem::as_warning));
        for skipped in objects.skipped {
            found.notes.push(format!("skipped {} at {}: {}", skipped.what, skipped.place, skipped.why));
        }
        for object in objects.objects {
            let place = object.place.to_string();
            let manifest = manifest(object, chosen.map(|chosen| chosen.row), verb, &mut found.notes)
                .map_err(|problem| Problem { message: format!("{place}: {}", problem.message), ..problem })?;
            if let Some(twin) =
                found.manifests.iter().find(|it| it.row.one == manifest.row.one && it.name == manifest.name)
            {
                return Err(wrong(format!("{place}: duplicate {} `{}`", twin.row.singular(), twin.name)));
            }
            found.manifests.push(manifest);
        }
    }
    if found.manifests.is_empty() {
        return Err(nothing(files, &found.notes, verb));
    }
    Ok(found)
}

/// What a file, a folder or stdin reports.
fn objects(file: &Path, kind: Option<DefinitionKind>, name: Option<&str>) -> Result<Objects, Problem> {
    if file.as_os_str() == "-" {
        return Ok(objects_of_text(&text_of(file)?, Path::new("stdin"), kind, name));
    }
    if let Err(error) = std::fs::metadata(file) {
        return Err(wrong(format!("cannot read `{}`: {error}", file.display())));
    }
    Ok(match name {
        Some(_) if !file.is_dir() => objects_of_text(&text_of(file)?, file, kind, name),
        _ => objects_at(file, kind),
    })
}

/// Whatever is wrong in one of them, nothing is done.
fn refuse_wrong(read: &[Objects], verb: Verb) -> Result<(), Problem> {
    let wrongs: Vec<_> = read.iter().flat_map(|objects| &objects.problems).collect();
    let Some(first) = wrongs.first() else { return Ok(()) };
    let mut lines: Vec<String> = wrongs.iter().take(TOLD_MAX).map(ToString::to_string).collect();
    if wrongs.len() > lines.len() {
        lines.push(format!("and {} more", wrongs.len() - lines.len()));
    }
    let hint = first.problem.hint.clone();
    let problem = wrong(format!("nothing was {}:\n{}", done(verb), lines.join("\n")));
    Err(hint.into_iter().fold(problem, Problem::hint))
}

fn nothing(files: &[PathBuf], notes: &[String], verb: Verb) -> Problem {
    let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    let notes: String = notes.iter().take(TOLD_MAX).map(|note| format!("\n{note}")).collect();
    wrong(format!("nothing can be {} from {}{notes}", done(verb), names.join(", "))).hint(format!(
        "expected servers (`MCPServer`), profiles, workflows, service classes and services in YAML or JSON: {}",
        kinds(verb)
    ))
}

fn done(verb: Verb) -> &'static str {
    if verb == Verb::Update { "updated" } else { "created" }
}

/// One object as a manifest.
fn manifest(
    object: Object,
    wanted: Option<&'static Row>,
    verb: Verb,
    notes: &mut Vec<String>,
) -> Result<Manifest, Problem> {
    let row = kind::named(object.kind.as_str()).filter(|row| row.takes(verb));
    let row = row.ok_or_else(|| wrong(format!("a {} cannot be {}", object.kind, done(verb))).hint(kinds(verb)))?;
    if wanted.is_some_and(|wanted| wanted.one != row.one) {
        return Err(wrong(format!("its `kind` is {}", row.singular())));
    }
    if object.kind == DefinitionKind::Server && object.form == ObjectForm::Muster {
        return server(&object, row, notes);
    }
    let text = object.text.filter(|_| matches!(row.one, "server" | "profile"));
    let mut value = object.value;
    if object.kind == DefinitionKind::ServiceClass {
        // Keys of older files from which nothing follows; the operation does not take them.
        value.retain(|key, _| !matches!(key.as_str(), "version" | "type" | "metadata"));
    }
    Ok(Manifest { row, name: object.name, text, value: value.into(), changes: false, secrets: Vec::new() })
}

/// A server of muster's form: as `import` would write it.
fn server(object: &Object, row: &'static Row, notes: &mut Vec<String>) -> Result<Manifest, Problem> {
    let variable = |name: &str| std::env::var(name).ok();
    let answers = std::collections::BTreeMap::new();
    let around =
        Surroundings { answers: &answers, home: std::env::home_dir(), variable: &variable, own_authority: None };
    let draft = translate_object(object, &around).map_err(|reason| wrong(format!("`{}`: {reason}", object.name)))?;
    let name = draft.name.clone();
    notes.extend(draft.notes.iter().map(|note| format!("{name}: {note}")));
    let text = draft.text(&name, &keep::reference);
    let documents = toolcrib_catalog::documents(&text, &object.place.file);
    let value = documents.ok().and_then(|mut documents| documents.pop()).map(|document| document.value);
    let Some(value) = value.filter(Value::is_object) else {
        return Err(Problem::new(Kind::Internal, format!("the definition of `{name}` cannot be read back")));
    };
    if let Err(problems) = draft.definition(&name, &keep::reference) {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return Err(wrong(lines.join("\n")));
    }
    let secrets = draft.secrets(&name);
    Ok(Manifest { row, name: name.to_string(), text: None, value, changes: false, secrets })
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

    fn read(text: &str, kind: Option<&str>, words: &[&str]) -> Result<Vec<Manifest>, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.yaml");
        std::fs::write(&path, text).unwrap();
        let kind = kind.map(|word| KindSelection { row: kind::named(word).unwrap(), name: None });
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        manifests(&[path], kind.as_ref(), &words, Verb::Create).map(|found| found.manifests)
    }

    #[test]
    fn the_reader_knows_every_word_of_what_is_written_from_files() {
        for row in kind::TABLE {
            let is_written = row.takes(Verb::Create) && row.one != "secret" && row.one != "context";
            for word in [&[row.one, row.many], row.aliases].concat() {
                assert_eq!(kind_named(word).is_some(), is_written, "{word}");
            }
        }
    }

    #[test]
    fn documents_say_what_they_are() {
        let text = "# my server\nname: files\ncommand: npx\n";
        let [manifest] = &read(text, Some("server"), &[]).unwrap()[..] else { panic!() };
        assert_eq!((manifest.name.as_str(), manifest.text.as_deref()), ("files", Some(text)));
        assert_eq!(manifest.asked(), json!({ "name": "files", "yaml": text }));
        let wrapped = "apiVersion: muster.giantswarm.io/v1alpha1\nkind: Workflow\nmetadata: {name: w, labels: {a: b}}\nspec:\n  steps: [{id: s, tool: t}]\n";
        let text = format!("{wrapped}---\nkind: service\nname: s\nserviceClassName: c\n");
        let all = read(&text, None, &[]).unwrap();
        assert_eq!(all.len(), 2);
        let expected = json!({ "name": "w", "steps": [{ "id": "s", "tool": "t" }], "labels": { "a": "b" } });
        assert_eq!((all[0].row.one, all[0].asked()), ("workflow", expected));
        assert_eq!(all[1].asked(), json!({ "name": "s", "serviceClassName": "c" }));
        let steps = "steps: [{id: s, tool: t}]";
        let expected = json!({ "name": "x", "steps": [{ "id": "s", "tool": "t" }] });
        assert_eq!(read(steps, Some("wf"), &["x"]).unwrap()[0].asked(), expected);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        let two = "name: x\ncommand: a\n---\nname: y\ncommand: b\n";
        for (text, kind, words, part) in [
            ("", Some("server"), &[][..], "nothing can be created from"),
            ("[1]", Some("server"), &[], ":1:1: expected a map"),
            ("a: [", Some("server"), &[], "not valid YAML"),
            ("name: x", None, &[], ":1:1: which kind of thing it is"),
            ("kind: tool\nname: x", None, &[], "`kind: tool` cannot be written"),
            ("kind: workflow\nname: x", Some("server"), &[], "it is a workflow"),
            ("command: a\n", Some("server"), &[], "it has no name"),
            ("name: x\n", Some("server"), &["y"], "it is called `x`, not `y`"),
            (two, Some("server"), &["x"], "it is called `y`, not `x`"),
            ("command: a\n---\ncommand: b\n", Some("server"), &["x"], "stands at"),
            (
                "name: x\ncommand: a\n---\n\nkind: none\n",
                Some("server"),
                &[],
                ":5:1 (document 2): `kind`: `kind: none`",
            ),
            (
                "apiVersion: muster.giantswarm.io/v1\nkind: MCPServer\nmetadata: {name: x}\nspec: 1\n",
                None,
                &[],
                "`spec` is not a map",
            ),
            ("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", None, &[], "skipped `Secret` `x`"),
        ] {
            let problem = read(text, kind, words).unwrap_err();
            assert!(problem.message.contains(part), "{problem} for {text}");
        }
    }
}
