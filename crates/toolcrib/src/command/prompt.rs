//! `toolcrib prompt`: the messages of a prompt, filled with its arguments.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::{Raw, method};

use super::call::arguments::ArgumentFlags;
use crate::client::{Client, ClientFlags};
use crate::output::Output;
use crate::output::table::{field, shown};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The prompt's name
    #[arg(add = crate::names::prompts())]
    name: String,
    #[command(flatten)]
    given: ArgumentFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

impl Arguments {
    /// The arguments, before any request is sent.
    pub(crate) fn gather(&self) -> Result<Raw, Problem> {
        self.given.gather()
    }
}

pub(crate) async fn run(arguments: &Arguments, given: &Raw, client: &Client, output: Output) -> anyhow::Result<()> {
    // Arguments of prompts are texts (MCP, prompts/get).
    let given = given.to_value();
    let texts = given.as_object().into_iter().flatten();
    let texts: serde_json::Map<String, Value> = texts.map(|(key, value)| (key.clone(), shown(value).into())).collect();
    let asked = json!({ "name": arguments.name, "arguments": texts });
    let asking = async {
        if client.wraps().await? {
            let messages = client.obtain("get_prompt", &asked).await?.to_value();
            return Ok(Raw::from_value(&json!({ "messages": messages })));
        }
        client.method(method::PROMPTS_GET, &asked).await
    };
    let answer = output.busy("loading the prompt", asking).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    for message in value["messages"].as_array().into_iter().flatten() {
        let content = match message["content"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None if message["content"].is_string() => field(message, "content"),
            None => format!("[{}]", field(&message["content"], "type")),
        };
        output.text(&format!("[{}]\n{content}\n", field(message, "role")))?;
    }
    Ok(())
}
