//! `toolcrib version`: this program's version, and that of the gateway that runs.

use serde_json::json;
use toolcrib_protocol::Raw;

use crate::client::{Client, ClientFlags};
use crate::home::Environment;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, environment: &Environment, output: Output) -> anyhow::Result<()> {
    let own = env!("CARGO_PKG_VERSION");
    // Whether one runs is what is asked, so that none runs is no error.
    let gateway = match Client::open(&arguments.client, environment).await {
        Ok(client) => {
            let found = (client.server_version().unwrap_or_default(), client.located().uri.to_string());
            client.close().await;
            Some(found)
        }
        Err(_) => None,
    };
    if output.is_for_programs() {
        let server = gateway.map(|(version, endpoint)| json!({ "version": version, "endpoint": endpoint }));
        let whole = json!({ "client": { "version": own }, "server": server });
        return Ok(output.answer(&Raw::from_value(&whole))?);
    }
    let gateway = gateway.map_or("(not running)".to_owned(), |(version, endpoint)| format!("{version} at {endpoint}"));
    Ok(output.text(&format!("toolcrib {own}\ngateway: {gateway}"))?)
}
