//! What kind of control shows the values of a schema.

use std::collections::HashSet;
use std::sync::Arc;

use super::merge::{Keywords, Reason, Resolver, all_of};
use crate::json::Json;

/// Properties that one object may have to be shown as fields.
pub(super) const MAX_PROPERTIES: usize = 200;
/// Bytes of a property's name that may be shown as a field.
const MAX_NAME: usize = 200;
/// Choices that a list may have, and bytes that they may have together.
const MAX_CHOICES: usize = 300;
const MAX_CHOICE_BYTES: usize = 32 * 1024;
/// Alternatives that can be picked from.
const MAX_ALTERNATIVES: usize = 50;

/// How the values of one schema are shown.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) title: Option<Arc<str>>,
    pub(super) description: Option<Arc<str>>,
    pub(super) default: Option<Json>,
    pub(super) example: Option<Json>,
    pub(super) is_deprecated: bool,
    /// Whether `null` is allowed beside what the kind says.
    pub(super) is_nullable: bool,
    /// Whether the server has rules for it that the form does not check.
    pub(super) has_unchecked: bool,
    pub(super) kind: Kind,
}

/// The kind of control.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Text(TextRules),
    Number(NumberRules),
    /// One of these values; a required one of one value needs no control.
    Choice(Vec<Choice>),
    Object(ObjectRules),
    List(ListRules),
    /// One of several schemas.
    Pick(Vec<Alternative>),
    /// Any JSON, and why no form shows it.
    Any(Option<Reason>),
}

#[derive(Debug, Clone, Default)]
pub(super) struct TextRules {
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) pattern: Option<Arc<str>>,
    pub(super) format: Option<Arc<str>>,
    /// Whether it may have several lines.
    pub(super) is_long: bool,
    /// Whether it is shown as dots.
    pub(super) is_secret: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct NumberRules {
    pub(super) is_integer: bool,
    pub(super) min: Option<Arc<str>>,
    pub(super) max: Option<Arc<str>>,
    pub(super) above: Option<Arc<str>>,
    pub(super) below: Option<Arc<str>>,
    pub(super) step: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) label: Option<Arc<str>>,
    pub(super) value: Json,
}

#[derive(Debug, Clone)]
pub(super) struct ObjectRules {
    /// Each with its name, its schema and whether it is required.
    pub(super) properties: Vec<(Arc<str>, Json, bool)>,
    /// The schema of all others.
    pub(super) rest: Json,
    /// Whether others can be added.
    pub(super) is_open: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ListRules {
    /// The schemas of the first items.
    pub(super) first: Vec<Json>,
    /// The schema of the others.
    pub(super) items: Json,
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Alternative {
    pub(super) label: String,
    pub(super) schema: Json,
}

// === impl Shape ===

impl Shape {
    /// The shape of a schema. `is_root` is a whole document: its object is shown as fields even if it names none.
    pub(super) fn of(schema: &Json, resolver: &mut Resolver<'_>, is_root: bool) -> Self {
        match resolver.flatten(schema) {
            Ok(words) => Self::of_keywords(&words, resolver, is_root),
            Err(reason) => {
                let mut shape = Self::described_by(&Keywords::default());
                shape.description = schema.get("description").and_then(Json::as_text).map(Arc::from);
                shape.kind = Kind::Any(Some(reason));
                shape
            }
        }
    }

    fn described_by(words: &Keywords) -> Self {
        let example = words.get("examples").and_then(|examples| examples.items().first()).or(words.get("example"));
        Self {
            title: words.text("title"),
            description: words.text("description"),
            default: words.get("default").cloned(),
            example: example.cloned(),
            is_deprecated: words.is_true("deprecated"),
            is_nullable: words.is_true("nullable"),
            has_unchecked: words.has_unchecked(),
            kind: Kind::Any(None),
        }
    }

    fn of_keywords(words: &Keywords, resolver: &mut Resolver<'_>, is_root: bool) -> Self {
        let mut shape = Self::described_by(words);
        let mut types = words.types();
        let has_null = types.iter().any(|name| &**name == "null");
        if types.len() > 1 {
            types.retain(|name| &**name != "null");
            shape.is_nullable |= has_null;
        }
        shape.kind = if let Some(value) = words.get("const") {
            shape.is_nullable = false;
            choice(vec![Choice { label: None, value: value.clone() }], &types)
        } else if let Some(Json::List(values)) = words.get("enum") {
            let mut choices: Vec<Choice> =
                values.iter().map(|value| Choice { label: None, value: value.clone() }).collect();
            if words.is_true("nullable") && !values.iter().any(|value| matches!(value, Json::Null)) {
                choices.push(Choice { label: None, value: Json::Null });
            }
            shape.is_nullable = false;
            choice(choices, &types)
        } else if let Some(alternatives) = words.choices.first() {
            return shape.picked(words, alternatives, resolver);
        } else if types.len() > 1 {
            let schema = |name: &Arc<str>| {
                let only = Json::Object(vec![("type".into(), Json::Text(Arc::clone(name)))].into());
                Alternative { label: type_label(name).to_owned(), schema: all_of(vec![words.base(), only]) }
            };
            Kind::Pick(types.iter().map(schema).collect())
        } else {
            single(types.first().map_or(inferred(words), |name| &**name), words, is_root)
        };
        shape.with_null_among_choices()
    }

    /// A list of choices says itself that `null` is one.
    fn with_null_among_choices(mut self) -> Self {
        if let (Kind::Choice(choices), true) = (&mut self.kind, self.is_nullable) {
            if !choices.iter().any(|choice| matches!(choice.value, Json::Null)) {
                choices.push(Choice { label: None, value: Json::Null });
            }
            self.is_nullable = false;
        }
        self
    }

    /// The shape of `oneOf` or `anyOf`.
    fn picked(mut self, words: &Keywords, alternatives: &Arc<[Json]>, resolver: &mut Resolver<'_>) -> Self {
        if alternatives.len() > MAX_CHOICES {
            self.kind = Kind::Any(Some(format!("it has {} alternatives", alternatives.len())));
            return self;
        }
        let mut rest = Vec::new();
        let mut choices = Vec::new();
        let followed = resolver.followed.len();
        for alternative in alternatives.iter() {
            let flat = resolver.flatten(alternative);
            if let Ok(flat) = &flat {
                if flat.types().iter().all(|name| &**name == "null") && !flat.types().is_empty() {
                    self.is_nullable = true;
                    continue;
                }
                let label = flat.text("title").or_else(|| flat.text("description"));
                match (flat.get("const"), flat.get("enum")) {
                    (Some(value), _) => choices.push(Choice { label, value: value.clone() }),
                    (None, Some(Json::List(values))) => {
                        choices.extend(values.iter().map(|value| Choice { label: None, value: value.clone() }));
                    }
                    _ => {}
                }
            }
            let label = alternative_label(alternative, flat.as_ref().ok(), rest.len() + 1);
            let schema = all_of(vec![words.base(), alternative.clone()]);
            rest.push((flat.is_ok_and(|flat| flat.has_any(&["const", "enum"])), Alternative { label, schema }));
        }
        // What the look at the alternatives followed is followed again by the one that is picked.
        resolver.followed.truncate(followed);
        if rest.iter().all(|(is_choice, _)| *is_choice) && !rest.is_empty() {
            if std::mem::take(&mut self.is_nullable) {
                choices.push(Choice { label: None, value: Json::Null });
            }
            self.kind = choice(choices, &words.types());
            return self;
        }
        let mut rest: Vec<Alternative> = rest.into_iter().map(|(_, alternative)| alternative).collect();
        self.kind = match rest.len() {
            0 => Kind::Choice(vec![Choice { label: None, value: Json::Null }]),
            1 => {
                let only = Self::of(&rest.remove(0).schema, resolver, false);
                self.title = self.title.or(only.title);
                self.description = self.description.or(only.description);
                self.default = self.default.or(only.default);
                self.example = self.example.or(only.example);
                self.is_nullable |= only.is_nullable;
                self.has_unchecked |= only.has_unchecked;
                only.kind
            }
            count if count > MAX_ALTERNATIVES => Kind::Any(Some(format!("it has {count} alternatives"))),
            _ => Kind::Pick(rest),
        };
        self.with_null_among_choices()
    }
}

/// A list of values, if it is short enough; else a text that is checked against nothing but its type.
fn choice(choices: Vec<Choice>, types: &[Arc<str>]) -> Kind {
    let mut seen = HashSet::new();
    let bytes: usize = choices.iter().map(|choice| choice.value.to_string().len()).sum();
    if choices.is_empty() {
        return Kind::Any(Some("it allows no value".to_owned()));
    }
    if choices.len() <= MAX_CHOICES && bytes <= MAX_CHOICE_BYTES {
        let is_new = |choice: &Choice| seen.insert(choice.value.to_string());
        return Kind::Choice(choices.into_iter().filter(is_new).collect());
    }
    let is_text = choices.iter().all(|choice| choice.value.as_text().is_some());
    match is_text && types.iter().all(|name| &**name == "string") {
        true => Kind::Text(TextRules { is_long: true, ..TextRules::default() }),
        false => Kind::Any(Some(format!("it is one of {} values", choices.len()))),
    }
}

fn single(name: &str, words: &Keywords, is_root: bool) -> Kind {
    let digits = |word: &str| words.get(word).and_then(Json::as_number).map(Arc::from);
    let count = |word: &str| words.get(word).and_then(Json::as_count);
    match name {
        "string" => {
            let (format, max) = (words.text("format"), count("maxLength"));
            let is_secret = format.as_deref() == Some("password") || words.is_true("writeOnly");
            let pattern = words.text("pattern");
            let is_short = format.is_some() || pattern.is_some() || max.is_some_and(|max| max <= 200);
            Kind::Text(TextRules { min: count("minLength"), max, is_long: !is_short, pattern, format, is_secret })
        }
        "integer" | "number" => {
            let is_exclusive = |word: &str| words.is_true(word);
            let (min, max) = (digits("minimum"), digits("maximum"));
            // Draft 4 says by a flag that a bound is exclusive.
            let (above, min) =
                if is_exclusive("exclusiveMinimum") { (min, None) } else { (digits("exclusiveMinimum"), min) };
            let (below, max) =
                if is_exclusive("exclusiveMaximum") { (max, None) } else { (digits("exclusiveMaximum"), max) };
            Kind::Number(NumberRules {
                is_integer: name == "integer",
                min,
                max,
                above,
                below,
                step: digits("multipleOf"),
            })
        }
        "boolean" => Kind::Choice([true, false].map(|value| Choice { label: None, value: Json::Bool(value) }).into()),
        "null" => Kind::Choice(vec![Choice { label: None, value: Json::Null }]),
        "array" => list(words),
        "object" => object(words, is_root),
        "" => Kind::Any(None),
        other => Kind::Any(Some(format!("its type `{}` is unknown", crate::text::clipped(other, 40)))),
    }
}

/// The type that keywords are about; empty if they say nothing.
fn inferred(words: &Keywords) -> &'static str {
    if words.has_any(&["properties", "additionalProperties", "required", "minProperties"]) {
        "object"
    } else if words.has_any(&["items", "prefixItems", "minItems", "maxItems"]) {
        "array"
    } else if words.has_any(&["minLength", "maxLength", "pattern", "format"]) {
        "string"
    } else if words.has_any(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
        "number"
    } else {
        ""
    }
}

fn list(words: &Keywords) -> Kind {
    let any = Json::Bool(true);
    let (first, items) = match (words.get("prefixItems"), words.get("items")) {
        (Some(Json::List(first)), items) => (first.to_vec(), items.cloned()),
        // Until 2019 a list of schemas was about the first items.
        (_, Some(Json::List(first))) => (first.to_vec(), words.get("additionalItems").cloned()),
        (_, items) => (Vec::new(), items.cloned()),
    };
    if first.len() > MAX_PROPERTIES {
        return Kind::Any(Some(format!("it describes {} items one by one", first.len())));
    }
    let count = |word: &str| words.get(word).and_then(Json::as_count);
    let closed_at = matches!(items, Some(Json::Bool(false))).then_some(first.len());
    let max = count("maxItems").into_iter().chain(closed_at).min();
    Kind::List(ListRules { first, items: items.unwrap_or(any), min: count("minItems"), max })
}

fn object(words: &Keywords, is_root: bool) -> Kind {
    let properties = words.get("properties").map_or(&[][..], Json::entries);
    let mut named: HashSet<&str> = HashSet::new();
    let listed = words.get("required").map_or(&[][..], Json::items).iter().filter_map(Json::as_text);
    let required: Vec<&str> = listed.filter(|name| named.insert(name)).collect();
    if properties.len() > MAX_PROPERTIES || required.len() > MAX_PROPERTIES {
        return Kind::Any(Some(format!("it has {} properties", properties.len().max(required.len()))));
    }
    let others = required.iter().filter(|name| !properties.iter().any(|(known, _)| &**known == **name));
    let all: Vec<(Arc<str>, Json, bool)> = properties
        .iter()
        .map(|(name, schema)| (Arc::clone(name), schema.clone(), named.contains(&**name)))
        .filter(|(_, schema, is_required)| *is_required || !matches!(schema, Json::Bool(false)))
        .chain(others.map(|name| (Arc::from(*name), Json::Bool(true), true)))
        .collect();
    if let Some((name, ..)) = all.iter().find(|(name, ..)| name.len() > MAX_NAME) {
        return Kind::Any(Some(format!("a property has a name of {} bytes", name.len())));
    }
    let rest = words.get("additionalProperties").cloned();
    let is_typed = matches!(rest, Some(Json::Object(_)));
    if all.is_empty() && !is_typed && !is_root && words.get("properties").is_none() {
        return Kind::Any(None);
    }
    let is_open = is_typed
        || matches!(rest, Some(Json::Bool(true)))
        || words.has_any(&["patternProperties", "if", "dependentSchemas", "dependencies"])
        || (words.get("properties").is_none() && rest.is_none());
    // Where no other property is allowed, one that is there all the same is shown, for the server to refuse.
    let rest = rest.filter(|_| is_typed).unwrap_or(Json::Bool(true));
    Kind::Object(ObjectRules { properties: all, rest, is_open })
}

fn type_label(name: &str) -> &str {
    match name {
        "string" => "text",
        "integer" => "integer",
        "number" => "number",
        "boolean" => "true or false",
        "array" => "list",
        "object" => "object",
        other => other,
    }
}

/// What an alternative is called: its title, its name among the definitions, the constant that tells it apart, its
/// required properties, or its type.
fn alternative_label(alternative: &Json, flat: Option<&Keywords>, number: usize) -> String {
    let reference = alternative.get("$ref").and_then(Json::as_text).and_then(|target| target.rsplit('/').next());
    let title = flat.and_then(|flat| flat.text("title"));
    let constant = flat.and_then(|flat| flat.get("properties")).and_then(|properties| {
        let fixed = |(name, schema): &(Arc<str>, Json)| schema.get("const").map(|value| format!("{name}: {value}"));
        properties.entries().iter().take(MAX_PROPERTIES).find_map(fixed)
    });
    let required = flat
        .and_then(|flat| flat.get("required"))
        .map(|required| required.items().iter().take(4).filter_map(Json::as_text).collect::<Vec<_>>().join(", "));
    let types = flat.map(Keywords::types).filter(|types| !types.is_empty());
    let text = title
        .as_deref()
        .map(str::to_owned)
        .or_else(|| reference.filter(|name| !name.is_empty() && *name != "#").map(str::to_owned))
        .or(constant)
        .or_else(|| required.filter(|names| !names.is_empty()).map(|names| format!("with {names}")))
        .or_else(|| types.map(|types| types.iter().map(|name| type_label(name)).collect::<Vec<_>>().join(" or ")))
        .unwrap_or_else(|| format!("Alternative {number}"));
    crate::text::clipped(&text, 80)
}
