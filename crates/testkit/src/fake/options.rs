//! The flags: one table that is also the help.

use std::fmt::Write;

/// What to serve and how to misbehave.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) modern: bool,
    pub(super) modern_only: bool,
    pub(super) revision: Option<String>,
    pub(super) instructions: Option<String>,
    pub(super) page: Option<usize>,
    pub(super) tools: Option<usize>,
    pub(super) tag: Option<String>,
    pub(super) duplicate_tools: bool,
    pub(super) bad_tool: bool,
    pub(super) asks: bool,
    pub(super) tasks: bool,
    pub(super) ui: Option<String>,
    pub(super) capabilities: Option<String>,
    pub(super) touches: bool,
    pub(super) list_changed_after: Option<u64>,
    pub(super) slow_start: Option<u64>,
    pub(super) garbage: bool,
    pub(super) exit_at_start: bool,
    pub(super) exit_after: Option<u64>,
    /// The method that is never answered; an empty text stands for every method.
    pub(super) never_answer: Option<String>,
    pub(super) wrong_id: bool,
    pub(super) long_line: Option<usize>,
    pub(super) close_stdin: bool,
    pub(super) flood_stderr: Option<usize>,
    pub(super) fork_grandchildren: bool,
    pub(super) ignore_sigterm: bool,
    pub(super) idle_child: Option<u64>,
    pub(super) relay: Option<String>,
}

/// Flag, its value's name, what it does.
const FLAGS: &[(&str, &str, &str)] = &[
    ("--modern", "", "also answer `server/discover` and requests of 2026-07-28 without `initialize`"),
    ("--modern-only", "", "the same, and refuse `initialize`"),
    ("--revision", "DATE", "answer `initialize` with this revision, whatever the client asks for"),
    ("--instructions", "TEXT", "the instructions to give"),
    ("--page", "N", "give lists in pages of N entries"),
    ("--tools", "N", "list N generated tools instead of the built-in ones, which still answer"),
    ("--tag", "TEXT", "does nothing; marks the process and its descendants in the process table"),
    ("--duplicate-tools", "", "list `echo` twice, with different descriptions"),
    ("--bad-tool", "", "list broken entries among the tools: no name, a number as name, a bad schema, no object"),
    ("--asks", "", "list the tool `ask`, which asks the client for sampling, elicitation or roots"),
    ("--tasks", "", "list the tool `job`, whose calls become tasks: in 2025-11-25 they must, in 2026-07-28 they can"),
    ("--ui", "URI", "list the tool `app` with its user interface at this URI, which no list has but which can be read"),
    ("--capabilities", "JSON", "declare these too"),
    (
        "--touches",
        "",
        "list the tools `touch`, which tells that resources changed, and `watched`, which tells who listens",
    ),
    ("--list-changed-after", "N", "after N tool calls list one more tool and say so"),
    ("--slow-start", "MS", "wait so long before the first line is read"),
    ("--garbage", "", "print log lines and JSON that is no message on stdout before every answer"),
    ("--exit-at-start", "", "print a line on stderr and exit with code 3"),
    ("--exit-after", "N", "exit with code 4 after N answers"),
    ("--never-answer", "[METHOD]", "never answer this method, or any"),
    ("--wrong-id", "", "answer `tools/call` with an id that nobody used"),
    ("--long-line", "BYTES", "print a line of so many bytes before the answer to `tools/call`"),
    ("--close-stdin", "", "close stdin after the first tool call and live on"),
    ("--flood-stderr", "BYTES", "write so many bytes to stderr before the first line is read"),
    ("--fork-grandchildren", "", "start a child, a grandchild and a great-grandchild in its own session; all live on"),
    ("--ignore-sigterm", "", "live on after SIGTERM and after stdin is closed"),
    ("--idle-child", "DEPTH", "be one of those descendants"),
    (
        "--relay",
        "ADDRESS",
        "be no server at all: pass bytes between stdin, stdout and this address until one of them ends",
    ),
    ("--help", "", "print this and exit"),
];

pub(super) fn help() -> String {
    let mut text = "A fake MCP server over stdio, for tests.\n\nUsage: fake-server [FLAGS]\n\n".to_owned();
    for (flag, value, what) in FLAGS {
        let _ = writeln!(text, "  {:<26} {what}", format!("{flag} {value}"));
    }
    text
}

/// `None` when help was asked for.
pub(super) fn parse(args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut args = args.peekable();
    let mut options = Options::default();
    while let Some(flag) = args.next() {
        let Some((_, value, _)) = FLAGS.iter().find(|(name, ..)| *name == flag) else {
            return Err(format!("unknown flag `{flag}`, see `--help`"));
        };
        let text = match *value {
            "" => String::new(),
            "[METHOD]" => args.next_if(|next| !next.starts_with("--")).unwrap_or_default(),
            _ => args.next().ok_or_else(|| format!("`{flag}` needs {value}"))?,
        };
        if flag == "--help" {
            return Ok(None);
        }
        options.set(&flag, text)?;
    }
    Ok(Some(options))
}

impl Options {
    fn set(&mut self, flag: &str, text: String) -> Result<(), String> {
        let number = || text.parse::<u64>().map_err(|_| format!("`{flag}` needs a number, not `{text}`"));
        let size = || number().and_then(|number| usize::try_from(number).map_err(|error| error.to_string()));
        match flag {
            "--modern" => self.modern = true,
            "--modern-only" => (self.modern, self.modern_only) = (true, true),
            "--revision" => self.revision = Some(text),
            "--instructions" => self.instructions = Some(text),
            "--page" => self.page = Some(size()?.max(1)),
            "--tools" => self.tools = Some(size()?),
            "--tag" => self.tag = Some(text),
            "--duplicate-tools" => self.duplicate_tools = true,
            "--bad-tool" => self.bad_tool = true,
            "--asks" => self.asks = true,
            "--tasks" => self.tasks = true,
            "--ui" => self.ui = Some(text),
            "--capabilities" => self.capabilities = Some(text),
            "--touches" => self.touches = true,
            "--list-changed-after" => self.list_changed_after = Some(number()?),
            "--slow-start" => self.slow_start = Some(number()?),
            "--garbage" => self.garbage = true,
            "--exit-at-start" => self.exit_at_start = true,
            "--exit-after" => self.exit_after = Some(number()?),
            "--never-answer" => self.never_answer = Some(text),
            "--wrong-id" => self.wrong_id = true,
            "--long-line" => self.long_line = Some(size()?),
            "--close-stdin" => self.close_stdin = true,
            "--flood-stderr" => self.flood_stderr = Some(size()?),
            "--fork-grandchildren" => self.fork_grandchildren = true,
            "--ignore-sigterm" => self.ignore_sigterm = true,
            "--relay" => self.relay = Some(text),
            "--idle-child" => self.idle_child = Some(number()?),
            other => return Err(format!("`{other}` is in the table but not known")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_the_table_is_known_and_in_the_help() {
        for (flag, value, _) in FLAGS {
            let args = [(*flag).to_owned(), "7".to_owned()];
            let parsed = parse(args.into_iter().take(if value.is_empty() { 1 } else { 2 }));
            assert!(parsed.is_ok(), "{flag}: {parsed:?}");
            assert!(help().contains(flag));
        }
        assert!(parse(["--nonsense".to_owned()].into_iter()).is_err());
        assert!(parse(["--page".to_owned()].into_iter()).is_err());
        let any = parse(["--never-answer".to_owned(), "--modern".to_owned()].into_iter()).unwrap().unwrap();
        assert_eq!((any.never_answer.as_deref(), any.modern), (Some(""), true));
    }
}
