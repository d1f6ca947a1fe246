//! Texts to vectors with a model from a local folder: its tokenizer, the model itself (feature `onnx`), and a file that
//! keeps what was computed. Nothing here reaches for a network.
//!
//! A model is a folder with `model.onnx` (or one other file that ends so) and `tokenizer.json`: an encoder of the BERT
//! family with a WordPiece vocabulary, such as the MiniLM ones. [`Model::open`] reads it, [`Model::embed`] gives the
//! mean of the tokens' vectors. [`Cache`] keeps vectors by content over restarts,
//! [`Worker`] computes them on its own thread.
//!
//! Knows no profile and no gateway: it gets texts and gives vectors.

mod cache;
mod model;
#[cfg(any(feature = "onnx", test))]
mod pieces;
mod worker;

pub use cache::{Cache, CacheError, MOST_VECTORS};
pub use model::{Files, Fingerprint, Model, ModelError};
pub use worker::{Encode, Report, Worker};
