//! The policies in force: compiled when their files change, and kept while the files are wrong.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, Kind, PrincipalId};
use toolcrib_call::PolicySet;
use toolcrib_catalog::{Catalog, DefinitionProblem, POLICIES, PolicyFile, Position, keep_policies, kept_policies};
use toolcrib_policy::{BASELINE_FILE, Fault, LabelTable, Policies, PolicyText, names_risk};
use toolcrib_store::{AuditEvent, AuditLog, Decision, Door, Outcome};

/// The door of what is done by files in the home folder.
const DOOR: Door = Door::new("files");
/// The principal of what the gateway does by itself.
const OWN: &str = "gateway";

/// What counts while there never was a good set of files.
const CLOSED: &str = r#"@id("closed") permit (principal in Role::"admin", action, resource);"#;

/// Names that policies use and only settings know.
#[derive(Debug, Clone, Default)]
pub struct IssuerNames {
    /// The names of the issuers whose tokens count.
    pub issuers: BTreeSet<String>,
    /// The groups that something is granted to, as `issuer/group`.
    pub groups: BTreeSet<String>,
}

/// The policies in force.
#[derive(Debug)]
pub(crate) struct PoliciesInForce {
    home: PathBuf,
    /// The names of all operations, which are actions.
    operations: Vec<String>,
    issuers: Option<IssuerNames>,
    state: Mutex<State>,
    log: AuditLog,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    /// What was read last, whether it was good or not, and whether something had a risk class then.
    read: Option<(Arc<[PolicyFile]>, bool)>,
    policies: Option<Policies>,
    faults: Vec<Fault>,
}

// === impl PoliciesInForce ===

impl PoliciesInForce {
    pub(crate) fn new(home: PathBuf, operations: Vec<String>, log: AuditLog, clock: Arc<dyn Clock>) -> Self {
        Self { home, operations, issuers: None, state: Mutex::default(), log, clock }
    }

    pub(crate) fn with_issuers(self, issuers: Option<IssuerNames>) -> Self {
        Self { issuers, ..self }
    }

    /// What settings name; `None` where that is not known.
    pub(crate) fn issuers(&self) -> Option<&IssuerNames> {
        self.issuers.as_ref()
    }

    /// The names of all operations, which are actions.
    pub(crate) fn operations(&self) -> &[String] {
        &self.operations
    }

    /// Takes the files as they are now, and gives what is wrong with them. Without files, what is shipped decides as soon
    /// as some definition names a risk class. Blocks: it compiles, reads and writes the state.
    pub(crate) fn take(&self, loaded: &Catalog) -> Vec<DefinitionProblem> {
        let mut state = self.lock();
        let read = (Arc::clone(&loaded.policies), has_risks(loaded));
        let before = state.read.as_ref().map(|(files, _)| Arc::clone(files));
        if state.read.as_ref() != Some(&read) {
            self.compile(&mut state, &read.0, read.1);
            // A home without policies that had none before is no news, and neither is another risk class.
            let is_news = before.as_ref().map_or(!read.0.is_empty(), |before| *before != read.0);
            if is_news {
                self.record(&read.0, state.faults.is_empty());
            }
            state.read = Some(read);
        }
        state.faults.iter().map(problem).collect()
    }

    /// What policies decide by. `None` where there are none: then profiles and roles decide alone.
    pub(crate) fn set(&self, loaded: &Catalog) -> Option<PolicySet> {
        let policies = self.policies()?;
        Some(PolicySet { policies, labels: Arc::new(labels(loaded)) })
    }

    /// Puts on record that files came into force, or did not, by their revision. Who changed them is not known here.
    fn record(&self, files: &[PolicyFile], are_good: bool) {
        let (principal, target) = (PrincipalId::new(OWN), format!("policies/{}", revision(files)));
        let event = AuditEvent::new(self.clock.now(), principal, DOOR, Cow::Borrowed("policies/load"), target.into());
        self.log.record_now(match are_good {
            true => AuditEvent { decision: Decision::Permit(Cow::Borrowed("in-force")), ..event },
            false => AuditEvent {
                decision: Decision::Deny(Cow::Borrowed("bad-policies")),
                outcome: Outcome::Error(Kind::Definition),
                ..event
            },
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with the files.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        self.lock().faults.clone()
    }

    /// The policies in force.
    pub(crate) fn policies(&self) -> Option<Policies> {
        self.lock().policies.clone()
    }

    fn compile(&self, state: &mut State, files: &[PolicyFile], has_risks: bool) {
        if files.is_empty() && !has_risks {
            (state.policies, state.faults) = (None, Vec::new());
            self.keep(files);
            return;
        }
        match compiled(files, &self.operations) {
            Ok(policies) => {
                tracing::info!(policies = policies.rules().count(), "policies are in force");
                (state.policies, state.faults) = (Some(policies), Vec::new());
                self.keep(files);
            }
            Err(faults) => {
                state.faults = faults;
                // Files that were good when this process read them, else those that an earlier one kept.
                let kept = state.policies.take().or_else(|| self.kept());
                match &kept {
                    Some(_) => tracing::warn!("policies are bad; those before stay in force"),
                    None => tracing::warn!("policies are bad, and there are no earlier ones: only administrators act"),
                }
                state.policies = Some(kept.unwrap_or_else(|| self.closed()));
            }
        }
    }

    /// Without files there are no policies, also after a restart.
    fn keep(&self, files: &[PolicyFile]) {
        if let Err(error) = keep_policies(&self.home, files) {
            tracing::warn!(%error, "failed to keep the policies in the state folder, where a restart with bad files finds them");
        }
    }

    fn kept(&self) -> Option<Policies> {
        compiled(&kept_policies(&self.home)?, &self.operations).ok()
    }

    fn closed(&self) -> Policies {
        let closed = PolicyText { file: BASELINE_FILE.to_owned(), text: CLOSED.to_owned() };
        Policies::compile(&[closed], &self.operations).expect("it is written in this file")
    }
}

/// Which files these are, in 16 digits: the beginning of a digest of their names and texts.
pub(crate) fn revision(files: &[PolicyFile]) -> String {
    let mut digest = Sha256::new();
    for file in files {
        let text = file.text.as_deref().unwrap_or_default();
        for part in [file.name.as_str(), text] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The labels of servers, of their tools and of workflows.
pub(crate) fn labels(loaded: &Catalog) -> LabelTable {
    let mut table = LabelTable::new();
    for (name, definition) in &loaded.servers {
        let of_tools = definition.tool_labels.iter().map(|it| (it.pattern.clone(), it.labels.clone())).collect();
        table = table.server(name, &definition.labels, of_tools);
    }
    for (name, definition) in &loaded.workflows {
        table = table.workflow(name.as_str(), &definition.labels);
    }
    table
}

/// Whether some definition names a risk class.
fn has_risks(loaded: &Catalog) -> bool {
    let of_servers = loaded.servers.values();
    of_servers.clone().any(|it| names_risk(&it.labels) || it.tool_labels.iter().any(|it| names_risk(&it.labels)))
        || loaded.workflows.values().any(|it| names_risk(&it.labels))
}

/// Compiles files.
pub(crate) fn compiled(files: &[PolicyFile], operations: &[String]) -> Result<Policies, Vec<Fault>> {
    let unreadable = |file: &PolicyFile| {
        let message = file.text.as_ref().err()?.clone();
        Some(Fault { file: file.name.clone(), line: None, message, hint: None })
    };
    let unreadable: Vec<Fault> = files.iter().filter_map(unreadable).collect();
    if !unreadable.is_empty() {
        return Err(unreadable);
    }
    let text = |file: &PolicyFile| Some(PolicyText { file: file.name.clone(), text: file.text.as_ref().ok()?.clone() });
    Policies::compile(&files.iter().filter_map(text).collect::<Vec<_>>(), operations)
}

fn problem(fault: &Fault) -> DefinitionProblem {
    let line = fault.line.and_then(|line| u32::try_from(line).ok());
    DefinitionProblem {
        file: Path::new(POLICIES).join(&fault.file),
        at: line.map(|line| Position { line, column: 1 }),
        field: String::new(),
        message: fault.message.clone(),
        hint: fault.hint.clone(),
    }
}
