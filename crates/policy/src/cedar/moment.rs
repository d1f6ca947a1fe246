//! The call itself, as policies see it: its arguments and its time.

use cedar_policy::RestrictedExpression;
use serde_json::Value;
use toolcrib_base::{CallChain, Timestamp};

use super::argument::{Arguments, record};
use super::look::Look;
use crate::Act;

/// Which parts of the context some policies look at. Each costs time to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ContextWords {
    pub(super) time: bool,
    pub(super) chain: bool,
    pub(super) labels: bool,
}

/// What is known only when a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Now.
    pub at: Timestamp,
    /// The arguments as they will be sent: a JSON object.
    pub arguments: Option<&'a [u8]>,
    /// Who acts in the principal's name.
    pub actor: Option<&'a str>,
    /// The bridge that relays it, as that one says.
    pub bridge: Option<&'a str>,
    /// What led to the call.
    pub chain: Option<&'a CallChain>,
}

// === impl Moment ===

impl ContextWords {
    pub(super) const ALL: Self = Self { time: true, chain: true, labels: true };
    pub(super) const TIME: Self = Self { time: true, chain: false, labels: false };

    pub(super) fn of(look: &Look) -> Self {
        let looks = |name: &str| look.everything || look.context.contains(name);
        Self { time: looks("time"), chain: looks("chain"), labels: looks("labels") }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { time: self.time || other.time, chain: self.chain || other.chain, labels: self.labels || other.labels }
    }
}

impl Moment<'_> {
    /// A moment of which nothing but the time is known.
    pub const fn at(at: Timestamp) -> Self {
        Self { at, arguments: None, actor: None, bridge: None, chain: None }
    }

    /// Policies see the time in whole seconds, so that what they say of it holds for one.
    pub(super) fn second(&self) -> i64 {
        self.at.0.div_euclid(1_000)
    }

    /// The part of the context that is known only now, as far as policies with these arguments look at it.
    pub(super) fn context(
        &self,
        act: &Act,
        read: &Arguments,
        words: ContextWords,
    ) -> Vec<(String, RestrictedExpression)> {
        let mut context = Vec::new();
        if words.time {
            let second = Timestamp(self.second().saturating_mul(1_000));
            context.push(("time".to_owned(), RestrictedExpression::new_datetime(second.to_string())));
        }
        if let Act::Forward { method, .. } = act {
            context.push(("method".to_owned(), RestrictedExpression::new_string((**method).to_owned())));
        }
        let values = self.arguments.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let fields = match &values {
            Some(Value::Object(values)) => record(read, values),
            _ => Vec::new(),
        };
        let arguments = RestrictedExpression::new_record(fields).expect("a map has no key twice");
        context.push(("arguments".to_owned(), arguments));
        context.extend(words.chain.then(|| self.chain()));
        context.extend(words.labels.then(|| self.labels()));
        context
    }

    fn chain(&self) -> (String, RestrictedExpression) {
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let of = |name: &str, value: Option<&str>| Some((name.to_owned(), text(value?)));
        let link = |get: fn(&CallChain) -> &Option<Box<str>>| self.chain.and_then(|chain| get(chain).as_deref());
        let links = [
            of("actor", self.actor),
            of("bridge", self.bridge),
            of("workflow", link(|it| &it.workflow)),
            of("run", link(|it| &it.run)),
        ];
        let chain = RestrictedExpression::new_record(links.into_iter().flatten()).expect("no name stands twice");
        ("chain".to_owned(), chain)
    }

    fn labels(&self) -> (String, RestrictedExpression) {
        let labels = self.chain.into_iter().flat_map(|chain| &chain.labels);
        let labels = labels.map(|label| RestrictedExpression::new_string(label.to_string()));
        ("labels".to_owned(), RestrictedExpression::new_set(labels))
    }
}
