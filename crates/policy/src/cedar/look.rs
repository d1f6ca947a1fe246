//! What the conditions of a policy look at, found in its abstract syntax.

use std::collections::BTreeSet;

use serde_json::Value;

/// What conditions look at.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    /// Attributes of the resource.
    pub(super) resource: BTreeSet<String>,
    /// Attributes of the context.
    pub(super) context: BTreeSet<String>,
    /// Arguments of the call, by their names at the top.
    pub(super) arguments: BTreeSet<String>,
    /// Whether who asks counts as itself, and not only by what it is in.
    pub(super) principal_itself: bool,
    /// Whether the resource counts as itself.
    pub(super) resource_itself: bool,
    /// Whether the context or the arguments are used as a whole.
    pub(super) everything: bool,
    /// Whether its head or a condition names a label.
    pub(super) names_label: bool,
}

// === impl Look ===

impl Look {
    /// Of the JSON form of a policy.
    pub(super) fn of(policy: &Value) -> Self {
        let mut look = Self::default();
        for condition in policy.get("conditions").and_then(Value::as_array).into_iter().flatten() {
            look.walk(condition);
        }
        look
    }

    fn walk(&mut self, expression: &Value) {
        // A stack of our own: conditions may nest deeply.
        let mut open = vec![expression];
        while let Some(next) = open.pop() {
            match next {
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => {
                    for (operator, operand) in fields {
                        match &operator[..] {
                            "Value" => {}
                            // Its keys are names, whatever they look like.
                            "Record" => open.extend(operand.as_object().into_iter().flat_map(|it| it.values())),
                            "Var" => self.note_variable(operand),
                            "." | "has" if self.note_attribute(operand) => {}
                            "in" | "==" | "!=" => open.extend(compared(operand)),
                            "is" => {
                                open.extend(operand.get("left").filter(|left| variable(left).is_none()));
                                open.extend(operand.get("in"));
                            }
                            _ => open.push(operand),
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn note_variable(&mut self, name: &Value) {
        match name.as_str() {
            Some("principal") => self.principal_itself = true,
            Some("resource") => self.resource_itself = true,
            Some("context") => self.everything = true,
            _ => {}
        }
    }

    /// Whether this was an attribute of the resource, of the context or of the arguments.
    fn note_attribute(&mut self, operand: &Value) -> bool {
        let (Some(left), Some(name)) = (operand.get("left"), operand.get("attr").and_then(Value::as_str)) else {
            return false;
        };
        match variable(left) {
            Some("resource") => {
                self.resource.insert(name.to_owned());
                return true;
            }
            // Which arguments are read is known one level further in.
            Some("context") if name == "arguments" => {
                self.context.insert(name.to_owned());
                self.everything = true;
                return true;
            }
            Some("context") => {
                self.context.insert(name.to_owned());
                return true;
            }
            _ => {}
        }
        let is_arguments = left.get(".").is_some_and(|inner| {
            inner.get("left").and_then(variable) == Some("context")
                && inner.get("attr").and_then(Value::as_str) == Some("arguments")
        });
        if is_arguments {
            self.context.insert("arguments".to_owned());
            self.arguments.insert(name.to_owned());
        }
        is_arguments
    }

    /// Whether resources count by their names, and not only by their shape.
    pub(super) fn at_names(&self) -> bool {
        self.resource_itself || ["name", "uri"].iter().any(|name| self.resource.contains(*name))
    }

    /// Whether it looks at what one tool may have alone: its name, its digest, or labels, where tools have their own.
    pub(super) fn at_single_tools(&self, labels_differ: bool) -> bool {
        self.at_names() || self.resource.contains("digest") || (labels_differ && self.at_labels())
    }

    fn at_labels(&self) -> bool {
        self.names_label || ["labels", "risks"].iter().any(|name| self.resource.contains(*name))
    }

    /// Whether a class of principals and the shape of a resource do not settle it.
    pub(super) fn needs_call(&self) -> bool {
        const OF_CLASS: [&str; 3] = ["door", "proof", "client"];
        self.everything || self.context.iter().any(|it| !OF_CLASS.contains(&&it[..]))
    }

    /// Whether it takes the arguments of the call.
    pub(super) fn needs_arguments(&self) -> bool {
        self.everything || self.context.contains("arguments")
    }

    /// Whether the time is all that the call settles.
    pub(super) fn needs_time_alone(&self) -> bool {
        const OF_CLASS_AND_TIME: [&str; 4] = ["door", "proof", "client", "time"];
        self.needs_call() && !self.everything && self.context.iter().all(|it| OF_CLASS_AND_TIME.contains(&&it[..]))
    }
}

/// What of a comparison is still to be looked at: a variable that is compared with what is written there is not used
/// as itself, because the shape of a resource and the class of a principal say whether it is the one that is named.
fn compared(operand: &Value) -> Vec<&Value> {
    let sides = [operand.get("left"), operand.get("right")];
    let is_written = |side: &Option<&Value>| side.is_some_and(is_constant);
    let is_named = |side: &Option<&Value>| side.and_then(variable).is_some_and(|name| name != "context");
    let settled = (is_named(&sides[0]) && is_written(&sides[1])) || (is_written(&sides[0]) && is_named(&sides[1]));
    if settled { Vec::new() } else { sides.into_iter().flatten().collect() }
}

fn is_constant(expression: &Value) -> bool {
    match expression.as_object() {
        Some(fields) if fields.contains_key("Value") => true,
        Some(fields) => fields.get("Set").and_then(Value::as_array).is_some_and(|items| items.iter().all(is_constant)),
        None => false,
    }
}

fn variable(expression: &Value) -> Option<&str> {
    expression.get("Var").and_then(Value::as_str)
}
