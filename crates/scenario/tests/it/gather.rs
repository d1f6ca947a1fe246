//! Which files are scenarios, and which of them are wanted.

use std::path::Path;

use toolcrib_base::Glob;
use toolcrib_scenario::{ScenarioSet, Select, gather};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn named(found: &ScenarioSet) -> Vec<&str> {
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
fn a_name_that_two_files_have_is_reported_and_no_fault() {
    let folder = folder(&[("1.yaml", A), ("2.yaml", A), ("3.yaml", B)]);
    let found = gather(folder.path()).unwrap();
    let remarks: Vec<usize> = found.scenarios.iter().map(|scenario| scenario.remarks.len()).collect();
    assert_eq!((remarks, found.wrong.len()), (vec![0, 1, 0], 0));
    assert!(found.scenarios[1].remarks[0].contains("1.yaml` has the same name"));
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let folder = folder(&[("a.yaml", A)]);
    std::fs::write(folder.path().join("large.yaml"), format!("name: x\n#{}\n", "x".repeat(10 << 20))).unwrap();
    let found = gather(folder.path()).unwrap();
    assert_eq!(named(&found), ["a"]);
    assert!(found.wrong[0].1[0].to_string().ends_with("large.yaml:1: the file has more than 4194304 bytes"));
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_told_beside_the_rest() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder(&[("a.yaml", A), ("shut/b.yaml", B)]);
    symlink("/no/such/file", folder.path().join("gone.yaml")).unwrap();
    symlink(".", folder.path().join("again")).unwrap();
    let shut = folder.path().join("shut");
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Nothing is shut for root.
    let is_open = std::fs::read_dir(&shut).is_ok();
    let found = gather(folder.path()).unwrap();
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o700)).unwrap();
    let wrong: Vec<String> = found.wrong.iter().flat_map(|(_, faults)| faults).map(ToString::to_string).collect();
    assert!(wrong.iter().any(|fault| fault.contains("gone.yaml:1: cannot be read")), "{wrong:?}");
    if is_open {
        assert_eq!(named(&found), ["a", "b"], "a link to a folder above ends");
    } else {
        assert_eq!(named(&found), ["a"]);
        assert!(wrong.iter().any(|fault| fault.contains("shut:1: the folder cannot be read")), "{wrong:?}");
    }
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
