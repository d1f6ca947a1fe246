//! Definitions on disk: servers and profiles; validate, watch, import.
