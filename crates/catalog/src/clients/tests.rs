//! Clients as a whole.
