//! The catalogue at its public edge, over real folders.
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use toolcrib_base::task::Scope;
use toolcrib_base::{ProfileName, ServerName};
use toolcrib_catalog::{Catalog, Changes, ProfileDefinition, load, reload, watch};
use toolcrib_testkit::{DEADLINE, eventually_holds, eventually_sees};

struct Home(tempfile::TempDir);

impl Home {
    /// A home folder with these files, each a path and its content.
    fn with(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            home.write(path, text.as_bytes());
        }
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.path().join(path)).unwrap();
    }
}

fn server(name: &str, command: &str) -> String {
    format!("name: {name}\ncommand: {command}\n")
}

fn servers(loaded: &Catalog) -> Vec<&str> {
    loaded.servers.keys().map(ServerName::as_str).collect()
}

fn profiles(loaded: &Catalog) -> Vec<&str> {
    loaded.profiles.keys().map(ProfileName::as_str).collect()
}

fn problems(loaded: &Catalog) -> Vec<String> {
    loaded.problems.iter().map(ToString::to_string).collect()
}

fn entry(name: &str, title: &str) -> String {
    format!("name: {name}\ntitle: {title}\nruntime: {{command: x}}\n")
}

/// The title of an entry, and where it and what it hides come from.
fn available(loaded: &Catalog, name: &str) -> Option<(String, String, Vec<String>)> {
    let available = loaded.registry.get(name)?;
    let shadows = available.shadows.iter().map(ToString::to_string).collect();
    Some((available.entry.title.clone().unwrap_or_default(), available.origin.to_string(), shadows))
}

fn title(loaded: &Catalog, name: &str) -> Option<String> {
    loaded.servers.get(name).and_then(|server| server.title.clone())
}

#[test]
fn one_bad_file_never_stops_the_others() {
    let home = Home::with(&[
        ("servers/b.yaml", &server("b", "x")),
        ("servers/a.yml", &server("a", "x")),
        ("servers/j.json", r#"{"name": "j", "transport": "http", "url": "https://example.com"}"#),
        ("servers/bad.yaml", "name: bad\n"),
        ("servers/empty.yaml", ""),
        ("servers/notes.txt", "not a definition"),
        ("servers/.hidden.yaml", "not a definition"),
        ("servers/Upper.yaml", &server("Upper", "x")),
        ("profiles/team.yaml", "name: team\nread_only: true\n"),
    ]);
    home.write("servers/latin.yaml", b"name: latin\ntitle: caf\xE9\n");
    home.write("servers/large.yaml", &vec![b'#'; 1024 * 1024 + 1]);
    fs::create_dir(home.path().join("servers/folder.yaml")).unwrap();

    let loaded = load(home.path());
    assert_eq!(servers(&loaded), ["a", "b", "j"]);
    assert_eq!(profiles(&loaded), ["default", "team"]);
    assert_eq!(
        problems(&loaded),
        [
            "servers/Upper.yaml:1:7: `name`: expected a name, got `Upper`",
            "servers/bad.yaml:1:1: `command`: expected the program to start, got nothing",
            "servers/empty.yaml:1:1: expected a definition, got nothing: the file is empty",
            "servers/folder.yaml: expected a file, got something else",
            "servers/large.yaml: expected a file of at most 1048576 bytes, got a larger one",
            "servers/latin.yaml:2:11: expected UTF-8 text, got other bytes",
        ]
    );
    assert_eq!(problems(&load(home.path())), problems(&loaded));
    assert!(loaded.stale.is_empty());
}

#[test]
fn without_files_there_is_the_built_in_profile() {
    let home = Home::with(&[]);
    for path in [home.path().to_owned(), home.path().join("none")] {
        let loaded = load(&path);
        assert_eq!((loaded.servers.len(), loaded.problems.len()), (0, 0));
        let default = &loaded.profiles["default"];
        assert_eq!(**default, ProfileDefinition::built_in());
    }
}

/// The built-in profile shows everything, so it must not stand in for a file that wanted to show less.
#[test]
fn a_wrong_default_profile_opens_nothing() {
    let home = Home::with(&[("profiles/default.yaml", "name: default\ntools: {alow: []}\n")]);
    let loaded = load(home.path());
    assert_eq!(profiles(&loaded), [""; 0]);
    assert_eq!(loaded.problems.len(), 1);

    home.write("profiles/default.yaml", b"name: default\ntools: {allow: []}\n");
    let (loaded, _) = reload(&loaded, home.path());
    assert!(loaded.profiles["default"].tools.allow.is_empty());

    home.remove("profiles/default.yaml");
    let (loaded, changes) = reload(&loaded, home.path());
    assert_eq!(*loaded.profiles["default"], ProfileDefinition::built_in());
    assert_eq!(changes.profiles.changed, [ProfileName::new("default").unwrap()]);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_listed_opens_nothing_and_keeps_what_it_said() {
    // A file in the folder's place cannot be listed either, and root cannot be locked out of a real one.
    let home = Home::with(&[("profiles", "not a folder")]);
    let loaded = load(home.path());
    assert_eq!(profiles(&loaded), [""; 0]);
    assert!(problems(&loaded)[0].starts_with("profiles: cannot be listed: "), "{:?}", loaded.problems);

    let home = Home::with(&[("profiles/team.yaml", "name: team\n")]);
    let before = load(home.path());
    fs::remove_dir_all(home.path().join("profiles")).unwrap();
    home.write("profiles", b"not a folder");
    let (after, changes) = reload(&before, home.path());
    assert_eq!(profiles(&after), ["default", "team"]);
    assert!(changes.is_empty() && after.problems.len() == 1);
}

#[test]
fn two_files_of_one_name_are_both_named() {
    let home = Home::with(&[("servers/a.yml", &server("a", "second")), ("servers/a.yaml", &server("a", "first"))]);
    let before = load(home.path());
    assert_eq!(problems(&before), ["servers/a.yml: ignored: `a` is already defined by `servers/a.yaml`"]);
    assert!(format!("{:?}", before.servers["a"]).contains("first"));
    let (same, _) = reload(&before, home.path());
    assert_eq!(problems(&same), problems(&before));

    home.remove("servers/a.yaml");
    let (after, changes) = reload(&same, home.path());
    assert_eq!((problems(&after).len(), changes.servers.changed.len()), (0, 1));
    assert!(format!("{:?}", after.servers["a"]).contains("second"));
}

#[test]
fn reloading_tells_what_is_different() {
    let home = Home::with(&[
        ("servers/same.yaml", &server("same", "x")),
        ("servers/spaced.yaml", &server("spaced", "x")),
        ("servers/other.yaml", &server("other", "x")),
        ("servers/gone.yaml", &server("gone", "x")),
        ("profiles/team.yaml", "name: team\n"),
    ]);
    let before = load(home.path());
    home.write("servers/spaced.yaml", b"# the same with a comment\nname:   spaced\ncommand: x\n");
    home.write("servers/other.yaml", server("other", "y").as_bytes());
    home.write("servers/new.yaml", server("new", "x").as_bytes());
    home.write("profiles/team.yaml", b"name: team\nread_only: true\n");
    home.remove("servers/gone.yaml");

    let (after, changes) = reload(&before, home.path());
    let names = |names: &[ServerName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&changes.servers.added), ["new"]);
    assert_eq!(names(&changes.servers.removed), ["gone"]);
    assert_eq!(names(&changes.servers.changed), ["other"]);
    assert_eq!(changes.profiles.changed, [ProfileName::new("team").unwrap()]);
    assert!(Arc::ptr_eq(&before.servers["same"], &after.servers["same"]));
    assert!(Arc::ptr_eq(&before.servers["spaced"], &after.servers["spaced"]));
    assert!(Changes::between(&after, &reload(&after, home.path()).0).is_empty());
}

#[test]
fn what_became_bad_keeps_its_last_good_version() {
    let home = Home::with(&[("servers/a.yaml", &server("a", "x"))]);
    let mut loaded = load(home.path());
    for bytes in [&b""[..], b"name: [", b"name: a\n", b"\xFF", b"name: b\ncommand: x\n"] {
        home.write("servers/a.yaml", bytes);
        let (next, changes) = reload(&loaded, home.path());
        assert!(changes.is_empty() && servers(&next) == ["a"], "{bytes:?}");
        assert_eq!(next.problems.len(), 1, "{bytes:?}");
        assert_eq!(next.stale.iter().collect::<Vec<_>>(), [Path::new("servers/a.yaml")]);
        loaded = next;
    }
    home.write("servers/a.yaml", server("a", "y").as_bytes());
    let (fixed, changes) = reload(&loaded, home.path());
    assert_eq!((fixed.problems.len(), fixed.stale.len(), changes.servers.changed.len()), (0, 0, 1));

    home.write("servers/a.yaml", b"");
    let (bad, _) = reload(&fixed, home.path());
    home.remove("servers/a.yaml");
    let (gone, changes) = reload(&bad, home.path());
    assert_eq!((gone.servers.len(), gone.problems.len(), changes.servers.removed.len()), (0, 0, 1));
}

#[cfg(unix)]
#[test]
fn links_are_followed_to_files_only() {
    use std::os::unix::fs::symlink;
    let home = Home::with(&[("elsewhere/real.yaml", &server("linked", "x"))]);
    fs::create_dir(home.path().join("servers")).unwrap();
    symlink(home.path().join("elsewhere/real.yaml"), home.path().join("servers/linked.yaml")).unwrap();
    symlink("/nowhere/at/all", home.path().join("servers/dangling.yaml")).unwrap();
    symlink("/dev/zero", home.path().join("servers/endless.yaml")).unwrap();
    symlink("loop.yaml", home.path().join("servers/loop.yaml")).unwrap();
    let loaded = load(home.path());
    assert_eq!(servers(&loaded), ["linked"]);
    let files: Vec<_> = loaded.problems.iter().map(|problem| problem.file.to_str().unwrap()).collect();
    assert_eq!(files, ["servers/dangling.yaml", "servers/endless.yaml", "servers/loop.yaml"]);
}

#[test]
fn hostile_files_are_answered() {
    let bomb = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        let inner = format!("*a{}, ", level - 1).repeat(9);
        text + &format!("a{level}: &a{level} [{inner}]\n")
    });
    let many_keys: String = (0..60_000).map(|index| format!("key{index}: 1\n")).collect();
    let same_keys = "a: 1\n".repeat(100_000);
    for text in [bomb, many_keys, same_keys, "[".repeat(900_000), "- ".repeat(400_000), "&a ".repeat(300_000)] {
        let home = Home::with(&[("servers/a.yaml", &text), ("servers/ok.yaml", &server("ok", "x"))]);
        let loaded = load(home.path());
        assert_eq!(servers(&loaded), ["ok"]);
        assert!((1..=51).contains(&loaded.problems.len()));
    }
}

/// Waits until a reading satisfies `is_it`.
async fn until(
    readings: &mut tokio::sync::watch::Receiver<Arc<Catalog>>,
    is_it: impl FnMut(&Arc<Catalog>) -> bool,
) -> Arc<Catalog> {
    eventually_sees("a reading with the change", readings, is_it).await
}

#[tokio::test]
async fn changes_are_reported() {
    let home = Home::with(&[("servers/a.yaml", "name: a\ncommand: x\ntitle: first\n")]);
    let scope = Scope::new();
    let mut readings = watch(home.path(), &scope).await;
    assert_eq!(title(&readings.borrow(), "a").as_deref(), Some("first"));

    home.write("servers/a.yaml", b"name: a\ncommand: x\ntitle: second\n");
    until(&mut readings, |loaded| title(loaded, "a").as_deref() == Some("second")).await;

    // Bad: the last good version stays, the problem is told.
    home.write("servers/a.yaml", b"name: a\ncommand: [\n");
    let loaded = until(&mut readings, |loaded| !loaded.problems.is_empty()).await;
    assert_eq!(title(&loaded, "a").as_deref(), Some("second"));

    // By rename, as editors write, and gone.
    home.write("new", server("b", "x").as_bytes());
    fs::rename(home.path().join("new"), home.path().join("servers/b.yaml")).unwrap();
    home.remove("servers/a.yaml");
    until(&mut readings, |loaded| servers(loaded) == ["b"] && loaded.problems.is_empty()).await;

    // A folder that was not there at the start, and one that is replaced.
    home.write("profiles/team.yaml", b"name: team\n");
    until(&mut readings, |loaded| profiles(loaded) == ["default", "team"]).await;
    home.write("profiles/more.yaml", b"name: more\n");
    until(&mut readings, |loaded| profiles(loaded) == ["default", "more", "team"]).await;
    fs::remove_dir_all(home.path().join("servers")).unwrap();
    home.write("servers/c.yaml", server("c", "x").as_bytes());
    until(&mut readings, |loaded| servers(loaded) == ["c"]).await;
    home.write("servers/d.yaml", server("d", "x").as_bytes());
    until(&mut readings, |loaded| servers(loaded) == ["c", "d"]).await;

    assert!(scope.close(DEADLINE).await, "the watching ends when it is told to");
}

/// Each piece would be a whole profile that shows more than the last good one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn half_of_a_file_is_not_taken_in_however_whole_it_looks() {
    use std::io::Write;

    let narrow = "name: team\ntools: {allow: [\"a/*\"]}\n";
    let home = Home::with(&[("profiles/team.yaml", narrow), ("servers/a.yaml", &server("a", "x"))]);
    let scope = Scope::new();
    let mut readings = watch(home.path(), &scope).await;
    let before = readings.borrow().profiles["team"].clone();
    let mut writer = fs::File::create(home.path().join("profiles/team.yaml")).unwrap();
    let mut new = fs::File::create(home.path().join("profiles/new.yaml")).unwrap();
    new.write_all(b"name: new\n").unwrap();
    for (number, piece) in ["", "name: team\n", "tools:\n", "  allow: [\"*\"]\n"].into_iter().enumerate() {
        writer.write_all(piece.as_bytes()).unwrap();
        // What is written and closed meanwhile shows that the files were read.
        let name = format!("s{number}");
        home.write(&format!("servers/{name}.yaml"), server(&name, "x").as_bytes());
        let loaded = until(&mut readings, |loaded| loaded.servers.contains_key(name.as_str())).await;
        assert_eq!(loaded.profiles["team"], before, "after `{piece}`");
        assert!(!loaded.profiles.contains_key("new"));
        assert!(
            problems(&loaded)[0].starts_with("profiles/new.yaml: is still being written"),
            "{:?}",
            problems(&loaded)
        );
        // Whoever reads besides, such as an operation that writes another file, knows it too.
        let (besides, changes) = reload(&loaded, home.path());
        assert!(changes.is_empty() && besides.profiles["team"] == before);
    }
    writer.write_all(b"  deny: [\"a/remove\"]\n").unwrap();
    drop((writer, new));
    let is_whole = |loaded: &Arc<Catalog>| loaded.profiles.contains_key("new") && loaded.profiles["team"] != before;
    let loaded = until(&mut readings, is_whole).await;
    assert_eq!(loaded.profiles["team"].tools.deny.len(), 1);
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert!(scope.close(DEADLINE).await);
}

#[test]
fn entries_stand_in_front_of_each_other_and_say_so() {
    let home = Home::with(&[
        ("registry/official/git.json", r#"{"name": "git", "title": "official"}"#),
        ("registry/git.yaml", &entry("git", "own")),
        ("registry/custom/git.yaml", &entry("git", "custom")),
        ("registry/custom/mine.yaml", &entry("mine", "mine")),
    ]);
    let loaded = load(home.path());
    assert_eq!(problems(&loaded), [""; 0]);
    let expected = |title: &str, origin: &str, shadows: &[&str]| {
        Some((title.to_owned(), origin.to_owned(), shadows.iter().map(ToString::to_string).collect::<Vec<_>>()))
    };
    let all = ["registry/git.yaml", "registry/official/git.json", "built in"];
    assert_eq!(available(&loaded, "git"), expected("custom", "registry/custom/git.yaml", &all));
    assert_eq!(available(&loaded, "mine"), expected("mine", "registry/custom/mine.yaml", &[]));
    assert_eq!(available(&loaded, "time").unwrap().1, "built in");
    assert!(loaded.warnings.iter().any(|warning| warning.file.ends_with("mine.yaml") && warning.field == "homepage"));

    home.remove("registry/custom/git.yaml");
    let (loaded, changes) = reload(&loaded, home.path());
    assert_eq!(available(&loaded, "git"), expected("own", "registry/git.yaml", &all[1..]));
    assert_eq!((changes.registry.changed, changes.servers.is_empty()), (vec![ServerName::new("git").unwrap()], true));
}

/// Whoever put a file in front of an entry did not want that entry.
#[test]
fn a_wrong_entry_does_not_uncover_what_it_hides() {
    let home = Home::with(&[("registry/custom/git.yaml", "name: git\nruntime: {\n")]);
    let loaded = load(home.path());
    assert!(!loaded.registry.contains_key("git") && loaded.registry.contains_key("time"));
    let told = problems(&loaded);
    assert!(told[0].starts_with("registry/custom/git.yaml:") && told.len() == 2, "{told:?}");
    assert_eq!(told[1], "registry/custom/git.yaml: is invalid, and hides the entry `git` (built in)");

    home.write("registry/custom/git.yaml", entry("git", "custom").as_bytes());
    let (loaded, _) = reload(&loaded, home.path());
    home.write("registry/custom/git.yaml", b"name: git\ntitle: ha");
    let (loaded, _) = reload(&loaded, home.path());
    assert_eq!(available(&loaded, "git").unwrap().0, "ha", "half a file may be a whole one");
    home.write("registry/custom/git.yaml", b"name: git\ntitle: \"ha");
    let (loaded, changes) = reload(&loaded, home.path());
    assert_eq!(available(&loaded, "git").unwrap().0, "ha");
    assert!(changes.is_empty() && loaded.stale.len() == 1);
}

#[test]
fn two_entries_of_one_name_in_one_folder_are_reported() {
    let home = Home::with(&[
        ("registry/custom/a.json", r#"{"name": "twin", "title": "first"}"#),
        ("registry/custom/b.json", r#"{"title": "second", "name": "twin"}"#),
    ]);
    let loaded = load(home.path());
    let expected = "registry/custom/b.json:1:29: `name`: ignored: entry `twin` is already defined by \
                    `registry/custom/a.json:1:10`";
    assert_eq!(problems(&loaded), [expected]);
    assert_eq!(available(&loaded, "twin").unwrap().0, "first");
}

#[tokio::test]
async fn changes_of_the_registry_are_reported() {
    let home = Home::with(&[]);
    let scope = Scope::new();
    let mut readings = watch(home.path(), &scope).await;
    let title = |loaded: &Catalog| available(loaded, "desk").map(|(title, ..)| title);
    assert_eq!(title(&readings.borrow()), None);
    home.write("registry/custom/desk.json", br#"{"name": "desk", "title": "one"}"#);
    until(&mut readings, |loaded| title(loaded).as_deref() == Some("one")).await;
    home.write("registry/custom/desk.json", br#"{"name": "desk", "title": "two"}"#);
    until(&mut readings, |loaded| title(loaded).as_deref() == Some("two")).await;
    home.write("registry/custom/desk.json", br#"{"name": "desk", "title": "thr"#);
    let loaded = until(&mut readings, |loaded| !loaded.problems.is_empty()).await;
    assert_eq!(title(&loaded).as_deref(), Some("two"));
    home.remove("registry/custom/desk.json");
    until(&mut readings, |loaded| title(loaded).is_none() && loaded.problems.is_empty()).await;
    assert!(scope.close(DEADLINE).await, "the watching ends when it is told to");
}

#[tokio::test]
async fn watching_ends_with_the_last_receiver() {
    let home = Home::with(&[]);
    let scope = Scope::new();
    let readings = watch(home.path(), &scope).await;
    assert_eq!(profiles(&readings.borrow()), ["default"]);
    let task_alive = Arc::downgrade(&readings.borrow().clone());
    drop(readings);
    // The task holds the last reading until it ends.
    eventually_holds("the end of the task", || task_alive.upgrade().is_none()).await;
}
