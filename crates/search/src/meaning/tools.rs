//! What the tools of one server mean: word pieces when the server is read, vectors at the first search, so that a
//! gateway that is never asked never looks at the table's rows.

use std::sync::OnceLock;

use super::{Piece, Pieces, Read, Table, Vectors};
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
    vectors: OnceLock<Vectors>,
}

// === impl Meanings ===

impl Meanings {
    /// Reads the tools in the order of their numbers. Parameters are left out: they are much text and say little.
    pub(crate) fn new(server: &ServerText<'_>, tools: &[&Document<'_>]) -> Self {
        let Some(table) = Table::embedded() else { return Self::default() };
        let mut reader = Pieces::new(table);
        let (mut pieces, mut ends) = (Vec::new(), Vec::new());
        let server_name = if server.title.is_empty() { server.server.as_str() } else { server.title };
        for tool in tools {
            let mut read = Read::default();
            let name = parts(prefix(&tool.tool, NAME_BYTES)).join(" ");
            let texts = [
                prefix(server_name, NAME_BYTES),
                &name,
                prefix(tool.title, NAME_BYTES),
                // The texts that the table was learned from have it here.
                ":",
                prefix(tool.description, DESCRIPTION_BYTES),
                prefix(server.description, SERVER_BYTES),
            ];
            texts.iter().for_each(|text| reader.read(text, PIECES, &mut read));
            pieces.extend_from_slice(&read.pieces);
            ends.push(u32::try_from(pieces.len()).unwrap_or(u32::MAX));
        }
        Self { pieces: pieces.into(), ends: ends.into(), vectors: OnceLock::new() }
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
