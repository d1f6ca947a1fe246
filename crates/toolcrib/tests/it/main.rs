//! The binary as a person uses it: its command line, against a gateway of the tests where it needs one.

#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod bridge;
mod bridge_logins;
mod bundle;
mod call;
mod clients;
mod command_line;
mod contexts;
mod demo;
mod ending;
mod eval;
mod failing;
mod failures;
mod first_start;
mod flows;
mod full_disk;
mod guides;
mod init;
mod kinds;
mod liar;
mod lists;
mod login_operations;
mod logins;
mod logs;
mod missing;
mod muster;
mod operations;
mod people;
mod profile_key;
mod registry;
mod remote_access;
mod scenario;
mod secrets;
mod service;
mod serving;
mod shell;
mod single_sign_on;
mod stdio;
mod stub;
mod terminal;
mod texts;
mod toolcrib;
mod traces;
mod user_values;
mod version;
