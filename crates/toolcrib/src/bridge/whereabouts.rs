//! Where the gateway is: found once, and again when it is not there any more. A gateway that was started anew may have
//! another port and another token.

use std::sync::{Arc, Mutex};

use anyhow::Context;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::client::Endpoint;

use super::lock;
use crate::client::{ClientFlags, Located, locate};
use crate::home::Environment;

pub(super) struct Whereabouts {
    asked: Arc<(ClientFlags, Environment)>,
    found: Mutex<Option<Arc<Endpoint>>>,
}

// === impl Whereabouts ===

impl Whereabouts {
    /// Fails where what is asked for can never be found; a gateway that is away may come.
    pub(super) async fn new(flags: ClientFlags, environment: Environment) -> anyhow::Result<Self> {
        let this = Self { asked: Arc::new((flags, environment)), found: Mutex::default() };
        match this.look().await {
            Ok(_) => {}
            Err(problem) if problem.kind == Kind::Unavailable => super::note(&problem.to_string()),
            Err(problem) => return Err(problem).context("find the gateway"),
        }
        Ok(this)
    }

    /// The gateway's place, with the token that it takes.
    pub(super) async fn look(&self) -> Result<Arc<Endpoint>, Problem> {
        if let Some(found) = &*lock(&self.found) {
            return Ok(Arc::clone(found));
        }
        let asked = Arc::clone(&self.asked);
        let located = tokio::task::spawn_blocking(move || locate(&asked.0, &asked.1)).await;
        let ended = |_| Problem::new(Kind::Internal, "looking for the gateway ended early");
        let endpoint = Arc::new(endpoint(&located.map_err(ended)??)?);
        *lock(&self.found) = Some(Arc::clone(&endpoint));
        Ok(endpoint)
    }

    /// It is not there: the next one looks again.
    pub(super) fn forget(&self) {
        *lock(&self.found) = None;
    }
}

fn endpoint(located: &Located) -> Result<Endpoint, Problem> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &located.token {
        let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
        let mut value = value.map_err(|_| Problem::new(Kind::Unauthenticated, "the token fits no header"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(Endpoint { uri: located.uri.clone(), headers })
}
