//! What language models are asked and what they answer, on three wires: OpenAI chat completions, OpenAI Responses and
//! Anthropic Messages. Pure: request bytes out, answer bytes in; whoever uses it sends them.
//!
//! A [`Conversation`] and a [`Target`] become request bytes ([`render`]). The bytes of the answer become an [`Answer`]:
//! whole ([`read`]) or as a stream ([`StreamReader`]). What the model sent is kept as it is and given back unchanged.
//! [`Usage`] is one form of all counts, [`Prices`] make it [`Money`]. [`ModelError`] says what a failure means. A
//! [`Script`] answers like a model, for tests and demonstrations.

pub mod answer;
pub mod conversation;
pub mod error;
pub mod json;
mod read;
mod render;
mod script;
pub mod strict;
pub mod usage;
pub mod wire;

pub use answer::{Answer, AnswerError, Bounds, Call, Delta, Finish};
pub use conversation::{
    CacheMarks, Conversation, Item, Options, OutputSchema, Part, Tool, ToolChoice, ToolResult, Turn,
};
pub use error::{ErrorKind, ModelError};
pub use json::Json;
pub use read::{StreamReader, read};
pub use render::{RenderError, render};
pub use script::{Script, ScriptError, ScriptResponse};
pub use usage::{Money, PriceError, Prices, Usage};
pub use wire::{Target, Wire};
