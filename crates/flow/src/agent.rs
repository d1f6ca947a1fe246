//! Agents: a task in words becomes tool calls. Runs of the pure loop of `agent`, with models of `model`, over the one path
//! of calls; each agent is a tool `agent_<name>` itself.
//!
//! Reading order: `source` (what the gateway sees), `start` (what a run is made of), `tools` (what it is shown), `bridge`
//! (what the loop's driver asks for: `ask` models, `call` tools, `keep` journals), `question` (what people are asked),
//! `operation` (what people ask for).

mod answer_guard;
mod ask;
mod audit;
mod breaker;
mod bridge;
mod call;
mod context;
mod dialog;
mod dialogue;
mod follow;
mod fork;
mod keep;
mod models;
mod operation;
mod output;
mod place;
mod question;
mod route;
mod seen;
mod send;
mod sentinel;
mod shown;
mod source;
mod spans;
mod start;
mod table;
mod tools;
mod trail;

pub use send::{ModelBody, ModelResponse, SendError, SendRequest};
pub use source::Agents;
