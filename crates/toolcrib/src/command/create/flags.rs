//! The definition of a server from flags, with muster's names for them.

use serde_json::{Map, Value, json};
use toolcrib_base::Problem;

use super::wrong;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "A server")]
pub(super) struct Server {
    /// How it is reached
    #[arg(long = "type", value_name = "TYPE", value_parser = ["stdio", "streamable-http", "http", "sse"])]
    transport: Option<String>,
    /// The program to start
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
    /// The program's arguments, with commas between them, or the flag several times
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// The address
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A variable of the program, best as a reference such as `KEY=env:KEY`
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header of every request, best as a reference such as `X-Key=env:KEY`
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// How long a call may take: `30s`, or a number of seconds
    #[arg(long, value_name = "TIME")]
    call_timeout: Option<String>,
    /// What its tools' names begin with, in place of the server's name
    #[arg(long, value_name = "PREFIX")]
    tool_prefix: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Start it with the gateway
    #[arg(long, alias = "autoStart")]
    auto_start: bool,
}

// === impl Server ===

impl Server {
    /// These flags are for a server that is made of them.
    pub(super) fn refuse(&self, beside: &str) -> Result<(), Problem> {
        let is_set = self.transport.is_some()
            || self.command.is_some()
            || self.url.is_some()
            || !self.args.is_empty()
            || !self.env.is_empty()
            || !self.header.is_empty()
            || self.call_timeout.is_some()
            || self.tool_prefix.is_some()
            || self.description.is_some()
            || self.auto_start;
        if is_set { Err(wrong(format!("the flags of a server do not fit {beside}"))) } else { Ok(()) }
    }

    /// The definition, in the words of `servers/*.yaml`.
    pub(super) fn definition(&self) -> Result<Value, Problem> {
        let is_remote = self.transport.as_deref().map_or(self.url.is_some(), |transport| transport != "stdio");
        let mut definition = Map::new();
        if is_remote {
            let Some(url) = &self.url else {
                return Err(wrong("`--url` is required for a server that is reached over HTTP"));
            };
            if self.command.is_some() || !self.args.is_empty() || !self.env.is_empty() {
                return Err(wrong("`--command`, `--args` and `--env` are for a server that is a program"));
            }
            let transport = if self.transport.as_deref() == Some("sse") { "sse" } else { "http" };
            definition.insert("transport".to_owned(), transport.into());
            definition.insert("url".to_owned(), url.as_str().into());
            put_pairs(&mut definition, "headers", &self.header)?;
        } else {
            let Some(command) = &self.command else {
                return Err(wrong("neither `--command` nor `--url` is given")
                    .hint("write `--command PROGRAM --args A,B`, `--url URL`, or `--file FILE`"));
            };
            if self.url.is_some() || !self.header.is_empty() {
                return Err(wrong("`--url` and `--header` are for a server that is reached over HTTP"));
            }
            definition.insert("command".to_owned(), command.as_str().into());
            if !self.args.is_empty() {
                definition.insert("args".to_owned(), self.args.clone().into());
            }
            put_pairs(&mut definition, "env", &self.env)?;
        }
        if let Some(timeout) = &self.call_timeout {
            let is_number = timeout.bytes().all(|byte| byte.is_ascii_digit());
            let timeout = if is_number { format!("{timeout}s") } else { timeout.clone() };
            definition.insert("timeouts".to_owned(), json!({ "call": timeout }));
        }
        for (key, value) in [("prefix", &self.tool_prefix), ("description", &self.description)] {
            if let Some(value) = value {
                definition.insert(key.to_owned(), value.as_str().into());
            }
        }
        if self.auto_start {
            definition.insert("start".to_owned(), "eager".into());
        }
        Ok(definition.into())
    }
}

fn put_pairs(definition: &mut Map<String, Value>, key: &str, pairs: &[String]) -> Result<(), Problem> {
    let mut all = Map::new();
    for pair in pairs {
        // Not repeated: what is written here may be a secret.
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| wrong(format!("an entry for `{key}` is not `NAME=VALUE`")))?;
        all.insert(name.to_owned(), value.into());
    }
    if !all.is_empty() {
        definition.insert(key.to_owned(), all.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_a_definition() {
        let program = Server {
            command: Some("npx".into()),
            args: vec!["-y".into(), "x".into()],
            env: vec!["K=env:K".into()],
            call_timeout: Some("30".into()),
            tool_prefix: Some("p".into()),
            auto_start: true,
            ..Server::default()
        };
        assert_eq!(
            program.definition().unwrap(),
            json!({ "command": "npx", "args": ["-y", "x"], "env": { "K": "env:K" }, "timeouts": { "call": "30s" },
                    "prefix": "p", "start": "eager" })
        );
        let remote = Server {
            transport: Some("streamable-http".into()),
            url: Some("https://a".into()),
            header: vec!["X=a=b".into()],
            ..Server::default()
        };
        assert_eq!(
            remote.definition().unwrap(),
            json!({ "transport": "http", "url": "https://a", "headers": { "X": "a=b" } })
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (command, url) = (Some("c".to_owned()), Some("https://a".to_owned()));
        for (server, part) in [
            (Server::default(), "neither `--command` nor `--url`"),
            (Server { transport: Some("sse".into()), ..Server::default() }, "`--url` is required"),
            (
                Server { command: command.clone(), url: url.clone(), ..Server::default() },
                "are for a server that is a program",
            ),
            (Server { command, header: vec!["a=b".into()], ..Server::default() }, "reached over HTTP"),
            (Server { url, header: vec!["secret".into()], ..Server::default() }, "is not `NAME=VALUE`"),
        ] {
            let problem = server.definition().unwrap_err();
            assert!(problem.message.contains(part) && !problem.message.contains("secret"), "{problem}");
        }
        assert!(Server { auto_start: true, ..Server::default() }.refuse("--file").is_err());
        Server::default().refuse("--file").unwrap();
    }
}
