//! Values to HTML: the pages of the web user interface. Pure: no files, no sockets, no clock, and no logic of its own;
//! what a page shows is what an operation answered.
//!
//! To add a page: its type in `page/`, its template in `templates/page/`, and the route that fills it in the folder
//! `route/ui/page/` of `web`.

pub mod asset;
pub mod chart;
pub mod diff;
pub mod filters;
pub mod form;
pub mod frame;
pub mod graph;
pub mod json;
pub mod level;
pub mod markdown;
pub mod page;
pub mod part;
pub mod schema;
pub mod text;

pub use asset::Asset;
pub use frame::{Frame, Mode, NavGroup, NavLink, Notice, Theme};
