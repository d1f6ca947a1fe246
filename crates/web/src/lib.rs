//! The HTTP edge: mounts MCP, REST, health and metrics.
