//! `toolcrib registry add`: a server made of an entry, in a running gateway.

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::SecretRef;
use toolcrib_protocol::Raw;

use crate::client::ClientFlags;
use crate::command::login;
use crate::command::login::place::LoginGateway;
use crate::command::server::Request;
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::field;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The entry
    entry: ServerName,
    /// The name of the server [default: the entry's]
    #[arg(long, value_name = "NAME")]
    name: Option<ServerName>,
    /// A variable of the entry: a text, or for secrets a reference such as `vault:NAME` or `env:NAME`
    #[arg(long, value_name = "VARIABLE=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    pub(in crate::command) client: ClientFlags,
}

// === impl Arguments ===

impl Arguments {
    /// What is to be sent, before any request is sent.
    pub(in crate::command) fn request(&self) -> Result<Request, Problem> {
        let mut values = Map::new();
        for pair in &self.set {
            // What is wrong is not repeated: it may be a secret.
            let wrong = |why: String| Problem::new(Kind::InvalidParams, why);
            let (name, value) =
                pair.split_once('=').ok_or_else(|| wrong("`--set` is not `VARIABLE=VALUE`".to_owned()))?;
            value.parse::<SecretRef>().map_err(|error| wrong(error.to_string()))?;
            values.insert(name.to_owned(), value.into());
        }
        let mut body = json!({ "values": values });
        if let Some(name) = &self.name {
            body["server"] = name.as_str().into();
        }
        let path = format!("/registry/{}/add", self.entry);
        Ok(Request { method: Method::POST, path, body: Some(Raw::from_value(&body)) })
    }

    /// Adds the server, and offers to log in where it needs that.
    pub(in crate::command) async fn run(
        &self,
        request: &Request,
        gateway: &LoginGateway<'_>,
        environment: &Environment,
        output: Output,
    ) -> anyhow::Result<()> {
        let answer = gateway.rest.ask(request.method.clone(), &request.path, request.body.as_ref()).await?;
        if output.is_for_programs() {
            return Ok(output.answer(&answer)?);
        }
        let value: Value = answer.to_value();
        let name = field(&value, "name");
        output.text(&format!("server `{name}` is defined in `{}`", field(&value, "file")))?;
        match ServerName::new(&name) {
            Ok(server) => login::offer(&server, &self.client, gateway, environment, output).await,
            Err(_) => Ok(()),
        }
    }
}
