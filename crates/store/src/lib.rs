//! What outlives the process: records, the audit chain and their SQLite back end.
