//! The call itself, as policies see it: its arguments and its time.

use cedar_policy::RestrictedExpression;
use serde_json::Value;
use toolcrib_base::Timestamp;

use super::argument::{Arguments, record};
use crate::Act;

/// What is known only when a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Now.
    pub at: Timestamp,
    /// The arguments as they will be sent: a JSON object.
    pub arguments: Option<&'a [u8]>,
}

// === impl Moment ===

impl Moment<'_> {
    /// The part of the context that is known only now, as far as policies with these arguments look at it.
    pub(super) fn context(&self, act: &Act, read: &Arguments) -> Vec<(String, RestrictedExpression)> {
        let mut context = vec![("time".to_owned(), RestrictedExpression::new_datetime(self.at.to_string()))];
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
        context
    }
}
