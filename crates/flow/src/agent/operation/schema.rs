//! The schemas of the arguments and answers of operations on runs.

/// The argument that names a run.
macro_rules! named {
    ($more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"run":{"type":"string","description":"The id of the run, or its beginning"}"#,
            $more,
            r#"},"required":["run"],"additionalProperties":false}"#
        )
    };
    ($more:literal, $required:literal) => {
        concat!(
            r#"{"type":"object","properties":{"run":{"type":"string","description":"The id of the run, or its beginning"}"#,
            $more,
            r#"},"required":["run","#,
            $required,
            r#"],"additionalProperties":false}"#
        )
    };
}

/// Limits that a request may name.
macro_rules! limits {
    () => {
        r#""rounds":{"type":"integer","minimum":1,"maximum":1000,"description":"The most answers of the model"},"calls":{"type":"integer","minimum":1,"maximum":100000,"description":"The most calls of tools"},"tokens":{"type":"integer","minimum":1,"description":"The most tokens, read and written"},"cost":{"type":"string","description":"The most dollars, such as 0.50"},"time":{"type":"string","description":"The longest time, waiting aside, such as 10m"}"#
    };
}

/// A run.
pub(super) const SHOWN: &str = r#"{"type":"object","properties":{"run":{"type":"string"},"agent":{"type":"string"},"model":{"type":"string"},"task":{"type":"string"},"status":{"type":"string","enum":["running","waiting","paused","ended"]},"end":{"type":"string","description":"How it ended: done, stuck, denied, limit of rounds …"},"output":{"type":"string"},"waits":{"type":"array","items":{"type":"object","properties":{"for":{"type":"string"},"what":{"type":"string"},"next":{"type":"string"},"url":{"type":"string"},"run":{"type":"string"},"questions":{"type":"object","description":"What a person is asked, by key: the `method` and `params` of MCP"}}}},"quarantine":{"type":"array","items":{"type":"object","properties":{"item":{"type":"integer"},"text":{"type":"string"},"why":{"type":"string"}}}},"unsettled":{"type":"array","items":{"type":"string"}},"rounds":{"type":"integer"},"calls":{"type":"integer"},"tokens":{"type":"integer"},"cost":{"type":"string"},"started_at":{"type":"string"},"changed_at":{"type":"string"},"ended_at":{"type":"string"},"parent":{"type":"string"},"forked_from":{"type":"string"},"principal":{"type":"string"},"runs_as":{"type":"string","description":"The principal that calls its tools, where that is not its own"},"profile":{"type":"string"}},"required":["run","agent","status"]}"#;

pub(super) const ACTIVITY: &str = r#"{"type":"object","properties":{"agent":{"type":"string","description":"A pattern on the agent's name"},"run":{"type":"string","description":"The whole id of a run"},"tool":{"type":"string","description":"A pattern on the tool, such as mail/*"},"connector":{"type":"string","description":"The server, or connector, of the tool"},"risk_class":{"type":"string"},"kind":{"type":"string","enum":["prompt.received","run.started","run.failed","run.yielded","run.completed","runtime.event","tool.called","tool.blocked","connector.called","connector.blocked","approval.requested","approval.resolved","security.flagged"]},"action":{"type":"string","description":"The name in the audit log, such as tool.executed"},"status":{"type":"string","enum":["allowed","blocked","flagged","halted","approval_required","pending","sent","failed","completed"]},"principal":{"type":"string","description":"On whose behalf"},"profile":{"type":"string"},"since":{"type":["string","integer"],"description":"RFC 3339, a date, or milliseconds since 1970"},"until":{"type":["string","integer"]},"before":{"type":"integer","minimum":1,"description":"Only events with a smaller seq"},"limit":{"type":"integer","minimum":1,"maximum":200,"default":50}},"additionalProperties":false}"#;
pub(super) const ACTIVITY_OUTPUT: &str = r#"{"type":"object","properties":{"events":{"type":"array","items":{"type":"object","properties":{"seq":{"type":"integer"},"occurred_at":{"type":"string"},"action":{"type":"string"},"kind":{"type":"string"},"status":{"type":"string"},"agent":{"type":"string"},"run":{"type":"string"},"principal":{"type":"string"},"profile":{"type":"string"},"source":{"type":"string"},"outcome":{"type":"string"},"tool":{"type":"string"},"connector":{"type":"string"},"risk_class":{"type":"string"},"approval":{"type":"string"},"halt":{"type":"string"},"canary":{"type":"string"},"duration_ms":{"type":"integer"}},"required":["seq","occurred_at","action","kind","status","agent","principal"]}},"count":{"type":"integer"},"has_more":{"type":"boolean"},"next_before":{"type":"integer"}},"required":["events","count","has_more"]}"#;
/// A run by its id.
pub(super) const NAMED: &str = named!("");
pub(super) const ENTRIES: &str = named!(
    r#","after":{"type":"integer","minimum":0,"default":0,"description":"The number of the last entry that is known"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":200},"wait":{"type":"integer","minimum":0,"maximum":30000,"default":0,"description":"Milliseconds to wait for more"},"seen":{"type":"integer","minimum":0,"default":0,"description":"Characters of the answer that were seen already"}"#
);
pub(super) const ENTRIES_OUTPUT: &str = r#"{"type":"object","properties":{"run":{"type":"string"},"status":{"type":"string"},"entries":{"type":"array","items":{"type":"object"}},"next":{"type":"integer"},"partial":{"type":"string"}},"required":["run","status","entries","next"]}"#;
pub(super) const EXPORT: &str = named!(
    r#","format":{"type":"string","enum":["json","markdown","otlp"],"default":"json"},"content":{"type":"boolean","default":false,"description":"Spans with texts, arguments and results"}"#
);
pub(super) const EXPORT_OUTPUT: &str = r#"{"type":"object","properties":{"run":{"type":"string"},"format":{"type":"string"},"text":{"type":"string"},"journal":{"type":"array","items":{"type":"object"}},"spans":{"type":"object"}},"required":["run","format"]}"#;
pub(super) const FORK: &str = named!(
    r#","at":{"type":"integer","minimum":0,"description":"The last round that is kept"},"model":{"type":"string","description":"Another model"}"#,
    r#""at""#
);
pub(super) const LIST: &str = r#"{"type":"object","properties":{"agent":{"type":"string"},"status":{"type":"string","enum":["running","waiting","paused","ended"]},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50},"offset":{"type":"integer","minimum":0,"default":0}},"additionalProperties":false}"#;
pub(super) const LIST_OUTPUT: &str = r#"{"type":"object","properties":{"runs":{"type":"array","items":{"type":"object","properties":{"run":{"type":"string"},"agent":{"type":"string"},"status":{"type":"string"}},"required":["run","agent","status"]}},"total":{"type":"integer"},"has_more":{"type":"boolean"}},"required":["runs","total","has_more"]}"#;
pub(super) const REPLAY_OUTPUT: &str = r#"{"type":"object","properties":{"run":{"type":"string"},"entries":{"type":"integer"},"follows":{"type":"boolean"},"problem":{"type":"string"}},"required":["run","entries","follows"]}"#;
pub(super) const RESUME: &str = concat!(
    r#"{"type":"object","properties":{"run":{"type":"string","description":"The id of the run, or its beginning"},"#,
    limits!(),
    r#","answer":{"type":"object","description":"What the person answers: the fields of the form, or {action: accept|decline|cancel, content}, or such answers by the keys of `questions`"},"to":{"type":"string","description":"Which question, if there are several: `what` of the wait"}},"required":["run"],"additionalProperties":false}"#
);
pub(super) const SETTLE: &str = named!(
    r#","call":{"type":"string","description":"The call, such as 3.1"},"settlement":{"type":"string","enum":["happened","did_not","repeat"]},"result":{"type":"string","description":"What it gave, if it happened"}"#,
    r#""call","settlement""#
);
pub(super) const REVIEW: &str = named!(
    r#","item":{"type":"integer","minimum":1,"description":"What is meant, by its number; not needed where it is the only one"}"#
);
pub(super) const START: &str = concat!(
    r#"{"type":"object","properties":{"task":{"type":"string","minLength":1,"description":"What to do, in plain words"},"agent":{"type":"string","description":"The agent; without it a model with the tools of this profile"},"model":{"type":"string","description":"The model; `demo` needs no key"},"tools_shown":{"type":"string","enum":["menu","all","native","auto"],"description":"How tools are shown to the model"},"wait":{"type":"boolean","default":false},"#,
    limits!(),
    r#"},"required":["task"],"additionalProperties":false}"#
);
pub(super) const MESSAGE: &str = named!(
    r#","message":{"type":"string","minLength":1,"description":"What to say"},"wait":{"type":"boolean","default":false}"#,
    r#""message""#
);
