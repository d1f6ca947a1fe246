//! Reading the lists of one principal: over a connection that carries its credential, in the background.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_transport::LinkError;

use crate::call::Call;
use crate::client::Client;
use crate::credentials::{NoCredential, Proof};
use crate::event::Event;
use crate::failure::CallError;
use crate::inventory::{self, Ask, Inventory};
use crate::own_lists::CredentialState;
use crate::server::{CallConnection, Server};

/// How long a credential may take to be had: an attempt to sign on has 15 seconds, and says itself that they are over.
const PROOF: Duration = Duration::from_secs(16);

type Outcome = Result<Result<Raw, RpcError>, LinkError>;

/// A principal that asks on a connection, with its own credential.
struct PrincipalAsking<'a> {
    server: &'a Server,
    reached: &'a CallConnection,
    call: &'a Call,
}

impl Ask for PrincipalAsking<'_> {
    fn is_modern(&self) -> bool {
        self.reached.live().is_modern()
    }

    async fn ask(&self, method: &str, params: &Raw, deadline: Duration) -> Outcome {
        let asked = self.server.request(self.reached, method, params, self.call).send();
        tokio::time::timeout(deadline, Box::pin(asked)).await.unwrap_or(Err(LinkError::Timeout(deadline)))
    }
}

impl Server {
    /// Reads what a principal is shown, unless that is being read. An event tells of changes.
    pub(super) fn read_own(&self, principal: &str) {
        let Some(number) = self.context.own.begin(principal) else { return };
        let (server, principal) = (self.as_main(), Arc::<str>::from(principal));
        self.spawn(async move {
            let timeouts = server.context.config.timeouts;
            let limit = PROOF + timeouts.connect * 2 + timeouts.list;
            let found = tokio::time::timeout(limit, server.listed_for(&principal)).await;
            let found = found.unwrap_or(Err(CredentialState::Failed));
            let main = server.main_inventory();
            if server.context.own.settle(&principal, number, found, &main) {
                server.emit_own(&principal).await;
            }
        });
    }

    pub(super) async fn emit_own(&self, principal: &str) {
        let server = self.context.config.name.clone();
        self.context.emit(Event::Own { server, principal: principal.into() }).await;
    }

    /// The lists as a principal's credential shows them.
    async fn listed_for(&self, principal: &Arc<str>) -> Result<Inventory, CredentialState> {
        // The semaphore is never closed.
        let _place = self.context.own.readers.acquire().await;
        self.proven(principal).await?;
        let client = Client { principal: Some(Arc::clone(principal)), ..Client::default() };
        let call = Call { client, ..Call::default() };
        let reached = self.reach_own(&call.client).await.map_err(|error| self.why(&error, principal))?;
        let list = self.context.config.timeouts.list;
        let asking = PrincipalAsking { server: self, reached: &reached, call: &call };
        let bare = match reached.bare() {
            Some(bare) => bare,
            None => {
                let mut bare = Inventory::default();
                match asking.ask(method::DISCOVER, &Raw::empty_object(), list).await {
                    Ok(Ok(result)) => bare.discovered(&result),
                    Ok(Err(_)) => return Err(CredentialState::Failed),
                    Err(error) => return Err(self.why_not(&error, principal)),
                }
                bare
            }
        };
        let drained = inventory::drain(&asking, bare, &Inventory::default(), list).await;
        let (inventory, _) = drained.map_err(|error| self.why_not(&error, principal))?;
        // Whoever asks with this credential sees it: whose it is, the table says.
        Ok(Inventory { is_own: false, warnings: Vec::new(), ..inventory })
    }

    /// Whether a principal has a credential at all: without one nothing is asked.
    pub(super) async fn proven(&self, principal: &str) -> Result<(), CredentialState> {
        let Some(credentials) = &self.context.deps.credentials else { return Err(CredentialState::Missing) };
        let headers = match credentials.headers(&self.context.config, Some(principal)) {
            Proof::Known(headers) => headers,
            Proof::Awaited(proof) => match tokio::time::timeout(PROOF, proof).await {
                Ok(Ok(headers)) => headers,
                Ok(Err(NoCredential::NeedsLogin)) => return Err(CredentialState::Missing),
                Ok(Err(NoCredential::Unavailable(_))) | Err(_) => return Err(CredentialState::Unproven),
            },
        };
        if headers.is_empty() { Err(CredentialState::Missing) } else { Ok(()) }
    }

    fn why(&self, error: &CallError, principal: &str) -> CredentialState {
        self.note_unlisted(principal, &error.to_string());
        match error {
            CallError::NeedsLogin(_) => CredentialState::Missing,
            CallError::Link { error: LinkError::Unproven(_), .. } => CredentialState::Unproven,
            _ => CredentialState::Failed,
        }
    }

    fn why_not(&self, error: &LinkError, principal: &str) -> CredentialState {
        self.note_unlisted(principal, &self.context.config.masked(&error.to_string()));
        match error {
            LinkError::NeedsLogin | LinkError::Status { status: 401, .. } => CredentialState::Missing,
            LinkError::Unproven(_) => CredentialState::Unproven,
            _ => CredentialState::Failed,
        }
    }

    fn note_unlisted(&self, principal: &str, why: &str) {
        let server = &self.context.config.name;
        tracing::debug!(target: "toolcrib::server", %server, principal, "cannot be listed for a principal: {why}");
    }
}
