//! A definition made ready to run: every template in it read once.

mod reach;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_catalog::{
    Action, Condition, DefinitionProblem, Expectation, Position, Step, TemplateLanguage, Test, WorkflowDefinition,
};

use crate::template::{JsonPath, TemplateError, Tree};

/// A workflow that can run.
#[derive(Debug)]
pub struct Program {
    pub(super) definition: Arc<WorkflowDefinition>,
    pub(super) steps: Vec<Code>,
    pub(super) on_failure: Vec<Code>,
    pub(super) output: Option<Tree>,
    warnings: Vec<DefinitionProblem>,
}

/// A step of it.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) step: Step,
    /// The arguments of its tool, or the items of its loop.
    pub(super) tree: Tree,
    pub(super) condition: Option<Check>,
    pub(super) outputs: Option<Tree>,
    pub(super) inner: Vec<Code>,
}

/// Its condition.
#[derive(Debug)]
pub(super) enum Check {
    Template(Tree),
    Tool { tool: String, args: Tree, test: Tests },
    FromStep { step: String, test: Tests },
    All(Vec<Check>),
    Any(Vec<Check>),
    Not(Box<Check>),
}

/// What an answer is held against.
#[derive(Debug)]
pub(super) struct Tests {
    pub(super) expect: Option<CompiledExpectation>,
    pub(super) expect_not: Option<CompiledExpectation>,
}

#[derive(Debug)]
pub(super) struct CompiledExpectation {
    pub(super) success: Option<bool>,
    pub(super) values: Vec<(JsonPath, Tree)>,
}

// === impl Program ===

impl Program {
    /// Reads the templates of a definition, or says what is wrong with each of them.
    pub fn compile(definition: &Arc<WorkflowDefinition>) -> Result<Self, Vec<DefinitionProblem>> {
        let file = PathBuf::from(format!("workflows/{}.yaml", definition.name));
        let mut compiler = Compiler { file, language: definition.templates, problems: Vec::new() };
        let steps = compiler.codes(&definition.steps);
        let on_failure = compiler.codes(&definition.on_failure);
        let output = definition.output.as_ref().map(|output| compiler.tree(output, None, "output"));
        if !compiler.problems.is_empty() {
            return Err(compiler.problems);
        }
        for astray in reach::astray(&steps, &on_failure, output.as_ref()) {
            compiler.problem(astray.step, &astray.field, astray.message, astray.hint);
        }
        let warnings = compiler.problems;
        Ok(Self { definition: Arc::clone(definition), steps, on_failure, output, warnings })
    }

    /// Problems that do not make the definition invalid: names of results that are never there. A run fails where it
    /// needs one.
    pub fn warnings(&self) -> &[DefinitionProblem] {
        &self.warnings
    }

    /// The definition that it was made of.
    pub fn definition(&self) -> &Arc<WorkflowDefinition> {
        &self.definition
    }
}

// === impl Check ===

impl Check {
    /// Every tree in it.
    pub(super) fn trees(&self) -> Vec<&Tree> {
        match self {
            Self::Template(tree) => vec![tree],
            Self::Tool { args, test, .. } => std::iter::once(args).chain(test.trees()).collect(),
            Self::FromStep { test, .. } => test.trees().collect(),
            Self::All(all) | Self::Any(all) => all.iter().flat_map(Self::trees).collect(),
            Self::Not(inner) => inner.trees(),
        }
    }
}

// === impl Tests ===

impl Tests {
    fn trees(&self) -> impl Iterator<Item = &Tree> {
        let values = self.expect.iter().chain(&self.expect_not).flat_map(|expected| &expected.values);
        values.map(|(_, tree)| tree)
    }
}

struct Compiler {
    file: PathBuf,
    language: TemplateLanguage,
    problems: Vec<DefinitionProblem>,
}

// === impl Compiler ===

impl Compiler {
    fn codes(&mut self, steps: &[Step]) -> Vec<Code> {
        steps.iter().map(|step| self.code(step)).collect()
    }

    /// The steps within a step. Who wants to see the results of a loop or of branches means those of its steps.
    fn inner(&mut self, step: &Step) -> Vec<Code> {
        let inner = step.inner().iter().map(|inner| Step { store: inner.store || step.store, ..inner.clone() });
        inner.map(|inner| self.code(&inner)).collect()
    }

    fn code(&mut self, step: &Step) -> Code {
        let tree = match &step.action {
            Action::Tool { args, .. } => self.tree(&Value::Object(args.clone()), Some(step), "args"),
            Action::ForEach { items, .. } => self.tree(items, Some(step), "forEach.items"),
            Action::Parallel(_) => self.tree(&Value::Null, Some(step), "parallel"),
        };
        Code {
            tree,
            condition: step.condition.as_ref().map(|condition| self.check(condition, step, "condition")),
            outputs: (!step.outputs.is_empty())
                .then(|| self.tree(&Value::Object(step.outputs.clone()), Some(step), "outputs")),
            inner: self.inner(step),
            step: step.clone(),
        }
    }

    fn check(&mut self, condition: &Condition, step: &Step, field: &str) -> Check {
        let mut several = |all: &[Condition], word: &str| -> Vec<Check> {
            let each = all.iter().enumerate();
            each.map(|(at, condition)| self.check(condition, step, &format!("{field}.{word}[{at}]"))).collect()
        };
        match condition {
            Condition::All(all) => Check::All(several(all, "and")),
            Condition::Any(all) => Check::Any(several(all, "or")),
            Condition::Not(inner) => Check::Not(Box::new(self.check(inner, step, &format!("{field}.not")))),
            Condition::Template(text) => Check::Template(self.tree(text, Some(step), &format!("{field}.template"))),
            Condition::Tool { tool, args, test } => Check::Tool {
                tool: tool.clone(),
                args: self.tree(&Value::Object(args.clone()), Some(step), &format!("{field}.args")),
                test: self.tests(test, step, field),
            },
            Condition::FromStep { step: from, test } => {
                Check::FromStep { step: from.clone(), test: self.tests(test, step, field) }
            }
        }
    }

    fn tests(&mut self, test: &Test, step: &Step, field: &str) -> Tests {
        let mut expected = |expectation: &Option<Expectation>, word: &str| {
            let expectation = expectation.as_ref()?;
            let mut values = Vec::new();
            for (path, value) in &expectation.json_path {
                let field = format!("{field}.{word}.jsonPath.{path}");
                let tree = self.tree(value, Some(step), &field);
                match JsonPath::parse(path) {
                    Some(path) => values.push((path, tree)),
                    None => self.problem(Some(step), &field, format!("expected a JSON path, got `{path}`"), None),
                }
            }
            Some(CompiledExpectation { success: expectation.success, values })
        };
        Tests { expect: expected(&test.expect, "expect"), expect_not: expected(&test.expect_not, "expectNot") }
    }

    fn tree(&mut self, value: &Value, step: Option<&Step>, field: &str) -> Tree {
        Tree::parse(value, self.language).unwrap_or_else(|error: TemplateError| {
            let dot = if error.field().is_empty() || error.field().starts_with('[') { "" } else { "." };
            let field = format!("{field}{dot}{}", error.field());
            self.problem(step, &field, error.message().to_owned(), None);
            Tree::plain(Value::Null)
        })
    }

    fn problem(&mut self, step: Option<&Step>, field: &str, message: String, hint: Option<String>) {
        let at: Option<Position> = step.map(|step| step.at);
        let field = step.map_or_else(|| field.to_owned(), |step| format!("{}.{field}", step.field));
        self.problems.push(DefinitionProblem { file: self.file.clone(), at, field, message, hint });
    }
}
