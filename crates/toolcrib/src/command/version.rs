//! `toolcrib version`: this program's version and of which sources it was made, and the version of the gateway that
//! runs.

use serde_json::json;
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::Raw;

use crate::client::{Client, ClientFlags};
use crate::home::Environment;
use crate::output::Output;

/// Of which commit it was made, where the build knew it (`build.rs`).
const COMMIT: Option<&str> = option_env!("TOOLCRIB_BUILD_COMMIT");
/// The time of that commit, or what SOURCE_DATE_EPOCH said, in seconds since 1970.
const TIME: Option<&str> = option_env!("TOOLCRIB_BUILD_TIME");
/// How much of a commit's name people need.
const SHORT: usize = 12;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// A gateway that answered.
struct GatewayVersion {
    version: String,
    endpoint: String,
}

pub(crate) async fn run(arguments: &Arguments, environment: &Environment, output: Output) -> anyhow::Result<()> {
    let own = env!("CARGO_PKG_VERSION");
    // Whether one runs is what is asked, so that none runs is not an error.
    let gateway = match Client::open(&arguments.client, environment).await {
        Ok(client) => {
            let version = client.server_version().unwrap_or_default();
            let endpoint = client.located().uri.to_string();
            client.close().await;
            Ok(GatewayVersion { version, endpoint })
        }
        Err(problem) => Err(problem),
    };
    if output.is_for_programs() {
        let error = gateway.as_ref().err().map(ToString::to_string);
        let server = gateway.ok().map(|it| json!({ "version": it.version, "endpoint": it.endpoint }));
        let client = json!({ "version": own, "commit": COMMIT, "date": built() });
        let mut whole = json!({ "client": client, "server": server });
        if let Some(error) = error {
            whole["error"] = error.into();
        }
        return Ok(output.answer(&Raw::from_value(&whole))?);
    }
    output.text(&format!("toolcrib {own}\n{}\ngateway: {}", sources(), describe_gateway(&gateway)))?;
    if gateway.is_ok_and(|it| it.version != own) {
        output.note("the gateway runs another version; restart it to use this one");
    }
    Ok(())
}

fn built() -> Option<String> {
    let seconds: i64 = TIME?.parse().ok()?;
    Some(Timestamp(seconds.checked_mul(1_000)?).to_string())
}

fn sources() -> String {
    let commit = COMMIT.map_or("unknown", |commit| commit.get(..SHORT).unwrap_or(commit));
    format!("commit:  {commit}\ndate:    {}", built().as_deref().unwrap_or("unknown"))
}

fn describe_gateway(gateway: &anyhow::Result<GatewayVersion>) -> String {
    match gateway {
        Ok(found) => format!("{} at {}", found.version, found.endpoint),
        Err(error) => match error.downcast_ref::<Problem>() {
            Some(problem) if problem.kind == Kind::Unavailable => "(not running)".to_owned(),
            Some(problem) => format!("(unknown: {})", problem.message),
            None => format!("(unknown: {error:#})"),
        },
    }
}
