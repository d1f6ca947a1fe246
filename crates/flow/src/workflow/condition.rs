//! Whether a step runs.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::call::{Answer, CallTool};
use super::program::{Check, CompiledExpectation, Tests};
use super::state::State;
use crate::template::{JsonPath, TemplateError};

/// How a condition came out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) holds: bool,
    /// The tool that was asked.
    pub(super) tool: Option<String>,
    /// What it answered, or the result that was looked at.
    pub(super) result: Option<Value>,
}

/// What a step or a tool came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepResult<'a> {
    pub(super) success: bool,
    pub(super) value: &'a Value,
    /// Where members are looked for that the value lacks.
    pub(super) beside: Option<&'a Value>,
}

impl<'a> StepResult<'a> {
    fn find(self, path: &JsonPath) -> Option<&'a Value> {
        path.find(self.value).or_else(|| path.find(self.beside?))
    }
}

/// Looks whether a condition holds. Asks no more than it must: `and` ends at the first that does not hold.
pub(super) fn verdict<'a>(
    check: &'a Check,
    state: &'a State,
    caller: &'a dyn CallTool,
) -> BoxFuture<'a, Result<Verdict, String>> {
    async move {
        let told = |error: TemplateError| format!("failed to render the condition: {error}");
        Ok(match check {
            Check::Template(tree) => {
                let rendered = tree.render(state.context()).map_err(told)?;
                let text = rendered.as_str().map_or_else(|| rendered.to_string(), |text| text.trim().to_owned());
                Verdict { holds: text == "true", ..Verdict::default() }
            }
            Check::Tool { tool, args, test } => {
                let arguments = args.render(state.context()).map_err(told)?;
                let answer = match caller.call(tool, &arguments).await {
                    Ok(result) => Answer::read(&result),
                    Err(problem) => Answer::failure(problem.message),
                };
                let said = StepResult { success: !answer.failed, value: &answer.value, beside: answer.beside.as_ref() };
                let holds = holds(test, said, state).map_err(told)?;
                Verdict { holds, tool: Some(tool.clone()), result: Some(answer.value) }
            }
            Check::FromStep { step, test } => {
                let Some(said) = state.outcome(step) else {
                    return Err(format!("the condition uses the step `{step}`, which has no result"));
                };
                Verdict { holds: holds(test, said, state).map_err(told)?, tool: None, result: Some(said.value.clone()) }
            }
            Check::All(all) | Check::Any(all) => {
                let wanted = matches!(check, Check::Any(_));
                let mut last = Verdict { holds: !wanted, ..Verdict::default() };
                for check in all {
                    last = verdict(check, state, caller).await?;
                    if last.holds == wanted {
                        break;
                    }
                }
                last
            }
            Check::Not(inner) => {
                let inner = verdict(inner, state, caller).await?;
                Verdict { holds: !inner.holds, ..inner }
            }
        })
    }
    .boxed()
}

fn holds(test: &Tests, said: StepResult<'_>, state: &State) -> Result<bool, TemplateError> {
    if let Some(expected) = &test.expect
        && !(expected.success.is_none_or(|wanted| wanted == said.success) && all_are(expected, said, state)?)
    {
        return Ok(false);
    }
    if let Some(unwanted) = &test.expect_not
        && (unwanted.success == Some(said.success) || one_is(unwanted, said, state)?)
    {
        return Ok(false);
    }
    Ok(true)
}

fn all_are(expected: &CompiledExpectation, said: StepResult<'_>, state: &State) -> Result<bool, TemplateError> {
    for (path, tree) in &expected.values {
        let wanted = tree.render(state.context())?;
        if !said.find(path).is_some_and(|found| same(found, &wanted)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn one_is(unwanted: &CompiledExpectation, said: StepResult<'_>, state: &State) -> Result<bool, TemplateError> {
    for (path, tree) in &unwanted.values {
        let wanted = tree.render(state.context())?;
        if said.find(path).is_some_and(|found| same(found, &wanted)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compared as text, so that `3` is `"3"`; numbers by their value, so that 3 is 3.0.
fn same(found: &Value, wanted: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let number = |value: &Value| value.as_f64();
    found == wanted
        || text(found) == text(wanted)
        || number(found).zip(number(wanted)).is_some_and(|(found, wanted)| found == wanted)
        || *wanted == json!("<nil>") && found.is_null()
}
