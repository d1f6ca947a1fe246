//! `toolcrib logs`: what a server's program wrote to stderr and what the gateway saw of it: from the log file that the
//! gateway keeps for each server on its own machine, also when it does not run; or of a gateway elsewhere.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use toolcrib_base::{Kind, Problem, ServerName};

use crate::client::{ClientFlags, Rest, encoded};
use crate::home::{Environment, Home};
use crate::output::print;
use crate::text;

/// How often a followed file is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// How often a gateway elsewhere is asked, and for how many lines at most.
const ASK: Duration = Duration::from_secs(1);
const PAGE: usize = 1_000;
/// How much of a file is read: the gateway puts files aside at 1 MiB.
const FILE_BYTES: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server
    #[arg(add = crate::names::servers())]
    server: ServerName,
    /// Print new lines until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Show the last N lines
    #[arg(long, visible_alias = "lines", value_name = "N", default_value_t = 200)]
    tail: usize,
    /// Only lines that have these words, in any order
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    /// Ask the gateway at this URL in place of reading the file
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Ask the gateway of this context, of `toolcrib context list`
    #[arg(long, value_name = "CONTEXT", conflicts_with = "endpoint")]
    context: Option<String>,
    /// A file with the token [env: TOOLCRIB_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The home folder of the gateway [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// Words that a line must have.
#[derive(Debug, Clone)]
struct Words(Vec<String>);

impl Words {
    fn of(text: Option<&str>) -> Self {
        Self(text.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect())
    }

    fn fit(&self, line: &str) -> bool {
        let line = line.to_lowercase();
        self.0.iter().all(|word| line.contains(word.as_str()))
    }
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    if arguments.endpoint.is_some() || arguments.context.is_some() {
        return super::until_interrupted(remote(arguments, environment));
    }
    let words = Words::of(arguments.search.as_deref());
    let home = Home::find(arguments.home.as_deref(), environment)?;
    let path = home.state().join("logs").join(format!("{}.log", arguments.server));
    let older = path.with_extension("log.1");
    let now = read(&path, 0)?;
    if now.is_none() && !arguments.follow {
        return Err(no_log(&arguments.server, &home).into());
    }
    let begin = now.unwrap_or_default();
    if !arguments.follow {
        return newest(arguments.tail, &begin.1, &older, &words).map(|()| ExitCode::SUCCESS);
    }
    super::until_interrupted(async {
        newest(arguments.tail, &begin.1, &older, &words)?;
        follow(&path, begin.0, &words).await
    })
}

/// Shows the newest lines of the file, and before them those of the one that was moved aside.
fn newest(lines: usize, recent: &str, older: &Path, words: &Words) -> anyhow::Result<()> {
    let is_enough = recent.lines().filter(|line| words.fit(line)).count() >= lines;
    let before = if is_enough { None } else { read(older, 0)? };
    let all = before.unwrap_or_default().1 + recent;
    let all: Vec<&str> = all.lines().filter(|line| words.fit(line)).collect();
    all[all.len().saturating_sub(lines)..].iter().try_for_each(|line| show(line))
}

/// Shows what comes, from a place of the file on.
async fn follow(path: &Path, mut at: u64, words: &Words) -> anyhow::Result<()> {
    let mut rest = String::new();
    loop {
        tokio::time::sleep(LOOK).await;
        // A file that was moved aside starts over.
        let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        if size < at {
            at = 0;
        }
        let Some((end, more)) = read(path, at)? else { continue };
        at = end;
        rest.push_str(&more);
        while let Some(line) = rest.find('\n') {
            if words.fit(&rest[..line]) {
                show(&rest[..line])?;
            }
            rest.drain(..=line);
        }
    }
}

/// The same of a gateway elsewhere, by its operation.
async fn remote(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let flags =
        ClientFlags::of_bridge(arguments.endpoint.clone(), None, arguments.token_file.clone(), arguments.home.clone());
    let flags = arguments.context.as_deref().map_or(flags.clone(), |context| flags.at_context(context));
    let rest = Rest::open(&flags, environment)?;
    let path = format!("/servers/{}/logs", encoded(arguments.server.as_str()));
    let words = arguments.search.as_deref().map_or_else(String::new, |words| format!("&query={}", encoded(words)));
    let mut place = format!("limit={}", arguments.tail.clamp(1, PAGE));
    loop {
        let answer = rest.get(&format!("{path}?{place}{words}")).await?.to_value();
        if answer["missed"] == true {
            print("… lines are missing here: the log went on faster than it was read\n")?;
        }
        for line in answer["lines"].as_array().into_iter().flatten() {
            let part = |key: &str| line[key].as_str().unwrap_or_default();
            show(&format!("{} {:5} {}", part("at"), part("level"), part("line")))?;
        }
        if !arguments.follow {
            return Ok(());
        }
        place = format!("limit={PAGE}&after={}", encoded(answer["next"].as_str().unwrap_or_default()));
        if answer["truncated"] != true {
            tokio::time::sleep(ASK).await;
        }
    }
}

/// A line as a terminal may see it.
fn show(line: &str) -> anyhow::Result<()> {
    Ok(print(&format!("{}\n", text::line(line)))?)
}

/// A file from a place on, with where it ended; `None` where there is none.
fn read(path: &Path, from: u64) -> Result<Option<(u64, String)>, Problem> {
    let failed =
        |error: std::io::Error| Problem::new(Kind::Internal, format!("cannot read `{}`: {error}", path.display()));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    // What was cut in the middle of a character is read with the rest of it.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = from + whole as u64;
    Ok(Some((end, String::from_utf8_lossy(&bytes[..whole]).into_owned())))
}

fn no_log(server: &ServerName, home: &Home) -> Problem {
    let has = |end: &str| home.path().join("servers").join(format!("{server}.{end}")).exists();
    let message = format!("the server `{server}` has no log in `{}`", home.state().join("logs").display());
    let problem = Problem::new(Kind::NotFound, message);
    if ["yaml", "yml", "json"].iter().any(|end| has(end)) {
        return problem.hint(format!("the log is created when the server starts: `toolcrib start server {server}`"));
    }
    problem.hint(
        "list servers with `toolcrib list servers`; of a gateway elsewhere, name it by `--context` or `--endpoint`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_by_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        assert_eq!(read(&path, 0).unwrap(), None);
        std::fs::write(&path, "one\ntwo \u{e9}\nthr").unwrap();
        assert_eq!(read(&path, 0).unwrap(), Some((11, "one\ntwo \u{e9}\n".to_owned())));
        std::fs::write(&path, "one\ntwo \u{e9}\nthree\n").unwrap();
        assert_eq!(read(&path, 11).unwrap(), Some((17, "three\n".to_owned())));
        assert_eq!(read(&path, 17).unwrap(), Some((17, String::new())));
    }
}
