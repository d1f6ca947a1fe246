//! Real servers through their life, with the commands that a person uses: verified, idle, started by the first call,
//! idle again, examined, and gone with the gateway.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::home::{Stage, definition};
use super::{END_DEADLINE, check, serve_home};
use crate::child::{self, Outcome};
use crate::process::{self, MARK, RunningProgram};
use crate::tally::Tally;

const COMMAND_DEADLINE: Duration = Duration::from_secs(180);
/// How long an unused server runs here. It must outlast the way from a call to the look at its process.
const IDLE: &str = "idle: 5s\n";

/// A server, one call of one of its tools, and what its answer has in it.
struct Row {
    server: &'static str,
    tool: &'static str,
    arguments: Value,
    answer: &'static str,
}

fn rows(stage: &Stage) -> [Row; 4] {
    let row = |server, tool, arguments, answer| Row { server, tool, arguments, answer };
    let (files, repository) = (stage.root.join("files/hello.txt"), stage.root.join("repository"));
    [
        row("everything", "echo", json!({"message": "hello from here"}), "hello from here"),
        row("files", "read_text_file", json!({"path": files}), "hello from a real file"),
        row("git", "git_log", json!({"repo_path": repository}), "the first commit"),
        row("time", "get_current_time", json!({"timezone": "UTC"}), "UTC"),
    ]
}

/// A gateway with the servers of the rows, none of which runs by itself.
struct Life<'a> {
    stage: &'a Stage,
    binary: &'a Path,
    /// What the servers carry in their environment, and the gateway does not.
    mark: String,
    gateway: RunningProgram,
    tally: Tally,
}

pub(super) fn run(stage: &Stage, binary: &Path) -> Result<Tally> {
    println!("--> servers through their life");
    let rows = rows(stage);
    let (home, mark) = (stage.root.join("lifecycle-home"), format!("{}-lazy", stage.mark));
    fs::create_dir_all(home.join("servers"))?;
    for Row { server, .. } in &rows {
        let mut wanted = stage.server(server).with_context(|| format!("no server `{server}` on the stage"))?;
        wanted["env"][MARK] = json!(mark);
        fs::write(home.join(format!("servers/{server}.yaml")), definition(server, &wanted, "lazy") + IDLE)?;
    }
    let (gateway, _) = serve_home(stage, binary, "gateway-lifecycle", &home)?;
    let mut life = Life { stage, binary, mark, gateway, tally: Tally::default() };
    // Those of which nothing is known yet were started to be listed.
    life.check_none_runs("servers that nobody uses stop after they were listed");
    for row in &rows {
        life.verified(row)?;
    }
    life.check_none_runs("nothing is left of the verifications");
    for row in &rows {
        life.called(row)?;
    }
    life.check_none_runs("servers that nobody uses any more stop");
    let doctor = life.toolcrib(&["doctor"])?;
    life.note("`doctor` finds all well", &doctor, &rows.each_ref().map(|row| row.server));
    life.end(&rows[0])?;
    if life.tally.failed > 0 {
        println!("the end of the gateway's log:\n{}", life.gateway.log_end());
    }
    Ok(life.tally)
}

// === impl Life ===

impl Life<'_> {
    fn toolcrib(&self, arguments: &[&str]) -> Result<Outcome> {
        let mut command = Command::new(self.binary);
        command.args(arguments).env("TOOLCRIB_HOME", self.stage.root.join("lifecycle-home")).env("NO_COLOR", "1");
        child::quiet(&mut command, COMMAND_DEADLINE)
    }

    /// Good when the command ended well and printed these texts.
    fn note(&mut self, name: &str, outcome: &Outcome, parts: &[&str]) {
        let text = outcome.lines.join("\n");
        let missing = parts.iter().filter(|part| !text.contains(**part));
        let mut complaints: Vec<_> = missing.map(|part| format!("no `{part}` in:\n{text}")).collect();
        if !outcome.success {
            complaints.push(format!("it failed:\n{text}"));
        }
        self.tally += check(name, &complaints);
    }

    fn verified(&mut self, row: &Row) -> Result<()> {
        let verify = self.toolcrib(&["verify", row.server])?;
        self.note(&format!("`verify {}`", row.server), &verify, &[row.server]);
        let status = self.toolcrib(&["status"])?;
        self.note(&format!("`status` names {}", row.server), &status, &[row.server]);
        Ok(())
    }

    fn called(&mut self, row: &Row) -> Result<()> {
        let (id, arguments) = (format!("{}/{}", row.server, row.tool), row.arguments.to_string());
        let call = self.toolcrib(&["call", &id, "--json", &arguments])?;
        self.note(&format!("the first call of {id} starts its server"), &call, &[row.answer]);
        let runs = process::marked(&self.mark).is_none_or(|running| !running.is_empty());
        let complaints = if runs { vec![] } else { vec!["no process of it".to_owned()] };
        self.tally += check(&format!("{} runs after its call", row.server), &complaints);
        let doctor = self.toolcrib(&["doctor", row.server])?;
        self.note(&format!("`doctor {}`", row.server), &doctor, &[row.server, ": ready", "verified:"]);
        Ok(())
    }

    fn check_none_runs(&mut self, name: &str) {
        self.tally += match process::left(&self.mark, END_DEADLINE) {
            Some(left) => check(name, &left),
            None => Tally::SKIPPED,
        };
    }

    /// Ends the gateway while a server runs.
    fn end(&mut self, row: &Row) -> Result<()> {
        self.called(row)?;
        let ended = self.gateway.end("TERM", END_DEADLINE)?;
        let complaints = if ended.success() { vec![] } else { vec![ended.to_string()] };
        self.tally += check("the gateway ends with status 0 while a lazy server runs", &complaints);
        self.check_none_runs("no server is left after `serve` has ended");
        Ok(())
    }
}
