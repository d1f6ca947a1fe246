//! The definition of a server from flags, with muster's names for them. What has no flag is written in a file.

mod auth;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use toolcrib_base::Problem;

use super::wrong;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "A server")]
pub(super) struct Server {
    /// The transport
    #[arg(long = "type", value_name = "TYPE", value_parser = ["stdio", "streamable-http", "http", "sse"])]
    transport: Option<String>,
    /// The program to start
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
    /// The program's arguments; comma-separated or repeated
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// The program's working directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// The server's URL
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// An environment variable of the program, preferably a reference such as `KEY=env:KEY`
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Environment variables that the program inherits from the gateway; comma-separated or repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    inherit_env: Vec<String>,
    /// A header of every request, preferably a reference such as `X-Key=env:KEY`
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Timeout of a call: `30s`, or a number of seconds
    #[arg(long, value_name = "TIME")]
    call_timeout: Option<String>,
    /// Timeout of starting or connecting
    #[arg(long, value_name = "TIME")]
    connect_timeout: Option<String>,
    /// Timeout of each page of a list
    #[arg(long, value_name = "TIME")]
    list_timeout: Option<String>,
    /// The prefix of its tools' names [default: the server's name]
    #[arg(long, value_name = "PREFIX")]
    tool_prefix: Option<String>,
    /// The title shown to people
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The category
    #[arg(long, value_name = "WORD")]
    category: Option<String>,
    /// Tags for search; comma-separated or repeated
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    keyword: Vec<String>,
    /// A label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// When to start it
    #[arg(long, value_name = "WHEN", value_parser = ["lazy", "eager", "manual"], conflicts_with = "auto_start")]
    start: Option<String>,
    /// Start it with the gateway, same as `--start eager`
    #[arg(long, alias = "autoStart")]
    auto_start: bool,
    /// Idle time after which a lazy server stops
    #[arg(long, value_name = "TIME")]
    idle: Option<String>,
    /// Who shares a connection
    #[arg(long, value_name = "WHO", value_parser = ["shared", "principal", "handle", "request"])]
    session: Option<String>,
    /// The era of the protocol to use with it
    #[arg(long, value_name = "ERA", value_parser = ["auto", "legacy", "modern"])]
    era: Option<String>,
    #[command(flatten)]
    auth: auth::Auth,
}

// === impl Server ===

impl Server {
    /// These flags are for a server that is made of them.
    pub(super) fn refuse(&self, beside: &str) -> Result<(), Problem> {
        if self.is_empty() { Ok(()) } else { Err(wrong(format!("server flags do not apply to {beside}"))) }
    }

    fn is_empty(&self) -> bool {
        let lists = [&self.args, &self.env, &self.inherit_env, &self.header, &self.keyword, &self.label];
        let texts = self.texts();
        let is_reached = self.transport.is_some() || self.command.is_some() || self.url.is_some();
        let is_timed = self.timeouts().is_some();
        !is_reached && !is_timed && !self.auto_start && self.auth.value().is_none() && {
            texts.iter().all(|(_, text)| text.is_none()) && lists.iter().all(|list| list.is_empty())
        }
    }

    /// The members that are one text.
    fn texts(&self) -> [(&'static str, &Option<String>); 9] {
        [
            ("cwd", &self.cwd),
            ("prefix", &self.tool_prefix),
            ("title", &self.title),
            ("description", &self.description),
            ("category", &self.category),
            ("start", &self.start),
            ("idle", &self.idle),
            ("session", &self.session),
            ("era", &self.era),
        ]
    }

    fn timeouts(&self) -> Option<Value> {
        let of = |name: &str, time: &Option<String>| time.as_ref().map(|time| (name.to_owned(), period(time).into()));
        let all = [("connect", &self.connect_timeout), ("list", &self.list_timeout), ("call", &self.call_timeout)];
        let all: Map<String, Value> = all.into_iter().filter_map(|(name, time)| of(name, time)).collect();
        (!all.is_empty()).then(|| all.into())
    }

    fn is_remote(&self) -> bool {
        self.transport.as_deref().map_or(self.url.is_some(), |transport| transport != "stdio")
    }

    fn fits_together(&self) -> Result<(), Problem> {
        let is_program = self.command.is_some()
            || !self.args.is_empty()
            || !self.env.is_empty()
            || !self.inherit_env.is_empty()
            || self.cwd.is_some();
        if self.is_remote() && is_program {
            return Err(wrong(
                "`--command`, `--args`, `--env`, `--inherit-env` and `--cwd` are for a server that is a program",
            ));
        }
        let is_address = self.url.is_some() || !self.header.is_empty() || self.auth.is_of_remotes();
        if !self.is_remote() && is_address && (self.is_program() || self.url.is_some()) {
            let flags = "`--url`, `--header` and the authentication flags";
            return Err(wrong(format!("{flags} are for a server that is reached over HTTP")));
        }
        Ok(())
    }

    /// Whether something says that it is a program.
    fn is_program(&self) -> bool {
        self.transport.as_deref() == Some("stdio") || self.command.is_some()
    }

    /// The definition, in the words of `servers/*.yaml`.
    pub(super) fn definition(&self) -> Result<Value, Problem> {
        self.fits_together()?;
        let mut definition = Map::new();
        if self.is_remote() {
            let Some(url) = &self.url else {
                return Err(wrong("`--url` is required for a server that is reached over HTTP"));
            };
            let transport = if self.transport.as_deref() == Some("sse") { "sse" } else { "http" };
            definition.insert("transport".to_owned(), transport.into());
            definition.insert("url".to_owned(), url.as_str().into());
            put_pairs(&mut definition, "headers", &self.header)?;
        } else {
            let Some(command) = &self.command else {
                return Err(wrong("neither `--command` nor `--url` is given")
                    .hint("write `--command PROGRAM --args A,B`, `--url URL`, or `--file FILE`"));
            };
            definition.insert("command".to_owned(), command.as_str().into());
            if !self.args.is_empty() {
                definition.insert("args".to_owned(), self.args.clone().into());
            }
            put_pairs(&mut definition, "env", &self.env)?;
            if !self.inherit_env.is_empty() {
                definition.insert("inherit_env".to_owned(), self.inherit_env.clone().into());
            }
        }
        if let Some(timeouts) = self.timeouts() {
            definition.insert("timeouts".to_owned(), timeouts);
        }
        for (key, value) in self.texts() {
            if let Some(value) = value {
                let value = if key == "idle" { period(value) } else { value.clone() };
                definition.insert(key.to_owned(), value.into());
            }
        }
        if self.auto_start {
            definition.insert("start".to_owned(), "eager".into());
        }
        if !self.keyword.is_empty() {
            definition.insert("keywords".to_owned(), self.keyword.clone().into());
        }
        put_pairs(&mut definition, "labels", &self.label)?;
        if let Some(auth) = self.auth.value() {
            definition.insert("auth".to_owned(), auth);
        }
        Ok(definition.into())
    }

    /// What is to be changed of a server, in the words of the operation that keeps the rest.
    pub(super) fn changes(&self) -> Result<Value, Problem> {
        self.fits_together()?;
        if self.is_empty() {
            return Err(wrong("nothing to change").hint("add a flag such as `--description TEXT`, or `--file FILE`"));
        }
        let only_in_files = [
            ("--cwd", self.cwd.is_some()),
            ("--inherit-env", !self.inherit_env.is_empty()),
            ("--title", self.title.is_some()),
            ("--category", self.category.is_some()),
            ("--keyword", !self.keyword.is_empty()),
            ("--label", !self.label.is_empty()),
            ("--start", self.start.as_deref() == Some("lazy")),
            ("--idle", self.idle.is_some()),
            ("--session", self.session.is_some()),
            ("--call-timeout", self.call_timeout.is_some()),
            ("--connect-timeout", self.connect_timeout.is_some()),
            ("--list-timeout", self.list_timeout.is_some()),
        ];
        if let Some((flag, _)) = only_in_files.iter().find(|(_, is_given)| *is_given) {
            return Err(wrong(format!("`{flag}` cannot change an existing server"))
                .hint("edit its file in `servers/`, or pass the whole definition with `--file FILE`"));
        }
        let mut changes = Map::new();
        let starts = if self.auto_start { Some(true) } else { self.start.as_ref().map(|start| start == "eager") };
        for (key, value) in [
            ("type", self.transport.clone().map(Value::from)),
            ("command", self.command.clone().map(Value::from)),
            ("url", self.url.clone().map(Value::from)),
            ("args", (!self.args.is_empty()).then(|| self.args.clone().into())),
            ("toolPrefix", self.tool_prefix.clone().map(Value::from)),
            ("description", self.description.clone().map(Value::from)),
            ("autoStart", starts.map(Value::from)),
            ("auth", self.auth.value()),
        ] {
            if let Some(value) = value {
                changes.insert(key.to_owned(), value);
            }
        }
        put_pairs(&mut changes, "env", &self.env)?;
        put_pairs(&mut changes, "headers", &self.header)?;
        Ok(changes.into())
    }
}

/// A number is seconds, as muster has it.
fn period(text: &str) -> String {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { format!("{text}s") } else { text.to_owned() }
}

fn put_pairs(definition: &mut Map<String, Value>, key: &str, pairs: &[String]) -> Result<(), Problem> {
    let mut all = Map::new();
    for pair in pairs {
        // Not repeated: what is written here may be a secret.
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| wrong(format!("`{key}` expects `NAME=VALUE`")))?;
        if all.insert(name.to_owned(), value.into()).is_some() {
            return Err(wrong(format!("`{name}` is given twice for `{key}`")));
        }
    }
    if !all.is_empty() {
        definition.insert(key.to_owned(), all.into());
    }
    Ok(())
}
