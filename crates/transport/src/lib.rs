//! Bytes to messages in both directions: child processes, Streamable HTTP, in-memory.

pub mod process;
