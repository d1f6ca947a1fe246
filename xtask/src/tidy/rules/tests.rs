//! Each rule on small snippets: what it finds and what it leaves alone.

use super::*;

/// Checks `code` as the rest of a file at `path`; expects `rule:line` for each finding.
fn check(path: &str, code: &str, expect: &[&str]) {
    let source = Source::new(path, &format!("//! Purpose.\n{code}"));
    let found: Vec<String> =
        super::check(&source).iter().map(|finding| format!("{}:{}", finding.check, finding.line)).collect();
    assert_eq!(found, expect, "{path}: {code}");
}

const GATEWAY: &str = "crates/gateway/src/call.rs";

#[test]
fn a_file_begins_with_its_purpose() {
    let source = Source::new(GATEWAY, "use std::fs;\n");
    assert_eq!(super::check(&source)[0].check, "purpose");
    check(GATEWAY, "", &[]);
}

#[test]
fn files_and_functions_have_a_limit() {
    check(GATEWAY, &"\n".repeat(799), &[]);
    check(GATEWAY, &"\n".repeat(800), &["file-length:800"]);
    check(GATEWAY, &format!("fn a() {{{}}}", "\n".repeat(99)), &[]);
    check(GATEWAY, &format!("\nfn a() {{{}}}", "\n".repeat(100)), &["function-length:3"]);
}

#[test]
fn lines_have_a_limit() {
    let long = "é".repeat(199);
    check(GATEWAY, &format!("\"{long}\"\n\"{long}\""), &["line-length:2"]);
    check(GATEWAY, &format!("\"{}\"", &long[2..]), &[]);
    check("crates/base/tests/it.rs", &format!("\"{long}\""), &[]);
}

#[test]
fn names_say_something() {
    check("crates/base/src/util.rs", "", &["names:1"]);
    check("crates/base/src/helpers/one.rs", "", &["names:1"]);
    check("crates/base/src/id/mod.rs", "", &["names:1"]);
    check(GATEWAY, "mod common;\nmod information;", &["names:2"]);
    check(GATEWAY, "fn handle_call() {}\nfn do_it() {}\nfn handle() {}\nfn domain() {}", &["names:2", "names:3"]);
}

#[test]
fn tasks_start_only_in_base() {
    check(GATEWAY, "tokio::spawn(x);", &["spawn:2"]);
    check(GATEWAY, "use tokio::task;\ntask::spawn(x);", &["spawn:3"]);
    check(GATEWAY, "use tokio::{spawn, sync};", &["spawn:2"]);
    check(GATEWAY, "#[cfg(test)]\nmod tests { fn a() { tokio::spawn(x); } }", &["spawn:3"]);
    check(GATEWAY, "// tokio::spawn\nscope.spawn(x); task::spawn_blocking(y); std::thread::spawn(z);", &[]);
    check("crates/base/src/task.rs", "tokio::spawn(x);", &[]);
}

#[test]
fn only_transport_starts_processes() {
    check(GATEWAY, "std::process::Command::new(x);", &["process:2"]);
    check(GATEWAY, "use std::process::{Command, Stdio};", &["process:2", "process:2"]);
    check(GATEWAY, "use tokio::process::Child;", &["process:2"]);
    check(GATEWAY, "use std::process::{ExitCode, id};\nclap::Command::new(x);", &[]);
    check(GATEWAY, "#[cfg(test)]\nmod tests { use std::process::Command; }", &[]);
    check("crates/toolcrib/tests/it.rs", "use std::process::Command;", &[]);
    check("crates/transport/src/child.rs", "use tokio::process::Command;", &[]);
}

#[test]
fn only_store_knows_the_database() {
    check(GATEWAY, "use rusqlite::Connection;", &["database:2"]);
    check("crates/store/src/sqlite.rs", "use rusqlite::Connection;", &[]);
}

#[test]
fn pure_crates_stay_pure() {
    let path = "crates/search/src/rank.rs";
    check(path, "use std::fs;\nuse std::{net, fmt};\nlet now = Instant::now();", &["pure:2", "pure:4", "pure:3"]);
    check(path, "let Instantly = 1; // tokio\nuse std::fmt;", &[]);
    check("crates/agent/src/run.rs", "use tokio::time;", &["pure:2"]);
    check("crates/agent/src/driver/task.rs", "use tokio::time;", &[]);
    check(path, "#[cfg(test)]\nmod tests { use std::fs; }", &[]);
    check(GATEWAY, "use std::fs;", &[]);
}

#[test]
fn parameters_are_no_tuples() {
    for tuple in [
        "fn a((x, y): (u8, u8)) {}",
        "fn a(x: u8, (y, z): (&str, Option<&'a str>), ) -> bool {}",
        "pub(crate) async fn a<T: Fn(u8) -> u8>(\n    &self,\n    both: &'a mut (\n        T,\n        u8,\n    ),\n) {}",
        "fn a(x: Option<(u8, u8)>) {}",
        "fn a(x: &Arc<(u8, u8)>) {}",
        "trait A { fn a(x: (u8, u8)); }",
        "impl<T> A<T> { fn a(x: (u8, u8)) {} }",
        "impl A where for<'a> B: C<'a> { fn a(x: (u8, u8)) {} }",
        "#[cfg(test)] mod tests { fn a(x: (u8, u8)) {} }",
    ] {
        check(GATEWAY, tuple, &["tuple-parameter:2"]);
    }
    check(GATEWAY, "type Key<T> = (T, u8);\nfn a(key: &Key<u8>) {}", &["tuple-parameter:3"]);
    check("crates/base/tests/it.rs", "fn a(x: (u8, u8)) {}", &["tuple-parameter:2"]);
    for other in [
        "fn a(x: (), y: (u8), z: [u8; 2], Pair { a: b, c }: Pair) -> (u8, u8) {}",
        "fn a(x: &[(u8, u8)], y: Vec<(u8, u8)>, z: impl Fn((u8, u8)) -> u8) {}",
        "fn a() { rows.map(|(x, y): (u8, u8)| x + y); let b: fn((u8, u8)) = c; }",
        "impl Ord for A { fn a(x: (u8, u8)) {} }",
        "unsafe impl<T> Sum<T> for A<T> where for<'a> T: B<'a> {\n    fn a(x: (T, u8)) {}\n}",
        "// fn a(x: (u8, u8)) {}\nlet text = \"fn a(x: (u8, u8)) {}\";",
    ] {
        check(GATEWAY, other, &[]);
    }
}

#[test]
fn nothing_is_half_done() {
    check(GATEWAY, "todo!();\nunimplemented!();", &["half-done:2", "half-done:3"]);
    check(
        "crates/base/tests/it.rs",
        "#[ignore = \"slow\"]\nfn a() { std::thread::sleep(x) }",
        &["half-done:2", "half-done:3"],
    );
    check(GATEWAY, "let text = \"todo!\"; // todo!\ntokio::time::sleep(x);", &[]);
}

#[test]
fn tests_do_not_sleep() {
    let path = "crates/base/tests/it.rs";
    check(path, "tokio::time::sleep(x).await;\nuse tokio::time::sleep;\nsleep(x).await;", &["sleep:2", "sleep:4"]);
    check(path, "time::sleep_until(x).await;", &["sleep:2"]);
    check(path, "fn sleep() {}\nperson.sleep();\nlet text = \"sleep(1)\"; // sleep(1)", &[]);
    check(GATEWAY, "sleep(x);\n#[cfg(test)]\nmod tests { fn a() { sleep(x) } }", &["sleep:4"]);
}

#[test]
fn unwrap_only_in_tests() {
    check(GATEWAY, "x.unwrap();\ny.unwrap_or(1);", &["unwrap:2"]);
    check(GATEWAY, "#[cfg(test)]\nmod tests { fn a() { x.unwrap() } }", &[]);
}

#[test]
fn revisions_are_compared_in_one_place() {
    let code = format!("if revision == \"{}\" {{}}", ["2025", "-11-25"].concat());
    check(GATEWAY, &code, &["revision:2"]);
    check("crates/protocol/src/revision.rs", &code, &[]);
    check("crates/upstream/src/negotiate/probe.rs", &code, &[]);
    check("crates/upstream/src/health.rs", &code, &["revision:2"]);
    check("crates/gateway/tests/it.rs", &code, &[]);
    check(GATEWAY, &format!("// {}", ["2025", "-11-25"].concat()), &[]);
}
