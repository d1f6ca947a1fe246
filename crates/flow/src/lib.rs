//! What calls tools by itself: workflows, and the templates that their arguments are written in.
//!
//! Modules that stand for one thing each (`workflow`, `service`) do not import each other; all may use [`template`].

pub mod service;
pub mod template;
pub mod workflow;
