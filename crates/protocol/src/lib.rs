//! JSON-RPC and MCP of every revision, without I/O.
