//! Who is halted gets the same words whatever is asked for, hidden or not.

use std::sync::Arc;

use serde_json::json;
use toolcrib_testgateway::{Client, TestGateway};

use super::world::{Random, TOOLS};
use crate::halts::{halt, holder};

/// Halts the principal or the profile of clients for a while.
pub(super) async fn check_halted(house: &TestGateway, clients: &[Client; 2], random: &mut Random, about: &str) {
    let caller = &clients[0].caller;
    let (kind, subject) = match random.below(2) {
        0 => ("principal", caller.principal.id.as_str()),
        _ => ("profile", caller.profile.as_str()),
    };
    let id = halt(house, kind, subject).await;
    for client in clients {
        let mut answers = Vec::new();
        for name in TOOLS.into_iter().chain(["alpha/unknown", "unknown", "workflow_single"]) {
            for (method, params) in [
                ("tools/call", json!({"name": name, "arguments": {}})),
                ("tools/call", json!({"name": "call_tool", "arguments": {"name": name}})),
                ("prompts/get", json!({"name": name})),
                ("resources/read", json!({"uri": name})),
            ] {
                answers.push(client.ask(method, &params).await.map_err(|error| (error.code, error.message)));
            }
        }
        answers.push(client.ask("tools/list", &json!({})).await.map_err(|error| (error.code, error.message)));
        let first = answers[0].clone().unwrap_err();
        assert!(first.1.contains(&id), "{about}\n{kind} {subject}: {first:?}");
        assert!(answers.iter().all(|it| it.as_ref() == Err(&first)), "{about}\n{kind} {subject}: {answers:?}");
    }
    // Not by the operation, which policies may forbid.
    let (gateway, admin) = (Arc::clone(&house.gateway), holder(&clients[0], None));
    let lifted = tokio::task::spawn_blocking(move || gateway.path.halts.lift(&id, &admin));
    lifted.await.unwrap().unwrap();
}
