//! The types that policies expect of arguments, read off their conditions, and arguments as values of these types.
//!
//! Tools are of any kind, so no schema says what `context.arguments.amount` is. What a policy does with it says so:
//! what is compared with a number is one. An argument of another type than the policy expects becomes a value that no
//! comparison fits, so that the policy fails; see [`super::class`] for what follows from that.

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;
use serde_json::Value;

/// How deeply records of arguments are followed.
const DEPTH: usize = 16;

/// What a policy expects of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ArgumentType {
    Text,
    Whole,
    Flag,
    Decimal,
    Set(Box<Self>),
    Record(Arguments),
}

/// Arguments by name.
pub(super) type Arguments = BTreeMap<String, ArgumentType>;

// === impl ArgumentType ===

impl ArgumentType {
    /// In a Cedar schema.
    pub(super) fn schema(&self) -> String {
        match self {
            Self::Text => "String".to_owned(),
            Self::Whole => "Long".to_owned(),
            Self::Flag => "Bool".to_owned(),
            Self::Decimal => "decimal".to_owned(),
            Self::Set(of) => format!("Set<{}>", of.schema()),
            Self::Record(fields) => {
                let field = |(name, it): (&String, &Self)| format!("{}?: {}", super::schema::quoted(name), it.schema());
                format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// What both expect; `None` where they do not agree.
    fn merged(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Record(a), Self::Record(b)) => merged(a, b).map(Self::Record),
            (a, b) => (a == b).then(|| a.clone()),
        }
    }

    /// The value of an argument as the policy expects it.
    pub(super) fn value(&self, json: &Value) -> RestrictedExpression {
        self.read(json).unwrap_or_else(|| match self {
            // What is no record has no attributes, so that even the question whether it has one fails.
            Self::Record(_) => RestrictedExpression::new_bool(false),
            _ => RestrictedExpression::new_record([]).expect("no key twice among none"),
        })
    }

    fn read(&self, json: &Value) -> Option<RestrictedExpression> {
        match (self, json) {
            (Self::Text, Value::String(text)) => Some(RestrictedExpression::new_string(text.clone())),
            (Self::Whole, Value::Number(number)) => Some(RestrictedExpression::new_long(whole(number)?)),
            (Self::Flag, Value::Bool(flag)) => Some(RestrictedExpression::new_bool(*flag)),
            (Self::Decimal, Value::Number(number)) => Some(RestrictedExpression::new_decimal(decimal(number)?)),
            (Self::Set(of), Value::Array(items)) => {
                let items: Option<Vec<_>> = items.iter().map(|item| of.read(item)).collect();
                Some(RestrictedExpression::new_set(items?))
            }
            (Self::Record(fields), Value::Object(values)) => {
                RestrictedExpression::new_record(record(fields, values)).ok()
            }
            _ => None,
        }
    }
}

/// Those of some values that policies read.
pub(super) fn record(
    fields: &Arguments,
    values: &serde_json::Map<String, Value>,
) -> Vec<(String, RestrictedExpression)> {
    let known = fields.iter().filter_map(|(name, of)| Some((name.clone(), of.value(values.get(name)?))));
    known.collect()
}

/// A number without a fraction, however it is written.
fn whole(number: &serde_json::Number) -> Option<i64> {
    // Up to here, a float is the number that was written: the next one also stands for the number after it.
    const EXACT: f64 = 9_007_199_254_740_991.0;
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= EXACT)?;
        format!("{float:.0}").parse().ok()
    })
}

/// A number as Cedar writes decimals: with one to four digits after the point.
fn decimal(number: &serde_json::Number) -> Option<String> {
    if let Some(whole) = number.as_i64() {
        return Some(format!("{whole}.0"));
    }
    let text = number.to_string();
    let (_, fraction) = text.split_once('.')?;
    (fraction.len() <= 4 && fraction.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// The arguments of both; `None` where they do not agree about one.
pub(super) fn merged(a: &Arguments, b: &Arguments) -> Option<Arguments> {
    let mut all = a.clone();
    for (name, of) in b {
        let both = match a.get(name) {
            Some(known) => known.merged(of)?,
            None => of.clone(),
        };
        all.insert(name.clone(), both);
    }
    Some(all)
}

/// What the conditions of a policy expect of arguments.
pub(super) fn expected(policy: &Value) -> Arguments {
    let mut found = Arguments::new();
    let mut open: Vec<&Value> = policy.get("conditions").into_iter().collect();
    while let Some(next) = open.pop() {
        match next {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                for (operator, operand) in fields {
                    note_operands(operator, operand, &mut found);
                    open.push(operand);
                }
            }
            _ => {}
        }
    }
    found
}

fn note_operands(operator: &str, operand: &Value, found: &mut Arguments) {
    use ArgumentType::{Decimal, Flag, Set, Text, Whole};
    let side = |name: &str| operand.get(name);
    let sides = || [operand.get("left"), operand.get("right")].into_iter().flatten();
    match operator {
        "<" | "<=" | ">" | ">=" | "+" | "-" | "*" => sides().for_each(|it| note(it, Whole, found)),
        "neg" => side("arg").into_iter().for_each(|it| note(it, Whole, found)),
        "&&" | "||" => sides().for_each(|it| note(it, Flag, found)),
        "!" => side("arg").into_iter().for_each(|it| note(it, Flag, found)),
        "if-then-else" => side("if").into_iter().for_each(|it| note(it, Flag, found)),
        // The body of `when` and `unless`.
        "body" => note(operand, Flag, found),
        "like" => side("left").into_iter().for_each(|it| note(it, Text, found)),
        "==" | "!=" => {
            let types = [side("left").and_then(constant), side("right").and_then(constant)];
            let [left, right] = types;
            for (it, of) in [(side("left"), right), (side("right"), left)] {
                if let Some(it) = it {
                    note_weakly(it, of, found);
                }
            }
        }
        "contains" => {
            let (left, right) = (side("left"), side("right"));
            let element = right.and_then(constant);
            left.into_iter().for_each(|it| note_weakly(it, element.clone().map(|of| Set(Box::new(of))), found));
            if let Some(Set(of)) = left.and_then(constant) {
                right.into_iter().for_each(|it| note(it, *of.clone(), found));
            }
        }
        "containsAll" | "containsAny" => {
            for (it, other) in [("left", "right"), ("right", "left")] {
                let of = side(other).and_then(constant).unwrap_or_else(|| Set(Box::new(Text)));
                side(it).into_iter().for_each(|it| note(it, of.clone(), found));
            }
        }
        "isEmpty" => side("arg").into_iter().for_each(|it| note_weakly(it, Some(Set(Box::new(Text))), found)),
        "lessThan" | "lessThanOrEqual" | "greaterThan" | "greaterThanOrEqual" => {
            operand.as_array().into_iter().flatten().for_each(|it| note(it, Decimal, found));
        }
        "has" => {
            let path = path(operand);
            path.into_iter().for_each(|path| place(&path, None, found));
        }
        _ => {}
    }
}

/// What a constant is.
fn constant(expression: &Value) -> Option<ArgumentType> {
    let set = expression.get("Set").and_then(Value::as_array);
    match (expression.get("Value"), set) {
        (Some(Value::String(_)), _) => Some(ArgumentType::Text),
        (Some(Value::Number(_)), _) => Some(ArgumentType::Whole),
        (Some(Value::Bool(_)), _) => Some(ArgumentType::Flag),
        (Some(Value::Array(items)), _) => {
            let first = items.first().map(|item| serde_json::json!({ "Value": item }));
            first.as_ref().and_then(constant).map(|of| ArgumentType::Set(Box::new(of)))
        }
        (None, Some(items)) => items.first().and_then(constant).map(|of| ArgumentType::Set(Box::new(of))),
        _ => expression.get("decimal").map(|_| ArgumentType::Decimal),
    }
}

fn note(expression: &Value, of: ArgumentType, found: &mut Arguments) {
    note_weakly(expression, Some(of), found);
}

fn note_weakly(expression: &Value, of: Option<ArgumentType>, found: &mut Arguments) {
    if let Some(path) = expression.get(".").and_then(path) {
        place(&path, of, found);
    }
}

/// The names after `context.arguments` of an attribute or of a `has`; `None` where it is not about arguments.
fn path(operand: &Value) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut at = operand;
    for _ in 0..=DEPTH {
        let name = at.get("attr").and_then(Value::as_str)?;
        let left = at.get("left")?;
        if name == "arguments" && left.get("Var").and_then(Value::as_str) == Some("context") {
            names.reverse();
            return (!names.is_empty()).then_some(names);
        }
        names.push(name);
        at = left.get(".")?;
    }
    None
}

/// Notes what is expected at a path. What is only asked for (`has`) is a text until something says more.
fn place(path: &[&str], of: Option<ArgumentType>, found: &mut Arguments) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        match of {
            Some(of) => {
                let known = found.get(*name);
                // A record that is known stays one, and of two types the first: the check of types says so.
                if known.is_none_or(|known| *known == ArgumentType::Text) {
                    found.insert((*name).to_owned(), of);
                }
            }
            None => {
                found.entry((*name).to_owned()).or_insert(ArgumentType::Text);
            }
        }
        return;
    }
    let inner = found.entry((*name).to_owned()).or_insert_with(|| ArgumentType::Record(Arguments::new()));
    if !matches!(inner, ArgumentType::Record(_)) {
        *inner = ArgumentType::Record(Arguments::new());
    }
    if let ArgumentType::Record(fields) = inner {
        place(rest, of, fields);
    }
}
