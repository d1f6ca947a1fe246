//! A new run that takes over another one up to a round.

use serde_json::Value;
use toolcrib_agent::{Event, fork};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::Invocation;
use toolcrib_store::AgentRunRecord;

use super::audit::{self, AuditedRun, RunEvent};
use super::keep::{self, JournalState};
use super::operation::new_id;
use super::source::{Inner, blocking};

impl Inner {
    /// Starts a run that has everything of `run` up to a round, and may ask another model.
    ///
    /// # Errors
    /// The round is not complete; there is no such model; the store cannot be written.
    pub(super) async fn fork(
        &self,
        invocation: &Invocation,
        run: &AgentRunRecord,
        round: u32,
        model: Option<&str>,
    ) -> Result<Value, Problem> {
        let mut entries = keep::entries(&self.bridge.store, &run.id).await?;
        if let Some(name) = model {
            let entry = self.bridge.models.wanted(name)?;
            for entry_of_start in &mut entries {
                if let Event::Started(start) = &mut entry_of_start.event
                    && start.models.iter().all(|model| model.name != name)
                {
                    start.models.push(entry.spec());
                    start.check().map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
                }
            }
        }
        let (id, now) = (new_id(), self.bridge.clock.now());
        let forked = fork(&entries, &id, round, model, now)
            .map_err(|error| Problem::new(Kind::InvalidParams, format!("run `{}`: {error}", run.id)))?;
        let mut written = JournalState::default();
        written.take_all(&forked);
        let lines: Vec<String> = forked.iter().map(keep::line).collect();
        let record = AgentRunRecord {
            id: id.clone(),
            principal: invocation.caller.principal.id.clone(),
            role: invocation.caller.principal.role,
            profile: invocation.caller.profile.clone(),
            parent: None,
            fork_of: Some(run.id.clone()),
            started_at: now,
            state: written.state,
            ..run.clone()
        };
        let (store, created) = (self.bridge.store.clone(), record.clone());
        blocking(move || store.create(&created, &lines)).await?;
        if let Some(gateway) = self.bridge.gateway() {
            let event = RunEvent::new("run.started").with("forked_from", run.id.as_str()).with("round", round);
            let event = event.with("door", invocation.caller.door.as_str());
            let of = AuditedRun { caller: &invocation.caller, agent: &run.agent, run: &id };
            audit::record(&gateway, of, event).await;
        }
        let resumed = self.bridge.runs().resume(&id).await;
        resumed.map_err(|error| Problem::new(Kind::Conflict, format!("run `{id}`: {error}")))?;
        Ok(self.shown(&record).await)
    }
}
