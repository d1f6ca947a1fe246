//! `toolcrib registry validate`: every file below some paths, thoroughly. Fails also when it found no file.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{DefinitionKind, DefinitionProblem, FileReport, ValidateScope};
use toolcrib_protocol::Raw;

use super::LocalFlags;
use crate::home::Environment;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Files and folders [default: `registry`, `servers` and `profiles` of the home folder]
    paths: Vec<PathBuf>,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
    /// What the files are: entry, server, profile, service-class, service … [default: as the nearest folder called
    /// `registry`, `servers` or `profiles` says, else entry]
    #[arg(long, value_name = "KIND", value_parser = super::kind)]
    kind: Option<DefinitionKind>,
    /// The same as `--output json`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    local: LocalFlags,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let output = arguments.local.output();
    let output = if arguments.json { Output { format: Format::Json, ..output } } else { output };
    let home = arguments.local.home(environment)?.path().to_owned();
    let scope = ValidateScope { home, paths: arguments.paths.clone(), kind: arguments.kind };
    let checked = toolcrib_catalog::validate(&scope).map_err(|error| Problem::from(&error))?;
    let is_wrong = |one: &&FileReport| !one.problems.is_empty() || arguments.strict && !one.warnings.is_empty();
    let wrong = checked.iter().filter(is_wrong).count();
    let warnings: usize = checked.iter().map(|one| one.warnings.len()).sum();
    if output.is_for_programs() {
        let results: Vec<Value> = checked.iter().map(|one| result(one, !is_wrong(&one))).collect();
        let summary = json!({
            "total": checked.len(), "valid": checked.len() - wrong, "invalid": wrong, "warnings": warnings,
        });
        output.answer(&Raw::from_value(&json!({ "results": results, "summary": summary })))?;
    } else {
        output.text(&format!(
            "{}{} checked, {wrong} wrong, {}",
            lines(&checked),
            count(checked.len(), "file"),
            count(warnings, "warning")
        ))?;
    }
    if wrong == 0 {
        return Ok(());
    }
    let what = if arguments.strict { "wrong or has warnings" } else { "wrong" };
    let message = format!("{wrong} of {} {what}", count(checked.len(), "file"));
    Err(Problem::new(Kind::Definition, message).into())
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn result(one: &FileReport, is_valid: bool) -> Value {
    let told = |problems: &[DefinitionProblem]| problems.iter().map(told).collect::<Vec<_>>();
    json!({
        "file": one.file.to_string_lossy(),
        "kind": one.kind.as_str(),
        "name": one.name,
        "valid": is_valid,
        "errors": told(&one.problems),
        "warnings": told(&one.warnings),
        "notes": one.notes,
    })
}

fn told(problem: &DefinitionProblem) -> Value {
    json!({
        "line": problem.at.map(|at| at.line),
        "column": problem.at.map(|at| at.column),
        "field": problem.field,
        "message": problem.message,
        "hint": problem.hint,
    })
}

/// One finding a line, each with its hint below; nothing of files that are simply right.
fn lines(checked: &[FileReport]) -> String {
    let mut out = String::new();
    let mut tell = |kind: &str, text: &str, hint: Option<&str>| {
        out.push_str(&format!("{kind}: {text}\n"));
        if let Some(hint) = hint {
            out.push_str(&format!("  hint: {hint}\n"));
        }
    };
    for one in checked {
        for problem in &one.problems {
            tell("wrong", &problem.to_string(), problem.hint.as_deref());
        }
        for warning in &one.warnings {
            tell("warning", &warning.to_string(), warning.hint.as_deref());
        }
        for note in &one.notes {
            tell("note", &format!("{}: {note}", one.file.display()), None);
        }
    }
    out
}
