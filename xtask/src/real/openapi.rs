//! Schemathesis against the control API of its own gateway: no server error, and nothing but what the OpenAPI
//! document says.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::home::Stage;
use super::{END_DEADLINE, SUITE_DEADLINE, check, serve_home};
use crate::child;
use crate::need;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// How many requests of each kind are made for one operation: the whole stays well below a minute.
const EXAMPLES: &str = "15";
/// The same requests in every run.
const SEED: &str = "1";
/// What must hold for every answer. That wrong input is refused is left to our own tests, which know what is wrong.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method,ignored_auth";

/// A server without tools: a call of one that is stopped is answered with 503, which is right and looks like a fault.
const SERVER: &str = "name: x\ncommand: never-started\nstart: manual\n";

pub(super) fn run(workspace: &Workspace, stage: &Stage, binary: &Path) -> Result<Tally> {
    let bin = need::schemathesis(workspace)?;
    let home = stage.root.join("openapi-home");
    fs::create_dir_all(home.join("servers"))?;
    fs::write(home.join("servers/x.yaml"), SERVER)?;
    let (mut gateway, ready) = serve_home(stage, binary, "gateway-openapi", &home)?;
    let url = ready["url"].as_str().context("the ready file names no `url`")?;
    let document = format!("{}/api/v1/openapi.json", url.trim_end_matches("/mcp"));
    let token = token(&ready)?;

    println!("--> Schemathesis");
    let mut schemathesis = Command::new(bin.join("schemathesis"));
    schemathesis.current_dir(&stage.root).env("NO_COLOR", "1").args(["run", &document]);
    schemathesis.args(["--header", &format!("Authorization: Bearer {token}")]);
    // A stream has no end to wait for.
    schemathesis.args(["--exclude-path", "/events", "--phases", "examples,coverage,fuzzing"]);
    // It would set up servers of the registry and start them, which fetches programs and takes longer than it waits.
    schemathesis.args(["--exclude-path", "/registry/{name}/add"]);
    // A server that cannot be started is answered with 503 here too.
    for path in ["/services/{name}/start", "/services/{name}/restart", "/servers/{name}/verify"] {
        schemathesis.args(["--exclude-path", path]);
    }
    // Some operations wait as long as they are asked to, up to half a minute.
    schemathesis.args(["--request-timeout", "60"]);
    schemathesis.args(["--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED, "--no-color"]);
    let outcome = child::run(&mut schemathesis, SUITE_DEADLINE)?;
    let complaint: Vec<String> = if outcome.success { vec![] } else { vec!["its report is above".to_owned()] };
    let tally = check("the control API answers as its OpenAPI document says", &complaint);
    gateway.end("TERM", END_DEADLINE)?;
    Ok(tally)
}

fn token(ready: &Value) -> Result<String> {
    let file = ready["token_file"].as_str().context("the ready file names no `token_file`")?;
    Ok(fs::read_to_string(file).with_context(|| format!("read `{file}`"))?.trim().to_owned())
}
