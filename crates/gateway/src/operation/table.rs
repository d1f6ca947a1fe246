//! All operations that there are: the gateway's own and those of its sources.

use std::sync::{Arc, OnceLock};

use toolcrib_search::{Document, Index, ServerText, schema};

use super::route::{self, Found};
use super::{FILES, Operation};
use crate::source::Source;

/// Every operation, by its tool's name and by its route.
#[derive(Debug, Default)]
pub struct Operations {
    /// Sorted by the tool's name.
    rows: Vec<Row>,
    /// What finds them, made when it is first asked for.
    index: OnceLock<toolcrib_search::View>,
}

#[derive(Debug)]
struct Row {
    operation: &'static Operation,
    source: Option<Arc<dyn Source>>,
}

// === impl Operations ===

impl Operations {
    /// The gateway's own and those of sources. Where two have one name, the first counts.
    pub fn new(sources: &[Arc<dyn Source>]) -> Self {
        let own = FILES.iter().flat_map(|rows| rows.iter()).map(|operation| Row { operation, source: None });
        let of_sources = sources.iter().flat_map(|source| {
            let row = |operation| Row { operation, source: Some(Arc::clone(source)) };
            source.operations().iter().map(row)
        });
        let mut rows: Vec<Row> = own.chain(of_sources).collect();
        rows.sort_by_key(|row| row.operation.tool);
        rows.dedup_by_key(|row| row.operation.tool);
        Self { rows, index: OnceLock::new() }
    }

    /// All of them, sorted by the names of their tools.
    pub fn iter(&self) -> impl Iterator<Item = &'static Operation> {
        self.rows.iter().map(|row| row.operation)
    }

    /// The operation of a tool's name.
    pub fn by_tool(&self, name: &str) -> Option<&'static Operation> {
        // Asked for at every call of a tool, so what cannot be one is told apart first.
        name.starts_with("core_").then_some(())?;
        Some(self.row(name)?.operation)
    }

    /// The operation of a method and a path below `/api/v1`.
    pub fn find<'p>(&self, method: &str, path: &'p str) -> Found<'p> {
        route::find(self.iter(), method, path)
    }

    /// What finds an operation by what it does. Not part of what profiles search: there they would stand between the tools
    /// of servers.
    pub(crate) fn index(&self) -> &toolcrib_search::View {
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

    /// The source that does it.
    pub(crate) fn source_of(&self, operation: &Operation) -> Option<&Arc<dyn Source>> {
        self.row(operation.tool)?.source.as_ref()
    }

    fn row(&self, name: &str) -> Option<&Row> {
        let at = self.rows.binary_search_by_key(&name, |row| row.operation.tool).ok()?;
        self.rows.get(at)
    }
}
