//! `cargo xtask picture --record PROGRAM`: writes `docs/terminal.cast`, the terminal of the README as a recording in the
//! form of asciinema (version 2). The commands of the README's block are run by the program itself, with the example
//! servers; only the time between letters is made up, so that the same program gives the same file. `tidy` holds the
//! recording against the block.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{SOURCE, block};
use crate::process::RunningProgram;
use crate::workspace::Workspace;

/// Where the recording lies, from the root.
pub const PATH: &str = "docs/terminal.cast";

const COLUMNS: usize = 100;
const LINES: usize = 32;
/// Milliseconds: between two letters, before a command is sent, before its answer, and after it.
const LETTER: u64 = 35;
const BEFORE: u64 = 400;
const ANSWER: u64 = 120;
const AFTER: u64 = 1_800;

/// The servers that the README adds before.
const SERVERS: [&str; 2] = ["units", "notes"];
const DEADLINE: Duration = Duration::from_secs(60);

pub fn command(workspace: &Workspace, program: &Path) -> Result<bool> {
    let program = fs::canonicalize(program).with_context(|| format!("there is no program `{}`", program.display()))?;
    let document = fs::read_to_string(workspace.root.join(SOURCE)).with_context(|| format!("no `{SOURCE}`"))?;
    let block = block(&document).with_context(|| format!("`{SOURCE}` has no block to record"))?;
    let home = workspace.target()?.join("recording");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("failed to remove `{}`", home.display()))?;
    }
    let answers = answers(&program, &home, &commands(block))?;
    let text = cast(&answers);
    if let Some(problem) = problem(&text, &document) {
        bail!("the recording does not show the block of `{SOURCE}`: {problem}");
    }
    fs::write(workspace.root.join(PATH), text).with_context(|| format!("failed to write `{PATH}`"))?;
    println!("wrote {PATH}");
    Ok(true)
}

/// A command and what it printed.
#[derive(Debug)]
struct Answer {
    command: String,
    output: String,
}

fn commands(block: &str) -> Vec<&str> {
    block.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Runs the commands against a gateway with the example servers.
fn answers(program: &Path, home: &Path, commands: &[&str]) -> Result<Vec<Answer>> {
    fs::create_dir_all(home.join("servers")).with_context(|| format!("failed to create `{}`", home.display()))?;
    for name in SERVERS {
        let definition = format!("name: {name}\ncommand: toolcrib\nargs: [example, {name}]\nstart: eager\n");
        fs::write(home.join("servers").join(format!("{name}.yaml")), definition)?;
    }
    let bin = program.parent().context("a program without a folder")?;
    ensure!(program.ends_with("toolcrib"), "the program must be called `toolcrib`, for the commands say so");
    let path = std::env::join_paths([bin, Path::new("/usr/bin"), Path::new("/bin")])?;
    let prepare = |command: &mut Command| {
        command.env_clear().env("PATH", &path).env("HOME", home).env("TOOLCRIB_HOME", home).current_dir(home);
        command.env("COLUMNS", COLUMNS.to_string()).env("LANG", "C.UTF-8");
    };
    let ready = home.join("ready.json");
    let mut serve = Command::new(program);
    prepare(&mut serve);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready);
    let mut gateway = RunningProgram::start("the gateway", &mut serve, &home.join("serve.log"))?;
    gateway.wait_for(DEADLINE, || ready.is_file().then_some(()))?;
    let mut answers = Vec::new();
    for line in commands {
        let mut shell = Command::new("sh");
        prepare(&mut shell);
        let output = shell.args(["-c", line]).output().context("failed to start `sh`")?;
        let failed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{line}` failed:\n{failed}");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        answers.push(Answer { command: (*line).to_owned(), output });
    }
    gateway.end("TERM", DEADLINE)?;
    Ok(answers)
}

/// The recording: a line with its size, then one for each thing that the terminal shows.
fn cast(answers: &[Answer]) -> String {
    let mut text = json!({"version": 2, "width": COLUMNS, "height": LINES, "title": "Toolcrib"}).to_string() + "\n";
    let mut now = 0;
    let mut show = |wait: u64, shown: &str| {
        now += wait;
        let time = now as f64 / 1_000.0;
        let _ = writeln!(text, "{}", json!([time, "o", shown]));
    };
    for answer in answers {
        show(BEFORE, "$ ");
        for letter in answer.command.chars() {
            show(LETTER, letter.encode_utf8(&mut [0; 4]));
        }
        show(BEFORE, "\r\n");
        show(ANSWER, &answer.output.replace('\n', "\r\n"));
        show(AFTER, "");
    }
    text
}

/// What is wrong with a recording of the block in `document`.
pub fn problem(cast: &str, document: &str) -> Option<String> {
    let shown = match shown(cast) {
        Ok(shown) => shown,
        Err(error) => return Some(format!("{error:#}")),
    };
    let Some(block) = block(document) else { return Some("there is no block".to_owned()) };
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = shown.lines().map(squeezed);
    // As the tests read the block: in this order, `…` for anything.
    let missing = block.lines().map(squeezed).find(|wanted| {
        let fits = |line: String| {
            let mut rest = line.as_str();
            wanted.split('…').map(str::trim).all(|part| match rest.find(part) {
                Some(at) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                None => false,
            })
        };
        !lines.any(fits)
    });
    missing.map(|line| format!("no `{line}` in its place"))
}

/// All that the terminal shows.
fn shown(cast: &str) -> Result<String> {
    let mut lines = cast.lines().map(serde_json::from_str::<Value>);
    let head = lines.next().context("it is empty")?.context("the first line is no JSON")?;
    let is_size = |key: &str| head[key].as_u64().is_some_and(|size| size > 0);
    ensure!(head["version"] == 2 && is_size("width") && is_size("height"), "the first line is no head of version 2");
    let (mut shown, mut last) = (String::new(), 0.0);
    for (line, number) in lines.zip(2..) {
        let event = line.with_context(|| format!("line {number} is no JSON"))?;
        let (Some(time), Some("o"), Some(text)) = (event[0].as_f64(), event[1].as_str(), event[2].as_str()) else {
            bail!("line {number} is no output");
        };
        ensure!(time >= last, "line {number} is earlier than the one before");
        last = time;
        shown.push_str(text);
    }
    Ok(shown.replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        "## Find, describe, call from the shell\n\n```console\n$ a b\nONE   TWO\nlong…\n$ c\n26.2 mile\n```\n";

    fn recorded() -> String {
        let answer = |command: &str, output: &str| Answer { command: command.into(), output: output.into() };
        cast(&[answer("a b", "ONE TWO\nlonger\n"), answer("c", "26.2  mile = x\n")])
    }

    #[test]
    fn a_recording_shows_the_block_with_the_real_answers() {
        let text = recorded();
        assert_eq!(problem(&text, DOCUMENT), None, "{text}");
        assert!(text.starts_with("{\"version\":2,"), "{text}");
        assert!(text.contains("\"ONE TWO\\r\\nlonger\\r\\n\""), "{text}");
    }

    #[test]
    fn what_is_no_recording_of_the_block_is_said() {
        let check = |text: String, expected: &str| {
            let said = problem(&text, DOCUMENT).unwrap();
            assert!(said.contains(expected), "{said}");
        };
        check(recorded().replace("longer", "short"), "no `long…` in its place");
        check(recorded().replace("\"c\"", "\"d\""), "no `$ c` in its place");
        check(String::new(), "it is empty");
        check(recorded().replace("\"version\":2", "\"version\":1"), "no head of version 2");
        check(recorded() + "[0.0,\"o\",\"\"]\n", "earlier than the one before");
        check(recorded() + "[99999.0,\"i\",\"x\"]\n", "is no output");
        check(recorded() + "[1.0\n", "is no JSON");
        assert_eq!(problem(&recorded(), "# A\n").unwrap(), "there is no block");
    }
}
