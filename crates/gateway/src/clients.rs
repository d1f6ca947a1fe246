//! What operations on the settings of clients act on: programs of other makers on this machine, whose files say which
//! servers they call. What reads and writes the files is handed in where the program is put together, and only for a
//! gateway that serves this machine alone.

use std::collections::BTreeMap;
use std::fmt;

use toolcrib_base::{Problem, ProfileName, Secret, ServerName};
use toolcrib_catalog::Files;

/// Something that reads and writes the settings of clients. Its functions wait for the disk.
pub trait EditClients: Send + Sync + fmt::Debug {
    /// The clients of this machine's person, in the order of the table of clients.
    fn list(&self) -> Result<Vec<FoundClient>, Problem>;

    /// What an edit would change. Nothing is written.
    fn preview(&self, edit: &ClientEdit) -> Result<EditPreview, Problem>;

    /// Writes it, after a copy of the file was kept. With a `revision` only if the file still has it.
    fn write(&self, edit: &ClientEdit, revision: Option<&str>) -> Result<EditReport, Problem>;

    /// What would become of the servers of these clients, of all without names. Nothing is written.
    fn preview_import(&self, clients: &[String], answers: &ImportAnswers) -> Result<ImportPreview, Problem>;

    /// Writes the definitions of these names, and their secrets into the vault before.
    fn import(&self, wanted: &WantedImport<'_>, files: &Files) -> Result<Vec<ImportedServer>, Problem>;
}

/// A client whose settings, or the folder for them, are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundClient {
    /// Its name, such as `cursor`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The file that `connect` writes, or the one that is read.
    pub path: String,
    /// How it stands to Toolcrib.
    pub state: ClientState,
    /// How its entry leads to Toolcrib: a URL or a command.
    pub way: Option<String>,
    /// What it calls its servers, without ours.
    pub servers: Vec<String>,
    /// Why a file cannot be read.
    pub problem: Option<Problem>,
    /// Whether the file from before is known byte for byte.
    pub can_undo: bool,
    /// What to do so that it sees a change.
    pub reload: &'static str,
}

/// How a client stands to Toolcrib.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// Its settings have our entry.
    Connected,
    /// They have not.
    Separate,
    /// There is no file yet.
    New,
    /// Its settings are only read.
    ReadOnly,
    /// Its file cannot be read.
    Unreadable,
}

/// A change of a client's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEdit {
    /// The client's name.
    pub client: String,
    /// What is done.
    pub action: EditAction,
    /// The profile that it is led to; the default one without it.
    pub profile: Option<ProfileName>,
    /// Whether servers go from its file that come through Toolcrib.
    pub moves: bool,
    /// Whether the file and its folder are made where there are none.
    pub creates: bool,
}

/// What is done with a client's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditAction {
    /// Our entry comes in.
    Connect,
    /// Our entry goes; what else was changed since stays.
    Disconnect,
    /// The file becomes what it was before, byte for byte, unless it was changed since.
    Undo,
}

/// What an edit would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditPreview {
    /// The file.
    pub path: String,
    /// The lines that change, secrets as `****`; empty where there is nothing to do.
    pub difference: String,
    /// Where the copy of the file goes.
    pub backups: String,
    /// Which file was looked at, for `write`.
    pub revision: String,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditReport {
    /// The file.
    pub path: String,
    /// Whether it was changed.
    pub is_changed: bool,
    /// What happened, in sentences.
    pub message: String,
    /// The copy of the file as it was.
    pub backup: Option<String>,
}

/// What would become of clients' servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportPreview {
    /// The servers.
    pub servers: Vec<ImportCandidate>,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    /// What means nothing here in files that are right.
    pub warnings: Vec<String>,
    /// What the clients would ask their person for.
    pub questions: Vec<ImportQuestion>,
}

/// What stands in for placeholders of clients, by their names, such as `workspaceFolder` or `input:region`.
#[derive(Debug, Clone, Default)]
pub struct ImportAnswers {
    /// What may be shown.
    pub plain: BTreeMap<String, String>,
    /// What goes into the vault.
    pub secret: BTreeMap<String, Secret>,
}

/// Something that a client asks its person for, or only the client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportQuestion {
    /// The name of the placeholder.
    pub name: String,
    /// The client's name for people.
    pub title: String,
    /// What the client asks.
    pub description: Option<String>,
    /// What it is without an answer; of a secret never.
    pub default: Option<String>,
    /// Whether the answer goes into the vault.
    pub is_secret: bool,
}

/// A server of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportCandidate {
    /// What its definition is or would be called.
    pub name: String,
    /// What the client calls it.
    pub key: String,
    /// The client's name.
    pub client: String,
    /// The client's name for people.
    pub title: String,
    /// How it is reached.
    pub transport: String,
    /// What becomes of it.
    pub state: CandidateState,
    /// Why it is skipped.
    pub why: Option<String>,
    /// The definition, whose secrets are references.
    pub text: Option<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What becomes of a client's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateState {
    /// It can be written.
    New,
    /// It is there.
    Present,
    /// It cannot be taken.
    Skipped,
}

/// Which definitions are to be written.
#[derive(Debug, Clone, Copy)]
pub struct WantedImport<'a> {
    /// Whose files are read; those of all clients without names.
    pub clients: &'a [String],
    /// The names of the definitions, as the preview gives them.
    pub servers: &'a [ServerName],
    /// What stands in for placeholders.
    pub answers: &'a ImportAnswers,
}

/// A definition that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedServer {
    /// Its name.
    pub name: ServerName,
    /// Its file below the home folder.
    pub file: String,
}

// === impl ClientState ===

impl ClientState {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Separate => "not connected",
            Self::New => "no settings",
            Self::ReadOnly => "read only",
            Self::Unreadable => "unreadable",
        }
    }
}

// === impl CandidateState ===

impl CandidateState {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Present => "present",
            Self::Skipped => "skipped",
        }
    }
}

// === impl EditAction ===

impl EditAction {
    /// The action of a word.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "connect" => Some(Self::Connect),
            "disconnect" => Some(Self::Disconnect),
            "undo" => Some(Self::Undo),
            _ => None,
        }
    }
}
