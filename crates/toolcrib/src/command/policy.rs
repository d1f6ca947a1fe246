//! `toolcrib policy`: the policies in force, what is wrong with files of them, what they make of a request, and what a
//! change of them does.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::Clock as _;
use toolcrib_protocol::Raw;

use super::call::arguments::ArgumentFlags;
use super::with_rest;
use crate::client::{ClientFlags, Rest};
use crate::home::Environment;
use crate::output::table::{Column, field};
use crate::output::{Output, rows_of};
use crate::text::{count, line};

/// What can be asked about, and the argument of the operation that names what it is done to.
const ACTIONS: [(&str, &str); 9] = [
    ("call", "tool"),
    ("run", "tool"),
    ("operate", "operation"),
    ("read", "resource"),
    ("get", "prompt"),
    ("approve", "approve"),
    ("complete", "complete"),
    ("forward", "forward"),
    ("configure", "configure"),
];
/// The largest file of cases.
const CASES_MAX: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the policies in force
    List(ListArguments),
    /// Check files of policies: syntax, types, annotations, and names that nothing has
    Check(CheckArguments),
    /// Explain what policies make of a request, and which of them
    Explain(Box<ExplainArguments>),
    /// Run cases of a YAML file against policies
    Test(TestArguments),
    /// Show who gains or loses what if the files of a folder become the policies
    Diff(DiffArguments),
    /// Play the calls on record against policies
    Simulate(SimulateArguments),
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct CheckArguments {
    /// A folder of files to check before they count; without it, the gateway's own
    folder: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ExplainArguments {
    /// The principal, such as `user:acme/ann` or `key:work/ci`
    #[arg(long = "as", value_name = "PRINCIPAL")]
    principal: String,
    /// Its role in the profile
    #[arg(long, default_value = "member")]
    role: String,
    /// A group of it, as its issuer names it; repeat for more
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// The OAuth client that it uses
    #[arg(long = "client", value_name = "CLIENT")]
    oauth_client: Option<String>,
    /// Its tenant, as its issuer names it
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The door that it comes by: `mcp`, `rest`, `page`, `errand` or `service` [default: mcp]
    #[arg(long, value_name = "DOOR")]
    door: Option<String>,
    /// How it is proven, such as `key` or `access-token` [default: as is usual for such a principal]
    #[arg(long, value_name = "PROOF")]
    proof: Option<String>,
    /// The time of the request, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Who acts in its name
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// The bridge that relays it
    #[arg(long, value_name = "BRIDGE")]
    bridge: Option<String>,
    /// Its session, which may be halted
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The workflow whose step it is
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// The run whose step it is, which may be halted
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// A label of what the run has seen; repeat for more
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// What it does
    #[arg(value_parser = PossibleValuesParser::new(ACTIONS.map(|(action, _)| action)))]
    action: String,
    /// What it is done to: `server/tool` for `call` and `approve`, a workflow, an operation, `server uri`,
    /// `server/prompt`, `server method`, an entry of the registry
    target: String,
    #[command(flatten)]
    arguments: ArgumentFlags,
    /// Files to explain in place of those in force
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct TestArguments {
    /// The YAML file: a list of cases
    cases: PathBuf,
    /// Files to test in place of those in force
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct DiffArguments {
    /// The folder of the files that would be the policies
    folder: PathBuf,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct SimulateArguments {
    /// Calls since this RFC 3339 date or age, such as `7d`
    #[arg(long, value_name = "WHEN")]
    since: String,
    /// Files to play against in place of those in force
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("POLICY", |row| field(row, "id")),
    Column::new("EFFECT", |row| match row["recordsOnly"] == true {
        true => format!("{} (recorded only)", field(row, "effect")),
        false => field(row, "effect"),
    }),
    Column::new("PLACE", place),
    Column::new("DESCRIPTION", |row| field(row, "description")),
];

const WHY: &[Column] = &[
    Column::new("POLICY", |row| field(row, "id")),
    Column::new("EFFECT", |row| field(row, "effect")),
    Column::new("COUNTS", |row| field(row, "counts")),
    Column::new("PLACE", place),
];

const CHANGES: &[Column] = &[
    Column::new("EFFECT", |row| field(row, "effect")),
    Column::new("WHO", |row| some_of(row, "who", "whoTotal")),
    Column::new("WHAT", |row| some_of(row, "targets", "targetsTotal")),
    Column::new("CHANGE", |row| format!("{} → {}", field(row, "from"), field(row, "to"))),
    Column::new("POLICY", |row| field(row, "by")),
];

const PLAYED: &[Column] = &[
    Column::new("PRINCIPAL", |row| field(row, "principal")),
    Column::new("WHAT", |row| field(row, "target")),
    Column::new("CHANGE", |row| format!("{} → {}", field(row, "from"), field(row, "to"))),
    Column::new("POLICY", |row| field(row, "by")),
    Column::new("CALLS", |row| field(row, "count")),
    Column::new("FIRST", |row| field(row, "seq")),
];

const CASES: &[Column] = &[
    Column::new("CASE", |row| field(row, "name")),
    Column::new("RESULT", |row| if row["passed"] == true { "ok".to_owned() } else { "FAILED".to_owned() }),
    Column::new("EXPECTED", |row| field(row, "expect")),
    Column::new("DECISION", |row| field(row, "decision")),
    Column::new("POLICY", |row| field(row, "by")),
];

// === impl Arguments ===

impl Arguments {
    fn client(&self) -> &ClientFlags {
        match &self.action {
            Action::List(it) => &it.client,
            Action::Check(it) => &it.client,
            Action::Explain(it) => &it.client,
            Action::Test(it) => &it.client,
            Action::Diff(it) => &it.client,
            Action::Simulate(it) => &it.client,
        }
    }
}

pub(crate) fn start(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    with_rest(arguments.client(), environment, async |rest, output| run(arguments, rest, output).await)
}

async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    match &arguments.action {
        Action::List(_) => list(rest, output).await,
        Action::Check(it) => check(it, rest, output).await,
        Action::Explain(it) => explain(it, rest, output).await,
        Action::Test(it) => test(it, rest, output).await,
        Action::Diff(it) => diff(it, rest, output).await,
        Action::Simulate(it) => simulate(it, rest, output).await,
    }
}

async fn list(rest: &Rest, output: Output) -> anyhow::Result<()> {
    Ok(output.shown(&rest.get("/policies").await?, |value| {
        output.rows("policies", COLUMNS, rows_of(value, "policies"))?;
        if value["inForce"] != true {
            output.note(
                "there are no policies, so profiles and roles decide alone; put `*.cedar` files into `policies/`",
            );
        }
        rows_of(value, "problems").iter().for_each(|problem| output.note(&format!("not in force: {}", fault(problem))));
        Ok(())
    })?)
}

async fn check(arguments: &CheckArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let body = body(Map::new(), arguments.folder.as_deref())?;
    let answer = rest.ask(Method::POST, "/policies/check", Some(&body)).await?;
    let value = answer.to_value();
    if output.is_for_programs() {
        output.answer(&answer)?;
    } else {
        for fault_of in rows_of(&value, "problems").iter().chain(rows_of(&value, "warnings")) {
            output.text(&fault(fault_of))?;
        }
    }
    let problems = rows_of(&value, "problems").len();
    anyhow::ensure!(value["ok"] == true, "{} in policies", count(&problems.to_string(), "problem"));
    if !output.is_for_programs() {
        let warnings = rows_of(&value, "warnings").len().to_string();
        output.text(&format!("policies checked: {}, {}", field(&value, "policies"), count(&warnings, "warning")))?;
    }
    Ok(())
}

async fn explain(arguments: &ExplainArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let mut question = Map::new();
    question.insert("as".to_owned(), json!(arguments.principal));
    question.insert("role".to_owned(), json!(arguments.role));
    if !arguments.groups.is_empty() {
        question.insert("groups".to_owned(), json!(arguments.groups));
    }
    if let Some(profile) = rest.profile() {
        question.insert("profile".to_owned(), json!(profile.as_str()));
    }
    let about = [
        ("client", &arguments.oauth_client),
        ("tenant", &arguments.tenant),
        ("door", &arguments.door),
        ("proof", &arguments.proof),
        ("at", &arguments.at),
        ("actor", &arguments.actor),
        ("bridge", &arguments.bridge),
        ("session", &arguments.session),
        ("workflow", &arguments.workflow),
        ("run", &arguments.run),
    ];
    question.extend(about.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?)))));
    if !arguments.labels.is_empty() {
        question.insert("labels".to_owned(), json!(arguments.labels));
    }
    let key = ACTIONS.iter().find(|(action, _)| *action == arguments.action).map_or("tool", |(_, key)| key);
    let target = match &arguments.action[..] {
        "run" => format!("workflow/{}", arguments.target.trim_start_matches("workflow/")),
        _ => arguments.target.clone(),
    };
    question.insert(key.to_owned(), json!(target));
    if !arguments.arguments.is_empty() {
        question.insert("arguments".to_owned(), arguments.arguments.gather()?.to_value());
    }
    let body = body(question, arguments.files.as_deref())?;
    let answer = rest.ask(Method::POST, "/policies/explain", Some(&body)).await?;
    Ok(output.shown(&answer, |value| explained(value, output))?)
}

fn explained(value: &Value, output: Output) -> io::Result<()> {
    let by = value["by"].as_str().map(|by| format!(" by policy {}", line(by))).unwrap_or_default();
    let said = match value["decision"].as_str().unwrap_or_default() {
        "permit" => format!("permitted{by}"),
        "hidden" => format!("hidden{by}, as if it did not exist"),
        "deny" => format!("refused{by}"),
        "confirm" => format!("refused{by} until the caller's person confirms it"),
        "approve" => format!("refused{by} until somebody else approves it"),
        _ => "depends on the call: give arguments as `key=value`, its time with `--at`".to_owned(),
    };
    output.text(&said)?;
    if let Some(reason) = value["reason"].as_str() {
        output.text(&format!("reason: {}", line(reason)))?;
    }
    for needed in rows_of(value, "needed").iter().filter_map(Value::as_str) {
        output.text(&format!("needed: {}", line(needed)))?;
    }
    output.rows("policies about it", WHY, rows_of(value, "policies"))
}

async fn test(arguments: &TestArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let path = &arguments.cases;
    let named = || format!("failed to read the cases in `{}`", path.display());
    let size = std::fs::metadata(path).with_context(named)?.len();
    anyhow::ensure!(size <= CASES_MAX, "`{}` has more than {CASES_MAX} bytes", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    let documents = toolcrib_catalog::documents(&text, path).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let cases = documents.first().map(|document| &document.value).filter(|it| it.is_array());
    let cases = cases.with_context(|| format!("`{}` is no list of cases", path.display()))?;
    let mut asked = Map::new();
    asked.insert("cases".to_owned(), cases.clone());
    let answer = rest.ask(Method::POST, "/policies/test", Some(&body(asked, arguments.files.as_deref())?)).await?;
    let value = answer.to_value();
    if output.is_for_programs() {
        output.answer(&answer)?;
    } else {
        output.rows("cases", CASES, rows_of(&value, "cases"))?;
    }
    let failed = value["failed"].as_u64().unwrap_or(0);
    anyhow::ensure!(
        failed == 0,
        "{failed} of {} failed",
        count(&(failed + value["passed"].as_u64().unwrap_or(0)).to_string(), "case")
    );
    Ok(())
}

async fn diff(arguments: &DiffArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let mut asked = Map::new();
    if let Some(profile) = rest.profile() {
        asked.insert("profile".to_owned(), json!(profile.as_str()));
    }
    let body = body(asked, Some(&arguments.folder))?;
    let answer = rest.ask(Method::POST, "/policies/diff", Some(&body)).await?;
    Ok(output.shown(&answer, |value| {
        output.rows("changes", CHANGES, rows_of(value, "changes"))?;
        if value["truncated"] == true {
            output.note("there are too many principals and tools to compare all; name a profile with `--profile`");
        }
        Ok(())
    })?)
}

async fn simulate(arguments: &SimulateArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let mut asked = Map::new();
    let since = super::audit::date(&arguments.since, toolcrib_base::SystemClock.now());
    asked.insert("since".to_owned(), json!(since));
    let body = body(asked, arguments.files.as_deref())?;
    let answer = rest.ask(Method::POST, "/policies/simulate", Some(&body)).await?;
    Ok(output.shown(&answer, |value| {
        output.rows("changes", PLAYED, rows_of(value, "changes"))?;
        let (played, same) = (field(value, "played"), field(value, "same"));
        output.text(&format!("{} played, {same} decided as on record", count(&played, "call")))?;
        if value["truncated"] == true {
            output.note("not all of the record was played; give a later `--since`");
        }
        Ok(())
    })?)
}

/// The first two of some names, and how many more there are.
fn some_of(row: &Value, names: &str, total: &str) -> String {
    let all: Vec<&str> = row[names].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shown: Vec<&str> = all.iter().take(2).copied().collect();
    let total = row[total].as_u64().and_then(|total| usize::try_from(total).ok()).unwrap_or(all.len());
    match total.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{}, {more} more", shown.join(", ")),
    }
}

/// The body of a request, with the files of a folder where one is named.
fn body(mut asked: Map<String, Value>, folder: Option<&Path>) -> anyhow::Result<Raw> {
    if let Some(folder) = folder {
        let files = toolcrib_catalog::read_policy_folder(folder);
        anyhow::ensure!(!files.is_empty(), "`{}` has no files `*.cedar`", folder.display());
        let mut sent = Vec::new();
        for file in files {
            let text = file.text.map_err(|error| anyhow::anyhow!("`{}`: {error}", file.name))?;
            sent.push(json!({ "name": file.name, "text": text }));
        }
        asked.insert("files".to_owned(), Value::from(sent));
    }
    Ok(Raw::from_value(&Value::Object(asked)))
}

fn place(row: &Value) -> String {
    format!("{}:{}", field(row, "file"), field(row, "line"))
}

fn fault(fault: &Value) -> String {
    let place = if fault["line"].is_null() { field(fault, "file") } else { place(fault) };
    let hint = fault["hint"].as_str().map(|hint| format!(" ({})", line(hint))).unwrap_or_default();
    format!("{}: {}{hint}", line(&place), line(&field(fault, "message")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_with_their_number() {
        let some = |names: &[&str], total: u64| some_of(&json!({"a": names, "n": total}), "a", "n");
        assert_eq!(some(&["x"], 1), "x");
        assert_eq!(some(&["x", "y"], 2), "x, y");
        assert_eq!(some(&["x", "y", "z"], 70), "x, y, 68 more");
    }

    #[test]
    fn faults_name_their_place_and_the_next_step() {
        let value = json!({"file": "a.cedar", "line": 3, "message": "x", "hint": "do y"});
        assert_eq!(fault(&value), "a.cedar:3: x (do y)");
        let value = json!({"file": "policies", "line": null, "message": "x", "hint": null});
        assert_eq!(fault(&value), "policies: x");
    }
}
