//! What the person of a caller is asked before a call is made. Every line is ours but the arguments, which stand in one
//! line at the end, so that no text of a model or a server can look like a part of the dialog.

use serde_json::json;
use toolcrib_catalog::pin::visible;
use toolcrib_policy::Demand;
use toolcrib_protocol::ask::InputRequest;
use toolcrib_protocol::{Raw, json as wire, method};
use toolcrib_store::CallApproval;

use super::record::CallSummary;

/// Under which key a modern client is asked.
pub(crate) const KEY: &str = "toolcrib-approval";
/// The longest arguments that a dialog shows, in bytes: no one reads more in a window. Longer ones are confirmed where
/// they can be read whole.
const ARGUMENTS_MAX: usize = 8 * 1024;
/// The field of the form.
const FIELD: &str = "confirm";

/// What a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersonAnswer {
    Yes,
    No,
    /// The window was closed, or the answer says neither.
    Nothing,
}

/// JSON in one line, with everything visible that a screen does not show.
pub(crate) fn without_invisible(text: &str) -> String {
    visible(&wire::compact(text))
}

/// What is asked beside the call itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedCall<'a> {
    pub(crate) demand: &'a Demand,
    /// The labels of the tool's server.
    pub(crate) labels: &'a [String],
    /// Why, as the rule says.
    pub(crate) said: &'a str,
    /// What the call is about.
    pub(crate) summary: &'a CallSummary,
}

/// The form for a call; `None` where its arguments are too long for one.
pub(crate) fn question(approval: &CallApproval, about: AskedCall<'_>, shown: &str) -> Option<InputRequest> {
    let AskedCall { demand, labels, said, summary } = about;
    let arguments = without_invisible(shown);
    if arguments.len() > ARGUMENTS_MAX {
        return None;
    }
    let by: Vec<String> = demand.by.iter().map(|by| visible(by)).collect();
    let labels = match labels {
        [] => String::new(),
        labels => format!("Labels: {}\n", visible(&labels.join(", "))),
    };
    let lines = [("Target", &summary.target_label), ("Summary", &summary.action_summary)];
    let lines = lines.into_iter().filter_map(|(title, text)| Some((title, text.as_deref()?)));
    let about: String = lines.map(|(title, text)| format!("{title} (made of the arguments): {text}\n")).collect();
    let tool = visible(&approval.call.tool.to_string());
    let message = format!(
        "Toolcrib asks: make this call?\nTool: {tool}\n{labels}{about}Asked by: {} ({})\nArguments: {arguments}",
        by.join(", "),
        visible(said),
    );
    let field = json!({
        "type": "boolean", "title": "Make this call", "description": "Once, with exactly these arguments",
        "default": true,
    });
    let schema = json!({ "type": "object", "properties": { FIELD: field }, "required": [FIELD] });
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    Some(InputRequest { method: method::ELICITATION_CREATE.to_owned(), params: Raw::from_value(&params) })
}

/// What an answer to the form says. Only an accepted form whose field is set is a yes.
pub(crate) fn answer(given: &Raw) -> PersonAnswer {
    let field = given.get("content").and_then(|content| content.get(FIELD));
    match (given.text("action").as_deref(), field.as_ref().map(Raw::as_str)) {
        (Some("accept"), Some("true")) => PersonAnswer::Yes,
        (Some("accept"), Some("false")) | (Some("decline"), _) => PersonAnswer::No,
        _ => PersonAnswer::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{PrincipalId, ProfileName, Timestamp, ToolId};
    use toolcrib_store::{ApprovalKind, ApprovalState, ApprovedCall};

    use super::*;

    fn asked(tool: &str, shown: &str) -> Option<InputRequest> {
        let call = ApprovedCall {
            principal: PrincipalId::new("local"),
            profile: ProfileName::new("default").expect("a name"),
            chain: String::new(),
            tool: ToolId::parse(tool).expect("an id"),
            arguments: String::new(),
        };
        let approval = CallApproval {
            id: "apr_1".to_owned(),
            kind: ApprovalKind::Confirm,
            state: ApprovalState::Open,
            call,
            digest: String::new(),
            revision: String::new(),
            created_at: Timestamp(0),
            expires_at: Timestamp(0),
            decided_at: None,
            approver: None,
            reason: None,
            ended_at: None,
            is_collected: false,
            sealed: Vec::new(),
            result: None,
        };
        let demand = Demand {
            needs_approval: false,
            by: vec!["sends".into()],
            groups: Vec::new(),
            expires: None,
            remember: None,
            revision: "".into(),
        };
        let labels = ["env=prod".to_owned()];
        question(
            &approval,
            AskedCall { demand: &demand, labels: &labels, said: "it sends", summary: &CallSummary::default() },
            shown,
        )
    }

    #[test]
    fn nothing_that_a_model_or_a_server_wrote_looks_like_a_part_of_the_dialog() {
        let shown = "{\"to\": \"x\\nTool: mail/read\\nArguments: {}\", \"b\": \"a\u{202e}b\u{200b}c\"}";
        let message = |tool: &str| asked(tool, shown).and_then(|it| it.params.text("message")).expect("a question");
        let lines = message("mail/send").lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines,
            [
                "Toolcrib asks: make this call?",
                "Tool: mail/send",
                "Labels: env=prod",
                "Asked by: sends (it sends)",
                r#"Arguments: {"to":"x\nTool: mail/read\nArguments: {}","b":"a<U+202E>b<U+200B>c"}"#,
            ]
        );
        assert_eq!(message("mail/send\nArguments: {}").lines().count(), 5, "neither does the name of a tool");
        assert!(asked("mail/send", &format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENTS_MAX))).is_none());
    }

    #[test]
    fn only_an_accepted_form_is_a_yes() {
        for (given, expect) in [
            (json!({"action": "accept", "content": {"confirm": true}}), PersonAnswer::Yes),
            (json!({"action": "accept", "content": {"confirm": false}}), PersonAnswer::No),
            (json!({"action": "decline"}), PersonAnswer::No),
            (json!({"action": "decline", "content": {"confirm": true}}), PersonAnswer::No),
            (json!({"action": "accept"}), PersonAnswer::Nothing),
            (json!({"action": "accept", "content": {"confirm": "true"}}), PersonAnswer::Nothing),
            (json!({"action": "accept", "content": {"Confirm": true}}), PersonAnswer::Nothing),
            (json!({"action": "cancel", "content": {"confirm": true}}), PersonAnswer::Nothing),
            (json!({"content": {"confirm": true}}), PersonAnswer::Nothing),
            (json!({}), PersonAnswer::Nothing),
        ] {
            assert_eq!(answer(&Raw::from_value(&given)), expect, "{given}");
        }
    }
}
