//! The binary as a person uses it: its command line, against a gateway of the tests where it needs one.

mod call;
mod command_line;
mod failures;
mod guides;
mod lists;
mod stub;
mod toolcrib;
