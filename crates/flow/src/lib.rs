//! What calls tools by itself: workflows and services, and the templates that their arguments are written in.
//!
//! Modules for one thing each (`workflow`, `service`) do not import each other; all may use [`template`].
//!
//! Calls tools only through what the gateway hands in, so these calls take the same path as a client's. Knows no door and
//! no transport.

mod arguments;
pub mod service;
pub mod template;
pub mod workflow;
