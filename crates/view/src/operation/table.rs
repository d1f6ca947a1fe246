//! All operations that there are, by name, by route and by what they do.

use std::sync::OnceLock;

use toolcrib_search::{Document, Index, ServerText, schema};

use super::Operation;
use super::route::{self, RoutedOperation};

/// Every operation, by its tool's name and by its route.
#[derive(Debug, Default)]
pub struct OperationTable {
    /// Sorted by the tool's name.
    rows: Vec<&'static Operation>,
    /// What finds them, made when it is first asked for.
    index: OnceLock<toolcrib_search::View>,
}

// === impl OperationTable ===

impl OperationTable {
    /// A table of these. Where two have one name, the first counts.
    pub fn new(operations: impl Iterator<Item = &'static Operation>) -> Self {
        let mut rows: Vec<_> = operations.collect();
        rows.sort_by_key(|operation| operation.tool);
        rows.dedup_by_key(|operation| operation.tool);
        Self { rows, index: OnceLock::new() }
    }

    /// All of them, sorted by the names of their tools.
    pub fn iter(&self) -> impl Iterator<Item = &'static Operation> {
        self.rows.iter().copied()
    }

    /// The operation of a tool's name.
    pub fn by_tool(&self, name: &str) -> Option<&'static Operation> {
        // Asked for at every call of a tool, so names that cannot be a tool are refused first.
        name.starts_with("core_").then_some(())?;
        let at = self.rows.binary_search_by_key(&name, |operation| operation.tool).ok()?;
        self.rows.get(at).copied()
    }

    /// The operation of a method and a path below `/api/v1`.
    pub fn find<'p>(&self, method: &str, path: &'p str) -> RoutedOperation<'p> {
        route::find(self.iter(), method, path)
    }

    /// What finds an operation by what it does. Not part of what profiles search: there they would stand between the
    /// tools of servers.
    pub fn index(&self) -> &toolcrib_search::View {
        self.index.get_or_init(|| {
            let mut index = Index::new();
            let texts: Vec<_> = self.iter().map(|operation| operation.input_schema().to_string()).collect();
            let documents: Vec<Document<'_>> = self
                .iter()
                .zip(&texts)
                .map(|(operation, schema)| Document {
                    tool: operation.tool.into(),
                    title: operation.summary,
                    description: operation.description,
                    parameters: schema::parameters(schema),
                    ..Document::default()
                })
                .collect();
            index.replace(&ServerText::new(super::core_name()), &documents);
            index.view(&|_| true)
        })
    }
}
