//! `cargo xtask conformance`: the official conformance suite. Server cells put the gateway in front of the fixture and
//! let the suite be the client; client cells let the suite be the server behind a gateway that the driver uses.
//!
//! Each cell leaves its folder below `target/conformance/`: the home, the logs and the suite's own results.

mod cell;
mod expected;
mod judge;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::need::{self, Suite};
use crate::verdict::{Setting, Verdict};
use crate::workspace::Workspace;
use crate::{build, child};
use cell::{CELLS, Cell, Side};
use expected::ExpectedFailures;
use judge::{CellOutcome, Scenario};
use stage::Stage;

const SUITE_DEADLINE: Duration = Duration::from_secs(10 * 60);
const BUILD_DEADLINE: Duration = Duration::from_secs(40 * 60);
/// For one scenario of the suite that waits for us, in milliseconds.
const CLIENT_TIMEOUT: &str = "60000";

/// The programs that a cell starts.
#[derive(Debug)]
pub struct Programs {
    pub suite: Suite,
    pub gateway: PathBuf,
    pub fixture: PathBuf,
    pub driver: PathBuf,
}

#[derive(Debug, Default)]
struct Options {
    cells: Vec<&'static Cell>,
    scenario: Option<String>,
    /// The suite straight at the fixture, and the driver straight at the suite: shows that these are right.
    direct: bool,
    /// Another gateway than the one of this workspace.
    binary: Option<PathBuf>,
}

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let Some(options) = parse(arguments)? else {
        for cell in &CELLS {
            println!("{:25} {}", cell.name, cell.about());
        }
        return Ok(true);
    };
    // One package at a time: each is then built with the features that it has been built with before.
    quiet_build(workspace, &["--package", "toolcrib-testkit", "--bins"])?;
    if options.binary.is_none() && !options.direct {
        quiet_build(workspace, &["--package", "toolcrib", "--bin", "toolcrib"])?;
    }
    let verdict = run(workspace, &options)?;
    println!("{}", verdict.tally);
    Ok(!verdict.failed)
}

pub fn step(workspace: &Workspace, _: Setting) -> Result<Verdict> {
    if build::build(workspace, Setting::Person)?.failed {
        bail!("the gateway does not build");
    }
    run(workspace, &Options { cells: CELLS.iter().collect(), ..Options::default() })
}

/// `None` when the cells are only to be listed.
fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => return Ok(None),
            "--direct" => options.direct = true,
            "--cell" => options.cells.push(Cell::named(arguments.next().context("--cell needs a name")?)?),
            "--scenario" => options.scenario = Some(arguments.next().context("--scenario needs a name")?.clone()),
            "--binary" => options.binary = Some(arguments.next().context("--binary needs a path")?.into()),
            other => bail!(
                "unknown argument `{other}`; `conformance` knows --cell NAME, --scenario NAME, --direct, --list and \
                 --binary PATH"
            ),
        }
    }
    if options.cells.is_empty() {
        options.cells.extend(&CELLS);
    }
    if options.direct {
        options.cells.retain(|cell| cell.has_direct());
        ensure!(!options.cells.is_empty(), "--direct is for the client cells and for HTTP within one era");
    }
    Ok(Some(options))
}

fn quiet_build(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let outcome = child::quiet(workspace.cargo().arg("build").args(arguments), BUILD_DEADLINE)?;
    ensure!(outcome.success, "cargo build {} failed:\n{}", arguments.join(" "), outcome.lines.join("\n"));
    Ok(())
}

fn run(workspace: &Workspace, options: &Options) -> Result<Verdict> {
    let suite = need::suite(workspace)?;
    let target = workspace.target()?;
    let gateway = match &options.binary {
        Some(binary) => fs::canonicalize(binary).with_context(|| format!("no program at `{}`", binary.display()))?,
        None => target.join("debug/toolcrib"),
    };
    let [fixture, driver] = ["conformance-fixture", "conformance-driver"].map(|name| target.join("debug").join(name));
    let programs = Programs { suite, gateway, fixture, driver };
    let mut verdict = Verdict::plain(true);
    for cell in &options.cells {
        let folder = target.join("conformance").join(cell.name);
        verdict += Verdict::repeated(cell.name, || {
            let judged = one(workspace, options, &programs, cell, &folder).unwrap_or_else(|error| {
                // One cell that cannot run says so and leaves the others their turn.
                CellOutcome::broken(format!("{error:#}"))
            });
            println!("{}", judged.describe(cell.name, &folder));
            Ok((Verdict::counted(true, judged.tally()), judged.failed_names()))
        })?;
    }
    Ok(verdict)
}

fn one(
    workspace: &Workspace,
    options: &Options,
    programs: &Programs,
    cell: &Cell,
    folder: &Path,
) -> Result<CellOutcome> {
    let expected = match options.direct {
        true => ExpectedFailures::default(),
        false => ExpectedFailures::read(&workspace.root.join("acceptance/conformance/expected"), cell)?,
    };
    let mut stage = Stage::new(folder)?;
    let wanted = match &options.scenario {
        Some(scenario) => vec![scenario.clone()],
        None => cell.scenarios(&programs.suite)?,
    };
    let mut scenarios = match cell.side {
        Side::Server { .. } => server(options, programs, cell, &mut stage)?,
        Side::Client { .. } | Side::Login { .. } => client(options, programs, cell, &stage, &wanted)?,
        Side::Authorization { .. } => authorization(options, programs, cell, &mut stage)?,
    };
    for name in wanted {
        if !scenarios.iter().any(|scenario| scenario.name == name) {
            scenarios.push(Scenario::not_run(name));
        }
    }
    // What a filter leaves out cannot be judged as passing.
    let expected = if options.scenario.is_some() { expected.only(&scenarios) } else { expected };
    Ok(judge::judge(scenarios, &expected))
}

/// The suite as the client of the gateway, or of the fixture itself.
fn server(options: &Options, programs: &Programs, cell: &Cell, stage: &mut Stage) -> Result<Vec<Scenario>> {
    let suite = &programs.suite;
    let url = stage.serve(programs, cell, options.direct)?;
    let results = stage.results();
    let mut command = Command::new(&suite.node);
    command.arg(suite.folder.join("dist/index.js")).args(["server", "--url", &url, "--output-dir"]).arg(&results);
    match &options.scenario {
        Some(name) => command.args(["--scenario", name, "--spec-version", cell.revision(), "--verbose"]),
        None => command.args(["--requirements", cell.revision()]),
    };
    let outcome = child::quiet(&mut command, SUITE_DEADLINE)?;
    stage.write_log("suite.log", &outcome.lines)?;
    let mut scenarios = judge::read(&results, "server-")?;
    if let Err(error) = stage.end() {
        scenarios.push(Scenario::failed("(the end of the gateway)", "ended", format!("{error:#}")));
    }
    Ok(scenarios)
}

/// The suite as the client of our authorization server, with the driver as the person who agrees.
fn authorization(options: &Options, programs: &Programs, cell: &Cell, stage: &mut Stage) -> Result<Vec<Scenario>> {
    let suite = &programs.suite;
    let origin = stage.serve_authorization(programs)?;
    let (results, port) = (stage.results(), stage::free_port()?.to_string());
    let mut command = Command::new(&programs.driver);
    command.arg("--owner").arg("--gateway").arg(&programs.gateway).arg("--work").arg(stage.home());
    command.arg("--").arg(&suite.node).arg(suite.folder.join("dist/index.js"));
    command.args(["authorization", "--url", &origin, "--client-id", stage::SUITE_CLIENT, "--port", &port]);
    command.args(["--resource", &format!("{origin}/mcp"), "--spec-version", cell.revision(), "--output-dir"]);
    command.arg(&results);
    if let Some(name) = &options.scenario {
        command.args(["--scenario", name]);
    }
    let outcome = child::quiet(&mut command, SUITE_DEADLINE)?;
    stage.write_log("suite.log", &outcome.lines)?;
    let mut scenarios = judge::read(&results, "authorization-server-")?;
    if !outcome.success {
        let why = outcome.lines.iter().rev().find(|line| line.contains("conformance-driver: "));
        let why = why.cloned().unwrap_or_else(|| "the suite was not content; see its log".to_owned());
        scenarios.push(Scenario::failed("(the suite)", "ended", why));
    }
    if let Err(error) = stage.end() {
        scenarios.push(Scenario::failed("(the end of the gateway)", "ended", format!("{error:#}")));
    }
    Ok(scenarios)
}

/// The suite as the server, one scenario after the other: each starts its own gateway.
fn client(
    options: &Options,
    programs: &Programs,
    cell: &Cell,
    stage: &Stage,
    wanted: &[String],
) -> Result<Vec<Scenario>> {
    let suite = &programs.suite;
    let way = match options.direct {
        true => "--direct".to_owned(),
        false => format!("--gateway {} --work {}", programs.gateway.display(), stage.work().display()),
    };
    let driver = format!("{} {way}", programs.driver.display());
    let results = stage.results();
    let mut badly = Vec::new();
    for name in wanted {
        let mut command = Command::new(&suite.node);
        command.arg(suite.folder.join("dist/index.js")).args(["client", "--command", &driver, "--scenario", name]);
        command.args(["--spec-version", cell.revision(), "--timeout", CLIENT_TIMEOUT, "--output-dir"]).arg(&results);
        command.args(cell.is_of_extensions().then_some("--force"));
        let outcome = child::quiet(&mut command, SUITE_DEADLINE)?;
        stage.write_log(&format!("suite-{}.log", name.replace('/', "-")), &outcome.lines)?;
        if !outcome.success {
            badly.push((name, outcome.lines));
        }
    }
    let mut scenarios = judge::read(&results, "")?;
    for mut scenario in judge::read(&results.join("auth"), "")? {
        scenario.name.insert_str(0, "auth/");
        scenarios.push(scenario);
    }
    for (name, lines) in badly {
        // The driver's own failure shows in no check.
        if let Some(scenario) = scenarios.iter_mut().find(|scenario| scenario.name == *name && scenario.passes()) {
            let why = lines.iter().rev().find(|line| line.contains("conformance-driver: "));
            let why = why.cloned().unwrap_or_else(|| "the suite was not content; see its log".to_owned());
            scenario.failures.push(judge::Failure { check: "driver".to_owned(), message: why });
        }
    }
    Ok(scenarios)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        parse(&arguments).unwrap().unwrap().cells.iter().map(|cell| cell.name).collect()
    }

    #[test]
    fn cells_are_picked_by_name_and_without_a_gateway_only_those_of_one_era_make_sense() {
        assert_eq!(names(&["--cell", "modern-to-legacy-stdio"]), ["modern-to-legacy-stdio"]);
        assert_eq!(names(&[]).len(), CELLS.len());
        assert_eq!(
            names(&["--direct"]),
            [
                "legacy-to-legacy-http",
                "modern-to-modern-http",
                "legacy-to-both-http",
                "modern-to-both-http",
                "client-legacy",
                "client-modern"
            ]
        );
    }
}
