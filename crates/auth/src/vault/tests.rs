//! The vault against a disk: what others change, swap, lock, fill or lose.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use toolcrib_base::{ProfileName, ServerName};

use super::*;

/// A keyring in memory, or one that always fails.
#[derive(Debug, Default)]
struct Memory {
    secrets: Mutex<std::collections::BTreeMap<String, Secret>>,
    is_locked: bool,
    is_absent: bool,
}

impl Memory {
    fn check(&self) -> Result<(), KeyringError> {
        match (self.is_locked, self.is_absent) {
            (true, _) => Err(KeyringError::Locked),
            (_, true) => Err(KeyringError::Absent { why: "test".into() }),
            _ => Ok(()),
        }
    }
}

impl Keyring for Memory {
    fn get(&self, name: &str) -> Result<Option<Secret>, KeyringError> {
        self.check()?;
        Ok(self.secrets.lock().unwrap().get(name).cloned())
    }

    fn set(&self, name: &str, secret: &Secret) -> Result<(), KeyringError> {
        self.check()?;
        self.secrets.lock().unwrap().insert(name.to_owned(), secret.clone());
        Ok(())
    }
}

fn name(text: &str) -> EntryName {
    EntryName::new(text).unwrap()
}

fn listed(entry: &str, reach: Reach) -> SecretEntry {
    SecretEntry { name: name(entry), reach, set_at: Timestamp(1_000) }
}

fn put(vault: &Vault, entry: &str, value: &str) -> Result<bool, VaultError> {
    vault.set(&listed(entry, Reach::default()), &Secret::new(value), KeyPreference::Keyring)
}

#[track_caller]
fn value(vault: &Vault, entry: &str) -> String {
    vault.get(&name(entry), &User::default()).unwrap().expose().to_owned()
}

fn names(vault: &Vault) -> Vec<String> {
    vault.list().unwrap().iter().map(|listed| listed.name.to_string()).collect()
}

/// A vault with `a` and `b` and a key file.
fn two() -> (tempfile::TempDir, Vault) {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(&folder.path().join("state"), None);
    put(&vault, "b", "value of b").unwrap();
    put(&vault, "a", "value of a").unwrap();
    (folder, vault)
}

/// A vault of another process.
fn other(vault: &Vault) -> Vault {
    Vault::new(vault.path().parent().unwrap(), None)
}

/// The file as JSON, changed.
fn tamper(vault: &Vault, change: impl FnOnce(&mut serde_json::Value)) {
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(vault.path()).unwrap()).unwrap();
    change(&mut json);
    fs::write(vault.path(), serde_json::to_vec(&json).unwrap()).unwrap();
}

#[test]
fn secrets_are_set_replaced_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(&folder.path().join("state"), None);
    assert_eq!(vault.list().unwrap(), []);
    assert!(matches!(vault.get(&name("a"), &User::default()), Err(VaultError::Unknown { .. })));
    assert!(matches!(vault.remove(&name("a")), Err(VaultError::Unknown { .. })));
    assert!(!vault.path().exists(), "asking makes nothing");
    assert!(!put(&vault, "b", "one").unwrap());
    assert!(!put(&vault, "a", "ä\nsecond line").unwrap());
    assert!(put(&vault, "b", "two").unwrap());
    assert_eq!((value(&vault, "a").as_str(), value(&vault, "b").as_str()), ("ä\nsecond line", "two"));
    assert_eq!(names(&vault), ["a", "b"]);
    assert_eq!(vault.list().unwrap()[0].set_at, Timestamp(1_000));
    let text = fs::read_to_string(vault.path()).unwrap();
    assert!(!text.contains("two") && !text.contains("second line"), "{text}");
    vault.remove(&name("a")).unwrap();
    assert_eq!(names(&vault), ["b"]);
    for (file, mode) in
        [("state", 0o700), ("state/vault", 0o600), ("state/vault.key", 0o600), ("state/vault.lock", 0o600)]
    {
        assert_eq!(fs::metadata(folder.path().join(file)).unwrap().permissions().mode() & 0o777, mode, "{file}");
    }
    assert_eq!(fs::read_dir(folder.path().join("state")).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn what_no_variable_can_hold_is_refused() {
    let (_folder, vault) = two();
    let before = fs::read(vault.path()).unwrap();
    for (wrong, what) in [("", "is empty"), ("a\0b", "contains a NUL"), (&*"x".repeat(VALUE_BYTES + 1), "is too long")]
    {
        let error = put(&vault, "c", wrong).unwrap_err();
        assert!(error.to_string().contains(what) && !error.hint().is_empty(), "{error}");
    }
    assert_eq!(fs::read(vault.path()).unwrap(), before);
    put(&vault, "c", &"x".repeat(VALUE_BYTES)).unwrap();
    assert_eq!(value(&other(&vault), "c").len(), VALUE_BYTES);
}

#[test]
fn several_are_set_together_or_not_at_all() {
    let (_folder, vault) = two();
    let before = fs::read(vault.path()).unwrap();
    let (a, b) = (listed("new-a", Reach::default()), listed("new-b", Reach::default()));
    let (good, bad) = (Secret::new("x"), Secret::new("x\0"));
    assert!(matches!(vault.set_all(&[(&a, &good), (&b, &bad)], KeyPreference::File), Err(VaultError::Value { .. })));
    assert_eq!(vault.set_all(&[], KeyPreference::File).unwrap(), 0);
    assert_eq!(fs::read(vault.path()).unwrap(), before);
    assert_eq!(vault.set_all(&[(&a, &good), (&b, &good), (&a, &good)], KeyPreference::File).unwrap(), 1);
    assert_eq!((value(&vault, "new-a"), names(&vault).len()), ("x".to_owned(), 4));
}

#[test]
fn an_unknown_name_tells_the_nearest() {
    let (_folder, vault) = two();
    put(&vault, "github", "x").unwrap();
    let hint = |entry: &str| vault.get(&name(entry), &User::default()).unwrap_err().hint();
    assert_eq!(hint("gihub"), "did you mean `github`?");
    assert_eq!(
        hint("something-else"),
        "list secrets with `toolcrib secret list`, or set it with `toolcrib secret set something-else`"
    );
    assert_eq!(vault.remove(&name("githup")).unwrap_err().hint(), "did you mean `github`?");
}

#[test]
fn an_entry_is_for_those_it_names() {
    let (_folder, vault) = two();
    let (files, mail, work) =
        (ServerName::new("files").unwrap(), ServerName::new("mail").unwrap(), ProfileName::new("work").unwrap());
    let reach = Reach::new(vec![files.clone()], vec![work.clone()]);
    vault.set(&listed("c", reach.clone()), &Secret::new("x"), KeyPreference::Keyring).unwrap();
    let ask = |server, profile| other(&vault).get(&name("c"), &User { server, profile });
    assert_eq!(ask(Some(&files), Some(&work)).unwrap().expose(), "x");
    for (server, profile) in [(Some(&files), None), (Some(&mail), Some(&work)), (None, Some(&work)), (None, None)] {
        let error = ask(server, profile).unwrap_err();
        assert!(matches!(error, VaultError::Forbidden { .. }), "{error}");
    }
    let error = ask(Some(&mail), Some(&work)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "secret `c` is not allowed here: its `servers` are `files`, but this is server `mail`"
    );
    assert!(error.hint().contains("toolcrib secret set c --server"));
    assert_eq!(vault.list().unwrap()[2].reach, reach);
}

#[test]
fn entries_cannot_be_swapped_renamed_widened_or_taken_out() {
    type Change = fn(&mut serde_json::Value);
    let changes: [(&str, Change); 8] = [
        ("swapped", |json| {
            let one = json["entries"][0]["value"].take();
            let other = json["entries"][1]["value"].take();
            json["entries"][0]["value"] = other;
            json["entries"][1]["value"] = one;
        }),
        ("renamed", |json| json["entries"][1]["name"] = "c".into()),
        ("given to servers", |json| json["entries"][0]["servers"] = serde_json::json!(["files"])),
        ("given to profiles", |json| json["entries"][0]["profiles"] = serde_json::json!(["work"])),
        ("dated", |json| json["entries"][0]["set_at"] = 7.into()),
        ("taken out", |json| drop(json["entries"].as_array_mut().unwrap().pop())),
        ("doubled", |json| {
            let first = json["entries"][0].clone();
            json["entries"].as_array_mut().unwrap().insert(0, first);
        }),
        ("moved", |json| json["key_in"] = "keyring".into()),
    ];
    for (what, change) in changes {
        let (_folder, vault) = two();
        tamper(&vault, change);
        for vault in [&vault, &other(&vault)] {
            let error = vault.get(&name("a"), &User::default()).unwrap_err();
            assert!(matches!(error, VaultError::Damaged { .. }), "{what}: {error}");
            assert!(matches!(put(vault, "a", "new"), Err(VaultError::Damaged { .. })), "{what}");
        }
    }
}

#[test]
fn a_value_is_bound_to_its_entry_even_under_a_good_seal() {
    let (_folder, vault) = two();
    let Read { contents, key, .. } = vault.read().unwrap().unwrap();
    let mut contents = (*contents).clone();
    let one = contents.entries[0].clone();
    contents.entries[0].reach = Reach::new(vec![ServerName::new("files").unwrap()], vec![]);
    contents.entries[1] = Entry { name: name("b"), ..one };
    vault.write(contents, &key).unwrap();
    let (files, vault) = (ServerName::new("files").unwrap(), other(&vault));
    for entry in ["a", "b"] {
        let error = vault.get(&name(entry), &User { server: Some(&files), profile: None }).unwrap_err();
        assert!(matches!(error, VaultError::Damaged { .. }), "{error}");
    }
}

#[test]
fn a_file_that_is_none_of_ours_is_refused_and_kept() {
    for text in [
        "",
        "{}",
        "not json",
        r#"{"toolcrib_vault":2,"whatever":1}"#,
        r#"{"toolcrib_vault":1,"key":"","key_in":"file","seal":"","entries":[]}"#,
        r#"{"toolcrib_vault":1,"key":"","key_in":"file","seal":"AAAA","entries":[],"more":1}"#,
    ] {
        let (_folder, vault) = two();
        fs::write(vault.path(), text).unwrap();
        for error in [vault.list().map(drop).unwrap_err(), put(&vault, "a", "x").map(drop).unwrap_err()] {
            assert!(matches!(error, VaultError::Damaged { .. }), "{text}: {error}");
            assert!(!error.hint().is_empty());
        }
        assert_eq!(fs::read_to_string(vault.path()).unwrap(), text);
    }
    let (_folder, vault) = two();
    fs::write(vault.path(), r#"{"toolcrib_vault":2,"whatever":1}"#).unwrap();
    assert!(vault.list().unwrap_err().to_string().contains("it has format 2, and this toolcrib reads 1"));
    let (folder, vault) = two();
    fs::rename(vault.path(), folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), vault.path()).unwrap();
    assert!(matches!(vault.list(), Err(VaultError::Io { .. })));
}

#[test]
fn another_key_changes_nothing() {
    let (_folder, vault) = two();
    let key = vault.path().with_file_name("vault.key");
    let (right, before) = (fs::read(&key).unwrap(), fs::read(vault.path()).unwrap());
    fs::write(&key, Key::random().to_text().as_str()).unwrap();
    let late = other(&vault);
    for error in [late.list().map(drop).unwrap_err(), put(&late, "a", "x").map(drop).unwrap_err()] {
        assert!(matches!(error, VaultError::WrongKey { .. }), "{error}");
        assert!(error.hint().starts_with("nothing was changed"), "{}", error.hint());
    }
    fs::remove_file(&key).unwrap();
    assert!(matches!(put(&late, "a", "x"), Err(VaultError::NoKey { .. })));
    assert!(!key.exists(), "no new key for an old vault");
    fs::write(&key, "nonsense").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(late.list(), Err(VaultError::KeyFile { .. })));
    assert_eq!(fs::read(vault.path()).unwrap(), before);
    fs::write(&key, right).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(value(&late, "a"), "value of a");
}

#[test]
fn rows_are_sealed_with_the_vaults_key_which_is_made_when_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(&folder.path().join("state"), None);
    assert!(vault.existing_sealer().unwrap().is_none());
    assert!(!vault.path().exists(), "asking makes nothing");
    let row = ["credential", "owner", "notion"];
    let sealed = vault.sealer(KeyPreference::Keyring).unwrap().seal(b"token", &row);
    assert_eq!(names(&other(&vault)), Vec::<String>::new());
    put(&vault, "a", "value of a").unwrap();
    // After a restart, and with entries beside.
    let sealer = other(&vault).existing_sealer().unwrap().unwrap();
    assert_eq!(sealer.open(&sealed, &row).unwrap().as_slice(), b"token");
    let again = vault.sealer(KeyPreference::File).unwrap().seal(b"more", &row);
    assert_eq!(sealer.open(&again, &row).unwrap().as_slice(), b"more");
    // A vault that was moved away leaves its key file behind, and the rows with it.
    fs::rename(vault.path(), folder.path().join("elsewhere")).unwrap();
    assert_eq!(other(&vault).sealer(KeyPreference::File).unwrap().open(&sealed, &row).unwrap().as_slice(), b"token");
}

#[test]
fn a_lost_key_makes_no_new_one_and_a_new_vault_says_what_to_do_with_old_rows() {
    let (_folder, vault) = two();
    let row = ["credential", "owner", "notion"];
    let sealed = vault.sealer(KeyPreference::File).unwrap().seal(b"token", &row);
    fs::remove_file(vault.path().with_file_name("vault.key")).unwrap();
    let error = other(&vault).sealer(KeyPreference::File).unwrap_err();
    assert!(matches!(error, VaultError::NoKey { .. }) && error.hint().contains("restore the key"), "{error}");
    fs::remove_file(vault.path()).unwrap();
    let error = other(&vault).sealer(KeyPreference::File).unwrap().open(&sealed, &row).unwrap_err();
    assert!(matches!(error, SealError::OtherKey { .. }), "{error}");
    assert!(error.hint().contains("toolcrib login"));
}

#[test]
fn processes_that_need_a_sealer_at_the_same_time_get_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let sealers: Vec<Sealer> = std::thread::scope(|scope| {
        let make = || Vault::new(folder.path(), None).sealer(KeyPreference::File).unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sealed = sealers[0].seal(b"token", &["row"]);
    for sealer in &sealers {
        assert_eq!(sealer.open(&sealed, &["row"]).unwrap().as_slice(), b"token");
    }
}

#[test]
fn a_key_file_that_others_read_is_not_trusted() {
    let (_folder, vault) = two();
    let key = vault.path().with_file_name("vault.key");
    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let error = other(&vault).list().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot trust the key file `{}`: its mode {mode:o} allows other users to read it", key.display())
        );
        assert!(error.hint().contains("chmod 600"));
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(value(&other(&vault), "a"), "value of a");
}

#[test]
fn the_key_lies_in_the_keyring_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Arc::new(Memory::default());
    let vault = Vault::new(folder.path(), Some(keyring.clone()));
    put(&vault, "a", "x").unwrap();
    assert!(!folder.path().join("vault.key").exists());
    assert_eq!(keyring.secrets.lock().unwrap().len(), 1);
    assert_eq!(value(&Vault::new(folder.path(), Some(keyring.clone())), "a"), "x");
    let error = Vault::new(folder.path(), None).list().unwrap_err();
    assert!(error.to_string().contains("it is stored in a keyring, which cannot be reached from here"), "{error}");
    let locked = Memory { is_locked: true, ..Memory::default() };
    let error = put(&Vault::new(folder.path(), Some(Arc::new(locked))), "b", "y").unwrap_err();
    assert!(matches!(error, VaultError::Keyring(KeyringError::Locked)), "{error}");
    let empty = Vault::new(folder.path(), Some(Arc::new(Memory::default())));
    assert!(matches!(empty.list(), Err(VaultError::NoKey { .. })));
    // Someone takes the vault to a machine without keyring.
    let text = keyring.secrets.lock().unwrap().values().next().unwrap().expose().to_owned();
    let key = folder.path().join("vault.key");
    fs::write(&key, text).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(value(&Vault::new(folder.path(), None), "a"), "x");
}

#[test]
fn without_a_keyring_or_on_wish_the_key_lies_in_a_file() {
    for (keyring, preference, is_file) in [
        (Memory { is_absent: true, ..Memory::default() }, KeyPreference::Keyring, true),
        (Memory::default(), KeyPreference::File, true),
        (Memory::default(), KeyPreference::Keyring, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), Some(Arc::new(keyring)));
        vault.set(&listed("a", Reach::default()), &Secret::new("x"), preference).unwrap();
        assert_eq!(folder.path().join("vault.key").exists(), is_file);
    }
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(folder.path(), Some(Arc::new(Memory { is_locked: true, ..Memory::default() })));
    let error = put(&vault, "a", "x").unwrap_err();
    assert!(error.hint().contains("--key-file"), "{}", error.hint());
    assert!(!vault.path().exists());
}

#[test]
fn a_full_disk_keeps_the_old_file() {
    let (folder, vault) = two();
    let before = fs::read(vault.path()).unwrap();
    let full = other(&vault).writing_with(|file, bytes| {
        use std::io::Write;
        file.write_all(&bytes[..bytes.len() / 2])?;
        Err(io::ErrorKind::StorageFull.into())
    });
    for error in [put(&full, "c", "x").map(drop).unwrap_err(), full.remove(&name("a")).unwrap_err()] {
        assert!(matches!(error, VaultError::Io { act: "write", .. }), "{error}");
    }
    assert_eq!(fs::read(vault.path()).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path().join("state")).unwrap().count(), 3, "the half of a file is gone");
    assert_eq!(value(&full, "a"), "value of a");
    // What a process that was killed in the middle left behind is in no one's way.
    fs::write(vault.path().with_file_name("vault.new"), "half").unwrap();
    put(&vault, "c", "x").unwrap();
    assert_eq!(names(&vault), ["a", "b", "c"]);
}

#[test]
fn others_see_changes_and_no_one_loses_one() {
    let (_folder, vault) = two();
    assert_eq!(value(&vault, "a"), "value of a");
    let stamp = vault.stamp().unwrap();
    put(&other(&vault), "a", "VALUE of a").unwrap();
    assert!(vault.stamp().unwrap() != stamp);
    assert_eq!(value(&vault, "a"), "VALUE of a");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let vault = other(&vault);
            scope.spawn(move || {
                for number in 0..10 {
                    put(&vault, &format!("w{writer}-{number}"), "x").unwrap();
                }
            });
        }
    });
    assert_eq!(vault.list().unwrap().len(), 42);
    assert_eq!(value(&vault, "w3-9"), "x");
}

#[test]
fn nothing_prints_a_value() {
    let (_folder, vault) = two();
    let read = vault.read().unwrap();
    let text = format!("{vault:?} {:?}", read.map(|read| (read.contents, read.key)));
    let key = fs::read_to_string(vault.path().with_file_name("vault.key")).unwrap();
    assert!(!text.contains("value of") && !text.contains(key.trim()), "{text}");
}
