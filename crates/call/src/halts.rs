//! Halts: who is halted makes no call and hears nothing until an administrator lifts the halt.
//!
//! [`Halts::of`] is the one question: doors ask it before anything else, [`crate::admission`] for every call, also those
//! of runs and tasks, and whoever waits for a server waits for [`Halts::halted`] too. While nothing is halted the
//! question is one atomic load.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use toolcrib_base::{Clock, Kind, PrincipalId, Problem, ProfileName, Proof, Timestamp, random};
use toolcrib_policy::Act;
use toolcrib_session::{Caller, Principal};
use toolcrib_store::{Door, HaltRecord, StoreError};

/// The principal of the token file.
const ADMIN: &str = "admin";
/// The id of the halt of everyone that stands for halts that could not be read.
const UNREAD: &str = "hlt_unread";
/// What the holder of the token file may do although it is halted, by the names of the operations.
const LIFTING: [&str; 2] = ["halt_list", "halt_lift"];
/// The longest name of what is halted, and the longest reason, in bytes: both are kept and shown.
pub const TEXT_MAX: usize = 512;

/// What is halted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HaltSubject {
    /// A principal, by whichever door; of a user also the keys that are the user's.
    Principal(PrincipalId),
    /// An OAuth client, whoever uses it.
    Client(Arc<str>),
    /// A session of a legacy client, or what was granted to a client of our authorization server.
    Session(Arc<str>),
    /// A profile.
    Profile(ProfileName),
    /// A run of a workflow.
    Run(Arc<str>),
}

/// Why something is halted, and by whom.
#[derive(Debug, Clone)]
pub struct HaltCause {
    /// For administrators; who is halted does not read it.
    pub reason: String,
    /// The canary that was found.
    pub canary: Option<String>,
    /// By whom.
    pub by: PrincipalId,
}

/// A halt in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// Its id.
    pub id: Arc<str>,
    /// What is halted.
    pub subject: HaltSubject,
    /// Why.
    pub reason: Arc<str>,
    /// The canary that was found.
    pub canary: Option<Arc<str>>,
    /// By whom.
    pub added_by: PrincipalId,
    /// When.
    pub added_at: Timestamp,
}

/// Where a call comes from, as far as that can be halted.
#[derive(Debug, Clone, Copy)]
pub struct CallOrigin<'a> {
    /// Who makes it.
    pub principal: &'a Principal,
    /// In which profile.
    pub profile: &'a ProfileName,
    /// The name of the session by which it came.
    pub session: Option<&'a str>,
    /// The id of the run whose step it is.
    pub run: Option<&'a str>,
}

/// Something that has to end what is halted, such as a table of runs.
pub type EndHalted = Box<dyn Fn(&Halts) + Send + Sync>;

/// The halts in force.
pub struct Halts {
    is_any: AtomicBool,
    table: ArcSwap<HaltTable>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    /// One change at a time. The ids of those that come from another gateway of the home.
    changing: Mutex<HashSet<Arc<str>>>,
    ends: RwLock<Vec<EndHalted>>,
    store: toolcrib_store::Halts,
    clock: Arc<dyn Clock>,
}

/// The halts by what is halted.
#[derive(Debug, Clone, Default)]
struct HaltTable {
    principals: HashMap<PrincipalId, Arc<Halt>>,
    clients: HashMap<Arc<str>, Arc<Halt>>,
    sessions: HashMap<Arc<str>, Arc<Halt>>,
    profiles: HashMap<ProfileName, Arc<Halt>>,
    runs: HashMap<Arc<str>, Arc<Halt>>,
    /// Of everyone but the holder of the token file: the halts could not be read.
    all: Option<Arc<Halt>>,
}

impl fmt::Debug for Halts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Halts").field("is_any", &self.is_any).finish_non_exhaustive()
    }
}

// === impl HaltSubject ===

impl HaltSubject {
    /// The words for what can be halted.
    pub const KINDS: [&str; 5] = ["principal", "client", "session", "profile", "run"];

    /// What a word and a name stand for.
    ///
    /// # Errors
    /// There is no such kind, or the name is none.
    pub fn new(kind: &str, name: &str) -> Result<Self, Problem> {
        let invalid = |message: String| Problem::new(Kind::InvalidParams, message);
        if name.is_empty() || name.len() > TEXT_MAX || name.chars().any(char::is_control) {
            return Err(invalid(format!("`subject` must be a name of at most {TEXT_MAX} bytes")));
        }
        Ok(match kind {
            "principal" => Self::Principal(PrincipalId::new(name)),
            "client" => Self::Client(name.into()),
            "session" => Self::Session(name.into()),
            "profile" => Self::Profile(ProfileName::new(name).map_err(|error| invalid(error.to_string()))?),
            "run" => Self::Run(name.into()),
            _ => return Err(invalid(format!("`kind` must be one of {}", Self::KINDS.join(", ")))),
        })
    }

    /// The word for its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Principal(_) => "principal",
            Self::Client(_) => "client",
            Self::Session(_) => "session",
            Self::Profile(_) => "profile",
            Self::Run(_) => "run",
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Principal(id) => id.as_str(),
            Self::Client(name) | Self::Session(name) | Self::Run(name) => name,
            Self::Profile(name) => name.as_str(),
        }
    }

    /// Whether it is the holder of the token file, whom no other administrator frees.
    pub fn is_admin(&self) -> bool {
        self.kind() == "principal" && self.name() == ADMIN
    }
}

// === impl Halt ===

impl Halt {
    /// What who is halted reads. Why it is halted is for administrators.
    pub fn problem(&self) -> Problem {
        let what = match &self.subject {
            HaltSubject::Profile(name) => format!("profile `{name}`"),
            subject => format!("this {}", subject.kind()),
        };
        Problem::new(Kind::Forbidden, format!("{what} is halted (`{}`)", self.id))
            .hint("Nothing goes on until an administrator lifts the halt; `toolcrib halt list` says why it is there.")
    }

    fn of_record(record: HaltRecord) -> Result<Self, Problem> {
        Ok(Self {
            subject: HaltSubject::new(&record.kind, &record.subject)?,
            id: record.id.into(),
            reason: record.reason.into(),
            canary: record.canary.map(Into::into),
            added_by: record.added_by,
            added_at: record.added_at,
        })
    }
}

// === impl HaltTable ===

impl HaltTable {
    fn insert(&mut self, halt: Arc<Halt>) {
        match halt.subject.clone() {
            HaltSubject::Principal(id) => drop(self.principals.insert(id, halt)),
            HaltSubject::Client(name) => drop(self.clients.insert(name, halt)),
            HaltSubject::Session(name) => drop(self.sessions.insert(name, halt)),
            HaltSubject::Profile(name) => drop(self.profiles.insert(name, halt)),
            HaltSubject::Run(name) => drop(self.runs.insert(name, halt)),
        }
    }

    fn get(&self, subject: &HaltSubject) -> Option<&Arc<Halt>> {
        match subject {
            HaltSubject::Principal(id) => self.principals.get(id),
            HaltSubject::Client(name) => self.clients.get(name),
            HaltSubject::Session(name) => self.sessions.get(name),
            HaltSubject::Profile(name) => self.profiles.get(name),
            HaltSubject::Run(name) => self.runs.get(name),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Halt>> {
        self.named().chain(&self.all)
    }

    fn named(&self) -> impl Iterator<Item = &Arc<Halt>> {
        let Self { principals, clients, sessions, profiles, runs, all: _ } = self;
        let named = clients.values().chain(sessions.values()).chain(runs.values());
        principals.values().chain(named).chain(profiles.values())
    }

    fn of_principal(&self, principal: &Principal) -> Option<&Arc<Halt>> {
        let identity = &principal.identity;
        let user = || identity.user.as_ref().and_then(|user| self.principals.get(user));
        let client = || identity.client.as_deref().and_then(|client| self.clients.get(client));
        let session = || identity.session.as_deref().and_then(|session| self.sessions.get(session));
        let all = || self.all.as_ref().filter(|_| identity.proof != Proof::GatewayToken);
        self.principals.get(&principal.id).or_else(user).or_else(client).or_else(session).or_else(all)
    }

    fn of_session(&self, caller: &Caller) -> Option<&Arc<Halt>> {
        let session = caller.session.as_ref().filter(|_| !self.sessions.is_empty())?;
        self.sessions.get(&session.name().to_text())
    }
}

// === impl Halts ===

impl Halts {
    /// Those that the store has. Blocks. Where they cannot be read, everyone but the holder of the token file is halted.
    pub fn open(store: toolcrib_store::Halts, clock: Arc<dyn Clock>) -> Self {
        let read = store.in_force();
        Self::of_read(store, clock, read)
    }

    fn of_read(store: toolcrib_store::Halts, clock: Arc<dyn Clock>, read: Result<Vec<HaltRecord>, StoreError>) -> Self {
        let mut table = HaltTable::default();
        match read {
            Ok(records) => {
                for record in records {
                    match Halt::of_record(record) {
                        Ok(halt) => table.insert(Arc::new(halt)),
                        Err(problem) => tracing::error!("a halt is of no kind that this toolcrib knows: {problem}"),
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "the halts cannot be read, so everyone but the bearer of the token is halted");
                table.all = Some(Arc::new(Halt {
                    id: UNREAD.into(),
                    subject: HaltSubject::Client("every".into()),
                    reason: error.to_string().into(),
                    canary: None,
                    added_by: PrincipalId::new(ADMIN),
                    added_at: clock.now(),
                }));
            }
        }
        let is_any = table.all().next().is_some();
        Self {
            is_any: AtomicBool::new(is_any),
            table: ArcSwap::from_pointee(table),
            changes: watch::Sender::new(0),
            changing: Mutex::default(),
            ends: RwLock::default(),
            store,
            clock,
        }
    }

    /// Has something end what is halted after each new halt. It runs on the thread that adds the halt: it may not wait.
    pub fn on_halt(&self, end: EndHalted) {
        self.ends.write().unwrap_or_else(PoisonError::into_inner).push(end);
    }

    pub(crate) fn is_none(&self) -> bool {
        !self.is_any.load(Ordering::Acquire)
    }

    /// The halt of a caller.
    pub fn of(&self, caller: &Caller) -> Option<Arc<Halt>> {
        if self.is_none() {
            return None;
        }
        let table = self.table.load();
        let found = table.of_principal(&caller.principal).or_else(|| table.of_session(caller));
        found.or_else(|| table.profiles.get(&caller.profile)).cloned()
    }

    /// The halt of a principal in a profile, whichever session it has.
    pub fn of_principal(&self, principal: &Principal, profile: &ProfileName) -> Option<Arc<Halt>> {
        if self.is_none() {
            return None;
        }
        let table = self.table.load();
        table.of_principal(principal).or_else(|| table.profiles.get(profile)).cloned()
    }

    /// The halt of a call that outlived its request: of its caller, of the session of a legacy client by which it came, by
    /// its name, or of the run that made it.
    pub(crate) fn of_origin(&self, origin: &CallOrigin<'_>) -> Option<Arc<Halt>> {
        if self.is_none() {
            return None;
        }
        let CallOrigin { principal, profile, session, run } = *origin;
        let table = self.table.load();
        let session = session.and_then(|session| table.sessions.get(session));
        let found = session.or_else(|| run.and_then(|run| table.runs.get(run)));
        found.or_else(|| table.of_principal(principal)).or_else(|| table.profiles.get(profile)).cloned()
    }

    /// The halt that would keep somebody from an act by a door, for the question before it: as [`AdmittedCall::open`]
    /// would say. The token of the gateway is taken to be used on its machine.
    ///
    /// [`AdmittedCall::open`]: crate::AdmittedCall::open
    pub fn of_question(&self, origin: &CallOrigin<'_>, act: &Act, door: &str) -> Option<Arc<Halt>> {
        let principal = origin.principal;
        match act {
            Act::Operation { name, .. } if door == Door::REST.as_str() && principal.is_admin() => {
                let holds_token = principal.identity.proof == Proof::GatewayToken;
                self.of_administration(principal, name, holds_token)
            }
            _ => self.of_origin(origin),
        }
    }

    /// The halt of a run, or of who started it.
    pub fn of_run(&self, run: &str, caller: &Caller) -> Option<Arc<Halt>> {
        if self.is_none() {
            return None;
        }
        self.table.load().runs.get(run).cloned().or_else(|| self.of(caller))
    }

    /// The halt that keeps a caller from an act, in the course of a run where there is one.
    pub(crate) fn of_act(&self, caller: &Caller, act: &Act, run: Option<&str>) -> Option<Arc<Halt>> {
        if self.is_none() {
            return None;
        }
        if let Act::Operation { name, .. } = act
            && matches!(caller.door, Door::REST | Door::UI)
            && caller.principal.is_admin()
        {
            return self.of_administration(&caller.principal, name, holds_token_file(caller));
        }
        match run {
            Some(run) => self.of_run(run, caller),
            None => self.of(caller),
        }
    }

    /// Administration by REST and by pages is of no profile: a halted one can be freed there.
    fn of_administration(&self, principal: &Principal, name: &str, holds_token_file: bool) -> Option<Arc<Halt>> {
        let is_lifting = holds_token_file && LIFTING.contains(&name);
        self.table.load().of_principal(principal).filter(|_| !is_lifting).cloned()
    }

    /// Waits until a caller is halted. Cancel-safe; nothing is looked at before it is polled.
    pub async fn halted(&self, caller: &Caller) -> Arc<Halt> {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(halt) = self.of(caller) {
                return halt;
            }
            // The other half is in `self`.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Counts the changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Those in force, the oldest first.
    pub fn list(&self) -> Vec<Arc<Halt>> {
        let mut halts: Vec<_> = self.table.load().all().cloned().collect();
        halts.sort_by(|a, b| (a.added_at, &a.id).cmp(&(b.added_at, &b.id)));
        halts
    }

    /// Those that were lifted, the newest first. Blocks.
    ///
    /// # Errors
    /// The database says no.
    pub fn lifted(&self, limit: usize) -> Result<Vec<HaltRecord>, StoreError> {
        self.store.lifted(limit)
    }

    /// Halts something, unless it is halted already; gives that halt, and whether it is new. It is in force before it is
    /// written down, and stays so until a restart where that fails. Blocks.
    ///
    /// # Errors
    /// It could not be written down.
    pub fn add(&self, subject: HaltSubject, cause: HaltCause) -> Result<(Arc<Halt>, bool), Problem> {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(halt) = self.table.load().get(&subject) {
            return Ok((Arc::clone(halt), false));
        }
        let mut reason = cause.reason;
        let end = (0..=TEXT_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
        reason.truncate(end.unwrap_or(0));
        let halt = Arc::new(Halt {
            id: format!("hlt_{}", &random::hex_128()[..12]).into(),
            subject,
            reason: reason.into(),
            canary: cause.canary.map(Into::into),
            added_by: cause.by,
            added_at: self.clock.now(),
        });
        let mut table = HaltTable::clone(&self.table.load());
        table.insert(Arc::clone(&halt));
        self.replace(table);
        tracing::warn!(
            halt = &*halt.id,
            kind = halt.subject.kind(),
            subject = halt.subject.name(),
            reason = &*halt.reason,
            "halted"
        );
        drop(changing);
        for end in self.ends.read().unwrap_or_else(PoisonError::into_inner).iter() {
            end(self);
        }
        let record = HaltRecord {
            id: halt.id.to_string(),
            kind: halt.subject.kind().to_owned(),
            subject: halt.subject.name().to_owned(),
            reason: halt.reason.to_string(),
            canary: halt.canary.as_deref().map(str::to_owned),
            added_by: halt.added_by.clone(),
            added_at: halt.added_at,
            lifted: None,
        };
        match self.store.add(&record) {
            Ok(()) => Ok((halt, true)),
            Err(error) => {
                tracing::error!(halt = &*halt.id, %error, "a halt is in force and could not be saved");
                let message = format!("halt `{}` is in force and could not be saved: {error}", halt.id);
                Err(Problem::new(Kind::Internal, message).hint("It ends with the process; add it again before that."))
            }
        }
    }

    /// Halts that another gateway of the same home has in force, beside those of this one. What is halted by a new one ends.
    pub fn follow(&self, records: Vec<HaltRecord>) {
        let mut elsewhere = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.table.load();
        let mut table = HaltTable { all: before.all.clone(), ..HaltTable::default() };
        before.named().filter(|halt| !elsewhere.contains(&halt.id)).for_each(|halt| table.insert(Arc::clone(halt)));
        elsewhere.clear();
        for record in records {
            match Halt::of_record(record) {
                Ok(halt) if table.get(&halt.subject).is_none() => {
                    elsewhere.insert(Arc::clone(&halt.id));
                    table.insert(Arc::new(halt));
                }
                Ok(_) => {}
                Err(problem) => tracing::error!("a halt is of no kind that this toolcrib knows: {problem}"),
            }
        }
        self.replace(table);
        drop(elsewhere);
        for end in self.ends.read().unwrap_or_else(PoisonError::into_inner).iter() {
            end(self);
        }
    }

    /// Lifts a halt. Blocks.
    ///
    /// # Errors
    /// There is none of this id; only the holder of the token file lifts that of `admin`; the database says no.
    pub fn lift(&self, id: &str, caller: &Caller) -> Result<Arc<Halt>, Problem> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.table.load().all().find(|halt| *halt.id == *id).cloned();
        let halt = found.ok_or_else(|| {
            Problem::new(Kind::NotFound, format!("no halt `{id}` is in force")).hint("See `toolcrib halt list`.")
        })?;
        if halt.subject.is_admin() && !holds_token_file(caller) {
            let message = "only the holder of the token file lifts the halt of `admin`";
            return Err(Problem::new(Kind::Forbidden, message)
                .hint("Run `toolcrib halt lift` on the machine of the gateway, as the user who runs it."));
        }
        if &*halt.id == UNREAD {
            return self.read_again(halt, caller);
        }
        self.store.lift(id, &caller.principal.id)?;
        let before = self.table.load();
        // That of everyone stands for halts that could not be read, and is lifted by its own id alone.
        let all = before.all.clone().filter(|other| other.id != halt.id);
        let mut table = HaltTable { all, ..HaltTable::default() };
        before.named().filter(|other| other.id != halt.id).for_each(|other| table.insert(Arc::clone(other)));
        self.replace(table);
        tracing::warn!(halt = &*halt.id, by = caller.principal.id.as_str(), "a halt was lifted");
        Ok(halt)
    }

    /// Lifts the halt of everyone that stands for halts that could not be read: once they can be, by who reads the token
    /// file. Those that were added meanwhile stay.
    fn read_again(&self, halt: Arc<Halt>, caller: &Caller) -> Result<Arc<Halt>, Problem> {
        if !holds_token_file(caller) {
            let message = "only the holder of the token file lifts the halt that stands for those that cannot be read";
            return Err(Problem::new(Kind::Forbidden, message)
                .hint("Run `toolcrib halt lift` on the machine of the gateway, as the user who runs it."));
        }
        let mut table = HaltTable::default();
        for record in self.store.in_force()? {
            match Halt::of_record(record) {
                Ok(halt) => table.insert(Arc::new(halt)),
                Err(problem) => tracing::error!("a halt is of no kind that this toolcrib knows: {problem}"),
            }
        }
        self.table.load().named().for_each(|other| table.insert(Arc::clone(other)));
        self.replace(table);
        tracing::warn!(by = caller.principal.id.as_str(), "the halts were read again");
        Ok(halt)
    }

    fn replace(&self, table: HaltTable) {
        let is_any = table.all().next().is_some();
        self.table.store(Arc::new(table));
        self.is_any.store(is_any, Ordering::Release);
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Whether a caller reads the token file of this machine, as the command line does: its token is not enough, it could
/// have been stolen.
fn holds_token_file(caller: &Caller) -> bool {
    caller.door == Door::REST
        && caller.principal.identity.proof == Proof::GatewayToken
        && caller.trace.client.is_some_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests;
