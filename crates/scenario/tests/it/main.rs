//! Integration tests of the runner.
