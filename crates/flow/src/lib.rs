//! What calls tools by itself: workflows, services and agents, and the templates that arguments are written in.
//!
//! Modules for one thing each (`workflow`, `service`, `agent`) do not import each other; all may use [`template`].
//!
//! Calls tools only through what the gateway hands in, so these calls take the same path as a client's. Knows no door and
//! no transport.

pub mod agent;
mod arguments;
mod definition_text;
pub mod service;
pub mod template;
pub mod workflow;
