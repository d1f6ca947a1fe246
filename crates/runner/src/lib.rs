//! Runners: loops of agent runs in another process, machine or VM.
//!
//! A runner executes the pure loop of `agent`. Tools, keys, journals and clocks stay with the gateway: the runner asks for
//! them by [frames](frame). The gateway keeps a ledger of each run that it gave away, so that a runner can do and write
//! only what the loop would; a lost runner's runs go on elsewhere.
//!
//! Reading order: [`frame`] and `payload` (the wire), [`proof`], `link` (a connection), [`host`] (the gateway's side),
//! [`runner`] (the other side), [`endpoint`] (how they find each other).

pub mod address;
pub mod endpoint;
pub mod frame;
pub mod host;
mod link;
mod payload;
pub mod proof;
pub mod runner;

pub use address::{Address, AddressError};
pub use endpoint::{ByteStream, Dialer, Listener, TcpProtection};
pub use frame::{Decoder, Frame, FrameError, FrameType};
pub use host::{HostConfig, RunnerDescription, RunnerHost};
pub use link::ConnectionError;
pub use payload::VERSION;
pub use proof::{SecretError, SharedSecret, Trust};
pub use runner::Runner;
