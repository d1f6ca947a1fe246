//! What a profile's tools cost a model in tokens.

use serde_json::{Value, json};
use toolcrib_search::tokens;

/// Tokens, as an o200k tokenizer counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// How many tools there are.
    pub tools: usize,
    /// All of them as a model is given them: name, description and parameters.
    pub everything: usize,
    /// How many the profile lists, its meta-tools included.
    pub listed_tools: usize,
    /// What it lists.
    pub listed: usize,
    /// What of that the list has not, by tool and by server: those that save most, in tokens.
    pub saved_by_tool: Vec<(String, usize)>,
    /// The same by server.
    pub saved_by_server: Vec<(String, usize)>,
    /// The question and the answer of a search, on average.
    pub find: usize,
    /// The same of the description of what was searched for.
    pub describe: usize,
    /// The call through `call_tool`, without its answer, which is the same on every way.
    pub call: usize,
}

// === impl Costs ===

impl Costs {
    /// What a task costs with nothing but what the profile lists at the start.
    pub fn task(&self) -> usize {
        self.listed + self.find + self.describe + self.call
    }

    /// As an operation answers it.
    pub fn to_value(&self) -> Value {
        json!({
            "tokenizer": "o200k_base",
            "everything": { "tools": self.tools, "tokens": self.everything },
            "listed": { "tools": self.listed_tools, "tokens": self.listed },
            "task": { "find": self.find, "describe": self.describe, "call": self.call, "total": self.task() },
        })
    }
}

/// What a model is given of a listed tool.
pub fn given(tool: &Value) -> usize {
    let given = json!({
        "name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"],
    });
    tokens::count(&given.to_string())
}
