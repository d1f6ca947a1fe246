//! What can go wrong with the stored state, in terms of what the person can do about it.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;
use toolcrib_base::{Kind, Problem};

/// Why the state cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The state folder or a file in it cannot be made or opened.
    #[error("cannot use `{path}` for state: {source}")]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process holds the state folder.
    #[error("the state folder `{path}` is in use by {}", holder(*.pid))]
    InUse {
        /// The state folder.
        path: PathBuf,
        /// The process that holds it, when it left its id.
        pid: Option<u32>,
    },
    /// A newer program has written this database.
    #[error("the database `{path}` has version {found}, but this program supports versions up to {known}")]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// A SQLite database, but of another program.
    #[error("the database `{path}` belongs to another program")]
    Foreign {
        /// The database file.
        path: PathBuf,
    },
    /// The file is not a database, or is damaged.
    #[error("the database `{path}` is damaged: {source}")]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// Any other failure of the database.
    #[error("cannot {action} in `{path}`: {source}")]
    Database {
        /// What was attempted: `read the audit log` …
        action: &'static str,
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A value that is larger than its bound.
    #[error("{what} has {bytes} bytes, more than {limit}")]
    TooLarge {
        /// The thing, named in backticks.
        what: String,
        /// Its size.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// There are as many as there may be.
    #[error("there are already {limit} {what}")]
    Full {
        /// The things, in the plural.
        what: String,
        /// The bound.
        limit: usize,
    },
    /// An agent has used up what it may start or spend on one day.
    #[error("agent `{agent}` has reached its limit of {limit} per day")]
    DayLimit {
        /// The agent.
        agent: String,
        /// The limit: `20 runs` …
        limit: String,
    },
    /// It is otherwise than the writer has seen it.
    #[error("{what}")]
    Conflict {
        /// What is otherwise, in a sentence.
        what: String,
    },
    /// The thread that writes the audit log cannot be started.
    #[error("cannot start the thread that writes the audit log: {0}")]
    Thread(io::Error),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl StoreError {
    /// Tells damage apart from the other failures of SQLite.
    pub(crate) fn database(path: PathBuf, action: &'static str, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, source },
            _ => Self::Database { action, path, source },
        }
    }

    /// The next step, apart from what went wrong.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Folder { .. } => Some("check its owner and permissions, or use another home with `--home`".into()),
            Self::InUse { pid: Some(pid), .. } => {
                Some(format!("stop process {pid}, or use another home with `--home`"))
            }
            Self::InUse { pid: None, .. } => Some("use another home with `--home`".into()),
            Self::Newer { .. } => Some("run the newer program, or restore a backup from before the upgrade".into()),
            Self::Foreign { .. } => Some("move the file away, or use another home with `--home`".into()),
            Self::Corrupt { path, .. } => Some(format!(
                "to start with an empty database, move `{}` and the files whose names start with it away; keep them, \
                 they hold the audit log",
                path.display()
            )),
            Self::Database { source, .. } if source.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                Some("free space on the disk".into())
            }
            Self::DayLimit { .. } => {
                Some("wait until midnight UTC, or raise `limits.per_day` in the agent's definition".into())
            }
            Self::Full { .. } => Some("remove some that are not needed, or try again later".into()),
            Self::Database { .. } | Self::TooLarge { .. } | Self::Conflict { .. } | Self::Thread(_) => None,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::TooLarge { .. } => Kind::TooLarge,
            StoreError::Conflict { .. } => Kind::Conflict,
            StoreError::InUse { .. } | StoreError::Full { .. } | StoreError::DayLimit { .. } => Kind::Busy,
            _ => Kind::Internal,
        };
        Problem { kind, hint: error.hint(), message: error.to_string() }
    }
}
