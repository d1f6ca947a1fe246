//! The schemas of the arguments and answers. What lies within a definition is left to its reader, which names what is
//! wrong with its place.

/// A workflow's name.
pub(super) const NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the workflow"}},"required":["name"],"additionalProperties":false}"#;

macro_rules! workflow {
    ($more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the workflow"},"description":{"type":"string","description":"What it is for"},"labels":{"type":"object","additionalProperties":{"type":"string"},"description":"Labels to filter by"},"args":{"type":"object","description":"Its arguments: {name: {type, required, default, description, enum, minimum, maximum, minLength, maxLength, pattern}}","additionalProperties":{"type":"object"}},"steps":{"type":"array","description":"What it does: {id, tool, args, condition, store, allowFailure, timeout, retry}, {id, forEach: {items, as, steps}} or {id, parallel: [steps]}. Texts are templates: {{ .input.x }}, {{ .results.step.field }}","items":{"type":"object","properties":{"id":{"type":"string"},"tool":{"type":"string"},"description":{"type":"string"}}}},"onFailure":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"tool":{"type":"string"},"description":{"type":"string"}}},"description":"Steps that run when one has failed"},"on_failure":{"type":"array","items":{"type":"object"},"description":"The same"},"output":{"type":"object","description":"What a run answers, with templates in it"},"timeout":{"type":"string","description":"How long a run may take, such as 5m"},"templates":{"type":"string","enum":["go","jinja"],"description":"The language of its templates: go without it"},"yaml":{"type":"string","description":"The text of the file, in place of everything beside `name`"}"#,
            $more,
            r#"},"required":["name"],"additionalProperties":false}"#
        )
    };
}

pub(super) const WORKFLOW: &str = workflow!("");
pub(super) const UPDATE: &str =
    workflow!(r#","revision":{"type":"string","description":"Only if the file still has this revision"}"#);

/// What was done.
pub(super) const SAID: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"message":{"type":"string"},"warnings":{"type":"array","items":{"type":"string"},"description":"Problems that do not make the definition invalid"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","message"]}"#;

/// What is said of a definition that is only checked. Problems of `yaml` have their places.
pub(super) const CHECKED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"message":{"type":"string"},"warnings":{"type":"array","items":{"type":"string"},"description":"Problems that do not make the definition invalid"},"valid":{"type":"boolean","description":"Said of `yaml`"},"problems":{"type":"array","items":{"type":"object","properties":{"message":{"type":"string"},"field":{"type":"string"},"line":{"type":"integer"},"column":{"type":"integer"},"hint":{"type":["string","null"]},"warning":{"type":"boolean","description":"Whether the definition is valid all the same"}},"required":["message","field"]},"description":"Said of `yaml`"}},"required":["name","message"]}"#;

pub(super) const LIST: &str = r#"{"type":"object","properties":{"workflows":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"available":{"type":"boolean"},"description":{"type":"string"},"step_count":{"type":"integer"},"args":{"type":"array","items":{"type":"string"}}},"required":["name","available"]}},"total":{"type":"integer"}},"required":["workflows","total"]}"#;

pub(super) const EXECUTIONS: &str = r#"{"type":"object","properties":{"executions":{"type":"array","items":{"type":"object","properties":{"execution_id":{"type":"string"},"workflow_name":{"type":"string"},"status":{"type":"string"},"started_at":{"type":"string"},"completed_at":{"type":"string"},"duration_ms":{"type":"integer"},"step_count":{"type":"integer"},"error":{"type":"string"}},"required":["execution_id","workflow_name","status","started_at"]}},"total":{"type":"integer"},"limit":{"type":"integer"},"offset":{"type":"integer"},"has_more":{"type":"boolean"}},"required":["executions","total","limit","offset","has_more"]}"#;

pub(super) const EXECUTION: &str = r#"{"type":"object","properties":{"execution_id":{"type":"string"},"workflow_name":{"type":"string"},"status":{"type":"string"},"started_at":{"type":"string"},"completed_at":{"type":"string"},"duration_ms":{"type":"integer"},"input":{},"result":{},"error":{"type":"string"},"steps":{"type":"array","items":{"type":"object"}},"truncated":{"type":"boolean"}},"required":["execution_id","status"]}"#;
