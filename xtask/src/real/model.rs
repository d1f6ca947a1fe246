//! A real model in a real gateway: added from a folder, read in the background, asked by a search, and not asked again
//! for what it has read once.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::home::Stage;
use super::{END_DEADLINE, check, serve_home};
use crate::child::{self, Outcome};
use crate::tally::Tally;
use crate::workspace::Workspace;

const BUILD_DEADLINE: Duration = Duration::from_secs(15 * 60);
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);
/// How long the model may take to read the few tools that there are, in a build that is not optimised.
const READ_DEADLINE: Duration = Duration::from_secs(120);

/// Nothing of the query is a word of the tool that is meant.
const QUERY: &str = "get rid of a photograph";
const SERVER: &str = r#"name: shelf
command: never-started
start: manual
tools:
- {name: delete_image, description: Delete an image, inputSchema: {type: object}}
- {name: convert_currency, description: Convert an amount of money, inputSchema: {type: object}}
- {name: next_train, description: When the next train leaves, inputSchema: {type: object}}
"#;

/// A home with a model, and the program that can use it.
struct Shelf<'a> {
    stage: &'a Stage,
    binary: PathBuf,
    home: PathBuf,
}

pub(super) fn run(workspace: &Workspace, stage: &Stage) -> Result<Tally> {
    println!("--> a real model");
    let Some(model) = folder(workspace) else {
        println!("SKIPPED: no model at `$TOOLCRIB_ACCEPTANCE/../data/minilm-int8`");
        return Ok(Tally::SKIPPED);
    };
    let home = stage.root.join("model-home");
    fs::create_dir_all(home.join("servers"))?;
    fs::write(home.join("servers/shelf.yaml"), SERVER)?;
    let shelf = Shelf { stage, binary: build(workspace, stage)?, home };
    let model = model.to_str().context("the path of the model is not text")?.to_owned();
    let mut tally =
        note("`embedding add` takes a folder", &shelf.toolcrib(&["embedding", "add", &model])?, "384 dimensions");
    tally += note("`embedding list` shows it", &shelf.toolcrib(&["embedding", "list"])?, "bytes");
    tally += shelf.asked("gateway-model-new", "a search asks the model as soon as it has read the tools")?;
    let vectors = shelf.home.join("state/vectors.bin");
    let before = fs::metadata(&vectors).and_then(|it| it.modified());
    let kept = if before.is_ok() { vec![] } else { vec![format!("no `{}`", vectors.display())] };
    tally += check("its vectors are kept", &kept);
    tally += shelf.asked("gateway-model-again", "and after a restart")?;
    let after = fs::metadata(&vectors).and_then(|it| it.modified());
    let same = matches!((&before, &after), (Ok(before), Ok(after)) if before == after);
    tally +=
        check("nothing is read a second time", &if same { vec![] } else { vec!["the file of vectors changed".into()] });
    Ok(tally)
}

/// The model lies beside the folder of acceptance data.
fn folder(workspace: &Workspace) -> Option<PathBuf> {
    let named = std::env::var_os("TOOLCRIB_ACCEPTANCE").map(PathBuf::from);
    let acceptance = named.unwrap_or_else(|| workspace.root.join("../shared/acceptance"));
    let folder = acceptance.join("../data/minilm-int8");
    folder.is_dir().then_some(folder)
}

/// Builds the gateway with the feature and takes it away from where the next build puts one without.
fn build(workspace: &Workspace, stage: &Stage) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&workspace.root).args(["build", "--quiet", "--package", "toolcrib", "--features", "model"]);
    ensure!(child::run(&mut cargo, BUILD_DEADLINE)?.success, "the gateway does not build with the feature `model`");
    let binary = stage.root.join("toolcrib-with-model");
    fs::copy(workspace.target()?.join("debug/toolcrib"), &binary)?;
    Ok(binary)
}

// === impl Shelf ===

impl Shelf<'_> {
    fn toolcrib(&self, arguments: &[&str]) -> Result<Outcome> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env("TOOLCRIB_HOME", &self.home).env("NO_COLOR", "1");
        child::quiet(&mut command, COMMAND_DEADLINE)
    }

    /// Starts a gateway, and searches until the model has a share in the answer.
    fn asked(&self, log: &str, name: &str) -> Result<Tally> {
        let (mut gateway, _) = serve_home(self.stage, &self.binary, log, &self.home)?;
        let found = gateway.wait_for(READ_DEADLINE, || {
            let found = self.toolcrib(&["find", QUERY, "--explain", "--limit", "1"]).ok()?;
            let has_share = found.lines.iter().any(|line| line.trim_start().starts_with("model "));
            (has_share || !found.success).then_some(found)
        })?;
        let tally = note(name, &found, "shelf/delete_image");
        gateway.end("TERM", END_DEADLINE)?;
        if tally.failed > 0 {
            println!("the end of the gateway's log:\n{}", gateway.log_end());
        }
        Ok(tally)
    }
}

/// Good when the command ended well and printed this.
fn note(name: &str, outcome: &Outcome, part: &str) -> Tally {
    let text = outcome.lines.join("\n");
    let is_good = outcome.success && text.contains(part);
    check(name, &if is_good { vec![] } else { vec![format!("no `{part}` in:\n{text}")] })
}
