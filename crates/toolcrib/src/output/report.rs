//! Errors as a person reads them on stderr, and the exit code of each.

use std::io::Write;
use std::process::ExitCode;

use toolcrib_base::Problem;

use crate::text;

/// The command has printed what went wrong in its own form; only the exit code is left.
#[derive(Debug)]
pub(crate) struct ReportedFailure;

impl std::fmt::Display for ReportedFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the failure is already reported")
    }
}

impl std::error::Error for ReportedFailure {}

/// Writes an error and its next step to stderr, and gives its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<ReportedFailure>() {
        return ExitCode::FAILURE;
    }
    let io_error = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io_error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
        // The reader of our output has seen enough.
        return ExitCode::SUCCESS;
    }
    let problem = error.chain().find_map(|cause| cause.downcast_ref::<Problem>());
    let mut stderr = std::io::stderr().lock();
    let _ = match problem {
        Some(problem) => {
            let hint = problem.hint.iter().map(|hint| format!("hint: {}\n", text::block(hint)));
            write!(stderr, "error: {}\n{}", text::block(&problem.message), hint.collect::<String>())
        }
        None => writeln!(stderr, "error: {}", text::block(&format!("{error:#}"))),
    };
    ExitCode::from(problem.map_or(1, |problem| problem.kind.row().exit))
}
