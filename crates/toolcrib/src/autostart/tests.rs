//! The texts that are written for the managers of services.

use std::ffi::OsString;
use std::process::Command;

use super::*;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect()
}

fn service(manager: Manager, home: &str, pairs: &[(&str, &str)]) -> Service {
    let environment = environment(pairs);
    let home = Home::find(Some(Path::new(home)), &environment).unwrap();
    Service::new(manager, &home, &environment).unwrap()
}

#[test]
#[cfg(not(target_os = "macos"))]
fn a_service_is_named_after_its_home() {
    let person = [("HOME", "/people/me")];
    let usual = service(Manager::Systemd, "/people/me/.config/toolcrib", &person);
    assert_eq!(usual.name(), "toolcrib.service");
    assert_eq!(usual.file(), Path::new("/people/me/.config/systemd/user/toolcrib.service"));
    assert!(!usual.text(&environment(&person)).unwrap().contains("TOOLCRIB_HOME"));
    let own = service(Manager::Systemd, "/data/a b", &[("HOME", "/people/me"), ("XDG_CONFIG_HOME", "/x")]);
    assert!(own.name().starts_with("toolcrib-") && own.name().len() == "toolcrib-01234567.service".len());
    assert!(own.file().starts_with("/x/systemd/user"));
    assert!(own.text(&environment(&person)).unwrap().contains("Environment=\"TOOLCRIB_HOME=/data/a b\""));
    assert_ne!(own.name(), service(Manager::Systemd, "/data/b", &person).name());
    // The session's manager knows nothing of a variable of this shell.
    let moved = service(Manager::Systemd, "/x/toolcrib", &[("HOME", "/people/me"), ("XDG_CONFIG_HOME", "/x")]);
    assert!(moved.has_own_home);
    assert!(Service::new(Manager::Systemd, &moved.home, &environment(&[])).is_err());
}

#[test]
fn each_platform_has_its_manager() {
    assert_eq!(Manager::of(Platform::MacOs), Manager::Launchd);
    assert_eq!(Manager::of(Platform::Linux), Manager::Systemd);
}

#[test]
fn programs_are_found_in_the_path_of_the_installing_user() {
    let pairs = [("HOME", "/people/me"), ("PATH", "/a:relative::/b c:/a:/100%:/bad\u{1}")];
    let text = service(Manager::Systemd, "/h", &pairs).text(&environment(&pairs)).unwrap();
    assert!(text.contains("Environment=\"PATH=/a:/b c:/100%%\"\n"), "{text}");
    let text = service(Manager::Launchd, "/h&i", &pairs).text(&environment(&pairs)).unwrap();
    assert!(text.contains("<string>/a:/b c:/100%</string>"), "{text}");
    assert!(text.contains("<string>/h&amp;i</string>"), "{text}");
}

#[test]
fn texts_are_quoted_as_the_manager_reads_them() {
    let program = Program {
        path: "/a $b/\"c\\%".to_owned(),
        home: None,
        search: String::new(),
        person: "/p".to_owned(),
        log: "/l".to_owned(),
    };
    let unit = systemd::text(&program);
    assert!(unit.contains("ExecStart=\"/a $$b/\\\"c\\\\%%\" serve\n"), "{unit}");
}

/// The unit of the packages is for everybody: it begins with words of its own and says nothing of anyone's `PATH`.
#[test]
fn the_unit_of_the_packages_is_the_one_that_is_installed_for_a_person() {
    let packaged = include_str!("../../../../packaging/systemd/user/toolcrib.service");
    let program = Program {
        path: "/usr/bin/toolcrib".to_owned(),
        home: None,
        search: "/usr/bin".to_owned(),
        person: "/people/me".to_owned(),
        log: "/l".to_owned(),
    };
    let installed = systemd::text(&program).replace("Environment=\"PATH=/usr/bin\"\n", "");
    let statements =
        |text: &str| -> Vec<String> { text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect() };
    assert_eq!(statements(packaged), statements(&installed));
    assert!(!packaged.contains(MARK), "`toolcrib service` would take it for its own");
}

#[test]
fn systemd_takes_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = [("HOME", "/"), ("PATH", "/usr/bin:/bin")];
    let text = service(Manager::Systemd, "/data/a b", &pairs).text(&environment(&pairs)).unwrap();
    let file = folder.path().join("toolcrib.service");
    fs::write(&file, text).unwrap();
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["--user", "verify"]).arg(&file).env("XDG_RUNTIME_DIR", folder.path()).env("HOME", folder.path());
    // On a machine without systemd there is nothing to ask.
    let Ok(output) = analyze.output() else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_state_is_read_from_what_launchd_prints() {
    assert_eq!(launchd::state("gui/1/x = {\n\tactive count = 1\n\tstate = running\n}"), "running");
    assert_eq!(launchd::state("Could not find service"), "not loaded");
}
