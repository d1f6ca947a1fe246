//! The questions of `init`, on the terminal: one line each, and Enter takes what most people want.

use std::io::{self, BufRead, IsTerminal, Write};

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::Client;

/// How often a question is asked again.
const TRIES: usize = 3;
/// The longest answer that is read, in bytes.
const ANSWER_BYTES: u64 = 4_096;

/// Asks a person, or no one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Prompter {
    /// Everything is answered by yes.
    AcceptAll,
    Terminal,
}

// === impl Prompter ===

impl Prompter {
    /// Without a terminal someone must have said yes before.
    pub(super) fn new(yes: bool) -> Result<Self, Problem> {
        match (yes, io::stdin().is_terminal()) {
            (true, _) => Ok(Self::AcceptAll),
            (false, true) => Ok(Self::Terminal),
            (false, false) => {
                let problem = Problem::new(Kind::InvalidParams, "`init` asks questions, which needs a terminal");
                Err(problem.hint("nothing was written; add `--yes` to accept the suggestions"))
            }
        }
    }

    /// A question that is mostly answered by yes.
    pub(super) fn yes(self, question: &str) -> anyhow::Result<bool> {
        self.ask(&format!("{question} [Y/n] "), true, |answer| match answer {
            "" | "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("answer `y` or `n`".to_owned()),
        })
    }

    /// A question that is answered by no unless a person says otherwise.
    pub(super) fn no(self, question: &str) -> anyhow::Result<bool> {
        self.ask(&format!("{question} [y/N] "), false, |answer| match answer {
            "y" | "yes" => Ok(true),
            "" | "n" | "no" => Ok(false),
            _ => Err("answer `y` or `n`".to_owned()),
        })
    }

    /// Whether there is a person to ask.
    pub(super) fn is_person(self) -> bool {
        matches!(self, Self::Terminal)
    }

    /// Which of these clients are to be connected; mostly all.
    pub(super) fn which(self, clients: &[&'static Client]) -> anyhow::Result<Vec<&'static Client>> {
        let question = match clients {
            [client] => format!("Connect {}? [Y/n] ", client.title),
            _ => {
                let names: Vec<&str> = clients.iter().map(|client| client.name).collect();
                format!("Connect {}? [Y/n, or names] ", names.join(", "))
            }
        };
        self.ask(&question, clients.to_vec(), |answer| chosen(answer, clients))
    }

    fn ask<T>(self, question: &str, usual: T, read: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
        if let Self::AcceptAll = self {
            return Ok(usual);
        }
        let mut stderr = io::stderr().lock();
        for _ in 0..TRIES {
            write!(stderr, "{question}")?;
            stderr.flush()?;
            let mut answer = String::new();
            let length = io::Read::take(io::stdin().lock(), ANSWER_BYTES).read_line(&mut answer)?;
            if length == 0 {
                writeln!(stderr)?;
                break;
            }
            match read(&answer.trim().to_ascii_lowercase()) {
                Ok(answer) => return Ok(answer),
                Err(wrong) => writeln!(stderr, "{wrong}")?,
            }
        }
        let problem = Problem::new(Kind::InvalidParams, "no answer: nothing was written");
        Err(problem.hint("run it again, or add `--yes` to accept the suggestions").into())
    }
}

/// A question at the terminal that is mostly answered by yes.
pub(crate) fn yes(question: &str) -> anyhow::Result<bool> {
    Prompter::Terminal.yes(question)
}

/// All, none, or those that are named.
fn chosen(answer: &str, clients: &[&'static Client]) -> Result<Vec<&'static Client>, String> {
    match answer {
        "" | "y" | "yes" | "all" => return Ok(clients.to_vec()),
        "n" | "no" | "none" => return Ok(Vec::new()),
        _ => {}
    }
    let mut chosen: Vec<&'static Client> = Vec::new();
    for word in answer.split([',', ' ']).filter(|word| !word.is_empty()) {
        let client = clients.iter().find(|client| client.name == word);
        let client = client.ok_or_else(|| "answer `y`, `n`, or some of these names".to_owned())?;
        if !chosen.contains(client) {
            chosen.push(client);
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use toolcrib_catalog::clients::client;

    use super::*;

    #[test]
    fn clients_are_chosen_all_none_or_by_name() {
        let clients = [client("cursor").unwrap(), client("vscode").unwrap(), client("zed").unwrap()];
        let names = |answer: &str| {
            chosen(answer, &clients).map(|chosen| chosen.iter().map(|client| client.name).collect::<Vec<_>>())
        };
        for answer in ["", "y", "all"] {
            assert_eq!(names(answer).unwrap(), ["cursor", "vscode", "zed"]);
        }
        assert!(names("n").unwrap().is_empty());
        assert_eq!(names("zed, cursor zed").unwrap(), ["zed", "cursor"]);
        for answer in ["codex", "zed or", "1"] {
            assert!(names(answer).unwrap_err().contains("names"), "{answer}");
        }
    }

    #[test]
    fn no_one_is_asked_where_all_is_agreed() {
        assert!(Prompter::AcceptAll.yes("?").unwrap());
        assert_eq!(Prompter::AcceptAll.which(&[client("zed").unwrap()]).unwrap().len(), 1);
    }
}
