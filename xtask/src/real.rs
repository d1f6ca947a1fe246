//! `cargo xtask real`: the gateway in front of servers that other people wrote, used by clients that other people
//! wrote. The suites are in `acceptance/`; this file starts everything, runs them and looks for what was left running.

mod backend;
mod home;
mod lifecycle;
mod model;
mod openapi;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::need::{self, AcceptancePrograms};
use crate::process::{self, MARK, RunningProgram};
use crate::tally::{self, Tally};
use crate::verdict::{Setting, Verdict};
use crate::workspace::Workspace;
use crate::{build, child};
use backend::Places;
use home::Stage;

const READY_DEADLINE: Duration = Duration::from_secs(90);
/// Servers that do not end by themselves are given time by the gateway, one after the other step.
const END_DEADLINE: Duration = Duration::from_secs(60);
const SUITE_DEADLINE: Duration = Duration::from_secs(20 * 60);

const SUITES: [&str; 3] = ["python", "python-old", "typescript"];
/// What has its own gateway and is run beside the suites.
const OTHERS: [&str; 3] = ["lifecycle", "openapi", "model"];

#[derive(Debug, Default)]
struct Options {
    /// The suites against the servers themselves: shows that the suites are right, not that the gateway is.
    direct: bool,
    /// Leave the folder of the run for a look.
    keep: bool,
    /// Another gateway than the one of this workspace.
    binary: Option<PathBuf>,
    /// Only the suite with this name, or one of the others.
    suite: Option<String>,
    /// Only tests whose names have this in them.
    named: Option<String>,
}

/// What the suites are run with.
struct Test<'a> {
    workspace: &'a Workspace,
    installed: &'a AcceptancePrograms,
    options: &'a Options,
}

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--direct" => options.direct = true,
            "--keep" => options.keep = true,
            "--binary" => options.binary = Some(arguments.next().context("--binary needs a path")?.into()),
            "--suite" => options.suite = Some(arguments.next().context("--suite needs a name")?.clone()),
            "--named" => options.named = Some(arguments.next().context("--named needs a text")?.clone()),
            other => bail!(
                "unknown argument `{other}`; `real` knows --direct, --keep, --binary PATH, --suite {} and --named TEXT",
                [&SUITES[..], &OTHERS].concat().join("|")
            ),
        }
    }
    if let Some(name) = &options.suite {
        let all = [&SUITES[..], &OTHERS].concat();
        ensure!(all.contains(&name.as_str()), "no suite `{name}`; there are {}", all.join(", "));
    }
    let verdict = run(workspace, &options)?;
    for remark in &verdict.remarks {
        println!("{remark}");
    }
    println!("{}", verdict.tally);
    Ok(!verdict.failed)
}

pub fn step(workspace: &Workspace, _: Setting) -> Result<Verdict> {
    run(workspace, &Options::default())
}

fn run(workspace: &Workspace, options: &Options) -> Result<Verdict> {
    let installed = need::acceptance(workspace)?;
    let binary = match &options.binary {
        Some(binary) => fs::canonicalize(binary).with_context(|| format!("no program at `{}`", binary.display()))?,
        None if options.direct => PathBuf::new(),
        None => gateway(workspace)?,
    };
    copy_node_suite(workspace, &installed)?;

    let fixture = workspace.target()?.join("debug/conformance-fixture");
    ensure!(fixture.exists(), "`{}` is missing; build the package `toolcrib-testkit`", fixture.display());
    let folder = workspace.root.join("acceptance");
    let stage = Stage::new(workspace, &Places { installed: &installed, suites: folder, fixture })?;

    let test = Test { workspace, installed: &installed, options };
    let mut verdict = Verdict::plain(true);
    if options.direct {
        let setting = stage.write_setting(None)?;
        for name in chosen(options) {
            let run = || run_suite(&test, name, &setting, None);
            verdict += Verdict::repeated(name, run)?;
        }
    } else {
        if options.suite.as_deref().is_none_or(|name| SUITES.contains(&name)) {
            verdict += with_gateway(&test, &stage, &binary)?;
        }
        let wants = |name| options.suite.as_ref().map_or(options.named.is_none(), |wanted| wanted == name);
        if wants("lifecycle") {
            verdict += Verdict::repeated("lifecycle", || Ok((counted(lifecycle::run(&stage, &binary)?), Vec::new())))?;
        }
        if wants("openapi") {
            verdict += counted(openapi::run(workspace, &stage, &binary)?);
        }
        // Last: it leaves another build of the gateway behind.
        if wants("model") && options.binary.is_none() {
            verdict += counted(model::run(workspace, &stage)?);
        }
    }
    if options.keep || verdict.failed {
        println!("the folder of this run, with logs: {}", stage.root.display());
    } else {
        fs::remove_dir_all(&stage.root)?;
    }
    Ok(verdict)
}

fn with_gateway(test: &Test<'_>, stage: &Stage, binary: &Path) -> Result<Verdict> {
    let mut verdict = Verdict::plain(true);
    for name in chosen(test.options) {
        let mut starts = 0;
        // Each time with a gateway of its own: a client that gave a question up leaves a call that waits.
        verdict += Verdict::repeated(name, || {
            starts += 1;
            let log = format!("gateway-{name}-{starts}");
            let (mut gateway, url) = serve(stage, binary, &log)?;
            println!("the gateway serves at {url}");
            let setting = stage.write_setting(Some(&stage.gateway(&url, binary)))?;
            let (mut verdict, failed) = run_suite(test, name, &setting, Some(&url))?;
            if verdict.failed {
                println!("the end of the gateway's log:\n{}", gateway.log_end());
            }
            let complaints = match gateway.end("TERM", END_DEADLINE) {
                Ok(status) if status.success() => Vec::new(),
                Ok(status) => vec![status.to_string()],
                Err(error) => vec![error.to_string()],
            };
            let mut tally = check("SIGTERM ends the gateway with status 0", &complaints);
            tally += nothing_left("nothing is left running after SIGTERM", stage);
            verdict += counted(tally);
            Ok((verdict, failed))
        })?;
    }

    let (mut gateway, _) = serve(stage, binary, "gateway-killed")?;
    gateway.end("KILL", END_DEADLINE)?;
    verdict += counted(nothing_left("nothing is left running after kill -9", stage));
    Ok(verdict)
}

/// The suites that a person or the step wants.
fn chosen(options: &Options) -> impl Iterator<Item = &'static str> {
    SUITES.into_iter().filter(|name| options.suite.as_ref().is_none_or(|wanted| wanted == name))
}

/// Starts the gateway and waits for its ready file; gives its URL.
fn serve(stage: &Stage, binary: &Path, log: &str) -> Result<(RunningProgram, String)> {
    let (gateway, ready) = serve_home(stage, binary, log, &stage.home())?;
    let url = ready["url"].as_str().context("the ready file names no `url`")?.to_owned();
    Ok((gateway, url))
}

/// The same with the home it is to have; gives what the ready file says.
fn serve_home(stage: &Stage, binary: &Path, log: &str, home: &Path) -> Result<(RunningProgram, Value)> {
    let ready_file = stage.root.join(format!("{log}.ready"));
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--home"]).arg(home).arg("--ready-file").arg(&ready_file);
    command.current_dir(&stage.root).env(MARK, &stage.mark);
    let mut gateway = RunningProgram::start("the gateway", &mut command, &stage.root.join(format!("{log}.log")))?;
    // The file appears by rename, so it is whole as soon as it is there.
    let ready = gateway.wait_for(READY_DEADLINE, || fs::read_to_string(&ready_file).ok())?;
    let ready: Value = serde_json::from_str(&ready).with_context(|| format!("the ready file says `{ready}`"))?;
    Ok((gateway, ready))
}

/// One run of the suite `name`, and the names of what failed.
fn run_suite(test: &Test<'_>, name: &str, setting: &Path, url: Option<&str>) -> Result<(Verdict, Vec<String>)> {
    println!("--> the suite `{name}`");
    let mut suite = suite(test, name);
    suite.env("TOOLCRIB_ACCEPTANCE", setting).env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1");
    if let Some(url) = url {
        suite.env("TOOLCRIB_URL", url);
    }
    if let Some(browser) = need::browser() {
        suite.env("TOOLCRIB_CHROMIUM", browser);
    }
    if name == "python"
        && let Ok(engine) = need::engine(test.workspace)
    {
        suite.env("TOOLCRIB_ENGINE", engine);
    }
    let count = if name == "typescript" { Tally::from_node } else { Tally::from_pytest };
    let outcome = child::run(&mut suite, SUITE_DEADLINE)?;
    let mut tally = count(&outcome.lines);
    if !outcome.success && tally.failed == 0 {
        tally += Tally::FAILED;
    }
    println!("--> the suite `{name}`: {tally}");
    Ok((counted(tally), tally::failed_names(&outcome.lines)))
}

fn counted(tally: Tally) -> Verdict {
    Verdict::counted(true, tally)
}

fn suite(test: &Test<'_>, name: &str) -> Command {
    let Test { workspace, installed, options } = test;
    if name == "typescript" {
        let mut command = Command::new(&installed.node);
        command.current_dir(&installed.node_folder).args(["--test", "--test-force-exit", "--test-reporter=spec"]);
        // The files share the servers, and some say something to everyone.
        command.arg("--test-concurrency=1");
        if let Some(text) = &options.named {
            command.args(["--test-name-pattern", text]);
        }
        command.args([
            "gateway.test.mjs",
            "agents.test.mjs",
            "releases.test.mjs",
            "questions.test.mjs",
            "login.test.mjs",
            "team.test.mjs",
            "browser.test.mjs",
        ]);
        return command;
    }
    let bin = if name == "python" { &installed.python_bin } else { &installed.old_python_bin };
    let mut command = Command::new(bin.join("python"));
    command.current_dir(workspace.root.join("acceptance").join(name)).args(["-m", "pytest"]);
    if let Some(text) = &options.named {
        command.args(["-k", text]);
    }
    command
}

fn nothing_left(name: &str, stage: &Stage) -> Tally {
    match process::left(&stage.mark, END_DEADLINE) {
        Some(left) => check(name, &left),
        None => {
            println!("skipped: {name} (this system does not show the environment of processes)");
            Tally::SKIPPED
        }
    }
}

/// One check of this program's own: good when there is nothing to complain about.
fn check(name: &str, complaints: &[String]) -> Tally {
    let word = if complaints.is_empty() { "ok" } else { "FAILED" };
    println!("{word}: {name}");
    for complaint in complaints {
        println!("    {complaint}");
    }
    if complaints.is_empty() { Tally::PASSED } else { Tally::FAILED }
}

/// The gateway of this workspace, built as the test steps build it.
fn gateway(workspace: &Workspace) -> Result<PathBuf> {
    if build::build(workspace, Setting::Person)?.failed {
        bail!("the gateway does not build");
    }
    Ok(workspace.target()?.join("debug/toolcrib"))
}

/// Node looks for packages beside the file that asks, so the suite lies where its packages are.
fn copy_node_suite(workspace: &Workspace, installed: &AcceptancePrograms) -> Result<()> {
    for entry in fs::read_dir(workspace.root.join("acceptance/node"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|extension| extension == "mjs")) {
            fs::copy(&path, installed.node_folder.join(name))?;
        }
    }
    Ok(())
}
