//! `toolcrib self-update` with a publisher on this machine: what is signed is installed and can be taken back, and
//! whatever lies, breaks or comes between leaves the program as it was.

mod publisher;
mod secure;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::launch::{CommandOutput, Launch, write};

use crate::minisign::SigningKey;
use publisher::{Answer, Publisher, packed, program};

const OWN: &str = env!("CARGO_PKG_VERSION");
const NEWER: &str = "99.1.0";

/// A copy of the program, unpacked from an archive.
struct Copy {
    folder: TempDir,
    program: PathBuf,
    before: u64,
}

impl Copy {
    fn new() -> Self {
        Self::at("bin/toolcrib")
    }

    fn at(path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().canonicalize().unwrap().join(path);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        // The program is large; where it cannot be linked it is copied.
        let own = env!("CARGO_BIN_EXE_toolcrib");
        fs::hard_link(own, &program).or_else(|_| fs::copy(own, &program).map(|_| ())).unwrap();
        let before = fs::metadata(&program).unwrap().ino();
        Self { folder, program, before }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        Launch::new(&self.program, &[&["self-update"], arguments].concat()).home(&self.home())
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.launch(arguments).run("").await
    }

    /// With the publisher's index and key.
    fn asking<'a>(&self, publisher: &'a Publisher, more: &[&'a str]) -> Launch {
        let key = self.key(&publisher.key);
        let index = publisher.index_url();
        let arguments = [&["--http-on-loopback", "--index", &index, "--key", &key], more].concat();
        self.launch(&arguments)
    }

    async fn update(&self, publisher: &Publisher, more: &[&str]) -> CommandOutput {
        self.asking(publisher, more).run("").await
    }

    /// The same for a user who is bound by permissions, also where that is root.
    async fn bound(&self, publisher: &Publisher) -> CommandOutput {
        let script = "if [ \"$(id -u)\" = 0 ]; then exec setpriv --bounding-set=-dac_override,-dac_read_search \"$0\" \
                      \"$@\"; fi; exec \"$0\" \"$@\"";
        let (program, index, key) = (self.program.to_str().unwrap(), publisher.index_url(), self.key(&publisher.key));
        let arguments = ["-c", script, program, "self-update", "--http-on-loopback", "--index", &index, "--key", &key];
        Launch::new("/bin/sh", &arguments).home(&self.home()).with_path().run("").await
    }

    fn key(&self, key: &SigningKey) -> String {
        write(self.folder.path(), "release.pub", &key.public()).to_str().unwrap().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.program.parent().unwrap()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The very file is still there, and nothing beside it.
    #[track_caller]
    fn is_untouched(&self) {
        assert_eq!(fs::metadata(&self.program).unwrap().ino(), self.before, "the program was replaced");
        assert_eq!(self.names(), ["toolcrib"]);
    }

    /// The update failed, said these things and changed nothing.
    #[track_caller]
    fn refuses(&self, ran: &CommandOutput, code: i32, parts: &[&str]) {
        ran.fails(code, parts);
        assert!(ran.stderr.contains("hint: "), "no next step:\n{}", ran.stderr);
        self.is_untouched();
    }
}

fn parsed(ran: &CommandOutput) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[tokio::test]
async fn a_copy_from_an_archive_is_updated_and_rolled_back() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    fs::set_permissions(&copy.program, Permissions::from_mode(0o755)).unwrap();
    let checked = copy.update(&publisher, &["--check", "-o", "json"]).await;
    let checked = parsed(&checked);
    assert_eq!((checked["available"].as_str(), checked["newer"].as_bool()), (Some(NEWER), Some(true)), "{checked}");
    assert_eq!((checked["updated"].as_bool(), checked["version"].as_str()), (Some(false), Some(OWN)), "{checked}");
    copy.is_untouched();
    let told = copy.update(&publisher, &["--check"]).await.stdout;
    assert!(told.contains(&format!("{NEWER} is there, this copy is {OWN}")), "{told}");

    let ran = copy.update(&publisher, &[]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.contains(&format!("from {OWN} to {NEWER}")), "{}", ran.stdout);
    assert_eq!(copy.names(), ["toolcrib", "toolcrib.previous"]);
    assert_eq!(fs::read_to_string(&copy.program).unwrap(), program(NEWER));
    assert_eq!(fs::metadata(&copy.program).unwrap().mode() & 0o7777, 0o755);
    let previous = copy.program.with_file_name("toolcrib.previous");
    assert_eq!(fs::metadata(&previous).unwrap().ino(), copy.before);
    let seen = fs::read_to_string(copy.home().join("state/update.json")).unwrap();
    assert!(seen.contains(NEWER), "{seen}");

    // The newer one is a script here: the older one, by its present name, puts itself back under the old one.
    fs::rename(&previous, copy.program.with_file_name("kept")).unwrap();
    fs::rename(&copy.program, copy.program.with_file_name("kept.previous")).unwrap();
    let launch = Launch::new(copy.program.with_file_name("kept"), &["self-update", "--rollback", "-o", "json"]);
    let back = parsed(&launch.home(&copy.home()).run("").await);
    assert_eq!(back["rolled_back_to"], NEWER, "{back}");
    assert_eq!(copy.names(), ["kept", "kept.previous"]);
    assert_eq!(fs::read_to_string(copy.program.with_file_name("kept")).unwrap(), program(NEWER));
}

#[tokio::test]
async fn a_copy_that_is_the_newest_stays_and_one_without_a_previous_has_nothing_to_roll_back_to() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(OWN);
    copy.update(&publisher, &[]).await.prints(&format!("this copy is the newest: {OWN}\n"));
    copy.is_untouched();
    let ran = copy.run(&["--rollback"]).await;
    copy.refuses(&ran, 1, &["there is no previous program"]);
}

#[tokio::test]
async fn without_an_index_or_a_key_it_says_what_to_name() {
    let copy = Copy::new();
    let ran = copy.run(&[]).await;
    copy.refuses(&ran, 1, &["no release index is named", "`--index URL`", "`update.index`"]);
    let ran = copy.run(&["--check", "--index", "https://127.0.0.1:1/index.json"]).await;
    copy.refuses(&ran, 1, &["this build of toolcrib knows no release key", "`--key FILE`", "`update.key`"]);
    let own = copy.key(&SigningKey::number(1));
    for (key, why) in [("/nowhere/x.pub", "cannot read the key `/nowhere/x.pub`"), ("/dev/null", "is no public key")] {
        let ran = copy.run(&["--index", "https://127.0.0.1:1/index.json", "--key", key]).await;
        copy.refuses(&ran, 1, &[why]);
    }
    let ran = copy.run(&["--index", "ftp://x.example/index.json", "--key", &own]).await;
    copy.refuses(&ran, 3, &["`ftp://x.example/index.json` is not reached: updates use `https`"]);
    let ran = copy.run(&["--index", "x.example/index.json", "--key", &own]).await;
    copy.refuses(&ran, 1, &["the address of the release index is no URL"]);
    let ran = copy.run(&["--index", "https://127.0.0.1:1/index.json", "--key", &own, "--ca", "/dev/null"]).await;
    copy.refuses(&ran, 1, &["holds no certificate", "`update.ca`"]);
}

#[tokio::test]
async fn settings_name_the_index_and_the_key() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    write(&copy.home(), "keys/release.pub", &publisher.key.public());
    let settings = format!("[update]\nindex = \"{}\"\nkey = \"keys/release.pub\"\n", publisher.index_url());
    write(&copy.home(), "config.toml", &settings);
    let ran = copy.run(&["--http-on-loopback", "-o", "json"]).await;
    let updated = parsed(&ran);
    assert_eq!((updated["updated"].as_bool(), updated["available"].as_str()), (Some(true), Some(NEWER)), "{updated}");
}

#[tokio::test]
async fn the_test_key_of_the_sources_is_named_loudly() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/keys/test.pub");
    let ran = copy.run(&["--http-on-loopback", "--index", &publisher.index_url(), "--key", key]).await;
    copy.refuses(&ran, 3, &["warning: this is the test key", "signed by another key"]);
}

#[tokio::test]
async fn an_index_that_another_key_signed_or_that_was_changed_is_refused() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let (index, signature) = (publisher.bytes("index.json"), publisher.bytes("index.json.minisig"));
    // Another key, also under the same id.
    publisher.put("index.json.minisig", SigningKey::number(7).sign(&index, &comment(NEWER)));
    copy.refuses(&copy.update(&publisher, &[]).await, 3, &["signed by another key", "release.pub"]);
    // What was signed, changed.
    publisher.put("index.json.minisig", signature.clone());
    let changed = String::from_utf8(index.clone()).unwrap().replace("99.1.0", "99.2.0");
    publisher.put("index.json", changed.into_bytes());
    copy.refuses(&copy.update(&publisher, &["--allow-downgrade"]).await, 3, &["its signature does not match"]);
    // No signature, half of one, something else.
    publisher.put("index.json", index.clone());
    publisher.take("index.json.minisig");
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["/r/index.json.minisig` answers with HTTP status 404"]);
    publisher.put("index.json.minisig", signature[..signature.len() / 2].to_vec());
    copy.refuses(&copy.update(&publisher, &[]).await, 3, &["its signature is cut"]);
    publisher.put("index.json.minisig", vec![b'x'; 5000]);
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["has more than 4096 bytes"]);
    // A signature of the same key for another version, as of an older release.
    publisher.put("index.json.minisig", publisher.key.sign(&index, &comment("99.0.0")));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["it names version 99.1.0, its signature is of"]);
    assert!(!copy.home().join("state/update.json").exists(), "what was refused is remembered");
}

fn comment(version: &str) -> String {
    format!("toolcrib index version:{version}")
}

#[tokio::test]
async fn an_index_that_lies_about_its_archive_changes_nothing() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let size = publisher.bytes("toolcrib.tar.gz").len();
    for (member, value, why) in [
        ("sha256", json!("0b".repeat(32)), "its SHA-256 is"),
        ("size", json!(size - 1), "it has more than the"),
        ("size", json!(size + 1), "and the index names"),
    ] {
        publisher.publish_with(NEWER, |_, entry| entry[member] = value.clone());
        copy.refuses(&copy.update(&publisher, &[]).await, 3, &["`toolcrib.tar.gz` is refused", why]);
    }
    publisher.publish_with(NEWER, |_, entry| entry["file"] = json!("../../x.tar.gz"));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["`file` is not the name of a file beside the index"]);
    publisher.publish_with(NEWER, |_, entry| entry["file"] = json!("gone.tar.gz"));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["/r/gone.tar.gz` answers with HTTP status 404"]);
    publisher.publish_with(NEWER, |index, _| index["archives"] = json!({}));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["has no archive for"]);
    publisher.publish_with(NEWER, |index, _| index["format"] = json!(2));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["format 2 where this copy reads 1"]);
    publisher.publish_with(NEWER, |index, _| index["minimum"] = json!("99.0.0"));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["replaces version 99.0.0 or newer"]);
}

#[tokio::test]
async fn an_archive_whose_program_is_another_one_or_none_changes_nothing() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    for (archive, why) in [
        (packed("toolcrib-99/toolcrib", &program("99.0.9")), "says that it is `99.0.9`"),
        (packed("toolcrib-99/toolcrib", "#!/bin/sh\nexit 1\n"), "does not run here"),
        (packed("toolcrib-99/toolcrib", "hello"), "does not run here"),
        (packed("toolcrib-99/README", "hello"), "there is no `toolcrib` in it"),
        (b"hello".to_vec(), "it cannot be read"),
    ] {
        publisher.put("toolcrib.tar.gz", archive);
        publisher.publish_with(NEWER, |_, _| {});
        copy.refuses(&copy.update(&publisher, &[]).await, 1, &[why]);
    }
}

#[tokio::test]
async fn an_older_index_and_an_expired_one_are_refused() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish_with(NEWER, |index, _| index["released"] = json!("2026-05-01T00:00:00Z"));
    assert_eq!(copy.update(&publisher, &["--check"]).await.code, 0);
    publisher.publish_with("99.0.0", |index, _| index["released"] = json!("2026-04-01T00:00:00Z"));
    let older = "it is of 2026-04-01T00:00:00.000Z, and one of 2026-05-01T00:00:00.000Z was seen before";
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &[older, "`--allow-downgrade`"]);
    copy.refuses(&copy.update(&publisher, &["--check"]).await, 1, &[older]);
    publisher.publish_with(NEWER, |index, _| index["expires"] = json!("2026-06-01T00:00:00Z"));
    for more in [&[][..], &["--allow-downgrade"]] {
        copy.refuses(&copy.update(&publisher, more).await, 1, &["it expired at 2026-06-01T00:00:00.000Z"]);
    }
    // A record that cannot be read is not taken for none.
    fs::write(copy.home().join("state/update.json"), "{").unwrap();
    publisher.publish(NEWER);
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["cannot read which releases were seen", "update.json"]);
}

#[tokio::test]
async fn a_downgrade_is_made_only_when_it_is_asked_for() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish_with(NEWER, |index, _| index["released"] = json!("2026-05-01T00:00:00Z"));
    assert_eq!(copy.update(&publisher, &["--check"]).await.code, 0);
    publisher.put("toolcrib.tar.gz", packed("t/toolcrib", &program("0.0.1")));
    publisher.publish_with("0.0.1", |index, _| index["released"] = json!("2026-06-01T00:00:00Z"));
    let ran = copy.update(&publisher, &[]).await;
    copy.refuses(&ran, 1, &["the index names version 0.0.1, which is older than this copy", "`--allow-downgrade`"]);
    let told = copy.update(&publisher, &["--check"]).await.stdout;
    assert!(told.contains("is newer than the release of the index, 0.0.1"), "{told}");
    // Also from an index that is older than one that was seen.
    publisher.publish_with("0.0.1", |index, _| index["released"] = json!("2026-04-01T00:00:00Z"));
    assert_eq!(parsed(&copy.update(&publisher, &["--allow-downgrade", "-o", "json"]).await)["updated"], true);
    assert_eq!(fs::read_to_string(&copy.program).unwrap(), program("0.0.1"));
}

#[tokio::test]
async fn a_download_that_is_cut_changes_nothing() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    for name in ["index.json", "index.json.minisig", "toolcrib.tar.gz"] {
        let whole = publisher.bytes(name);
        publisher.answer(name, Answer::Cut(whole.clone()));
        let ran = copy.update(&publisher, &[]).await;
        copy.refuses(&ran, 1, &[&format!("/r/{name}` broke"), "hint: try again; nothing was changed"]);
        publisher.put(name, whole);
    }
    assert_eq!(copy.update(&publisher, &[]).await.code, 0, "and the next one succeeds");
}

#[tokio::test]
async fn redirects_are_followed_three_times_and_to_https_only() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let index = publisher.bytes("index.json");
    publisher.put("there", index);
    for (name, to) in [("index.json", "one"), ("one", "/r/two"), ("two", "there")] {
        publisher.answer(name, Answer::Redirect(to.to_owned()));
    }
    assert_eq!(copy.update(&publisher, &["--check"]).await.code, 0);
    publisher.answer("there", Answer::Redirect("there".to_owned()));
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["leads elsewhere more than 3 times"]);
    for to in ["http://downloads.example/index.json", "ftp://127.0.0.1/x", "file:///etc/passwd"] {
        publisher.answer("index.json", Answer::Redirect(to.to_owned()));
        copy.refuses(&copy.update(&publisher, &[]).await, 3, &["leads to `", "and updates use `https`"]);
    }
    publisher.answer("index.json", Answer::Redirect("https://me:secret@127.0.0.1:1/".to_owned()));
    let ran = copy.update(&publisher, &[]).await;
    copy.refuses(&ran, 3, &["a user name or a password"]);
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    // Nothing that was sent says who asks.
    for request in publisher.requests() {
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().all(|name| ["host", "user-agent"].contains(name)), "{names:?}");
    }
}

#[tokio::test]
async fn without_tls_not_even_this_machine_is_asked() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let key = copy.key(&publisher.key);
    let ran = copy.run(&["--index", &publisher.index_url(), "--key", &key]).await;
    copy.refuses(&ran, 3, &["is not reached: updates use `https`"]);
    let elsewhere = ["--http-on-loopback", "--index", "http://downloads.example/index.json", "--key", &key];
    copy.refuses(&copy.run(&elsewhere).await, 3, &["is not reached: updates use `https`"]);
    assert_eq!(publisher.requests().len(), 0);
}

#[tokio::test]
async fn a_full_disk_leaves_the_program_and_no_half_of_another() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    let noise: String =
        (0..200_000_u32).map(|n| char::from(33 + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 90)).collect();
    let index = publisher.index_url();
    let key = copy.key(&publisher.key);
    // In the middle of the download, and where the archive has room but not what is in it.
    for text in [noise, " ".repeat(200_000)] {
        publisher.put("toolcrib.tar.gz", packed("t/toolcrib", &format!("{}#{text}\n", program(NEWER))));
        publisher.publish_with(NEWER, |_, _| {});
        let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" self-update \"$@\"";
        let program = copy.program.to_str().unwrap();
        let arguments = ["-c", script, program, "--http-on-loopback", "--index", &index, "--key", &key];
        let ran = Launch::new("/bin/sh", &arguments).home(&copy.home()).run("").await;
        copy.refuses(&ran, 1, &["cannot write in `", "File too large", "check the free space on the disk"]);
    }
    assert_eq!(copy.update(&publisher, &[]).await.code, 0, "and with room it succeeds");
}

#[tokio::test]
async fn two_updates_at_once_are_one() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    publisher.answer("toolcrib.tar.gz", Answer::Held(publisher.bytes("toolcrib.tar.gz")));
    let first = copy.asking(&publisher, &[]).start();
    publisher.is_asked_for("toolcrib.tar.gz", 1).await;
    for more in [&[][..], &["--allow-downgrade"]] {
        let second = copy.update(&publisher, more).await;
        second.fails(1, &["another update of", "is under way", "hint: wait for its end"]);
    }
    copy.run(&["--rollback"]).await.fails(1, &["another update of"]);
    publisher.release();
    let first = first.finish().await;
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(copy.names(), ["toolcrib", "toolcrib.previous"]);
    assert_eq!(fs::metadata(copy.program.with_file_name("toolcrib.previous")).unwrap().ino(), copy.before);
}

#[tokio::test]
async fn an_update_that_is_interrupted_or_killed_leaves_the_program() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let archive = publisher.bytes("toolcrib.tar.gz");
    publisher.answer("toolcrib.tar.gz", Answer::Held(archive.clone()));
    let mut interrupted = copy.asking(&publisher, &[]).start();
    publisher.is_asked_for("toolcrib.tar.gz", 1).await;
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.end().await.code(), Some(130));
    copy.is_untouched();

    let mut killed = copy.asking(&publisher, &[]).start();
    publisher.is_asked_for("toolcrib.tar.gz", 2).await;
    killed.signal(Signal::KILL);
    assert_eq!(killed.end().await.code(), None);
    assert_eq!(fs::metadata(&copy.program).unwrap().ino(), copy.before);
    publisher.put("toolcrib.tar.gz", archive);
    assert_eq!(copy.update(&publisher, &[]).await.code, 0, "what the kill left is no hindrance");
    assert_eq!(copy.names(), ["toolcrib", "toolcrib.previous"]);
}

#[tokio::test]
async fn a_folder_that_may_not_be_written_names_the_command_to_use() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let folder = copy.program.parent().unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o555)).unwrap();
    let ran = copy.bound(&publisher).await;
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let (program, index, key) = (copy.program.display(), publisher.index_url(), copy.key(&publisher.key));
    let again = format!("`sudo {program} self-update --index {index} --key {key}`");
    copy.refuses(&ran, 1, &["cannot write in `", "Permission denied", &again]);
}

#[tokio::test]
async fn what_a_package_manager_installed_is_left_to_it() {
    let publisher = Publisher::start();
    publisher.publish(NEWER);
    for (path, by, command) in [
        ("lib/node_modules/toolcrib/bin/toolcrib", "npm", "npm install --global toolcrib@latest"),
        (".cargo/bin/toolcrib", "cargo", "cargo install"),
        ("share/uv/tools/toolcrib/bin/toolcrib", "a Python package", "uv tool upgrade toolcrib"),
        (".linuxbrew/bin/toolcrib", "Homebrew", "brew upgrade toolcrib"),
    ] {
        let copy = Copy::at(path);
        let record = copy.program.ancestors().nth(2).unwrap().join("lib/python3.13/site-packages/toolcrib-1.dist-info");
        if by.contains("Python") {
            fs::create_dir_all(record).unwrap();
        }
        let told = copy.run(&[]).await;
        assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{path}");
        for part in [by, command, "nothing was changed"] {
            assert!(told.stdout.contains(part), "{path}: {}", told.stdout);
        }
        let ran = copy.update(&publisher, &[]).await;
        copy.refuses(&ran, 1, &["was installed by", by, "hint: update with:", command]);
        copy.refuses(&copy.run(&["--rollback"]).await, 1, &["was installed by", command]);
        let checked = parsed(&copy.update(&publisher, &["--check", "-o", "json"]).await);
        assert_eq!((checked["newer"].as_bool(), checked["updated"].as_bool()), (Some(true), Some(false)), "{checked}");
        assert!(checked["update"].as_str().unwrap().contains(command), "{checked}");
    }
}

#[tokio::test]
async fn after_an_update_a_gateway_that_runs_and_another_copy_are_named() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    // A gateway of this home, and a package's program that goes before this copy.
    let serve = json!({ "pid": std::process::id(), "url": "http://127.0.0.1:1/mcp", "token_file": "x" });
    write(&copy.home(), "state/serve.json", &serve.to_string());
    let package = write(copy.folder.path(), "lib/node_modules/toolcrib/bin/toolcrib", &program("0.0.1"));
    let launch = copy.asking(&publisher, &[]).env("PATH", package.parent().unwrap());
    let ran = launch.run("").await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let stop = format!("stop process {} and run `toolcrib serve` again", std::process::id());
    for part in ["a gateway still runs the other program", &stop, "in your PATH is another copy", "installed by npm"] {
        assert!(ran.stderr.contains(part), "no `{part}` in {}", ran.stderr);
    }
}

#[tokio::test]
async fn a_home_that_cannot_be_read_stops_an_update_and_one_that_cannot_be_written_does_not() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    // A file where the folder would be: whether a newer release was seen cannot be known.
    fs::create_dir_all(copy.home()).unwrap();
    fs::write(copy.home().join("state"), "").unwrap();
    copy.refuses(&copy.update(&publisher, &[]).await, 1, &["cannot read which releases were seen"]);
    let ran = copy.run(&["--index", "https://127.0.0.1:1/x", "--home", "/dev/null/x"]).await;
    ran.fails(1, &["cannot open `/dev/null/x/config.toml`"]);
    copy.is_untouched();
    fs::remove_file(copy.home().join("state")).unwrap();
    fs::create_dir(copy.home().join("state")).unwrap();
    fs::set_permissions(copy.home().join("state"), Permissions::from_mode(0o555)).unwrap();
    let ran = copy.bound(&publisher).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("warning: cannot remember the newest release in `"), "{}", ran.stderr);
}
