//! What operations on secrets act on. The vault itself is handed in where the program is put together.

use std::fmt;

use toolcrib_base::{Kind, Problem, ProfileName, Secret, ServerName};

/// Something that keeps secrets. Its functions wait for the disk.
pub trait KeepSecrets: Send + Sync + fmt::Debug {
    /// All entries, in the order of their names.
    fn list(&self) -> Result<Vec<KeptSecret>, Problem>;

    /// Sets an entry. Gives whether there was one of this name, which is replaced.
    fn set(&self, secret: &KeptSecret, value: &Secret) -> Result<bool, Problem>;

    /// The values of all entries, each under what definitions refer to it by: for guards, which look for them in calls.
    fn values(&self) -> Result<Vec<(String, Secret)>, Problem>;

    /// Seals a value for the row of the database that these texts identify.
    fn seal(&self, _row: &[&str], _value: &Secret) -> Result<Vec<u8>, Problem> {
        Err(Problem::new(Kind::Unavailable, "this gateway has no vault that seals"))
    }

    /// Opens what was sealed for this very row.
    fn open(&self, _row: &[&str], _sealed: &[u8]) -> Result<Secret, Problem> {
        Err(Problem::new(Kind::Unavailable, "this gateway has no vault that seals"))
    }

    /// Removes an entry; one that is not there is a problem.
    fn remove(&self, name: &str) -> Result<(), Problem>;
}

/// An entry without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSecret {
    /// What definitions refer to as `vault:NAME`.
    pub name: String,
    /// The servers that may use it; none stands for every server.
    pub servers: Vec<ServerName>,
    /// The profiles through which it may be used; none stands for every profile.
    pub profiles: Vec<ProfileName>,
    /// When it was set, as people read it; empty for one that is about to be.
    pub set_at: String,
}
