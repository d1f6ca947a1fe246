//! What calls tools by itself: workflows and services, and the templates that their arguments are written in.
//!
//! Modules for one thing each (`workflow`, `service`) do not import each other; all may use [`template`].

mod arguments;
pub mod service;
pub mod template;
pub mod workflow;
