//! What the tools of one server mean: word pieces when the server is read, vectors at the first search, so that a
//! gateway that is never asked never looks at the table's rows.

use std::sync::OnceLock;

use super::{Piece, Pieces, Table, TextKey, TextPieces, Vectors};
use crate::document::{Document, ServerText};
use crate::text::{parts, prefix};

/// How many word pieces of a tool are read.
const PIECES: usize = 128;
/// How much is read of a name or a title, of a tool's description, and of its server's, in bytes.
const NAME_BYTES: usize = 512;
const DESCRIPTION_BYTES: usize = 400;
const SERVER_BYTES: usize = 120;

#[derive(Debug, Default)]
pub(crate) struct Meanings {
    /// Of all tools, one after the other, and where each one's end.
    pieces: Box<[Piece]>,
    ends: Box<[u32]>,
    keys: Box<[TextKey]>,
    vectors: OnceLock<Vectors>,
}

// === impl Meanings ===

impl Meanings {
    /// Reads the tools in the order of their numbers.
    pub(crate) fn new(server: &ServerText<'_>, tools: &[&Document<'_>]) -> Self {
        let Some(table) = Table::embedded() else { return Self::default() };
        let mut reader = Pieces::new(table);
        let (mut pieces, mut ends, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for tool in tools {
            let mut read = TextPieces::default();
            let text = text(server, tool);
            reader.read(&text, PIECES, &mut read);
            // The name says most of what a tool does, in the fewest words.
            reader.read(&name(tool), PIECES, &mut read);
            pieces.extend_from_slice(&read.pieces);
            ends.push(u32::try_from(pieces.len()).unwrap_or(u32::MAX));
            keys.push(TextKey::of(&text));
        }
        Self { pieces: pieces.into(), ends: ends.into(), keys: keys.into(), vectors: OnceLock::new() }
    }

    /// By what the tools' vectors from outside are known, by number.
    pub(crate) fn keys(&self) -> &[TextKey] {
        &self.keys
    }

    /// The tools' vectors, by number.
    pub(crate) fn vectors(&self) -> &Vectors {
        self.vectors.get_or_init(|| {
            let Some(table) = Table::embedded() else { return Vectors::default() };
            let starts = std::iter::once(&0).chain(&self.ends);
            let ranges = starts.zip(&self.ends).map(|(start, end)| *start as usize..*end as usize);
            Vectors::new(&table, ranges.map(|range| &self.pieces[range]))
        })
    }
}

/// The texts of a server's tools as a model should read them, with the keys under which [`super::ToolVectors`] wants
/// the vectors. The order is that of the documents.
pub fn tool_texts(server: &ServerText<'_>, tools: &[Document<'_>]) -> Vec<(TextKey, String)> {
    let texts = tools.iter().map(|tool| text(server, tool));
    texts.map(|text| (TextKey::of(&text), text)).collect()
}

/// A tool's name in words.
fn name(tool: &Document<'_>) -> String {
    parts(prefix(&tool.tool, NAME_BYTES)).join(" ")
}

/// What says what a tool does. Parameters are left out: they are much text and say little.
fn text(server: &ServerText<'_>, tool: &Document<'_>) -> String {
    let server_name = if server.title.is_empty() { server.server.as_str() } else { server.title };
    let texts = [
        prefix(server_name, NAME_BYTES),
        &name(tool),
        prefix(tool.title, NAME_BYTES),
        // The texts that the table was learned from have it here.
        ":",
        prefix(tool.description, DESCRIPTION_BYTES),
        prefix(server.description, SERVER_BYTES),
    ];
    texts.join(" ")
}
