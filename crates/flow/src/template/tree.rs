//! A deep value with templates in it.

use serde_json::{Map, Value};
use toolcrib_catalog::TemplateLanguage;

use super::error::TemplateError;
use super::{Context, Template};

/// Arguments of a call and the like: every text in it is a template, keys are not.
#[derive(Debug, Clone)]
pub struct Tree(Branch);

#[derive(Debug, Clone)]
enum Branch {
    /// Nothing in it is to be rendered.
    Fixed(Value),
    Leaf(Template),
    List(Vec<Branch>),
    Map(Vec<(String, Branch)>),
}

// === impl Tree ===

impl Tree {
    /// Reads a value whose texts are written in `language`; a template that cannot be read is named with its place.
    pub fn parse(value: &Value, language: TemplateLanguage) -> Result<Self, TemplateError> {
        Branch::parse(value, language).map(Self)
    }

    /// A value that is not to be rendered.
    pub fn plain(value: Value) -> Self {
        Self(Branch::Fixed(value))
    }

    /// Renders every template in it.
    pub fn render(&self, context: &Context) -> Result<Value, TemplateError> {
        self.0.render(context)
    }

    /// The names directly under a root that must be there when it is rendered, as far as the text says them.
    pub fn names_under(&self, root: &str) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.add_names_under(root, &mut names);
        names
    }

    /// Every template in it, in the order of the text.
    pub fn templates(&self) -> Vec<&Template> {
        let mut templates = Vec::new();
        self.0.add_templates(&mut templates);
        templates
    }

    /// Whether nothing in it is to be rendered.
    pub fn is_plain(&self) -> bool {
        matches!(self.0, Branch::Fixed(_))
    }
}

// === impl Branch ===

impl Branch {
    fn parse(value: &Value, language: TemplateLanguage) -> Result<Self, TemplateError> {
        let branch = match value {
            Value::String(text) => {
                let template = Template::parse(text, language)?;
                if template.is_plain() { Self::Fixed(value.clone()) } else { Self::Leaf(template) }
            }
            Value::Array(items) => {
                let parse =
                    |(index, item)| Self::parse(item, language).map_err(|error| error.inside(&format!("[{index}]")));
                let items = items.iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
                if items.iter().all(Self::is_fixed) { Self::Fixed(value.clone()) } else { Self::List(items) }
            }
            Value::Object(members) => {
                let parse = |(key, member): (&String, &Value)| {
                    Ok((key.clone(), Self::parse(member, language).map_err(|error: TemplateError| error.inside(key))?))
                };
                let members = members.iter().map(parse).collect::<Result<Vec<_>, TemplateError>>()?;
                let is_fixed = members.iter().all(|(_, member)| member.is_fixed());
                if is_fixed { Self::Fixed(value.clone()) } else { Self::Map(members) }
            }
            _ => Self::Fixed(value.clone()),
        };
        Ok(branch)
    }

    fn add_names_under<'a>(&'a self, root: &str, names: &mut Vec<&'a str>) {
        match self {
            Self::Fixed(_) => {}
            Self::Leaf(template) => names.extend(template.names_under(root)),
            Self::List(items) => items.iter().for_each(|item| item.add_names_under(root, names)),
            Self::Map(members) => members.iter().for_each(|(_, member)| member.add_names_under(root, names)),
        }
    }

    fn add_templates<'a>(&'a self, templates: &mut Vec<&'a Template>) {
        match self {
            Self::Fixed(_) => {}
            Self::Leaf(template) => templates.push(template),
            Self::List(items) => items.iter().for_each(|item| item.add_templates(templates)),
            Self::Map(members) => members.iter().for_each(|(_, member)| member.add_templates(templates)),
        }
    }

    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    fn render(&self, context: &Context) -> Result<Value, TemplateError> {
        match self {
            Self::Fixed(value) => Ok(value.clone()),
            Self::Leaf(template) => template.render(context),
            Self::List(items) => {
                let render = |(index, item): (usize, &Self)| {
                    item.render(context).map_err(|error| error.inside(&format!("[{index}]")))
                };
                items.iter().enumerate().map(render).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Self::Map(members) => {
                let mut rendered = Map::with_capacity(members.len());
                for (key, member) in members {
                    rendered.insert(key.clone(), member.render(context).map_err(|error| error.inside(key))?);
                }
                Ok(Value::Object(rendered))
            }
        }
    }
}
