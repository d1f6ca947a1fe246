//! `toolcrib-<version>.intoto.json`: which files were made, from which commit and by what, as an in-toto statement with a
//! provenance of SLSA 1.0. It carries no signature of its own; `SHA256SUMS`, which is signed, has its hash.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::child;
use crate::dist::targets::repository;
use crate::dist::trial::Trials;
use crate::dist::{Dist, product_names, sha256};

/// What is made after the statement or by its signer, and the statements themselves.
const NO_SUBJECTS: [&str; 5] = ["SHA256SUMS", "index.json", ".minisig", ".intoto.json", ".part"];

/// Values by which a run of the release workflow says what it is.
const RUN: [&str; 5] =
    ["GITHUB_SERVER_URL", "GITHUB_WORKFLOW_REF", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_REPOSITORY"];

/// A file with its hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    name: String,
    sha256: String,
}

/// What the statement says of how the files were made.
#[derive(Debug)]
struct BuildRecord {
    repository: String,
    commit: String,
    /// The hash of `Cargo.lock`, which pins all crates.
    lock: String,
    /// What `rustc` says its version is.
    compiler: String,
    /// The run of the workflow, or nothing where a person made it.
    run: Option<WorkflowRun>,
}

#[derive(Debug)]
struct WorkflowRun {
    /// Address of the workflow's file at the commit.
    workflow: String,
    /// Address of the run.
    address: String,
}

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let subjects = subjects(dist)?;
    ensure!(!subjects.is_empty(), "there is nothing in `{}` to say anything of", dist.folder.display());
    let file = path(dist);
    let text = serde_json::to_string_pretty(&statement(&subjects, &record(dist)?))?;
    fs::write(&file, text + "\n").with_context(|| format!("failed to write `{}`", file.display()))?;
    Ok(vec![file])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let text = fs::read_to_string(path(dist)).context("there is no statement")?;
    let statement: Value = serde_json::from_str(&text).context("the statement is no JSON")?;
    trials.run("the statement has the form of in-toto and SLSA", || check_form(&statement));
    trials.run("the statement names every file of the release with its hash", || {
        let named: Vec<Subject> = statement["subject"].as_array().context("no subjects")?.iter().map(read).collect();
        let made = subjects(dist)?;
        ensure!(named == made, "it names {named:?}, there is {made:?}");
        Ok(())
    });
    Ok(())
}

fn path(dist: &Dist<'_>) -> PathBuf {
    dist.folder.join(format!("toolcrib-{}.intoto.json", dist.version))
}

/// The files of the release, sorted by name.
fn subjects(dist: &Dist<'_>) -> Result<Vec<Subject>> {
    let names = product_names(&dist.folder)?.into_iter();
    let named = names.filter(|name| !NO_SUBJECTS.iter().any(|end| name.ends_with(end)));
    named.map(|name| Ok(Subject { sha256: sha256(&dist.folder.join(&name))?, name })).collect()
}

fn record(dist: &Dist<'_>) -> Result<BuildRecord> {
    let root = dist.workspace.root.to_string_lossy();
    let commit = child::answer("git", &["-C", &root, "rev-parse", "HEAD"]).context("there is no commit")?;
    let compiler = child::answer("rustc", &["--version"]).context("`rustc` does not say its version")?;
    let lock = sha256(&dist.workspace.root.join("Cargo.lock"))?;
    Ok(BuildRecord { repository: repository(), commit, lock, compiler, run: run(|name| std::env::var(name).ok()) })
}

/// The run of the workflow, where all of its values are there.
fn run(variable: impl Fn(&str) -> Option<String>) -> Option<WorkflowRun> {
    let [server, workflow, id, attempt, repository] = RUN.map(|name| variable(name).filter(|value| !value.is_empty()));
    let server = server?;
    Some(WorkflowRun {
        workflow: format!("{server}/{}", workflow?),
        address: format!("{server}/{}/actions/runs/{}/attempts/{}", repository?, id?, attempt?),
    })
}

/// in-toto Statement v1 with SLSA Provenance v1.
fn statement(subjects: &[Subject], record: &BuildRecord) -> Value {
    let subjects: Vec<Value> =
        subjects.iter().map(|subject| json!({"name": subject.name, "digest": {"sha256": subject.sha256}})).collect();
    let guide = format!("{}/blob/{}/docs/guides/releases.md", record.repository, record.commit);
    // Who builds at home vouches for nothing: the builder is the guide that says how it is done.
    let builder = record.run.as_ref().map_or_else(|| format!("{guide}#by-hand"), |run| run.workflow.clone());
    let metadata = record.run.as_ref().map_or_else(|| json!({}), |run| json!({"invocationId": run.address}));
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{guide}#provenance"),
                "externalParameters": {
                    "repository": record.repository,
                    "commit": record.commit,
                    "command": "cargo xtask dist",
                },
                "internalParameters": {"compiler": record.compiler},
                "resolvedDependencies": [
                    {
                        "uri": format!("git+{}@{}", record.repository, record.commit),
                        "digest": {"gitCommit": record.commit},
                    },
                    {"name": "Cargo.lock", "digest": {"sha256": record.lock}},
                ],
            },
            "runDetails": {"builder": {"id": builder}, "metadata": metadata},
        },
    })
}

fn read(subject: &Value) -> Subject {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Subject { name: text(&subject["name"]), sha256: text(&subject["digest"]["sha256"]) }
}

/// What the two specifications ask of every statement.
fn check_form(statement: &Value) -> Result<()> {
    let is_hex = |value: &Value, length: usize| {
        let text = value.as_str().unwrap_or_default();
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_address = |value: &Value| value.as_str().is_some_and(|text| text.contains("://"));
    ensure!(statement["_type"] == "https://in-toto.io/Statement/v1", "`_type` is {}", statement["_type"]);
    ensure!(statement["predicateType"] == "https://slsa.dev/provenance/v1", "the type of the predicate is another");
    let subjects = statement["subject"].as_array().context("`subject` is no list")?;
    ensure!(!subjects.is_empty(), "there is no subject");
    for subject in subjects {
        ensure!(!read(subject).name.is_empty(), "a subject without a name");
        ensure!(is_hex(&subject["digest"]["sha256"], 64), "`{}` has no SHA-256", read(subject).name);
    }
    let definition = &statement["predicate"]["buildDefinition"];
    ensure!(is_address(&definition["buildType"]), "`buildType` is no address");
    ensure!(definition["externalParameters"].is_object(), "`externalParameters` is no object");
    let dependencies = definition["resolvedDependencies"].as_array().context("no `resolvedDependencies`")?;
    let source = dependencies.first().context("no source is named")?;
    ensure!(is_hex(&source["digest"]["gitCommit"], 40), "the source has no commit");
    ensure!(is_address(&statement["predicate"]["runDetails"]["builder"]["id"]), "the builder has no address");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(run: Option<WorkflowRun>) -> BuildRecord {
        let repository = "https://example.com/toolcrib".to_owned();
        BuildRecord { repository, commit: "c".repeat(40), lock: "1".repeat(64), compiler: "rustc 1.0".to_owned(), run }
    }

    fn subject() -> Subject {
        Subject { name: "a.tar.gz".to_owned(), sha256: "a".repeat(64) }
    }

    #[test]
    fn a_statement_has_the_form_of_in_toto_and_slsa() {
        let variable = |name: &str| Some(format!("https://{name}.example"));
        for run in [None, run(variable)] {
            let statement = statement(&[subject()], &record(run));
            check_form(&statement).unwrap();
            assert_eq!(statement["subject"][0]["name"], "a.tar.gz");
        }
    }

    #[test]
    fn who_built_it_is_the_workflow_or_a_person() {
        let by_hand = statement(&[subject()], &record(None));
        let builder = |statement: &Value| statement["predicate"]["runDetails"]["builder"]["id"].clone();
        assert!(builder(&by_hand).as_str().unwrap().ends_with("docs/guides/releases.md#by-hand"), "{by_hand}");
        let variable = |name: &str| {
            let at = RUN.iter().position(|known| *known == name)?;
            Some(
                ["https://forge.example", "o/r/.github/workflows/release.yml@refs/tags/v1", "7", "1", "o/r"][at]
                    .to_owned(),
            )
        };
        let by_workflow = statement(&[subject()], &record(run(variable)));
        assert_eq!(builder(&by_workflow), "https://forge.example/o/r/.github/workflows/release.yml@refs/tags/v1");
        let id = &by_workflow["predicate"]["runDetails"]["metadata"]["invocationId"];
        assert_eq!(id, "https://forge.example/o/r/actions/runs/7/attempts/1");
        assert!(run(|name| variable(name).filter(|_| name != "GITHUB_RUN_ID")).is_none());
    }

    #[test]
    fn a_statement_that_lacks_something_is_refused() {
        let whole = statement(&[subject()], &record(None));
        let check = |pointer: &str, value: Value| {
            let mut broken = whole.clone();
            *broken.pointer_mut(pointer).unwrap() = value;
            assert!(check_form(&broken).is_err(), "{pointer}");
        };
        check("/_type", json!("https://in-toto.io/Statement/v0.1"));
        check("/subject", json!([]));
        check("/subject/0/name", json!(""));
        check("/subject/0/digest/sha256", json!("abc"));
        check("/predicateType", json!("x"));
        check("/predicate/buildDefinition/buildType", json!("by hand"));
        check("/predicate/buildDefinition/externalParameters", json!(null));
        check("/predicate/buildDefinition/resolvedDependencies/0/digest/gitCommit", json!("HEAD"));
        check("/predicate/runDetails/builder/id", json!(""));
    }
}
