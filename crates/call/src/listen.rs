//! Subscriptions as clients of both eras ask for them: `resources/subscribe` of a session, `subscriptions/listen` of a
//! modern client. Who is notified is kept in `crate::subscriptions`.

mod legacy;
mod modern;
