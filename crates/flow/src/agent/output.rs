//! Outputs against the schema that an agent promises.

use async_trait::async_trait;
use serde_json::value::RawValue;
use toolcrib_agent::driver::CheckOutput;
use toolcrib_base::ToolId;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_view::schema::{ArgumentCheck, CheckOutcome};

/// How deep an output may nest.
const DEPTH: usize = 64;

/// Checks outputs with the validator that checks arguments.
#[derive(Debug)]
pub(super) struct OutputCheck;

#[async_trait]
impl CheckOutput for OutputCheck {
    async fn check(&self, schema: &RawValue, output: &str) -> Option<String> {
        let (schema, output) = (schema.get().to_owned(), output.to_owned());
        let checked = tokio::task::spawn_blocking(move || problem(&schema, &output)).await;
        checked.unwrap_or_else(|_| Some("it cannot be checked".to_owned()))
    }
}

/// Why a value does not fit a schema, if it does not.
pub(super) async fn misfit(schema: &str, value: &serde_json::Value) -> Option<String> {
    let (schema, value) = (schema.to_owned(), value.to_string());
    let checked = tokio::task::spawn_blocking(move || problem(&schema, &value)).await;
    checked.unwrap_or_else(|_| Some("it cannot be checked".to_owned()))
}

/// Why an output does not fit.
fn problem(schema: &str, output: &str) -> Option<String> {
    let rules = Rules::relayed(DEPTH);
    let parse = |text: &str| Raw::parse(text.trim().as_bytes().to_vec().into(), rules);
    let output = match parse(output) {
        Ok(output) => output,
        Err(error) => return Some(format!("it is not JSON: {error}")),
    };
    let schema = parse(schema).ok()?;
    let id = ToolId::parse("agent/output")?;
    match ArgumentCheck::compile(&id, Some(&schema)).check(&output) {
        CheckOutcome::Faults(faults) => Some(faults),
        CheckOutcome::Fits | CheckOutcome::Unchecked => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_fits_or_says_what_is_wrong() {
        let schema = r#"{"type":"object","properties":{"total":{"type":"number"}},"required":["total"]}"#;
        assert_eq!(problem(schema, " {\"total\": 3}\n"), None);
        assert!(problem(schema, "The total is 3.").unwrap().contains("not JSON"));
        assert!(problem(schema, "{\"sum\": 3}").unwrap().contains("total"));
    }
}
