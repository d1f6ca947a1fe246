//! Which results a step can see: those of steps that ended before it. A name that can never be there is reported when
//! the workflow is made and not only when it runs. It is not a fault: muster takes such a workflow, and its run fails.

use std::collections::BTreeSet;

use toolcrib_base::nearest::nearest;
use toolcrib_catalog::{Action, Step};

use super::{Check, Code};
use crate::template::Tree;

/// The root of templates that holds results.
const RESULTS: &str = "results";

/// A name that leads nowhere: in which step, in which field, what is wrong, and what may be meant.
pub(super) struct UnknownName<'a> {
    pub(super) step: Option<&'a Step>,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// All of them, in the order of the file.
pub(super) fn astray<'a>(steps: &'a [Code], on_failure: &'a [Code], output: Option<&'a Tree>) -> Vec<UnknownName<'a>> {
    let mut all = Names::default();
    steps.iter().chain(on_failure).for_each(|code| all.add(&code.step));
    let mut walk = Walk { all, seen: Names::default(), found: Vec::new() };
    walk.steps(steps);
    // What cleans up may look at whatever has run by then; the answer is made when every step has.
    if let Some(output) = output {
        walk.tree(None, "output", output);
    }
    walk.steps(on_failure);
    walk.found
}

/// Names under which results stand.
#[derive(Default, Clone)]
struct Names<'a> {
    steps: BTreeSet<&'a str>,
    /// Steps of loops, whose rounds are `<id>_<place>`.
    rounds: BTreeSet<&'a str>,
}

// === impl Names ===

impl<'a> Names<'a> {
    /// Takes in what a step leaves behind.
    fn add(&mut self, step: &'a Step) {
        self.steps.extend(step.all().map(|step| step.id.as_str()));
        if matches!(step.action, Action::ForEach { .. }) {
            self.rounds.extend(step.inner().iter().map(|inner| inner.id.as_str()));
        }
    }

    fn has(&self, name: &str) -> bool {
        let is_round = |(id, place): (&str, &str)| {
            self.rounds.contains(id) && !place.is_empty() && place.bytes().all(|b| b.is_ascii_digit())
        };
        self.steps.contains(name) || name.rsplit_once('_').is_some_and(is_round)
    }
}

struct Walk<'a> {
    all: Names<'a>,
    seen: Names<'a>,
    found: Vec<UnknownName<'a>>,
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn steps(&mut self, codes: &'a [Code]) {
        for code in codes {
            self.step(code);
            self.seen.add(&code.step);
        }
    }

    fn step(&mut self, code: &'a Code) {
        let step = &code.step;
        if let Some(condition) = &code.condition {
            self.check(step, "condition", condition);
        }
        match &step.action {
            Action::Tool { .. } => self.tree(Some(step), "args", &code.tree),
            Action::ForEach { .. } => {
                self.tree(Some(step), "forEach.items", &code.tree);
                // A round sees what the rounds before have left.
                let before = self.seen.clone();
                self.seen.add(step);
                self.seen.steps.remove(step.id.as_str());
                code.inner.iter().for_each(|inner| self.step(inner));
                self.seen = before;
            }
            Action::Parallel(_) => code.inner.iter().for_each(|inner| self.step(inner)),
        }
        if let Some(outputs) = &code.outputs {
            let before = self.seen.clone();
            self.seen.add(step);
            self.tree(Some(step), "outputs", outputs);
            self.seen = before;
        }
    }

    fn check(&mut self, step: &'a Step, field: &str, check: &'a Check) {
        let test = match check {
            Check::Template(tree) => return self.tree(Some(step), &format!("{field}.template"), tree),
            Check::All(all) => {
                let each = all.iter().enumerate();
                return each.for_each(|(at, check)| self.check(step, &format!("{field}.and[{at}]"), check));
            }
            Check::Any(all) => {
                let each = all.iter().enumerate();
                return each.for_each(|(at, check)| self.check(step, &format!("{field}.or[{at}]"), check));
            }
            Check::Not(inner) => return self.check(step, &format!("{field}.not"), inner),
            Check::Tool { args, test, .. } => {
                self.tree(Some(step), &format!("{field}.args"), args);
                test
            }
            Check::FromStep { step: from, test } => {
                self.name(Some(step), &format!("{field}.fromStep"), from);
                test
            }
        };
        for (word, expected) in [("expect", &test.expect), ("expectNot", &test.expect_not)] {
            for (path, tree) in expected.iter().flat_map(|expected| &expected.values) {
                self.tree(Some(step), &format!("{field}.{word}.jsonPath.{}", path.text()), tree);
            }
        }
    }

    fn tree(&mut self, step: Option<&'a Step>, field: &str, tree: &'a Tree) {
        for name in tree.names_under(RESULTS) {
            self.name(step, field, name);
        }
    }

    fn name(&mut self, step: Option<&'a Step>, field: &str, name: &str) {
        if self.seen.has(name) {
            return;
        }
        let shown: String = name.chars().filter(|c| !c.is_control()).take(63).collect();
        let (message, hint) = if self.all.has(name) {
            let hint = "a step can use only results of earlier steps".to_owned();
            (format!("the result of the step `{shown}` is not available yet"), Some(hint))
        } else {
            let close = nearest(name, self.seen.steps.iter().copied());
            (format!("no step named `{shown}`"), close.map(|close| format!("did you mean `{close}`?")))
        };
        self.found.push(UnknownName { step, field: field.to_owned(), message, hint });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolcrib_catalog::WorkflowDefinition;

    use crate::workflow::Program;

    /// Reads a workflow; what is said of it is this.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let definition = WorkflowDefinition::of_text("w", &format!("name: w\n{text}")).unwrap();
        let program = Program::compile(&Arc::new(definition)).unwrap();
        let told: Vec<String> = program.warnings().iter().map(|it| format!("{}: {}", it.field, it.message)).collect();
        assert_eq!(told, expected, "{text}");
    }

    #[test]
    fn a_step_sees_what_has_ended_before_it() {
        let later = "steps:\n- {id: a, tool: t, args: {x: \"{{ .results.b.n }}\"}}\n- {id: b, tool: t}\n";
        check(later, &["steps[0].args: the result of the step `b` is not available yet"]);
        check(
            "steps: [{id: a, tool: t, args: {deep: [\"{{ .results.a }}\"]}}]\n",
            &["steps[0].args: the result of the step `a` is not available yet"],
        );
        check(
            "steps:\n- {id: get-list, tool: t}\n- {id: b, tool: t, args: {x: \"a {{ .results.get-lost.n | upper }}\"}}\n",
            &["steps[1].args: no step named `get-lost`"],
        );
        check(
            "templates: jinja\nsteps:\n- {id: a, tool: t}\n- {id: b, tool: t, args: {x: \"{{ results.a.n }}\"}}\n",
            &[],
        );
        check(
            "templates: jinja\nsteps: [{id: b, tool: t, args: {x: \"{{ results.nobody.n }}\"}}]\n",
            &["steps[0].args: no step named `nobody`"],
        );
        check("steps: [{id: a, tool: t, outputs: {n: \"{{ .results.a.n }}\"}}]\n", &[]);
        check(
            "steps: [{id: a, tool: t}]\noutput: {n: \"{{ .results.a }} {{ .results.c }}\"}\n",
            &["output: no step named `c`"],
        );
    }

    #[test]
    fn what_may_be_missing_is_left_alone_and_the_older_word_is_not() {
        check("steps: [{id: a, tool: t, args: {x: \"{{ .results.b | default 1 }}\"}}]\n", &[]);
        check("steps: [{id: a, tool: t, args: {x: \"{{ index .results \\\"b\\\" }}\"}}]\n", &[]);
        check("steps: [{id: a, tool: t, args: {x: \"{{ .context.b }}\"}}]\n", &["steps[0].args: no step named `b`"]);
        check("templates: jinja\nsteps: [{id: a, tool: t, args: {x: \"{{ results.b | default(1) }}\"}}]\n", &[]);
    }

    #[test]
    fn conditions_look_at_earlier_steps() {
        let condition = |it: &str| {
            format!("steps:\n- {{id: a, tool: t}}\n- {{id: b, tool: t, condition: {it}}}\n- {{id: c, tool: t}}\n")
        };
        check(&condition("{fromStep: a, expect: {success: true}}"), &[]);
        check(
            &condition("{from_step: c, expect: {success: true}}"),
            &["steps[1].condition.fromStep: the result of the step `c` is not available yet"],
        );
        check(
            &condition("{and: [{not: {fromStep: nobody, expect: {success: true}}}]}"),
            &["steps[1].condition.and[0].not.fromStep: no step named `nobody`"],
        );
        check(
            &condition("{fromStep: a, expect: {jsonPath: {n: \"{{ .results.c.n }}\"}}}"),
            &["steps[1].condition.expect.jsonPath.n: the result of the step `c` is not available yet"],
        );
    }

    #[test]
    fn loops_see_their_rounds_and_branches_nothing_of_each_other() {
        let around = |inner: &str| {
            format!(
                "steps:\n- {{id: a, tool: t}}\n- {inner}\n- {{id: z, tool: t, args: {{x: \"{{{{ .results.one }}}} {{{{ .results.one_3.n }}}} {{{{ .results.l }}}}\"}}}}\n"
            )
        };
        check(
            &around(
                "{id: l, forEach: {items: [1], steps: [{id: one, tool: t, args: {x: \"{{ .results.two }}\"}}, {id: two, tool: t, args: {x: \"{{ .results.one_0 }}{{ .results.a }}\"}}]}}",
            ),
            &[],
        );
        check(
            &around(
                "{id: l, forEach: {items: \"{{ .results.z }}\", steps: [{id: one, tool: t, args: {x: \"{{ .results.l }}{{ .results.two_1 }}\"}}]}}",
            ),
            &[
                "steps[1].forEach.items: the result of the step `z` is not available yet",
                "steps[1].forEach.steps[0].args: the result of the step `l` is not available yet",
                "steps[1].forEach.steps[0].args: no step named `two_1`",
            ],
        );
        check(
            "steps: [{id: p, parallel: [{id: x, tool: t}, {id: y, tool: t, args: {x: \"{{ .results.x }}\"}}]}]\n",
            &["steps[0].parallel[1].args: the result of the step `x` is not available yet"],
        );
        check(
            "steps:\n- {id: a, tool: t}\nonFailure:\n- {id: u, tool: t, args: {x: \"{{ .results.a }}\"}}\n- {id: v, tool: t, args: {x: \"{{ .results.u }}{{ .results.b }}\"}}\n",
            &["onFailure[1].args: no step named `b`"],
        );
    }
}
