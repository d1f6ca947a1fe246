//! The rules for a single Rust file. Each rule is a function in `RULES` that gets the file and reports what it finds.

mod parameters;

use super::scan::{Source, words};
use super::{Finding, Report};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 100;
/// What rustfmt leaves longer is a text in quotes.
const LINE_COLUMNS: usize = 200;
const EMPTY_NAMES: [&str; 9] = ["util", "utils", "helper", "helpers", "common", "manager", "data", "info", "misc"];
/// MCP protocol dates. Written in two parts so that the rule does not find itself.
const REVISIONS: [(&str, &str); 5] =
    [("2024", "-11-05"), ("2025", "-03-26"), ("2025", "-06-18"), ("2025", "-11-25"), ("2026", "-07-28")];

const RULES: [fn(&Source, &mut Report<'_>); 14] = [
    begins_with_its_purpose,
    file_length,
    function_length,
    parameters::no_tuples,
    line_length,
    names,
    tasks_start_in_a_scope,
    only_transport_starts_processes,
    only_store_knows_the_database,
    pure_crates_stay_pure,
    nothing_half_done,
    no_sleep_in_tests,
    no_unwrap,
    only_protocol_compares_revisions,
];

pub fn check(source: &Source) -> Vec<Finding> {
    let mut report = Report::new(&source.path);
    for rule in RULES {
        rule(source, &mut report);
    }
    report.findings
}

fn begins_with_its_purpose(source: &Source, report: &mut Report<'_>) {
    if !source.raw.starts_with("//! ") {
        let fix = "begin with `//!` and one or two sentences: what it is for and what is not here";
        report.add("purpose", 1, "the file does not begin with `//!`", fix);
    }
}

fn file_length(source: &Source, report: &mut Report<'_>) {
    let lines = source.raw.lines().count();
    if lines > FILE_LINES {
        let what = format!("{lines} lines, {FILE_LINES} is the limit");
        report.add("file-length", FILE_LINES, what, "split it by what changes together");
    }
}

fn function_length(source: &Source, report: &mut Report<'_>) {
    for function in source.functions() {
        let lines = function.last - function.first + 1;
        if lines > FUNCTION_LINES {
            let what = format!("`{}` has {lines} lines, {FUNCTION_LINES} is the limit", function.name);
            report.add_function("function-length", &function, what, "take its parts out by name");
        }
    }
}

fn line_length(source: &Source, report: &mut Report<'_>) {
    if !source.path.contains("/src/") {
        return;
    }
    let mut at = 0;
    let mut long = Vec::new();
    for (index, line) in source.raw.split_inclusive('\n').enumerate() {
        let columns = line.trim_end().chars().count();
        if columns > LINE_COLUMNS && !source.is_test(at) {
            long.push((index + 1, columns));
        }
        at += line.len();
    }
    if let Some((first, columns)) = long.first() {
        let what = format!("{columns} columns, {LINE_COLUMNS} is the limit; the first of {} such lines", long.len());
        report.add("line-length", *first, what, "break the text, or make it a file of its own");
    }
}

fn names(source: &Source, report: &mut Report<'_>) {
    const FIX: &str = "name it after what it holds or does";
    let file = source.path.rsplit('/').next().unwrap_or_default();
    if file == "mod.rs" {
        report.add("names", 1, "a file called `mod.rs`", "call it after its folder: `foo.rs` beside `foo/`");
    }
    for part in source.path.trim_end_matches(".rs").split('/') {
        if EMPTY_NAMES.contains(&part) {
            report.add("names", 1, format!("`{part}` says nothing about what is inside"), FIX);
        }
    }
    for offset in source.find("mod") {
        let name = source.code[offset + 3..].trim_start();
        if let Some(empty) = EMPTY_NAMES.iter().find(|empty| words(name, empty).first() == Some(&0)) {
            report.add("names", source.line(offset), format!("a module called `{empty}`"), FIX);
        }
    }
    for offset in source.find("fn") {
        let name = source.code[offset + 2..].trim_start();
        if name.starts_with("handle_") || name.starts_with("do_") {
            let what = "a function called `handle_…` or `do_…`";
            report.add("names", source.line(offset), what, "name it after what it does");
        }
    }
}

fn tasks_start_in_a_scope(source: &Source, report: &mut Report<'_>) {
    if source.path == "crates/base/src/task.rs" {
        return;
    }
    let mut found: Vec<usize> =
        ["tokio::spawn", "task::spawn", "task::spawn_local"].iter().flat_map(|pattern| source.find(pattern)).collect();
    found.extend(named_in_group(source, &["tokio::", "tokio::task::"], &["spawn", "spawn_local"]));
    for offset in found {
        let fix = "start it in a `toolcrib_base::task::Scope`, which can be cancelled and awaited";
        report.add("spawn", source.line(offset), "a task that nobody owns", fix);
    }
}

fn only_transport_starts_processes(source: &Source, report: &mut Report<'_>) {
    // What a build script starts is no part of the program.
    let exempt = ["crates/transport/", "crates/testkit/", "crates/bench/", "xtask/", "crates/toolcrib/build.rs"];
    if exempt.iter().any(|folder| source.path.starts_with(folder)) {
        return;
    }
    let mut found: Vec<usize> =
        ["process::Command", "tokio::process"].iter().flat_map(|pattern| source.find(pattern)).collect();
    found.extend(named_in_group(source, &["std::process::", "process::"], &["Command"]));
    found.extend(named_in_group(source, &["tokio::"], &["process"]));
    for offset in found.into_iter().filter(|offset| !source.is_test(*offset)) {
        let fix = "only `transport` starts processes, so that each one dies with us";
        report.add("process", source.line(offset), "a process is started here", fix);
    }
}

fn only_store_knows_the_database(source: &Source, report: &mut Report<'_>) {
    if source.path.starts_with("crates/store/") {
        return;
    }
    for offset in source.find("rusqlite") {
        report.add("database", source.line(offset), "`rusqlite` outside `store`", "ask a repository of `store`");
    }
}

fn pure_crates_stay_pure(source: &Source, report: &mut Report<'_>) {
    let pure = ["protocol", "search", "policy", "scan", "agent"].map(|name| format!("crates/{name}/src/"));
    let is_driver = source.path.starts_with("crates/agent/src/driver");
    if is_driver || !pure.iter().any(|folder| source.path.starts_with(folder)) {
        return;
    }
    let mut found = Vec::new();
    for pattern in ["tokio", "std::fs", "std::net", "SystemTime", "Instant"] {
        found.extend(source.find(pattern).into_iter().map(|offset| (offset, pattern)));
    }
    for name in ["fs", "net"] {
        found.extend(named_in_group(source, &["std::"], &[name]).into_iter().map(|offset| (offset, name)));
    }
    for (offset, name) in found.into_iter().filter(|(offset, _)| !source.is_test(*offset)) {
        let what = format!("`{name}` in a crate without runtime, files, sockets and clock");
        report.add("pure", source.line(offset), what, "take the value as a parameter");
    }
}

fn nothing_half_done(source: &Source, report: &mut Report<'_>) {
    let patterns = [
        ("todo!", "finish it or leave it out"),
        ("unimplemented!", "finish it or leave it out"),
        ("#[ignore", "fix the test or remove it; what a machine lacks is skipped with a message"),
        ("thread::sleep", "wait for the event itself, with a deadline"),
    ];
    for (pattern, fix) in patterns {
        for offset in source.find(pattern) {
            report.add("half-done", source.line(offset), format!("`{pattern}`"), fix);
        }
    }
}

/// Tokio's too, by whatever path they are named. A method called so is none.
fn no_sleep_in_tests(source: &Source, report: &mut Report<'_>) {
    for word in ["sleep", "sleep_until"] {
        for offset in source.find(word).into_iter().filter(|offset| source.is_test(*offset)) {
            let (before, after) = (&source.code[..offset], &source.code[offset + word.len()..]);
            let is_other = before.ends_with('.') || before.ends_with("fn ") || before.ends_with("thread::");
            if is_other || !after.starts_with('(') {
                continue;
            }
            let fix =
                "wait for the event with a helper of `toolcrib_testkit`: `eventually`, `eventually_finds`, `pass`";
            report.add("sleep", source.line(offset), format!("`{word}` in a test"), fix);
        }
    }
}

fn no_unwrap(source: &Source, report: &mut Report<'_>) {
    for offset in source.find(".unwrap()").into_iter().filter(|offset| !source.is_test(*offset)) {
        let fix = "return the error, or `expect(\"why it cannot happen\")`";
        report.add("unwrap", source.line(offset), "`unwrap()` outside tests", fix);
    }
}

fn only_protocol_compares_revisions(source: &Source, report: &mut Report<'_>) {
    let exempt =
        ["crates/protocol/", "crates/upstream/src/negotiate", "crates/testkit/", "crates/bench/", "fuzz/", "xtask/"];
    if exempt.iter().any(|folder| source.path.starts_with(folder)) {
        return;
    }
    for (year, day) in REVISIONS {
        let literal = format!("\"{year}{day}\"");
        for (offset, _) in source.quoted.match_indices(&literal).filter(|(offset, _)| !source.is_test(*offset)) {
            let fix = "ask `protocol` for the capability that matters here";
            report.add("revision", source.line(offset), format!("the revision {literal} by name"), fix);
        }
    }
}

/// Offsets of grouped imports `prefix{…}` that name one of `names`.
fn named_in_group(source: &Source, prefixes: &[&str], names: &[&str]) -> Vec<usize> {
    let mut found = Vec::new();
    for prefix in prefixes {
        for (offset, members) in source.groups(prefix) {
            if names.iter().any(|name| !words(members, name).is_empty()) {
                found.push(offset);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
