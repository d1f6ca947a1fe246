//! The handle: what the server is made of, which clients it knows, and the sessions that it lists and ends.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::watch;
use toolcrib_auth::Sealer;
use toolcrib_base::{Clock, Kind, Problem, Timestamp};
use toolcrib_identity::{CheckStatements, KeepSignIns, ProveTokens};
use toolcrib_store::{AuditLog, Authorizations, Decision, Store};

use crate::approval_code::Tries;
use crate::client::{Client, ClientProof, ClientRecord, ClientSource};
use crate::documents::{Documents, FetchDocuments};
use crate::error::OAuthError;
use crate::proven::{FindGrants, ProvenTokens};
use crate::provider_tokens::ProviderTokens;
use crate::run::Runs;
use crate::secrets::TagKey;
use crate::session::{LiveSession, LiveSessions, SessionDescription, SessionDetails};
use crate::settings::ServerSettings;
use crate::signing::SigningKeys;

/// The longest id of a client, in bytes.
const CLIENT_BYTES: usize = 1_024;

/// The authorization server. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct AuthorizationServer {
    pub(crate) inner: Arc<Inner>,
}

/// What a server is made of.
#[derive(Debug)]
pub struct ServerParts {
    /// The settings.
    pub settings: ServerSettings,
    /// What outlives the process.
    pub store: Store,
    /// Seals keys and answers.
    pub sealer: Sealer,
    /// Fetches documents of clients.
    pub documents: Arc<dyn FetchDocuments>,
    /// Checks tokens that are not ours.
    pub issuers: Arc<dyn ProveTokens>,
    /// Checks what issuers state about their users.
    pub statements: Arc<dyn CheckStatements>,
    /// Says what the settings grant.
    pub grants: Arc<dyn FindGrants>,
    /// Gives and renews what people signed in with.
    pub sign_ins: Arc<dyn KeepSignIns>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: ServerSettings,
    pub(crate) rows: Authorizations,
    pub(crate) log: AuditLog,
    pub(crate) keys: SigningKeys,
    pub(crate) tags: TagKey,
    pub(crate) sealer: Sealer,
    pub(crate) sessions: LiveSessions,
    pub(crate) runs: Runs,
    pub(crate) proven: RwLock<ProvenTokens>,
    pub(crate) issuers: Arc<dyn ProveTokens>,
    pub(crate) statements: Arc<dyn CheckStatements>,
    pub(crate) grants: Arc<dyn FindGrants>,
    pub(crate) provider: ProviderTokens,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tries: Mutex<Tries>,
    pub(crate) clients: Vec<Arc<Client>>,
    documents: Documents,
    /// Counts sessions that ended before their time.
    ended: watch::Sender<u64>,
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// Opens the server of this installation. Blocks: it reads the state.
    ///
    /// # Errors
    /// A client of the settings cannot be used; the state cannot be read.
    pub fn open(parts: ServerParts) -> Result<Self, Problem> {
        let ServerParts { settings, store, sealer, documents, issuers, statements, grants, sign_ins, clock } = parts;
        let client = |client: &crate::ClientSettings| {
            let wrong = |why: String| Problem::new(Kind::Definition, format!("client `{}`: {why}", client.id));
            Client::of_settings(client).map(Arc::new).map_err(wrong)
        };
        let clients = settings.clients.iter().map(client).collect::<Result<Vec<_>, _>>()?;
        let (rows, now) = (store.authorizations(), clock.now());
        let keys = SigningKeys::open(rows.clone(), sealer.clone(), now)?;
        let (sessions, provider) = (LiveSessions::default(), ProviderTokens::new(sign_ins, sealer.clone()));
        for record in rows.sessions()? {
            if let Some(details) = SessionDetails::read(&record) {
                provider.take_in(&record);
                sessions.put(Arc::new(LiveSession::new(&record, details)));
            }
        }
        // Where the gateway is for this machine alone, its clients may be there, too.
        let allows_loopback = settings.origin.starts_with("http:");
        Ok(Self {
            inner: Arc::new(Inner {
                tags: TagKey::new(&store.sealing_key()?),
                documents: Documents::new(documents, Arc::clone(&clock), allows_loopback),
                proven: RwLock::default(),
                tries: Mutex::default(),
                ended: watch::Sender::new(0),
                settings,
                rows,
                log: store.audit().clone(),
                keys,
                sealer,
                sessions,
                runs: Runs::default(),
                issuers,
                statements,
                grants,
                provider,
                clock,
                clients,
            }),
        })
    }

    /// `scheme://host[:port]`: the identifier of the server.
    pub fn origin(&self) -> &str {
        &self.inner.settings.origin
    }

    /// Changes whenever a session has ended before its time.
    pub fn watch_ends(&self) -> watch::Receiver<u64> {
        self.inner.ended.subscribe()
    }

    /// Whether tokens of a session count.
    pub fn has_session(&self, id: &str) -> bool {
        let now = self.inner.clock.now();
        let lasts = |session: &LiveSession| !session.has_ended() && session.expires_at > now;
        let session = self.inner.sessions.get(id).filter(|session| lasts(session));
        session.is_some_and(|session| self.inner.sessions.has_parent(&session, now))
    }

    /// All sessions, those that were used last first.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn sessions(&self) -> Result<Vec<SessionDescription>, Problem> {
        let records = self.run(|inner| inner.rows.sessions()).await;
        let records = records.map_err(|error| Problem::new(Kind::Internal, error.description))??;
        let described = records.into_iter().filter_map(|record| {
            let details = SessionDetails::read(&record)?;
            Some(SessionDescription {
                id: record.id,
                principal: record.principal,
                client: record.client,
                client_name: details.client_name,
                resource: details.resource,
                begun_at: Timestamp(details.begun_at),
                used_at: record.used_at,
                expires_at: record.expires_at,
            })
        });
        Ok(described.collect())
    }

    /// Ends a session: none of its tokens counts from now on. Whether there was one.
    ///
    /// # Errors
    /// The state cannot be written.
    pub async fn end_session(&self, id: &str) -> Result<bool, Problem> {
        let ended = id.to_owned();
        let was_there = self.run(move |inner| inner.rows.end_session(&ended)).await;
        let was_there = was_there.map_err(|error| Problem::new(Kind::Internal, error.description))??;
        if let Some(session) = self.inner.sessions.get(id) {
            self.inner.record_end(&session, Decision::Permit(Cow::Borrowed("administrator")));
        }
        self.inner.end(&[id.to_owned()]);
        Ok(was_there)
    }

    /// The next key signs from now on. Gives its id.
    ///
    /// # Errors
    /// The keys were rotated a moment ago; the state cannot be written.
    pub async fn rotate_key(&self) -> Result<String, Problem> {
        let rotated = self.run(|inner| inner.keys.rotate(inner.clock.now())).await;
        rotated.map_err(|error| Problem::new(Kind::Internal, error.description))?
    }

    /// The client of an id.
    pub(crate) async fn client(&self, id: &str) -> Result<Arc<Client>, OAuthError> {
        let unknown = || OAuthError::client("the client is unknown here");
        if let Some(client) = self.inner.clients.iter().find(|client| client.id == id) {
            return Ok(Arc::clone(client));
        }
        if id.len() > CLIENT_BYTES {
            return Err(unknown());
        }
        if let Some(url) = self.inner.documents.address(id) {
            return self.inner.documents.client(id, &url).await;
        }
        if !self.inner.settings.registration {
            return Err(unknown());
        }
        let wanted = id.to_owned();
        let found = self.run(move |inner| inner.rows.client(&wanted)).await??.ok_or_else(unknown)?;
        let registered: ClientRecord = serde_json::from_str(&found).map_err(|_| unknown())?;
        let proof = match registered.secret_hash() {
            Some(hash) => ClientProof::SecretHash(hash),
            None => ClientProof::Public,
        };
        Client::of_metadata(id, &registered.metadata, ClientSource::Registration, proof).map(Arc::new)
    }

    /// Runs what blocks.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, OAuthError> {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || work(&inner)).await.map_err(|error| OAuthError::fault(&error))
    }
}

// === impl Inner ===

impl Inner {
    /// Has these sessions end in memory, whose rows have gone, and says so.
    pub(crate) fn end(&self, ids: &[String]) {
        for id in ids {
            if let Some(session) = self.sessions.get(id) {
                self.provider.forget(&session.details.person.principal, id);
            }
            self.sessions.end(id);
        }
        if !ids.is_empty() {
            self.ended.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
