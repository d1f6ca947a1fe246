//! What pages write: shown first with its path, refused with both changes where a file was changed meanwhile, undone
//! byte for byte, and given as a patch where the disk does not take it.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use tokio::process::Command;
use toolcrib_testkit::fake_server;
use toolcrib_testkit::launch::{Launch, Program, write};

use crate::authorization::encoded;
use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const WRITE: &str = "section[aria-label='What would change'] form button";
const UNDO: &str = ".notice form[action='/ui/do/core_write_undo'] button";
/// A file that is changed on purpose, with a comment that must survive.
const EXTRA: &str = "# by hand\nname: extra\nread_only: true\n";

/// The form of an operation with these arguments, and its button.
async fn opens(pages: &Pages, tool: &str, arguments: &Value) {
    let texts: Vec<(&str, String)> = arguments
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    let mut pairs: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    pairs.push(("return", "/ui/writes"));
    pages.go(&format!("/ui/operations/{tool}?{}", encoded(&pairs))).await;
}

/// Sends it: what would change is shown.
async fn shows(pages: &Pages, tool: &str, file: &str) {
    let send = format!("main > form[action='/ui/do/{tool}'] > button");
    pages.click(&send).await;
    pages.reads("What would change").await;
    let text = pages.text().await;
    assert!(text.contains(file), "{tool}: no `{file}` in {text}");
}

/// Everything that people may edit in a home, by its path.
fn files(home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true if entry != home.join("state") => folders.push(entry),
                true => {}
                false => all.push((entry.clone(), fs::read(&entry).unwrap())),
            }
        }
    }
    all.sort();
    all
}

async fn gateway() -> GatewayFixture {
    let server = format!("name: try\ncommand: {}\nstart: eager\n", json!(fake_server()));
    let class = "name: job\nserviceConfig: {lifecycleTools: {start: {tool: try/echo, args: {text: up}}, stop: {tool: \
                 try/echo, args: {text: down}}}}\n";
    GatewayFixture::of_person(&[
        ("servers/try.yaml", server.as_str()),
        ("service-classes/job.yaml", class),
        ("profiles/extra.yaml", EXTRA),
        ("models/base.yaml", "name: base\nwire: script\nscript: {turns: [{say: Hello.}]}\n"),
        ("config.toml", "# mine\n"),
    ])
    .await
}

#[tokio::test]
async fn every_file_that_pages_write_is_shown_first_and_undone_byte_for_byte() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    let bundle = "bundle: 1\nprofile: {name: team}\nservers: [{name: mail, command: mail-server, start: manual}]\n";
    let stage = json!([{ "id": "a", "tool": "try_echo", "args": { "text": "hi" } }]);
    let life = json!({ "lifecycleTools": { "start": { "tool": "try/echo" }, "stop": { "tool": "try/echo" } } });
    let connector =
        json!({"name": "b", "endpoint": "http://127.0.0.1:9/mcp", "auth": {"type": "bearer", "token": "vault:x"}});
    let model = json!({"name": "b", "wire": "chat", "url": "http://127.0.0.1:9/v1", "model": "x"});
    let listen = json!({ "aggregator": { "port": 8123 } }).to_string();
    assert_eq!(run(&home, &["api", "config_update_aggregator", "--json", &listen], &[]).await.code, 0);
    let cases = [
        ("core_config_save", json!({}), "config.toml"),
        ("core_mcpserver_create", json!({"name": "b", "definition": {"command": "b"}}), "servers/b.yaml"),
        ("core_profile_create", json!({"name": "b", "definition": {"read_only": true}}), "profiles/b.yaml"),
        ("core_profile_update", json!({"name": "extra", "definition": {"title": "Extra"}}), "profiles/extra.yaml"),
        ("core_profile_delete", json!({"name": "extra"}), "profiles/extra.yaml"),
        ("core_profile_import", json!({"bundle": bundle}), "servers/mail.yaml"),
        ("core_workflow_create", json!({"name": "b", "steps": stage}), "workflows/b.yaml"),
        ("core_serviceclass_create", json!({"name": "b", "serviceConfig": life}), "service-classes/b.yaml"),
        ("core_serviceclass_delete", json!({"name": "job"}), "service-classes/job.yaml"),
        (
            "core_service_create",
            json!({"name": "one", "serviceClassName": "job", "persist": true}),
            "services/one.yaml",
        ),
        ("core_agent_create", json!({"name": "b", "model": "base"}), "agents/b.yaml"),
        ("core_model_create", model, "models/b.yaml"),
        ("core_model_delete", json!({"name": "base"}), "models/base.yaml"),
        ("core_connector_create", connector, "connectors/b.yaml"),
    ];
    let visit = Browser::start().await.signed_in(&gateway, |pages| async move {
        for (tool, arguments, file) in cases {
            let before = files(&home);
            opens(&pages, tool, &arguments).await;
            shows(&pages, tool, file).await;
            assert_eq!(files(&home), before, "{tool}: nothing is written before");
            // What a service does beside its file is not done either.
            let services = run(&home, &["api", "service_list"], &[]).await.stdout;
            assert!(services.contains("mcp-aggregator") && !services.contains("\"one\""), "{services}");
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            assert_ne!(files(&home), before, "{tool} writes");
            pages.click(UNDO).await;
            pages.reads("Done. Undo a write").await;
            assert_eq!(files(&home), before, "{tool} is undone");
        }
        assert_eq!(pages.complaints().await, [""; 0]);
    });
    Box::pin(visit).await;
    gateway.stop().await;
}

#[tokio::test]
async fn what_was_changed_since_it_was_shown_is_refused_with_both_changes() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    let listen = json!({ "aggregator": { "port": 8123 } }).to_string();
    assert_eq!(run(&home, &["api", "config_update_aggregator", "--json", &listen], &[]).await.code, 0);
    let cases = [
        ("core_config_save", json!({}), "config.toml", "+ listen = "),
        (
            "core_profile_update",
            json!({"name": "extra", "definition": {"title": "Extra"}}),
            "profiles/extra.yaml",
            "Extra",
        ),
        ("core_profile_delete", json!({"name": "extra"}), "profiles/extra.yaml", "- # by hand"),
    ];
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            for (index, (tool, arguments, file, ours)) in cases.into_iter().enumerate() {
                let path = home.join(file);
                let first = fs::read_to_string(&path).unwrap();
                opens(&pages, tool, &arguments).await;
                shows(&pages, tool, file).await;
                let other = format!("{first}# by another hand\n");
                fs::write(&path, &other).unwrap();
                pages.click(WRITE).await;
                pages.reads("Changed in the file since you opened it").await;
                let text = pages.text().await;
                for part in ["has changed since it was read", "+ # by another hand", ours] {
                    assert!(text.contains(part), "{tool}: no `{part}` in {text}");
                }
                assert_eq!(fs::read_to_string(&path).unwrap(), other, "{tool}: it stays");
                // What is shown next is the change of the file as it is now.
                shows(&pages, tool, file).await;
                pages.click(WRITE).await;
                pages.reads("Done.").await;
                assert_ne!(fs::read_to_string(&path).unwrap_or_default(), other, "{tool} writes");
                // Another writer's write comes between, and stays.
                let name = format!("n{index}");
                let another = json!({ "name": name, "definition": { "command": "x", "start": "manual" } }).to_string();
                assert_eq!(run(&home, &["api", "mcpserver_create", "--json", &another], &[]).await.code, 0);
                pages.click(UNDO).await;
                pages.reads("Done. Undo a write").await;
                assert_eq!(fs::read_to_string(&path).unwrap(), other, "{tool} is undone");
                assert!(home.join(format!("servers/{name}.yaml")).exists());
                fs::write(&path, &first).unwrap();
            }
        })
        .await;
    gateway.stop().await;
}

/// A gateway of a home that must keep to the permissions of files, whoever runs the tests.
pub(crate) async fn bound_gateway(home: &Path) -> Program {
    let script = "trap '' XFSZ; set -- serve --listen 127.0.0.1:0; if [ \"$(id -u)\" = 0 ]; then exec setpriv \
                  --bounding-set=-dac_override,-dac_read_search \"$0\" \"$@\"; fi; exec \"$0\" \"$@\"";
    let launch = Launch::new("/bin/sh", &["-c", script, env!("CARGO_BIN_EXE_toolcrib")]);
    let mut gateway = launch.home(home).env("HOME", home).env("TOOLCRIB_LOG", "info").start();
    gateway.logs("ready servers=").await;
    gateway
}

/// Makes a change by a program that takes patches, in a copy of the home.
async fn applied(program: &str, arguments: &[&str], home: &Path, patch: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in files(home) {
        let to = copy.path().join(path.strip_prefix(home).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
    fs::write(copy.path().join("change.patch"), patch).unwrap();
    let output =
        Command::new(program).args(arguments).arg("change.patch").current_dir(copy.path()).output().await.unwrap();
    assert!(output.status.success(), "{program}: {output:?}\n{patch}");
    fs::remove_file(copy.path().join("change.patch")).unwrap();
    copy
}

/// What a page gives to copy.
async fn patch(pages: &Pages) -> String {
    pages.reads("The same as a patch").await;
    pages.reads("patch -p1").await;
    pages.eval("return document.getElementById('patch').textContent").await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_gives_a_patch_that_makes_the_same_change() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let lines: String = (0..20).map(|line| format!("# line {line}\r\n")).collect();
    write(home, "profiles/old.yaml", &format!("name: old\r\n{lines}read_only: true"));
    write(home, "profiles/gone.yaml", "name: gone\n");
    write(home, "profiles/secret.yaml", "name: secret\nenv: {API_KEY: hunter2-hunter2}\n");
    let mut gateway = bound_gateway(home).await;
    let folder = home.join("profiles");
    let lock = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    let cases = [
        ("core_profile_create", json!({"name": "new", "definition": {"title": "<b>&amp;"}}), "profiles/new.yaml"),
        ("core_profile_update", json!({"name": "old", "definition": {"read_only": false}}), "profiles/old.yaml"),
        ("core_profile_delete", json!({"name": "gone"}), "profiles/gone.yaml"),
    ];
    let lock = &lock;
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            for (tool, arguments, file) in cases {
                lock(0o555);
                let before = files(home);
                opens(&pages, tool, &arguments).await;
                shows(&pages, tool, file).await;
                pages.click(WRITE).await;
                let patch = patch(&pages).await;
                let text = pages.text().await;
                assert!(text.contains(&format!("annot write {file}")) && text.contains("Permission denied"), "{text}");
                assert_eq!(files(home), before);
                let [one, other] = [("patch", &["-p1", "-i"][..]), ("git", &["apply"][..])]
                    .map(|(program, arguments)| applied(program, arguments, home, &patch));
                let (one, other) = (one.await, other.await);
                // The same change by the gateway, once it may.
                lock(0o755);
                shows(&pages, tool, file).await;
                pages.click(WRITE).await;
                pages.reads("Done.").await;
                let below = |home: &Path| -> Vec<(PathBuf, Vec<u8>)> {
                    let of = |(path, bytes): (PathBuf, _)| (path.strip_prefix(home).unwrap().to_owned(), bytes);
                    files(home).into_iter().map(of).collect()
                };
                assert_ne!(files(home), before);
                assert_eq!((below(one.path()), below(other.path())), (below(home), below(home)), "{patch}");
            }
            // What may be a secret is in no patch.
            lock(0o555);
            opens(&pages, "core_profile_delete", &json!({"name": "secret"})).await;
            shows(&pages, "core_profile_delete", "profiles/secret.yaml").await;
            pages.click(WRITE).await;
            pages.reads("may be a secret, so there is no patch").await;
            assert!(!pages.driver.source().await.unwrap().contains("hunter2"));
            lock(0o755);
            assert!(fs::read_to_string(home.join("profiles/secret.yaml")).unwrap().contains("hunter2"));
        })
        .await;
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
}

#[tokio::test]
async fn a_full_disk_gives_the_patch_too() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    write(home, "profiles/old.yaml", "name: old\nread_only: true\n");
    let mut gateway = bound_gateway(home).await;
    let pid = gateway.pid();
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            let (tool, file) = ("core_profile_update", "profiles/old.yaml");
            opens(&pages, tool, &json!({"name": "old", "definition": {"read_only": false}})).await;
            shows(&pages, tool, file).await;
            // What happened before is recorded, so that this can begin.
            let recorded = run(home, &["audit", "verify"], &[]).await;
            assert_eq!(recorded.code, 0, "{}", recorded.stderr);
            let room = prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
            pages.click(WRITE).await;
            let patch = patch(&pages).await;
            prlimit(Some(pid), Resource::Fsize, room).unwrap();
            assert_eq!(fs::read_to_string(home.join(file)).unwrap(), "name: old\nread_only: true\n");
            let copy = applied("patch", &["-p1", "-i"], home, &patch).await;
            assert_eq!(fs::read_to_string(copy.path().join(file)).unwrap(), "name: old\nread_only: false\n");
            // With room again the same form does it.
            shows(&pages, tool, file).await;
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            assert_eq!(fs::read_to_string(home.join(file)).unwrap(), "name: old\nread_only: false\n");
        })
        .await;
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
}
