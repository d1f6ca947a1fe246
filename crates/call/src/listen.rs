//! What clients of both eras ask to hear of: `resources/subscribe` of a session, `subscriptions/listen` of a modern client.
//! Who hears of what is kept in `crate::subscriptions`.

mod legacy;
mod modern;
