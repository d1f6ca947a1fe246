//! Who calls the gateway in a scenario: each user is a principal with its own token and its own sessions. Before anyone
//! logs in, the runner's client comes with the administering token.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::harness::ROLES;
use crate::home::private;
use crate::provider::{Bearer, SOMEONE};

/// The folder of the home where their tokens lie.
const FOLDER: &str = "scenario-users";

/// The users of a scenario.
#[derive(Debug)]
pub(crate) struct People {
    folder: PathBuf,
    /// Who calls where a step does not say; `None` is the one who was there first.
    current: Option<String>,
    users: BTreeMap<Option<String>, User>,
    /// The subject of the last login, until a user is made for it.
    newcomer: Option<String>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) bearer: Bearer,
    /// Where its token is; `None` is the administering one.
    pub(crate) token_file: Option<PathBuf>,
    /// The providers at which its browser has a session, because it has logged in to a server there.
    pub(crate) sessions: BTreeSet<String>,
}

// === impl People ===

impl People {
    pub(crate) fn new(home: &Path) -> Self {
        let users = BTreeMap::from([(None, User::new(SOMEONE.to_owned(), ROLES[0]))]);
        Self { folder: home.join(FOLDER), current: None, users, newcomer: None }
    }

    /// Who a step means: the one whom it names, else the current one.
    pub(crate) fn meant(&self, named: Option<&str>) -> Result<Option<String>, String> {
        let key = named.map(str::to_owned).or_else(|| self.current.clone());
        match self.users.contains_key(&key) {
            true => Ok(key),
            false => Err(self.unknown(named.unwrap_or_default())),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.users.keys().flatten().map(String::as_str).collect();
        format!("there is no user `{name}`: `test_create_user` makes one (there are: {})", known.join(", "))
    }

    pub(crate) fn user(&self, key: &Option<String>) -> &User {
        self.users.get(key).unwrap_or_else(|| &self.users[&None])
    }

    pub(crate) fn user_mut(&mut self, key: &Option<String>) -> Option<&mut User> {
        self.users.get_mut(key)
    }

    /// The name of the current one; `None` before anyone was made or chosen.
    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Makes a user. It is whom the last login named, if no one was made for that login yet, else one of its own name.
    pub(crate) fn create(&mut self, name: &str, role: &'static str) -> Result<&User, String> {
        let key = Some(name.to_owned());
        if self.users.contains_key(&key) {
            return Err(format!("there is a user `{name}` already"));
        }
        let is_taken =
            |subject: &String| self.users.iter().any(|(key, user)| key.is_some() && user.bearer.subject == *subject);
        let subject = self.newcomer.take().filter(|subject| !is_taken(subject)).unwrap_or_else(|| name.to_owned());
        if is_taken(&subject) {
            return Err(format!("a user with the subject `{subject}` was made before"));
        }
        self.users.insert(key.clone(), User::new(subject, role));
        Ok(self.user(&key))
    }

    /// Who calls from now on; `default` is the one who was there first.
    pub(crate) fn switch(&mut self, name: &str) -> Result<(), String> {
        let key = Some(name.to_owned());
        if self.users.contains_key(&key) {
            self.current = key;
        } else if name == DEFAULT {
            self.current = None;
        } else {
            return Err(self.unknown(name));
        }
        Ok(())
    }

    /// A user logs in, as `subject` where that is said.
    pub(crate) fn log_in(&mut self, key: &Option<String>, subject: Option<&str>) {
        if let (Some(user), Some(subject)) = (self.users.get_mut(key), subject) {
            subject.clone_into(&mut user.bearer.subject);
            // Another person has another browser.
            user.sessions.clear();
            self.newcomer = Some(subject.to_owned());
        }
    }

    /// Keeps the token that a user sends from now on.
    pub(crate) fn give(&mut self, key: &Option<String>, token: &str) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let place = self.users.keys().position(|known| known == key).unwrap_or_default();
        let named = key.as_deref().unwrap_or(DEFAULT).chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        let file = self.folder.join(format!("{named}-{place}"));
        private(&file, token)?;
        if let Some(user) = self.users.get_mut(key) {
            user.token_file = Some(file);
        }
        Ok(())
    }
}

/// What the one is called who was there first.
pub(crate) const DEFAULT: &str = "default";

// === impl User ===

impl User {
    fn new(subject: String, role: &'static str) -> Self {
        Self { bearer: Bearer { subject, role: Some(role) }, token_file: None, sessions: BTreeSet::new() }
    }
}
