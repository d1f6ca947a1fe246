//! How long the next request is, what it may cost, and when the conversation must become shorter.

use super::{Run, texts};
use crate::answer::ModelSpec;
use crate::conversation::{Conversation, Part};
use crate::entry::{Compaction, Purpose};
use crate::spending::{Cost, LimitName};

/// A token has at least so many bytes on average; texts of other scripts have more.
const BYTES_PER_TOKEN: u64 = 3;
/// What a request has besides its texts.
const OVERHEAD_TOKENS: u64 = 64;
/// An answer that may have fewer tokens is of no use.
const LEAST_OUTPUT: u64 = 256;
/// A tenth of the window stays free.
const FREE_PARTS: u64 = 10;
/// Handles are worth a new epoch if they save at least a fifth.
const WORTH_PARTS: u64 = 5;

/// What to do about the length of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// There is enough.
    Enough,
    /// Entry to write.
    Shorten(Compaction),
    /// Ask for a summary.
    Summarize,
    /// Nothing is left to shorten.
    Full,
}

impl Run {
    /// The tokens of the next request: what the provider counted of its head, and an estimate of the rest.
    fn input_tokens(&self) -> u64 {
        let bytes = self.conversation.bytes();
        match self.asking.known_context {
            Some((tokens, known)) => tokens + bytes.saturating_sub(known).div_ceil(BYTES_PER_TOKEN) + OVERHEAD_TOKENS,
            None => (bytes + self.tools.bytes()).div_ceil(BYTES_PER_TOKEN) + OVERHEAD_TOKENS,
        }
    }

    pub(super) fn room(&self) -> Room {
        let fits = self.model().is_none_or(|model| {
            model.window.is_none_or(|window| self.input_tokens() + model.max_output + window / FREE_PARTS <= window)
        });
        if fits && !self.asking.must_shorten {
            return Room::Enough;
        }
        if self.conversation.bytes_in_old_results() >= self.conversation.bytes() / WORTH_PARTS {
            return Room::Shorten(Compaction::Handles);
        }
        if self.conversation.parts().len() > 2 { Room::Summarize } else { Room::Full }
    }

    /// The conversation that asks for a summary: one text, as no tool is there that its calls could name.
    pub(super) fn summary_conversation(&self) -> Conversation {
        // Half of the window in bytes of tokens; where it is not known, half of what was too long.
        let window = self.model().and_then(|model| model.window);
        let bound = window.map_or(self.conversation.bytes(), |window| window.saturating_mul(BYTES_PER_TOKEN)) / 2;
        let bound = usize::try_from(bound).unwrap_or(usize::MAX);
        let mut conversation = Conversation::new(self.conversation.instructions());
        conversation.push(Part::User(texts::summary_request(&self.conversation.transcript(bound))));
        conversation
    }

    /// The longest answer that the limits allow, and what the request costs with it at most.
    pub(super) fn reserve(&self, purpose: Purpose, asked: &Conversation) -> Result<(u64, Cost), LimitName> {
        let Some(model) = self.model() else { return Err(LimitName::Tokens) };
        let input = match purpose {
            Purpose::Turn => self.input_tokens(),
            Purpose::Summary => asked.bytes().div_ceil(BYTES_PER_TOKEN) + OVERHEAD_TOKENS,
        };
        let mut output = model.max_output;
        #[cfg(test)]
        if self.has(super::Bug::ReservesNothing) {
            let is_left = self.limits.tokens.is_none_or(|limit| self.spent.tokens < limit);
            return is_left.then_some((output, Cost::default())).ok_or(LimitName::Tokens);
        }
        let least = LEAST_OUTPUT.min(output);
        if let Some(limit) = self.limits.tokens {
            output = output.min(limit.saturating_sub(self.spent.tokens).saturating_sub(input));
            if output < least {
                return Err(LimitName::Tokens);
            }
        }
        if let Some(limit) = self.limits.money {
            output = output.min(affordable(model, limit.saturating_sub(self.spent.money), input));
            if output < least {
                return Err(LimitName::Money);
            }
        }
        let money = model.price.map_or(0, |price| price.of(input, output));
        Ok((output, Cost { tokens: input + output, money }))
    }
}

/// The tokens of an answer that `money` pays for beside `input`.
fn affordable(model: &ModelSpec, money: u64, input: u64) -> u64 {
    let Some(price) = model.price else { return 0 };
    money.checked_sub(price.of(input, 0)).map_or(0, |left| left / price.output.max(1))
}
