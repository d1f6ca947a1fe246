//! The three wires that models are asked on, and where one is asked.

use serde::{Deserialize, Serialize};

/// A request and answer format. Gemini (by its OpenAI endpoint) and local engines speak [`Wire::Chat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Wire {
    /// Every wire.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// Its name in definitions and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    /// The wire with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.name() == name)
    }

    /// What follows the base address, which ends in the API's version (`/v1`).
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }

    /// The header that carries the key, and what stands before it there.
    pub const fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::Chat | Self::Responses => ("authorization", "Bearer "),
            Self::Messages => ("x-api-key", ""),
        }
    }

    /// Headers that every request has, besides its content type.
    pub const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Chat | Self::Responses => &[],
            Self::Messages => &[("anthropic-version", "2023-06-01")],
        }
    }
}

/// What is asked: a model on a wire, and the forms in which engines of one wire differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// How it is asked.
    pub wire: Wire,
    /// The model's name there.
    pub model: String,
    /// Whose opaque items it takes back: turns of another origin are rendered from their texts and calls alone. Two
    /// targets with the same origin are the same model of the same provider.
    pub origin: String,
    /// The member of chat completions that bounds the answer: `max_completion_tokens`, else `max_tokens`, which older
    /// engines expect.
    pub max_completion_tokens: bool,
    /// Whether `strict` is sent with tools and output schemas that fit.
    pub strict: bool,
    /// Whether a stream of chat completions is asked for its usage (`stream_options`).
    pub stream_usage: bool,
    /// Whether Responses is asked for encrypted reasoning, which models without reasoning refuse.
    pub encrypted_reasoning: bool,
}

impl Target {
    /// A model in the provider's own form; its origin is its name and wire.
    pub fn new(wire: Wire, model: impl Into<String>) -> Self {
        let model = model.into();
        let origin = format!("{}:{model}", wire.name());
        Self {
            wire,
            model,
            origin,
            max_completion_tokens: true,
            strict: true,
            stream_usage: true,
            encrypted_reasoning: true,
        }
    }
}
