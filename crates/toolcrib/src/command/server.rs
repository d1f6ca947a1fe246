//! `toolcrib server`: the servers of a running gateway, added, shown, started and stopped.

use std::path::PathBuf;

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest};
use crate::kind;
use crate::output::table::field;
use crate::output::{Format, Output};

/// The largest definition that is sent, in bytes; the gateway reads no larger file.
const FILE_MAX: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the servers
    List(ClientArguments),
    /// Show a server with its definition
    Show(ServerArgument),
    /// Add a server: a program after `--`, a URL, or a file
    Add(Add),
    /// Stop a server and remove its definition
    #[command(alias = "remove")]
    Rm(ServerArgument),
    /// Start a server and wait until it is ready
    Start(ServerArgument),
    /// Stop a server
    Stop(ServerArgument),
    /// Restart a server
    Restart(ServerArgument),
}

#[derive(Debug, clap::Args)]
struct ClientArguments {
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ServerArgument {
    /// The server's name
    name: ServerName,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct Add {
    /// The new server's name
    name: ServerName,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "file"], required_unless_present_any = ["url", "file"])]
    command: Vec<String>,
    /// The URL of a Streamable HTTP server
    #[arg(long, conflicts_with = "file")]
    url: Option<String>,
    /// The URL uses the older HTTP+SSE transport
    #[arg(long, requires = "url")]
    sse: bool,
    /// An environment variable of the program, preferably a reference such as `KEY=env:KEY`
    #[arg(long, value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,
    /// An environment variable that the program inherits from the gateway
    #[arg(long, value_name = "NAME", requires = "command", value_delimiter = ',')]
    inherit_env: Vec<String>,
    /// A header of every request, preferably a reference such as `X-Key=env:KEY`
    #[arg(long, value_name = "NAME=VALUE", requires = "url")]
    header: Vec<String>,
    /// A YAML file with the definition; `-` reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

/// What is asked of the gateway.
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Raw>,
}

// === impl Arguments ===

impl Arguments {
    pub(crate) fn client(&self) -> &ClientFlags {
        match &self.action {
            Action::List(plain) => &plain.client,
            Action::Add(add) => &add.client,
            Action::Show(named)
            | Action::Rm(named)
            | Action::Start(named)
            | Action::Stop(named)
            | Action::Restart(named) => &named.client,
        }
    }

    /// What is to be sent, before any request is sent.
    pub(crate) fn request(&self) -> Result<Request, Problem> {
        let plain = |method, path: String| Request { method, path, body: None };
        Ok(match &self.action {
            Action::List(_) => plain(Method::GET, "/servers".to_owned()),
            Action::Show(it) => plain(Method::GET, format!("/servers/{}", it.name)),
            Action::Rm(it) => plain(Method::DELETE, format!("/servers/{}", it.name)),
            Action::Start(it) => plain(Method::POST, format!("/servers/{}/start", it.name)),
            Action::Stop(it) => plain(Method::POST, format!("/servers/{}/stop", it.name)),
            Action::Restart(it) => plain(Method::POST, format!("/servers/{}/restart", it.name)),
            Action::Add(add) => {
                let body = Some(Raw::from_value(&add.body()?));
                Request { body, ..plain(Method::POST, "/servers".to_owned()) }
            }
        })
    }
}

impl Add {
    fn body(&self) -> Result<Value, Problem> {
        if let Some(file) = &self.file {
            return Ok(json!({ "name": self.name.as_str(), "yaml": text_of(file)? }));
        }
        let definition = match (&self.url, self.command.split_first()) {
            (Some(url), _) => {
                let transport = if self.sse { "sse" } else { "http" };
                let mut definition = json!({ "transport": transport, "url": url });
                set_pairs(&mut definition, "headers", &self.header)?;
                definition
            }
            (None, Some((program, arguments))) => {
                let mut definition = json!({ "command": program });
                if !arguments.is_empty() {
                    definition["args"] = arguments.into();
                }
                set_pairs(&mut definition, "env", &self.env)?;
                if !self.inherit_env.is_empty() {
                    definition["inherit_env"] = self.inherit_env.clone().into();
                }
                definition
            }
            (None, None) => {
                return Err(Problem::new(Kind::InvalidParams, "no command, `--url` or `--file` given"));
            }
        };
        Ok(json!({ "name": self.name.as_str(), "definition": definition }))
    }
}

fn set_pairs(definition: &mut Value, key: &str, pairs: &[String]) -> Result<(), Problem> {
    let mut all = Map::new();
    for pair in pairs {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            // Not repeated: what is written here may be a secret.
            Problem::new(Kind::InvalidParams, format!("`{key}` expects `NAME=VALUE`"))
        })?;
        all.insert(name.to_owned(), value.into());
    }
    if !all.is_empty() {
        definition[key] = Value::Object(all);
    }
    Ok(())
}

/// The text of a file, or of stdin.
pub(super) fn text_of(file: &std::path::Path) -> Result<String, Problem> {
    use std::io::Read;
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(FILE_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text))
    };
    let failed = |why: String| Problem::new(Kind::InvalidParams, format!("cannot read `{}`: {why}", file.display()));
    read.map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > FILE_MAX {
        return Err(failed(format!("it has more than {FILE_MAX} bytes")));
    }
    Ok(text)
}

pub(crate) async fn run(arguments: &Arguments, request: &Request, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let answer = rest.ask(request.method.clone(), &request.path, request.body.as_ref()).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    let name = field(&value, "name");
    match &arguments.action {
        Action::List(_) => {
            let servers = value["mcpServers"].as_array().map(Vec::as_slice).unwrap_or_default();
            output.rows("servers", kind::rows::SERVERS.columns, servers)?;
            for problem in value["problems"].as_array().into_iter().flatten() {
                output.note(&format!("bad definition: {}", field(problem, "problem")));
            }
        }
        Action::Show(_) => Output { format: Format::Yaml, ..output }.answer(&answer)?,
        Action::Add(_) => output.text(&format!("server `{name}` is defined in `{}`", field(&value, "file")))?,
        Action::Rm(_) => output.text(&format!("removed server `{name}` and its file `{}`", field(&value, "file")))?,
        Action::Start(_) | Action::Stop(_) | Action::Restart(_) => {
            if value["state"] == "needs-login" {
                return Err(Problem::new(Kind::Unavailable, format!("server `{name}` requires a login"))
                    .hint(format!("log in with `toolcrib login {name}`"))
                    .into());
            }
            if value["state"] == "failed" {
                let message = format!("server `{name}` failed: {}", field(&value, "lastError"));
                return Err(Problem::new(Kind::Unavailable, message)
                    .hint(format!("see `toolcrib server show {name}` and `state/logs/{name}.log` in the home folder"))
                    .into());
            }
            output.text(&format!("server `{name}` is {}", field(&value, "state")))?;
        }
    }
    Ok(())
}
