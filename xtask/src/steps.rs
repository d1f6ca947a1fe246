//! `cargo xtask test`: the steps in order, what each prints, and the closing line. To add a step, write its function
//! in its own module and give it a row in `STEPS`.

mod account;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::tally::Tally;
use crate::verdict::{Setting, Verdict};
use crate::workspace::Workspace;
use crate::{build, child, conformance, fuzz, need, real, scenarios, tidy};
use account::Account;

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace, Setting) -> Result<Verdict>,
}

const STEPS: [Step; 12] = [
    Step { name: "need", about: "install what the other steps need", run: need::step },
    Step { name: "format", about: "cargo fmt --check", run: build::format },
    Step { name: "tidy", about: "walls and house rules", run: tidy::step },
    Step { name: "lint", about: "cargo clippy with all warnings denied", run: build::lint },
    Step { name: "build", about: "binaries and test binaries", run: build::build },
    Step { name: "unit", about: "unit and integration tests", run: build::unit },
    Step { name: "doctest", about: "examples in the documentation", run: build::doctest },
    Step { name: "doc", about: "cargo doc with all warnings denied", run: build::doc },
    Step { name: "scenarios", about: "behaviour scenarios, ours and the acceptance folder's", run: scenarios::step },
    Step { name: "fuzz", about: "each fuzz target for a short while", run: fuzz::step },
    Step { name: "conformance", about: "the official conformance suite", run: conformance::step },
    Step { name: "real", about: "real servers and real clients", run: real::step },
];

pub fn test(workspace: &Workspace, arguments: &[String], setting: Setting) -> Result<bool> {
    let steps = match chosen(arguments)? {
        Some(steps) => steps,
        None => {
            for step in &STEPS {
                println!("{:11} {}", step.name, step.about);
            }
            return Ok(true);
        }
    };
    let start = Instant::now();
    let mut sum = Tally::default();
    let mut account = Account::default();
    let mut failures = Vec::new();
    let mut remarks = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n==> step {}/{} {}: {}", index + 1, steps.len(), step.name, step.about);
        let begun = Instant::now();
        let mut verdict = (step.run)(workspace, setting).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Verdict { remarks: vec![format!("{error:#}")], ..Verdict::plain(false) }
        });
        if verdict.failed && verdict.tally.failed == 0 {
            // A runner that ended badly without naming a test, or a check: the closing line must not say `0 failed`.
            verdict.tally += Tally::FAILED;
        }
        let word = if verdict.failed { "FAILED" } else { "ok" };
        let counts = if verdict.tally.is_empty() { String::new() } else { format!(" ({})", verdict.tally) };
        println!("==> step {}/{} {}: {word} in {:.1} s{counts}", index + 1, steps.len(), step.name, seconds(begun));
        account.add(step.name, begun.elapsed(), child::take_compiled());
        if verdict.failed {
            failures.push(step.name);
        }
        remarks.extend(verdict.remarks.into_iter().map(|remark| format!("{}: {remark}", step.name)));
        sum += verdict.tally;
    }
    println!("\n==> {} steps in {:.0} s", steps.len(), seconds(start));
    for line in account.lines() {
        println!("    {line}");
    }
    for remark in remarks {
        println!("    {remark}");
    }
    for name in &failures {
        println!("    FAILED: {name} (again with: cargo xtask test --only {name})");
    }
    println!("{sum}");
    Ok(failures.is_empty())
}

/// The steps that the arguments name, all of them without arguments, nothing for `--list`.
fn chosen(arguments: &[String]) -> Result<Option<Vec<&'static Step>>> {
    let mut chosen = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => return Ok(None),
            "--only" => {
                let name = arguments.next().map(String::as_str).unwrap_or_default();
                let Some(step) = STEPS.iter().find(|step| step.name == name) else {
                    let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
                    bail!("no step is called `{name}`; the steps are {}", names.join(", "));
                };
                chosen.push(step);
            }
            other => bail!("unknown argument `{other}`; `test` knows --only <step>, --list and, alone, --screenshots"),
        }
    }
    if chosen.is_empty() {
        chosen.extend(&STEPS);
    }
    Ok(Some(chosen))
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Option<Vec<&'static str>> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        chosen(&arguments).unwrap().map(|steps| steps.iter().map(|step| step.name).collect())
    }

    #[test]
    fn only_picks_steps_and_without_it_all_run() {
        assert_eq!(names(&["--only", "tidy", "--only", "unit"]), Some(vec!["tidy", "unit"]));
        assert_eq!(names(&[]).map(|steps| steps.len()), Some(STEPS.len()));
        assert_eq!(names(&["--list"]), None);
    }

    #[test]
    fn a_step_that_does_not_exist_is_an_error_that_names_the_others() {
        let error = chosen(&["--only".to_owned(), "tests".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("`tests`") && error.contains("unit"), "{error}");
    }
}
