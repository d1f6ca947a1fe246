//! A list that is the same for everyone in the profile: cut into pages, rendered once for each form that clients read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_protocol::convert::{self, Caching};
use toolcrib_protocol::cursor::{self, Cursor};
use toolcrib_protocol::inventory::Listing;
use toolcrib_protocol::raw::{self, Writer};
use toolcrib_protocol::seal::Sealer;
use toolcrib_protocol::{Era, Raw, Revision, RpcError, downgrade, json};

/// How many entries one page of a list has: few clients ever ask for a second one.
pub const PAGE: usize = 1_000;

/// Whose list it is and how long its pages are.
#[derive(Debug, Clone)]
pub struct Paging {
    pub profile: ProfileName,
    pub size: usize,
}

/// What pages carry of the gateway itself.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    pub sealer: &'a Sealer,
    pub server_info: &'a Raw,
}

/// The forms in which clients read a list.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// As the servers sent it.
    Plain,
    /// For legacy revisions that have structured content.
    Structured,
    /// For older ones.
    Old,
    Modern,
}

/// All pages of a list in one form. At least one, which may be empty.
type Pages = Arc<[Raw]>;

/// A list that is the same for everyone in the profile.
pub struct PagedList {
    listing: Listing,
    paging: Paging,
    entries: Vec<Raw>,
    version: OnceLock<u64>,
    whole: OnceLock<Raw>,
    forms: [OnceLock<Pages>; 4],
}

impl fmt::Debug for PagedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("listing", &self.listing).field("entries", &self.entries.len()).finish()
    }
}

impl PagedList {
    /// A list of these entries, in this order.
    pub fn new(listing: Listing, paging: &Paging, entries: Vec<Raw>) -> Self {
        Self {
            listing,
            paging: paging.clone(),
            entries,
            version: OnceLock::new(),
            whole: OnceLock::new(),
            forms: Default::default(),
        }
    }

    /// The page that a cursor names, or the first one, in the form of a client's revision; shared, not copied.
    ///
    /// Errors: a cursor that was not given out for this list as it is now.
    pub fn page(&self, revision: Revision, stamp: Stamp<'_>, cursor: Option<&Raw>) -> Result<Raw, RpcError> {
        let pages = self.pages(self.form(revision), stamp);
        let index = match cursor.filter(|cursor| cursor.as_str() != "null") {
            None => 0,
            Some(cursor) => self.index(stamp.sealer, cursor)?,
        };
        pages.get(index).cloned().ok_or_else(changed)
    }

    /// The whole list without anything of an era.
    pub fn plain(&self) -> &Raw {
        self.whole.get_or_init(|| self.rendered(&self.entries, None))
    }

    /// Whether two lists are the same.
    pub fn equals(&self, other: &Self) -> bool {
        self.entries == other.entries
    }

    fn form(&self, revision: Revision) -> Form {
        match (revision.era(), self.listing) {
            (Era::Modern, _) => Form::Modern,
            (Era::Legacy, Listing::Tools) if revision.has_structured_content() => Form::Structured,
            (Era::Legacy, Listing::Tools) => Form::Old,
            (Era::Legacy, _) => Form::Plain,
        }
    }

    fn pages(&self, form: Form, stamp: Stamp<'_>) -> &Pages {
        self.forms[form as usize].get_or_init(|| match form {
            Form::Plain => self.cut(&self.entries, stamp, |page| page),
            Form::Structured => self.cut_for(Revision::LATEST_LEGACY, stamp),
            Form::Old => self.cut_for(Revision::V2025_03_26, stamp),
            Form::Modern => {
                let entries = match self.listing {
                    Listing::Tools => &downgrade::tools_for(Revision::LATEST, &self.entries),
                    _ => &self.entries,
                };
                let method = self.listing.method();
                self.cut(entries, stamp, |page| {
                    convert::result_for(Revision::LATEST, method, &page, stamp.server_info, Caching::NONE)
                })
            }
        })
    }

    /// Most tools need no change, and then the pages are the plain ones.
    fn cut_for(&self, revision: Revision, stamp: Stamp<'_>) -> Pages {
        let entries = downgrade::tools_for(revision, &self.entries);
        if entries == self.entries {
            return Arc::clone(self.pages(Form::Plain, stamp));
        }
        self.cut(&entries, stamp, |page| page)
    }

    fn cut(&self, entries: &[Raw], stamp: Stamp<'_>, finish: impl Fn(Raw) -> Raw) -> Pages {
        let (mut pages, mut next) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let page = cursor::page(entries.len(), offset, self.paging.size);
            next = page.next;
            let cursor =
                next.map(|offset| Cursor { version: self.version(), offset }.encode(stamp.sealer, &self.scope()));
            pages.push(finish(self.rendered(&entries[page.range], cursor.as_deref())));
        }
        pages.into()
    }

    fn rendered(&self, entries: &[Raw], cursor: Option<&str>) -> Raw {
        let mut out = Writer::object(256);
        out.member(self.listing.member(), raw::array(entries.iter().map(Raw::as_str)).as_str());
        if let Some(cursor) = cursor {
            out.text("nextCursor", cursor);
        }
        out.finish()
    }

    /// Which page a cursor names.
    fn index(&self, sealer: &Sealer, cursor: &Raw) -> Result<usize, RpcError> {
        let text = json::text(cursor.as_str()).unwrap_or_default();
        let cursor = Cursor::decode(sealer, &self.scope(), &text)
            .ok_or_else(|| refused("the cursor is not one of this list's"))?;
        let size = self.paging.size.max(1);
        // Pages of another size were cut before a restart.
        if cursor.version != self.version() || cursor.offset % size != 0 {
            return Err(changed());
        }
        Ok(cursor.offset / size)
    }

    /// What a cursor is good for: this list of this profile.
    fn scope(&self) -> String {
        format!("{} {}", self.listing.method(), self.paging.profile)
    }

    /// Which state of the list it is: the same entries have the same number, also after a restart.
    fn version(&self) -> u64 {
        *self.version.get_or_init(|| {
            let mut hasher = Sha256::new();
            for entry in &self.entries {
                hasher.update(entry.bytes());
                // No text of JSON has such a byte.
                hasher.update([0]);
            }
            let digest: [u8; 32] = hasher.finalize().into();
            digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
        })
    }
}

fn changed() -> RpcError {
    refused("the list has changed since this cursor was given out")
}

fn refused(why: &str) -> RpcError {
    let hint = "Ask again without a cursor: the list begins with its first page.";
    RpcError::from(&Problem::new(Kind::InvalidParams, why).hint(hint))
}

#[cfg(test)]
mod tests;
