//! A tool's parameters as one short line: `read_file(path: string, head?: integer, items?: {id: string}[])`.

use crate::schema::{self, Field, Fields, Type};

/// A signature of more characters is rendered with less detail, down to the names of required parameters.
pub const SIGNATURE_CHARS: usize = 600;
/// What stands where something was left out.
pub(crate) const CUT: char = '…';
/// How many values of an `enum` are left when values are shortened.
const FEW_VALUES: usize = 2;

/// What can be said about calling a tool, to be rendered in as much detail as there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    parameters: Type,
    output: Option<Type>,
}

/// How much of a signature is shown. The steps are in the order in which [`crate::budget`] gives things up: each shows
/// less than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Everything that was read.
    Full,
    /// No output, and optional parameters by name only.
    OptionalNames,
    /// Required parameters and `…` for the optional ones.
    Required,
    /// The same with nested objects as `{…}` and few values of an `enum`.
    Flat,
    /// The names of required parameters.
    RequiredNames,
    /// How many parameters are required: `(…3 required)`.
    Cut,
}

// === impl Detail ===

impl Detail {
    /// All steps, most detail first.
    pub const STEPS: [Self; 6] =
        [Self::Full, Self::OptionalNames, Self::Required, Self::Flat, Self::RequiredNames, Self::Cut];
}

// === impl Signature ===

impl Signature {
    /// Reads a tool's schemas as raw JSON text. What cannot be read is rendered as `(…)`.
    pub fn read(input_schema: &str, output_schema: Option<&str>) -> Self {
        Self { parameters: schema::read(input_schema), output: output_schema.map(schema::read) }
    }

    /// The signature after `name`: `name(…)`, with the most detail that fits [`SIGNATURE_CHARS`].
    pub fn line(&self, name: &str) -> String {
        format!("{name}{}", self.fitting())
    }

    /// The parentheses with the most detail that fits [`SIGNATURE_CHARS`]. The names of required parameters stay,
    /// whether they fit or not.
    pub fn fitting(&self) -> String {
        let fits = |text: &String| text.chars().count() <= SIGNATURE_CHARS;
        let mut steps = Detail::STEPS.iter().filter(|detail| **detail < Detail::RequiredNames);
        let shown = steps.find_map(|detail| Some(self.render(*detail)).filter(fits));
        shown.unwrap_or_else(|| self.render(Detail::RequiredNames))
    }

    /// The parentheses and, in full detail, the output.
    pub fn render(&self, detail: Detail) -> String {
        let mut text = String::from("(");
        match (&self.parameters, detail) {
            (Type::Object(fields), Detail::Cut) if fields.fields.is_empty() && !fields.cut => {}
            (Type::Object(fields), Detail::Cut) => {
                text.push(CUT);
                match fields.fields.iter().filter(|field| field.required).count() {
                    0 => {}
                    required => text.push_str(&format!("{required} required")),
                }
            }
            (_, Detail::Cut) => text.push(CUT),
            (Type::Object(fields), _) => parameters(&mut text, fields, detail),
            (other, Detail::Full | Detail::OptionalNames) => ty(&mut text, other, false),
            _ => text.push(CUT),
        }
        text.push(')');
        if let (Some(output), Detail::Full) = (&self.output, detail) {
            text.push_str(" -> ");
            ty(&mut text, output, false);
        }
        text
    }
}

fn parameters(text: &mut String, fields: &Fields, detail: Detail) {
    let mut list = List::default();
    let mut cut = fields.cut;
    for shown in &fields.fields {
        match (shown.required, detail) {
            (_, Detail::Full) | (true, Detail::OptionalNames | Detail::Required) => list.field(text, shown, false),
            (true, Detail::Flat) => list.field(text, shown, true),
            (true, _) => list.item(text, &shown.name),
            (false, Detail::OptionalNames) => list.item(text, &format!("{}?", shown.name)),
            (false, _) => cut = true,
        }
    }
    if cut {
        list.item(text, &CUT.to_string());
    }
}

/// Writes items with `, ` between them.
#[derive(Default)]
struct List {
    begun: bool,
}

// === impl List ===

impl List {
    fn item(&mut self, text: &mut String, item: &str) {
        if std::mem::replace(&mut self.begun, true) {
            text.push_str(", ");
        }
        text.push_str(item);
    }

    fn field(&mut self, text: &mut String, field: &Field, flat: bool) {
        self.item(text, &field.name);
        if !field.required {
            text.push('?');
        }
        if field.ty != Type::Any {
            text.push_str(": ");
            ty(text, &field.ty, flat);
        }
    }
}

/// Writes a type; `flat` leaves out nested fields and most values.
fn ty(text: &mut String, shown: &Type, flat: bool) {
    match shown {
        Type::Any => text.push_str("any"),
        Type::Name(name) => text.push_str(name),
        Type::Cut => text.push(CUT),
        Type::Values { values, cut } => {
            let count = if flat { FEW_VALUES } else { values.len() };
            text.push_str(&values.iter().take(count).map(String::as_str).collect::<Vec<_>>().join("|"));
            if *cut || count < values.len() {
                text.push('|');
                text.push(CUT);
            }
        }
        Type::Union(types) => {
            for (at, inner) in types.iter().enumerate() {
                if at > 0 {
                    text.push('|');
                }
                ty(text, inner, flat);
            }
        }
        Type::Array(items) => {
            let group = matches!(&**items, Type::Union(_))
                || matches!(&**items, Type::Values { values, cut } if values.len() > 1 || *cut);
            if group {
                text.push('(');
            }
            ty(text, items, flat);
            text.push_str(if group { ")[]" } else { "[]" });
        }
        Type::Map(values) => {
            text.push_str("{[key]: ");
            ty(text, values, flat);
            text.push('}');
        }
        Type::Object(_) if flat => {
            text.push('{');
            text.push(CUT);
            text.push('}');
        }
        Type::Object(fields) => {
            text.push('{');
            let mut list = List::default();
            for field in &fields.fields {
                list.field(text, field, false);
            }
            if fields.cut {
                list.item(text, &CUT.to_string());
            }
            text.push('}');
        }
    }
}

#[cfg(test)]
mod tests;
