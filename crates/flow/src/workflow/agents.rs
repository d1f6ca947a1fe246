//! What is wrong with the tasks that a workflow gives to agents, beside the agents that there are. It is reported and no
//! fault: an agent may be written after its workflow.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::nearest::nearest;
use toolcrib_catalog::{Action, AgentDefinition, DefinitionProblem, ObjectName, Step, WorkflowDefinition};

/// The agents that there are.
type Agents = BTreeMap<ObjectName, Arc<AgentDefinition>>;

/// Every step that gives a task to an agent which is not there, or that does not take it.
pub(super) fn faults(definition: &WorkflowDefinition, agents: &Agents) -> Vec<DefinitionProblem> {
    let steps = definition.steps.iter().chain(&definition.on_failure).flat_map(Step::all);
    steps.filter_map(|step| fault(definition, step, agents)).collect()
}

fn fault(definition: &WorkflowDefinition, step: &Step, agents: &Agents) -> Option<DefinitionProblem> {
    let (name, Action::Tool { args, .. }) = (step.agent()?, &step.action) else { return None };
    let (message, hint) = match agents.get(name) {
        None => {
            let hint = match nearest(name, agents.keys().map(ObjectName::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write `agents/{name}.yaml`, or look at `toolcrib list agents`"),
            };
            (format!("agent `{name}` does not exist"), hint)
        }
        Some(agent) => {
            let (key, wrong) = misfit(agent.input.as_ref(), args)?;
            let hint = match &agent.input {
                None => "give it `task: \"what to do\"`".to_owned(),
                Some(_) => format!("see its `input`: `toolcrib show agent {name}`"),
            };
            (format!("agent `{name}` {wrong} `{key}`"), hint)
        }
    };
    Some(DefinitionProblem {
        file: PathBuf::from(format!("workflows/{}.yaml", definition.name)),
        at: Some(step.at),
        field: format!("{}.agent", step.field),
        message,
        hint: Some(hint),
    })
}

/// The first argument that an agent lacks or does not know, as far as its schema says it plainly.
fn misfit(input: Option<&Value>, args: &serde_json::Map<String, Value>) -> Option<(String, &'static str)> {
    let Some(schema) = input else {
        return (!args.contains_key("task")).then(|| ("task".to_owned(), "needs"));
    };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(lacking) = required.into_iter().find(|key| !args.contains_key(*key)) {
        return Some((lacking.to_owned(), "needs"));
    }
    let is_closed = schema["additionalProperties"] == false && schema.get("patternProperties").is_none();
    let known = schema["properties"].as_object();
    let unknown = args.keys().find(|key| is_closed && known.is_none_or(|known| !known.contains_key(*key)))?;
    Some((unknown.clone(), "does not take"))
}

#[cfg(test)]
mod tests {
    use toolcrib_catalog::AgentDefinition;

    use super::*;

    fn agents() -> Agents {
        let texts = [
            ("plain", "name: plain\nmodel: demo\n"),
            (
                "strict",
                "name: strict\nmodel: demo\ninput: {type: object, properties: {city: {type: string}}, \
                 required: [city], additionalProperties: false}\n",
            ),
        ];
        let read = |(name, text)| Arc::new(AgentDefinition::of_text(name, text).unwrap());
        texts.into_iter().map(read).map(|agent| (agent.name.clone(), agent)).collect()
    }

    #[track_caller]
    fn check(step: &str, expected: &[&str]) {
        let text = format!("name: w\nargs: {{}}\nsteps: [{{id: a, {step}}}]\n");
        let definition = WorkflowDefinition::of_text("w", &text).unwrap();
        let found: Vec<String> =
            faults(&definition, &agents()).iter().map(|it| format!("{it} {:?}", it.hint)).collect();
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
        for part in expected {
            assert!(found[0].contains(part), "{found:?} lacks {part}");
        }
    }

    #[test]
    fn a_task_for_an_agent_that_is_not_there_or_does_not_take_it_is_reported() {
        check("agent: plain, task: look", &[]);
        check("agent: strict, input: {city: Bern}", &[]);
        check("agent: plains, task: look", &["steps[0].agent", "agent `plains` does not exist", "`plain`"]);
        check("agent: zzz, task: look", &["agents/zzz.yaml"]);
        check("agent: plain, input: {city: Bern}", &["agent `plain` needs `task`"]);
        check("agent: strict, task: look", &["agent `strict` needs `city`", "toolcrib show agent strict"]);
        check("agent: strict, input: {city: Bern, land: CH}", &["does not take `land`"]);
        check("forEach: {items: [1], steps: [{id: b, agent: plane, task: x}]}", &["steps[0].forEach.steps[0].agent"]);
    }
}
