//! Commands typed one after the other. Every line is a command of the command line, or one of muster's words for one
//! (`words.rs`), and runs as if it stood in a shell; beside it this holds the history, the completion and the notifications.

pub(crate) mod changes;
mod completer;
mod words;

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor, ExternalPrinter};
use tokio::runtime::Runtime;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem};

use crate::client::{Client, ClientFlags};
use crate::contexts::Contexts;
use crate::home::{Environment, Home};
use crate::output::report;
use crate::{free, output, text};
use completer::LineCompleter;
use words::Act;

/// How many lines are remembered.
const HISTORY: usize = 1_000;
/// How long the task of notifications may take to end.
const LAST_CHANGE: Duration = Duration::from_millis(200);
/// The longest line that is read from a pipe, in bytes.
const LINE_BYTES: usize = 16 << 20;

/// What prints a line beside what is being typed.
type Print = Arc<dyn Fn(String) + Send + Sync>;

/// The command line in which the lines are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandLine {
    /// All commands, for completion and to tell apart the flags that no command has.
    pub(crate) definition: fn() -> clap::Command,
    /// Parses and runs one command, the program's name first; what fails is on stderr when it returns.
    pub(crate) run: fn(Vec<OsString>, &Environment) -> ExitCode,
}

/// One sitting.
struct Repl {
    command_line: CommandLine,
    flags: ClientFlags,
    environment: Environment,
    runtime: Runtime,
    /// The task that prints notifications, while they are on.
    changes: Option<Scope>,
    print: Print,
}

/// Reads and runs lines until there is no more.
pub(crate) fn run(
    command_line: CommandLine,
    flags: &ClientFlags,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("start the runtime")?;
    let (version, place) = runtime.block_on(async {
        let client = Client::open(flags, environment).await?;
        let greeting = (client.server_version().unwrap_or_default(), client.located().uri.to_string());
        client.close().await;
        anyhow::Ok(greeting)
    })?;
    let mut repl = Repl {
        command_line,
        flags: flags.clone(),
        environment: environment.clone(),
        runtime,
        changes: None,
        print: Arc::new(|line| drop(output::print(&line))),
    };
    let outcome = if std::io::stdin().is_terminal() { repl.converse(&version, &place) } else { repl.read_all() };
    repl.quiet();
    // Someone may still look up a name that is no longer awaited.
    repl.runtime.shutdown_background();
    outcome
}

// === impl Repl ===

impl Repl {
    /// With a person at a terminal.
    fn converse(&mut self, version: &str, place: &str) -> anyhow::Result<ExitCode> {
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true);
        let config = config.max_history_size(HISTORY).context("set up the history")?.build();
        let mut editor: Editor<LineCompleter, FileHistory> =
            Editor::with_config(config).context("read the terminal")?;
        editor.set_helper(Some(LineCompleter::new(self.flags.clone(), self.command_line.definition)));
        let history =
            Home::find(self.flags.home(), &self.environment).ok().map(|home| home.state().join("repl_history"));
        if let Some(path) = &history {
            // There is none before the first sitting.
            let _ = editor.load_history(path);
        }
        if let Ok(printer) = editor.create_external_printer() {
            let printer = Mutex::new(printer);
            self.print = Arc::new(move |line| {
                // What cannot be shown is not missed.
                let _ = printer.lock().unwrap_or_else(PoisonError::into_inner).print(line);
            });
        }
        output::print(&format!("toolcrib {version} at {place}; type `help` for commands, `exit` to quit\n"))?;
        self.start_notifications();
        loop {
            match editor.readline(&self.prompt()) {
                Ok(line) => {
                    if !self.take(&line, &mut ExitCode::SUCCESS.clone())? {
                        break;
                    }
                    if let Some(helper) = editor.helper_mut() {
                        helper.switch_gateway(self.flags.clone());
                    }
                }
                // Ctrl-C cancels what is being typed.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(anyhow::Error::new(error).context("read the terminal")),
            }
        }
        if let Some(path) = &history {
            let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
            if let Err(error) = saved.and_then(|()| editor.save_history(path)) {
                return Err(anyhow::Error::new(error).context(format!("keep the history in `{}`", path.display())));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// From a pipe or a file: no prompt, no notifications; the exit code is that of the last line that failed.
    fn read_all(&mut self) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        let mut stdin = std::io::stdin().lock();
        let (mut line, mut whole) = (Vec::new(), String::new());
        loop {
            line.clear();
            let limit = u64::try_from(LINE_BYTES).unwrap_or(u64::MAX);
            let read = std::io::Read::take(&mut stdin, limit + 1).read_until(b'\n', &mut line);
            if read.context("read from stdin")? == 0 {
                // What was not closed is reported.
                self.take(&whole, &mut code)?;
                return Ok(code);
            }
            if line.len() + whole.len() > LINE_BYTES {
                let problem = Problem::new(Kind::TooLarge, format!("a line of more than {LINE_BYTES} bytes"));
                return Err(problem.into());
            }
            let text = std::str::from_utf8(&line)
                .map_err(|_| Problem::new(Kind::InvalidParams, "a line that is not UTF-8 text"))?;
            whole.push_str(text);
            if words::is_open(&whole) {
                continue;
            }
            if !self.take(&whole, &mut code)? {
                return Ok(code);
            }
            whole.clear();
        }
    }

    /// Runs one line; `false` ends the sitting.
    fn take(&mut self, line: &str, code: &mut ExitCode) -> anyhow::Result<bool> {
        let act = match words::act(line) {
            Ok(act) => act,
            Err(problem) => {
                *code = report(&problem.into());
                return Ok(true);
            }
        };
        match act {
            Act::Nothing => {}
            Act::Exit => return Ok(false),
            Act::Help => output::print(words::HELP)?,
            Act::Notifications(None) => {
                output::print(if self.changes.is_some() {
                    "notifications are on\n"
                } else {
                    "notifications are off\n"
                })?;
            }
            Act::Notifications(Some(true)) => self.start_notifications(),
            Act::Notifications(Some(false)) => self.quiet(),
            Act::UseContext(name) => match self.switch_context(&name) {
                Ok(place) => output::print(&format!("Switched to context `{name}` ({})\n", text::line(&place)))?,
                Err(problem) => *code = report(&problem.into()),
            },
            Act::Run(words) => {
                let done = self.run(words);
                if done != ExitCode::SUCCESS {
                    *code = done;
                }
            }
        }
        Ok(true)
    }

    /// Runs a command as the command line does.
    fn run(&self, words: Vec<String>) -> ExitCode {
        let words = words::with_flags(words, &self.flags.written());
        let words = std::iter::once("toolcrib".to_owned()).chain(words).map(Into::into).collect();
        (self.command_line.run)(free::rewrite(words, self.command_line.definition), &self.environment)
    }

    /// Another context for this sitting; the file is not changed.
    fn switch_context(&mut self, name: &str) -> Result<String, Problem> {
        let home = Home::find(self.flags.home(), &self.environment)?;
        let place = Contexts::load(&home)?.named(name, "the line")?.endpoint.clone();
        self.flags = self.flags.clone().at_context(name);
        if self.changes.is_some() {
            self.quiet();
            self.start_notifications();
        }
        Ok(place)
    }

    fn prompt(&self) -> String {
        match self.flags.context() {
            Some(context) => format!("toolcrib [{context}]> "),
            None => "toolcrib> ".to_owned(),
        }
    }

    /// Prints notifications from now on.
    fn start_notifications(&mut self) {
        if self.changes.is_some() {
            return;
        }
        let (flags, environment) = (self.flags.clone(), self.environment.clone());
        let print = Arc::clone(&self.print);
        let scope = Scope::new();
        let mut stop = scope.stop_signal();
        self.runtime.block_on(async {
            scope.spawn(async move {
                // What is dropped is a look that no one wants any more.
                tokio::select! {
                    () = changes::print_changes(&flags, &environment, &*print) => {}
                    () = stop.stopped() => {}
                }
            });
        });
        self.changes = Some(scope);
    }

    fn quiet(&mut self) {
        if let Some(scope) = self.changes.take() {
            self.runtime.block_on(scope.close(LAST_CHANGE));
        }
    }
}
