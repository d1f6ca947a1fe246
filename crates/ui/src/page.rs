//! One file for each page: what it shows, as values. Its template has the same name in `templates/page/`.
//!
//! Fields that an operation answers are read with `serde` under the operation's own names; what may be missing has a
//! default, so that a page never fails because an answer lacks a part.

pub mod problem;
pub mod sign_in;

pub use problem::ProblemPage;
pub use sign_in::SignInPage;
