//! From a method and a path to an operation.

use std::fmt;

use super::Operation;

/// A method of HTTP that operations have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// What a method and a path mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutedOperation<'p> {
    /// An operation, and the parts of the path that are arguments, still percent-encoded.
    Operation(&'static Operation, Vec<(&'static str, &'p str)>),
    /// There is such a path, but not with this method.
    OtherMethods(Vec<Method>),
    /// There is no such path.
    Nothing,
}

impl Method {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether arguments that are not in the path stand in the body.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool
    }
}

impl Eq for Operation {}

/// The operation of a method and a path.
pub(super) fn find<'p>(
    operations: impl Iterator<Item = &'static Operation>,
    method: &str,
    path: &'p str,
) -> RoutedOperation<'p> {
    let mut others = Vec::new();
    for operation in operations {
        let Some(values) = fit(operation.path, path) else { continue };
        if operation.method.as_str() == method {
            return RoutedOperation::Operation(operation, values);
        }
        others.push(operation.method);
    }
    others.sort();
    if others.is_empty() { RoutedOperation::Nothing } else { RoutedOperation::OtherMethods(others) }
}

/// The names of the arguments that stand in a path.
pub(super) fn parameters(template: &'static str) -> impl Iterator<Item = &'static str> {
    template.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn fit<'p>(template: &'static str, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
    let mut values = Vec::new();
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(values),
            (Some(part), Some(text)) => match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !text.is_empty() => values.push((name, text)),
                None if part == text => {}
                _ => return None,
            },
            _ => return None,
        }
    }
}
