//! The result of a list, rendered once for each era.

use std::sync::OnceLock;

use toolcrib_protocol::convert::{self, Caching};
use toolcrib_protocol::raw::{self, Writer};
use toolcrib_protocol::{Era, Raw, Revision};

/// A list that is the same for everybody in the profile.
#[derive(Debug)]
pub(crate) struct Listed {
    method: &'static str,
    legacy: Raw,
    modern: OnceLock<Raw>,
}

impl Listed {
    /// Renders the result of `method` with `entries` in its `member`.
    pub(crate) fn new<'a>(method: &'static str, member: &str, entries: impl IntoIterator<Item = &'a Raw>) -> Self {
        let mut out = Writer::object(256);
        out.member(member, raw::array(entries.into_iter().map(Raw::as_str)).as_str());
        Self { method, legacy: out.finish(), modern: OnceLock::new() }
    }

    /// The list in the form of a client's revision; shared, not copied.
    pub(crate) fn for_revision(&self, revision: Revision, server_info: &Raw) -> Raw {
        match revision.era() {
            Era::Legacy => self.legacy.clone(),
            Era::Modern => self
                .modern
                .get_or_init(|| convert::result_for(revision, self.method, &self.legacy, server_info, Caching::NONE))
                .clone(),
        }
    }

    /// The list without anything of an era.
    pub(crate) fn plain(&self) -> &Raw {
        &self.legacy
    }

    /// Whether two lists are the same.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.legacy == other.legacy
    }
}
