//! The answer to a call on its way back: the result, and beside it what the gateway itself says of the call. Only a result
//! that leaves the gateway carries that in its `_meta`; nothing within reads it there.

use toolcrib_base::Problem;
use toolcrib_protocol::{Raw, Revision};
use toolcrib_view::reply;

/// The answer to a call.
#[derive(Debug)]
pub struct CallAnswer {
    pub result: Raw,
    /// The revision in whose form the result is.
    pub form: Revision,
    /// Why the gateway did not do what was asked, or did not get an answer; `None` where the result is what a tool said.
    pub problem: Option<Box<Problem>>,
    /// Why a call of a run was not made, or is not known to be done. Only who asks for that is told: see
    /// [`crate::source::CallPlace`].
    pub withheld: Option<Withheld>,
}

/// Why a call of a run was not made, or is not known to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// It waits for this approval.
    Held(String),
    /// The rules refuse it, or somebody does.
    Refused,
    /// It was begun, and what it has done is not known.
    Unknown,
}

// === impl CallAnswer ===

impl CallAnswer {
    /// What a tool said, in the form of its server's revision.
    pub fn of_tool(result: Raw, form: Revision) -> Self {
        Self { result, form, problem: None, withheld: None }
    }

    /// What the gateway's own tools say.
    pub fn own(result: Raw) -> Self {
        Self::of_tool(result, Revision::LATEST_LEGACY)
    }

    /// A problem as a result: models read results, not error codes.
    pub fn failed(problem: Problem) -> Self {
        let result = reply::failure(&problem);
        Self { problem: Some(Box::new(problem)), ..Self::own(result) }
    }

    /// A call of a run that was not made, or is not known to be done.
    pub(crate) fn withheld(why: Withheld, problem: Problem) -> Self {
        Self { withheld: Some(why), ..Self::failed(problem) }
    }

    /// A call of a run that the rules refuse, or somebody does.
    pub fn refused(problem: Problem) -> Self {
        Self::withheld(Withheld::Refused, problem)
    }

    /// The same with another form of the result.
    pub fn map(self, change: impl FnOnce(Raw) -> Raw) -> Self {
        Self { result: change(self.result), ..self }
    }

    /// The result as it leaves the gateway: a problem of the gateway's own is named in it.
    pub fn marked(&self) -> Raw {
        match &self.problem {
            Some(problem) => reply::marked(&self.result, problem.kind),
            None => self.result.clone(),
        }
    }
}

impl From<Result<Raw, Problem>> for CallAnswer {
    fn from(done: Result<Raw, Problem>) -> Self {
        done.map_or_else(Self::failed, Self::own)
    }
}
