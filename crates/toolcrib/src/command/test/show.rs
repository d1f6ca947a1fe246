//! How a run looks: one line for each scenario that has ended; on a terminal also what runs right now.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use toolcrib_scenario::{Outcome, Progress, Verdict};

use crate::text;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);
/// How many running scenarios are named.
const NAMED: usize = 4;

pub(super) struct RunDisplay {
    bar: Option<ProgressBar>,
    running: Mutex<Vec<String>>,
    verbose: bool,
}

// === impl RunDisplay ===

impl RunDisplay {
    pub(super) fn new(total: usize, verbose: bool) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let style = ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed} {wide_msg}");
            bar.set_style(style.expect("the template is valid"));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, running: Mutex::default(), verbose }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Above the bar, to stderr: stdout has the last line only.
    fn line(&self, line: &str) {
        let line = text::block(line);
        match &self.bar {
            Some(bar) => bar.suspend(|| write(&line)),
            None => write(&line),
        }
    }

    fn name_running(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        if let Some(bar) = &self.bar {
            let more = if running.len() > NAMED { " …" } else { "" };
            let names: Vec<&str> = running.iter().take(NAMED).map(String::as_str).collect();
            bar.set_message(text::line(&format!("{}{more}", names.join(", "))).to_string());
        }
    }
}

impl Progress for RunDisplay {
    fn begins(&self, name: &str) {
        self.name_running(|running| running.push(name.to_owned()));
    }

    fn ended(&self, outcome: &Outcome) {
        self.name_running(|running| {
            let place = running.iter().position(|name| *name == outcome.name);
            place.map(|place| running.remove(place));
        });
        let word = outcome.verdict.as_str().to_uppercase();
        let mut lines = vec![format!("{word:7} {} ({:.1} s)", outcome.name, outcome.took.as_secs_f64())];
        if self.verbose {
            lines.extend(outcome.steps.iter().map(|step| {
                let reason = step.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                let (word, millis) = (step.verdict.as_str(), step.took.as_millis());
                format!("        {word:7} {} {} ({millis} ms){reason}", step.id, step.tool)
            }));
        }
        if let Some(reason) = &outcome.reason {
            lines.push(format!("        {}", reason.replace('\n', "\n        ")));
        }
        lines.extend(outcome.warnings.iter().map(|warning| format!("        warning: {warning}")));
        if self.verbose && matches!(outcome.verdict, Verdict::Failed | Verdict::Error) {
            lines.extend(outcome.log.iter().map(|line| format!("        log: {line}")));
        }
        if let Some(home) = &outcome.home {
            lines.push(format!("        home: {}", home.display()));
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.line(&lines.join("\n"));
    }
}

fn write(line: &str) {
    // Who closed stderr does not want to see it.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
