//! Approving and rejecting changes of what a server offers: in whole or by name, all of it or nothing, each with the
//! person's name in the audit log.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::pin::{Difference, Digest, Item, Offer, Part, visible};
use toolcrib_session::Caller;
use toolcrib_store::{AuditEvent, Decision, PinChange};
use toolcrib_view::ServerEntry;

use crate::gateway::Gateway;
use toolcrib_call::pins::{Pin, approval};
use toolcrib_call::{name_at_servers, principal_at_servers};

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It is as it should be.
    Approve,
    /// It stays held, and is remembered as turned down.
    Reject,
}

impl Judgement {
    const fn method(self) -> &'static str {
        match self {
            Self::Approve => "pin/approve",
            Self::Reject => "pin/reject",
        }
    }
}

/// About what it is decided.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names of tools, `prompt:name`, `template:uri`, `instructions`; nothing means all that differs.
    pub names: Vec<String>,
    /// Only if all that the server offers still has this digest: what was looked at is what is decided about.
    pub digest: Option<String>,
}

/// About what of one server it is decided.
#[derive(Debug, Clone)]
pub struct ServerSelection {
    /// The server.
    pub server: String,
    /// What of it.
    pub which: Selection,
}

/// What is decided about one server.
struct ServerDecision {
    running: ServerEntry,
    items: Vec<Item>,
    change: PinChange,
}

/// What one server offers beside what was approved of it.
pub(crate) struct ServerChanges {
    pub(crate) server: ServerName,
    pub(crate) difference: Difference,
    offer: Offer,
    pin: Option<Arc<Pin>>,
}

impl Gateway {
    /// What of a server is not as it was approved, as far as it is listed to everyone or to `by`, and what of that was
    /// turned down by whom.
    ///
    /// # Errors
    /// There is no such server.
    pub fn changes(&self, server: &str, by: &Caller) -> Result<Value, Problem> {
        let changes = self.server_changes(server, by)?;
        let ServerChanges { difference, pin, .. } = &changes;
        Ok(json!({
            "server": changes.server.as_str(), "digest": changes.digest(), "approved": changes.is_approved(),
            "verifiedAt": pin.as_ref().and_then(|pin| pin.verified_at).map(|at| at.to_string()),
            "difference": difference.to_value(), "summary": difference.summary(), "text": difference.to_text(),
            "rejected": changes.rejected(),
        }))
    }

    /// The same before it is put into words.
    pub(crate) fn server_changes(&self, server: &str, by: &Caller) -> Result<ServerChanges, Problem> {
        let running = self.running(server)?;
        let (offer, difference) = self.standing(&running, principal_at_servers(by));
        let pin = self.path.pins.of(&running.definition);
        Ok(ServerChanges { server: running.definition.name.clone(), offer, difference, pin })
    }

    /// Decides about what differs and rebuilds the views. Gives what was decided about.
    ///
    /// # Errors
    /// There is no such server, or a name among these differs in nothing, or the server offers something else by now:
    /// then nothing is decided.
    pub async fn decide(
        self: &Arc<Self>,
        server: &str,
        which: Selection,
        judgement: Judgement,
        by: &Caller,
    ) -> Result<Value, Problem> {
        let wanted = vec![ServerSelection { server: server.to_owned(), which }];
        let mut decided = self.decide_each(wanted, judgement, by).await?;
        Ok(decided.pop().unwrap_or_default())
    }

    /// The same about several servers, once all of it was found to be as it was meant. Gives an answer for each.
    ///
    /// # Errors
    /// As of one: then nothing is decided. Or the store takes no more: what it took by then counts and is on record.
    pub async fn decide_each(
        self: &Arc<Self>,
        wanted: Vec<ServerSelection>,
        judgement: Judgement,
        by: &Caller,
    ) -> Result<Vec<Value>, Problem> {
        let (gateway, principal) = (Arc::clone(self), by.principal.id.clone());
        let work = move || {
            let mut decisions = Vec::new();
            for one in wanted {
                let running = gateway.running(&one.server)?;
                let (offer, difference) = gateway.standing(&running, name_at_servers(&principal));
                let items = chosen(&running, &one.which, &offer, &difference)?;
                let change = change(judgement, &items, &offer, &difference);
                decisions.push(ServerDecision { running, items, change });
            }
            let (mut decided, mut failed) = (Vec::new(), None);
            for ServerDecision { running, items, change } in decisions {
                if let Err(error) = gateway.path.pins.decide(&running.definition, change, &principal) {
                    failed = Some(Problem::from(error));
                    break;
                }
                decided.push((running, items));
            }
            if !decided.is_empty() {
                gateway.rebuild();
            }
            Ok::<_, Problem>((decided, failed))
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (decided, failed) = done.unwrap_or_else(|error| Err(Problem::new(Kind::Internal, error.to_string())))?;
        let mut answers = Vec::new();
        for (running, items) in decided {
            let name = &running.definition.name;
            for item in &items {
                let target = match item.part {
                    Part::Tool => format!("{name}/{}", item.name),
                    part => format!("{name}/{}:{}", part.as_str(), item.name),
                };
                self.record(by, judgement.method(), target.into()).await;
            }
            let decided: Vec<Value> =
                items.iter().map(|item| json!({ "kind": item.part.as_str(), "name": item.name })).collect();
            let (total, by) = (decided.len(), by.principal.id.as_str());
            answers.push(json!({ "server": name.as_str(), "decided": decided, "total": total, "by": by }));
        }
        failed.map_or(Ok(answers), Err)
    }

    /// Writes an administrative act into the audit log.
    async fn record(&self, by: &Caller, method: &'static str, target: Arc<str>) {
        // Closed only while the gateway ends; the operation's own event stands already.
        let Ok(slot) = self.path.store.audit().reserve().await else { return };
        let (at, principal) = (self.path.clock.now(), by.principal.id.clone());
        slot.record(AuditEvent {
            profile: Some(by.profile.clone()),
            decision: Decision::Permit(Cow::Borrowed(toolcrib_policy::Rule::AdminOperation.name())),
            session: by.session.as_ref().map(|session| session.name().to_text()),
            address: by.trace.client,
            custody: by.custody(),
            ..AuditEvent::new(at, principal, by.door, Cow::Borrowed(method), target)
        });
    }
}

// === impl ServerChanges ===

impl ServerChanges {
    /// Of all that the server offers.
    pub(crate) fn digest(&self) -> String {
        self.offer.digest().to_string()
    }

    /// Whether anything was ever approved.
    pub(crate) fn is_approved(&self) -> bool {
        self.pin.as_ref().is_some_and(|pin| pin.approved.is_some())
    }

    /// What of it was turned down, by whom and when.
    pub(crate) fn rejected(&self) -> Vec<Value> {
        let Some(pin) = &self.pin else { return Vec::new() };
        let rejected = self.offer.items().filter_map(|(item, raw)| {
            let (at, by) = pin.rejection(item, raw)?;
            Some(json!({ "kind": item.part.as_str(), "name": item.name, "by": by.as_str(), "at": at.to_string() }))
        });
        rejected.collect()
    }
}

/// What of the difference is meant.
fn chosen(
    running: &ServerEntry,
    which: &Selection,
    offer: &Offer,
    difference: &Difference,
) -> Result<Vec<Item>, Problem> {
    let server = &running.definition.name;
    if let Some(digest) = &which.digest
        && *digest != offer.digest().to_string()
    {
        let message = format!("server `{server}` now offers something else than you reviewed");
        return Err(Problem::new(Kind::InvalidParams, message).hint(format!(
            "review it with `toolcrib verify \
             {server}`, then decide"
        )));
    }
    let differing = difference.items();
    if which.names.is_empty() {
        return Ok(differing);
    }
    let mut items = Vec::new();
    for name in &which.names {
        let item = item_of(server.as_str(), name);
        if !differing.contains(&item) {
            let names: Vec<String> = differing.iter().map(shown).collect();
            let close = similar(name, names.iter().map(String::as_str));
            let message = format!("`{}` of server `{server}` is as it was approved, or not there", visible(name));
            let hint = match close.first() {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("{} things differ", differing.len()),
            };
            return Err(Problem::new(Kind::NotFound, message).hint(hint));
        }
        if !items.contains(&item) {
            items.push(item);
        }
    }
    Ok(items)
}

/// `read`, `files/read`, `prompt:review`, `template:file:///{path}`, `instructions`. Exact, whatever a server names things.
fn item_of(server: &str, name: &str) -> Item {
    if name == Part::Instructions.as_str() {
        return Item::new(Part::Instructions, "");
    }
    for part in [Part::Prompt, Part::Template, Part::Tool] {
        if let Some(rest) = name.strip_prefix(part.as_str()).and_then(|rest| rest.strip_prefix(':')) {
            return Item::new(part, rest);
        }
    }
    let plain = name.strip_prefix(server).and_then(|rest| rest.strip_prefix('/'));
    Item::new(Part::Tool, plain.unwrap_or(name))
}

fn shown(item: &Item) -> String {
    match item.part {
        Part::Tool => item.name.clone(),
        Part::Instructions => item.part.as_str().to_owned(),
        part => format!("{}:{}", part.as_str(), item.name),
    }
}

fn change(judgement: Judgement, items: &[Item], offer: &Offer, difference: &Difference) -> PinChange {
    let mut change = PinChange::default();
    let words = |item: &Item| (item.part.as_str().to_owned(), item.name.clone());
    for item in items {
        let now = offer.get(item);
        match (judgement, now) {
            (Judgement::Approve, Some(definition)) => {
                change.approve.push(approval(item, definition));
                let renamed = difference.renamed.iter().find(|it| it.part == item.part && it.to == item.name);
                change.forget.extend(renamed.map(|it| (it.part.as_str().to_owned(), it.from.clone())));
            }
            (Judgement::Approve, None) => change.forget.push(words(item)),
            (Judgement::Reject, Some(definition)) => {
                let (part, name) = words(item);
                change.reject.push((part, name, Digest::of(definition).to_string()));
            }
            // What is gone cannot be turned down; it stays pinned as it was.
            (Judgement::Reject, None) => {}
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_say() {
        for (name, part, plain) in [
            ("read", Part::Tool, "read"),
            ("files/read", Part::Tool, "read"),
            ("filesread", Part::Tool, "filesread"),
            ("tool:prompt:x", Part::Tool, "prompt:x"),
            ("prompt:x", Part::Prompt, "x"),
            ("template:a:{b}", Part::Template, "a:{b}"),
            ("instructions", Part::Instructions, ""),
        ] {
            assert_eq!(item_of("files", name), Item::new(part, plain), "{name}");
        }
    }
}
