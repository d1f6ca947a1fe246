//! The HTTP edge over a real listener, with raw requests.
// The future of a request is nested deeply.
#![recursion_limit = "256"]
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]

mod agent_questions;
mod agents;
mod api;
mod approval_page;
mod ask;
mod asked;
mod bad_input;
mod batch;
mod beyond;
mod bundles;
mod calls;
mod doors;
mod ending;
mod floods;
mod gone;
mod header;
mod hidden;
mod keys;
mod login;
mod oauth;
mod old;
mod openapi;
mod pages;
mod parked;
mod people;
mod routes;
mod run_page;
mod scope;
mod script;
mod served;
mod session;
mod sockets;
mod stream;
mod trace;
mod ui;
mod walk;
