//! Which files are scenarios, and which of them are wanted.

use std::path::Path;

use toolcrib_base::Glob;
use toolcrib_scenario::{Found, Select, gather};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn named(found: &Found) -> Vec<&str> {
    found.scenarios.iter().map(|scenario| scenario.name.as_str()).collect()
}

const A: &str = "name: a\ncategory: behavioral\nconcept: workflow\ntags: [x, y]\nsteps: [{tool: t}]\n";
const B: &str = "name: b\ncategory: integration\nsteps: [{tool: t}]\n";

#[test]
fn folders_are_searched_and_wrong_files_kept_apart() {
    let folder = folder(&[
        ("b.yml", B),
        ("deep/er/a.yaml", A),
        ("wrong.yaml", "name: c\nstep: []\n"),
        ("bytes.yaml", "name: \u{0}"),
        (".hidden/d.yaml", A),
        ("notes.txt", "no"),
    ]);
    std::fs::write(folder.path().join("latin.yaml"), b"name: \xff").unwrap();
    let found = gather(folder.path()).unwrap();
    assert_eq!(named(&found), ["b", "a"]);
    let wrong: Vec<String> = found.wrong.iter().flat_map(|(_, faults)| faults).map(ToString::to_string).collect();
    assert_eq!(found.wrong.len(), 3, "{wrong:?}");
    assert!(
        wrong.iter().any(|fault| fault.contains("wrong.yaml:2: `step`: is not a known key (did you mean `steps`?)"))
    );
    assert!(wrong.iter().any(|fault| fault.contains("latin.yaml:1: is not UTF-8")), "{wrong:?}");
    assert_eq!(found.unread().len(), 3);
    assert_eq!(named(&gather(&folder.path().join("b.yml")).unwrap()), ["b"]);
    assert!(gather(Path::new("/no/such/folder")).is_err());
    assert!(gather(tempfile::tempdir().unwrap().path()).unwrap_err().to_string().contains("no `.yaml` file"));
}

#[test]
fn filters_choose() {
    let folder = folder(&[("a.yaml", A), ("b.yaml", B)]);
    let found = gather(folder.path()).unwrap();
    let word = |word: &str| vec![word.to_owned()];
    let check = |select: Select, expected: &[&str]| {
        let taken = found.scenarios.iter().filter(|scenario| select.takes(scenario));
        let taken: Vec<&str> = taken.map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(taken, expected, "{select:?}");
        assert_eq!(select.is_everything(), expected.len() == 2);
    };
    check(Select::default(), &["a", "b"]);
    check(Select { names: vec![Glob::new("b*").unwrap()], ..Select::default() }, &["b"]);
    check(Select { categories: word("behavioral"), ..Select::default() }, &["a"]);
    check(Select { concepts: word("workflow"), ..Select::default() }, &["a"]);
    check(Select { tags: word("y"), ..Select::default() }, &["a"]);
    check(Select { tags: word("y"), categories: word("integration"), ..Select::default() }, &[]);
}
