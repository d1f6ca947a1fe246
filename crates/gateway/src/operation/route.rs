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
pub enum Found<'p> {
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
pub(super) fn find<'p>(operations: impl Iterator<Item = &'static Operation>, method: &str, path: &'p str) -> Found<'p> {
    let mut others = Vec::new();
    for operation in operations {
        let Some(values) = fit(operation.path, path) else { continue };
        if operation.method.as_str() == method {
            return Found::Operation(operation, values);
        }
        others.push(operation.method);
    }
    others.sort();
    if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_operations() {
        let operations = super::super::Operations::new(&[]);
        let find = |method, path| operations.find(method, path);
        let check = |method, path, expect: Option<(&str, &[(&str, &str)])>| match (find(method, path), expect) {
            (Found::Operation(operation, values), Some((tool, expected))) => {
                assert_eq!((operation.tool, values.as_slice()), (tool, expected), "{method} {path}");
            }
            (Found::Nothing, None) => {}
            (found, _) => panic!("{method} {path}: {found:?}"),
        };
        check("GET", "/servers", Some(("core_mcpserver_list", &[])));
        check("GET", "/servers/a%2Fb", Some(("core_mcpserver_get", &[("name", "a%2Fb")])));
        check("POST", "/servers/a/start", Some(("core_mcpserver_start", &[("name", "a")])));
        for path in ["", "/", "/nothing", "/servers/", "/servers/a/b/c", "/servers//start", "servers"] {
            check("GET", path, None);
        }
        assert_eq!(find("PATCH", "/servers/a"), Found::OtherMethods(vec![Method::Get, Method::Put, Method::Delete]));
    }
}
