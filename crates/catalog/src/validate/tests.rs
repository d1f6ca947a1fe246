//! What is looked at, and what is told of it.

use std::fs;

use super::*;

fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

fn all(home: &Path) -> Vec<FileReport> {
    validate(&Scope { home: home.to_owned(), ..Scope::default() }).unwrap()
}

fn problems(checked: &[FileReport]) -> Vec<String> {
    checked.iter().flat_map(|one| &one.problems).map(ToString::to_string).collect()
}

const ENTRY: &str = "name: NAME\nruntime: {command: x}\n";

#[test]
fn nothing_passes_unseen() {
    let home =
        home(&[("registry/notes.txt", "x"), ("registry/custom/.hidden.yaml", "x"), ("elsewhere/a.yaml", "name: a\n")]);
    let scope = |paths: &[&str]| Scope {
        home: home.path().to_owned(),
        paths: paths.iter().map(|path| home.path().join(path)).collect(),
        kind: None,
    };
    for (paths, expected) in [
        (&[][..], "no definition to validate in "),
        (&["registry"], "no definition to validate in "),
        (&["elsewhere", "registry"], "no definition to validate in "),
        (&["absent"], "cannot read "),
    ] {
        let error = validate(&scope(paths)).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(Problem::from(&error).hint.is_some());
    }
    assert_eq!(validate(&scope(&["elsewhere"])).unwrap().len(), 1);
}

#[test]
fn folders_say_what_files_are_at_any_depth() {
    let home = home(&[
        ("registry/a/b/deep.yaml", &ENTRY.replace("NAME", "deep")),
        ("servers/s.yaml", "name: s\ncommand: x\n"),
        ("profiles/p.yaml", "name: p\nexposure: all\n"),
    ]);
    let checked = all(home.path());
    let seen: Vec<_> = checked.iter().map(|one| (one.kind, one.name.as_deref(), one.problems.len())).collect();
    assert_eq!(
        seen,
        [
            (DefinitionKind::Entry, Some("deep"), 0),
            (DefinitionKind::Server, Some("s"), 0),
            (DefinitionKind::Profile, None, 1),
        ]
    );
    assert!(problems(&checked)[0].starts_with("profiles/p.yaml:2:11: `exposure`: "), "{checked:?}");
    let named =
        Scope { paths: vec![home.path().join("servers")], kind: Some(DefinitionKind::Entry), ..Scope::default() };
    assert_eq!(validate(&named).unwrap()[0].problems.len(), 1);
}

#[cfg(unix)]
#[test]
fn folders_that_lead_back_end() {
    let home = home(&[("registry/a.yaml", &ENTRY.replace("NAME", "a"))]);
    std::os::unix::fs::symlink(home.path().join("registry"), home.path().join("registry/again")).unwrap();
    std::os::unix::fs::symlink(home.path().join("registry"), home.path().join("registry/again.yaml")).unwrap();
    assert_eq!(all(home.path()).len(), 1);
    let deep: PathBuf = std::iter::repeat_n("d", 40).collect();
    fs::create_dir_all(home.path().join("registry").join(deep)).unwrap();
    let scope = Scope { home: home.path().to_owned(), ..Scope::default() };
    assert!(matches!(validate(&scope), Err(ValidateError::TooMany { .. })));
}

#[test]
fn two_entries_of_one_name_are_reported_with_both_places() {
    let home = home(&[
        ("registry/custom/a.json", "{\n  \"name\": \"twin\"\n}"),
        ("registry/custom/twin.yaml", &ENTRY.replace("NAME", "twin")),
        ("registry/official/twin.yaml", &ENTRY.replace("NAME", "twin")),
    ]);
    let told = problems(&all(home.path()));
    assert_eq!(
        told,
        [
            "registry/custom/twin.yaml:1:7: `name`: expected one entry `twin`, got this one beside `registry/custom/a.json:2:11`"
        ]
    );
}

#[test]
fn what_hides_another_is_reported() {
    let home = home(&[("registry/custom/git.yaml", &ENTRY.replace("NAME", "git"))]);
    assert_eq!(all(home.path())[0].notes, ["overrides the entry `git` (built in)"]);
    let named = Scope { paths: vec![home.path().join("registry")], ..Scope::default() };
    assert_eq!(validate(&named).unwrap()[0].notes.len(), 1);
}

#[test]
fn schemas_that_no_one_accepts_are_reported() {
    let check = |schema: &str, expected: &str| {
        let home = home(&[
            (
                "registry/a.json",
                &format!("{{\"name\": \"a\",\n\"tools\": [{{\"name\": \"t\",\n\"inputSchema\": {schema}}}]}}"),
            ),
            ("servers/a.yaml", &format!("name: a\ncommand: x\ntools: [{{name: t, inputSchema: {schema}}}]\n")),
        ]);
        let told = problems(&all(home.path()));
        assert_eq!(told.len(), 2, "{schema}: {told:?}");
        assert!(told[0].starts_with(&format!("registry/a.json:3:16: `tools[0].inputSchema`: {expected}")), "{told:?}");
        assert!(told[1].starts_with(&format!("servers/a.yaml:3:32: `tools[0].inputSchema`: {expected}")), "{told:?}");
    };
    check(
        "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"strnig\"}}}",
        "expected a JSON Schema, got one that is not valid",
    );
    check("{\"type\": \"object\", \"properties\": [1]}", "expected a JSON Schema, got one that is not valid");
    check("{\"properties\": {\"a\": {\"pattern\": \"(\"}}}", "expected a JSON Schema, got one that is not valid");
    check(
        "{\"properties\": {\"a\": {\"$ref\": \"https://example.com/x\"}}}",
        "expected a JSON Schema, got one that is not valid",
    );
    check("{\"type\": \"string\"}", "expected a JSON Schema with `type: object`");
    check("7", "expected a JSON Schema, got `7`");
}

#[test]
fn a_chain_of_references_is_followed_to_its_end() {
    let chain: Vec<String> = (0..127).map(|n| format!("d{n}: {{$ref: '#/$defs/d{}'}}", n + 1)).collect();
    let schema = format!(
        "{{type: object, properties: {{a: {{$ref: '#/$defs/d0'}}}}, $defs: {{{}, d127: {{type: string}}}}}}",
        chain.join(", ")
    );
    let home =
        home(&[("servers/a.yaml", &format!("name: a\ncommand: x\ntools: [{{name: t, inputSchema: {schema}}}]\n"))]);
    assert_eq!(problems(&all(home.path())), [""; 0]);
}

/// Compiling or following them could take all memory or the whole stack.
#[test]
fn schemas_with_too_many_references_or_patterns_are_not_looked_at() {
    let chain: Vec<String> = (0..200).map(|n| format!("d{n}: {{$ref: '#/$defs/d{}'}}", n + 1)).collect();
    let patterns: Vec<String> = (0..100).map(|n| format!("'^{n}(a{{500}}){{90}}': {{}}")).collect();
    for schema in
        [format!("$defs: {{{}}}", chain.join(", ")), format!("patternProperties: {{{}}}", patterns.join(", "))]
    {
        let text = format!("name: a\ncommand: x\ntools: [{{name: t, inputSchema: {{{schema}}}}}]\n");
        let checked = all(home(&[("servers/a.yaml", &text)]).path());
        assert_eq!(problems(&checked), [""; 0]);
        assert!(checked[0].warnings[0].message.starts_with("is not checked: "), "{checked:?}");
    }
}
