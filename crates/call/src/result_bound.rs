//! How much of a result is passed on: a larger one is cut, with a notice and the whole as a resource.

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Size;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::cut::{self, WholeLink};

use crate::large_results::{KEPT, LargeResults};
use crate::throttle::CountedPlace;

/// A number of bytes, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    pub(crate) size: Size,
    pub(crate) place: CountedPlace,
}

/// How a result is passed on to its caller.
#[derive(Debug)]
pub(crate) struct ResultBound {
    limit: SizeLimit,
    /// Clients refuse a result of the tool that has no structured content, unless it is an error.
    must_be_structured: bool,
    /// What works with the result itself: a part of it would be another result.
    is_inner: bool,
}

impl ResultBound {
    /// What `limit` means for the results of a tool.
    pub(crate) fn new(limit: SizeLimit, must_be_structured: bool, depth: u8) -> Self {
        Self { limit, must_be_structured, is_inner: depth > 0 }
    }

    /// Whether a result is within it.
    pub(crate) fn admits(&self, result: &Raw) -> bool {
        result.as_str().len() <= self.limit.size.bytes()
    }

    /// The beginning of a result that is not, with a notice that says where the whole is.
    ///
    /// # Errors
    /// It was for a workflow or another source, which gets it whole or not at all.
    pub(crate) fn cut(&self, results: &LargeResults, caller: &Caller, result: &Raw) -> Result<Raw, Problem> {
        let Self { limit: SizeLimit { size, place }, must_be_structured, is_inner } = self;
        let bytes = result.as_str().len();
        let what = format!("`limits.result_bytes` {place}: the result has {bytes} bytes, {size} are passed on");
        if *is_inner {
            return Err(Problem::new(Kind::TooLarge, what).hint("ask for less, or in several calls"));
        }
        let (text, media_type) = cut::whole(result);
        let whole_bytes = text.len();
        let uri = results.keep(caller, text, media_type);
        let rest = match &uri {
            Some(uri) => format!("For {} minutes you can read the whole as resource `{uri}`.", KEPT.as_secs() / 60),
            None => "It is too large to be kept; ask for less, or in several calls.".to_owned(),
        };
        let link = uri.as_deref().map(|uri| WholeLink { uri, media_type, bytes: whole_bytes });
        let notice = format!("[The result ends here. {what}. {rest}]");
        Ok(cut::cut(result, size.bytes(), &notice, link, *must_be_structured))
    }
}
