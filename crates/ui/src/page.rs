//! One file for each page: what it shows, as values. Its template has the same name in `templates/page/`.
//!
//! Fields that an operation answers are read with `serde` under the operation's own names; what may be missing has a
//! default, so that a page does not fail because an answer lacks a part. A part that changes while the page is open is
//! the block `live` of its template.

pub mod activity;
pub mod call;
pub mod call_status;
pub mod cases;
pub mod compare;
pub mod detail;
pub mod editor;
pub mod enter;
pub mod find;
pub mod list;
pub mod matrix;
pub mod operation;
pub mod operations;
pub mod preview_editor;
pub mod problem;
pub mod result;
pub mod search;
pub mod setup;
pub mod sign_in;
pub mod start;

pub use activity::ActivityPage;
pub use call::CallPage;
pub use call_status::CallStatusPage;
pub use cases::CasesPage;
pub use compare::ComparePage;
pub use detail::DetailPage;
pub use editor::EditorPage;
pub use enter::EnterPage;
pub use find::FindPage;
pub use list::ListPage;
pub use matrix::MatrixPage;
pub use operation::OperationPage;
pub use operations::OperationsPage;
pub use preview_editor::PreviewEditorPage;
pub use problem::ProblemPage;
pub use result::ResultPage;
pub use search::SearchPage;
pub use setup::SetupPage;
pub use sign_in::SignInPage;
pub use start::StartPage;
