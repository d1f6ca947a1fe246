//! Bugs that the simulator must find, one at a time.

use super::Run;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A write that was under way in a process that is gone is made again.
    RepeatsOrphans,
    /// A call does not wait for the writes before it.
    OvertakesWrites,
    /// The results of refused calls are left out.
    DropsRefusals,
    /// One approval is good for all calls of its turn.
    SharesApprovals,
    /// Nothing is reserved for a request.
    ReservesNothing,
    /// The same call as one whose end is not known is made.
    ForgetsUnsettled,
    /// Calls leave before all of their turn are decided.
    CallsBeforeDecided,
    /// The calls of a cut answer are made.
    CallsFromCutAnswers,
    /// Earlier parts of the conversation change.
    RewritesHistory,
    /// An approval that comes after a restart is lost.
    LosesApprovals,
    /// A call that a menu makes is a read, whatever it calls.
    ReadsInnerWrites,
    /// A message that comes while the model gives its last answer is left out.
    DropsMessages,
    /// Every answer gives the run the rounds of a new message.
    CountsNoRounds,
    /// A write that asked a person in a process that is gone is made again.
    RepeatsAsked,
    /// The answer of a person is left out when its call is made again.
    LosesReplies,
    /// A run that is paused goes on.
    GoesOnPaused,
    /// A message that is in quarantine is told at once.
    TellsQuarantined,
    /// The model is asked while something is in quarantine.
    AsksInQuarantine,
}

impl Bug {
    pub(crate) const ALL: [Self; 18] = [
        Self::RepeatsOrphans,
        Self::OvertakesWrites,
        Self::DropsRefusals,
        Self::SharesApprovals,
        Self::ReservesNothing,
        Self::ForgetsUnsettled,
        Self::CallsBeforeDecided,
        Self::CallsFromCutAnswers,
        Self::RewritesHistory,
        Self::LosesApprovals,
        Self::ReadsInnerWrites,
        Self::DropsMessages,
        Self::CountsNoRounds,
        Self::RepeatsAsked,
        Self::LosesReplies,
        Self::GoesOnPaused,
        Self::TellsQuarantined,
        Self::AsksInQuarantine,
    ];
}

impl Run {
    /// A run with a bug.
    pub(crate) fn with(bug: Option<Bug>) -> Self {
        Self { planted: bug, ..Self::default() }
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.planted == Some(bug)
    }
}
