//! Canaries of the gateway: minted once, sealed on the disk, and looked for by their values in memory.

use std::sync::{Arc, PoisonError};

use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Secret, random};
use toolcrib_call::canaries::mint;
use toolcrib_catalog::SecretRef;
use toolcrib_store::CanaryRecord;

use crate::gateway::Gateway;
use crate::vault::KeepSecrets;

/// A canary that was minted a moment ago; its token is told once.
#[derive(Debug)]
pub(crate) struct MintedCanary {
    pub(crate) record: CanaryRecord,
    pub(crate) token: Secret,
}

/// The row that a token is sealed for.
fn row(record: &CanaryRecord) -> [&str; 3] {
    ["canary", &record.id, &record.kind]
}

impl Gateway {
    fn sealing_vault(&self) -> Result<&Arc<dyn KeepSecrets>, Problem> {
        let problem = || Problem::new(Kind::Unavailable, "this gateway has no vault, which seals canaries");
        self.vault.as_ref().ok_or_else(problem)
    }

    /// Mints a canary and looks for it from now on. Blocks.
    pub(crate) fn mint_canary(
        &self,
        kind: &str,
        profile: Option<ProfileName>,
        by: &PrincipalId,
    ) -> Result<MintedCanary, Problem> {
        let token = mint::token(kind).ok_or_else(|| {
            Problem::new(Kind::InvalidParams, format!("`kind` must be one of {}", mint::KINDS.join(", ")))
        })?;
        let mut record = CanaryRecord {
            id: format!("can_{}", &random::hex_128()[..12]),
            kind: kind.to_owned(),
            profile,
            sealed: Vec::new(),
            minted_by: by.clone(),
            minted_at: self.path.clock.now(),
        };
        record.sealed = self.sealing_vault()?.seal(&row(&record), &token)?;
        self.path.store.canaries().add(&record)?;
        self.look_for_canaries();
        Ok(MintedCanary { record, token })
    }

    /// Forgets a canary. Blocks.
    pub(crate) fn remove_canary(&self, id: &str) -> Result<(), Problem> {
        if !self.path.store.canaries().remove(id)? {
            let problem = Problem::new(Kind::NotFound, format!("no canary `{id}`"));
            return Err(problem.hint("See `toolcrib canary list`."));
        }
        self.look_for_canaries();
        Ok(())
    }

    /// Has guards look for the canaries that definitions of agents name, if those are others now. Blocks.
    pub(crate) fn take_canaries(&self) {
        let is_new = *self.canaries_turn.lock().unwrap_or_else(PoisonError::into_inner) != self.canaries_of_agents();
        if is_new {
            self.look_for_canaries();
        }
    }

    fn canaries_of_agents(&self) -> Vec<(String, Vec<SecretRef>)> {
        let loaded = self.loaded();
        let named = loaded.agents.values().filter(|agent| !agent.canary_tokens.is_empty());
        named.map(|agent| (agent.name.to_string(), agent.canary_tokens.clone())).collect()
    }

    /// Has guards look for the canaries that there are now: those that were minted, and those that definitions of agents
    /// name. Blocks.
    pub(crate) fn look_for_canaries(&self) {
        // One reading at a time, so that the last one counts.
        let mut of_agents = self.canaries_turn.lock().unwrap_or_else(PoisonError::into_inner);
        *of_agents = self.canaries_of_agents();
        let records = match self.path.store.canaries().all() {
            Ok(records) => records,
            Err(error) => return tracing::error!(%error, "the canaries cannot be read"),
        };
        let opened = records.iter().filter_map(|record| {
            match self.sealing_vault().and_then(|vault| vault.open(&row(record), &record.sealed)) {
                Ok(token) => Some((Arc::from(record.id.as_str()), token)),
                Err(problem) => {
                    tracing::error!(canary = record.id, "a canary is not looked for: {problem}");
                    None
                }
            }
        });
        let mut wanted: Vec<(Arc<str>, Secret)> = opened.collect();
        for (agent, references) in of_agents.iter() {
            let id: Arc<str> = format!("agent/{agent}").into();
            for reference in references {
                match self.path.servers.own_secret(reference) {
                    Ok(token) => wanted.push((Arc::clone(&id), token)),
                    Err(why) => tracing::error!(agent, "a canary of its definition is not looked for: {why}"),
                }
            }
        }
        self.path.canaries.look_for(&wanted);
    }
}
