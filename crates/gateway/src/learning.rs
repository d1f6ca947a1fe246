//! Learning from use: which tools are called after which searches, for profiles with `learn: true`. What is learned and
//! how it counts is in `toolcrib_search::UsageStats`; here is who asked what lately, and what `state/` keeps.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use toolcrib_base::{Clock, PrincipalId, ProfileName, Timestamp, ToolId};
use toolcrib_call::{CallGuard, GuardedCall};
use toolcrib_catalog::ProfileDefinition;
use toolcrib_search::{UsageStats, Use};
use toolcrib_session::Caller;
use toolcrib_store::{Facts, StoreError};

/// How long after a search a call belongs to it, in milliseconds.
const WITHIN: u64 = 10 * 60 * 1_000;
/// How many searches of one principal in one profile are remembered, and how many hits of each.
const SEARCHES: usize = 8;
const HITS: usize = 32;
/// Of how many principals and profiles searches are remembered.
const ASKING: usize = 1_000;
const DAY: i64 = 24 * 60 * 60 * 1_000;

type Key = (PrincipalId, ProfileName);

/// What all profiles learned.
#[derive(Debug)]
pub(crate) struct UsageLearner {
    profiles: Mutex<HashMap<ProfileName, ProfileUsage>>,
    /// Never kept: the words of searches that a call may follow.
    recent: Mutex<HashMap<Key, VecDeque<RecentSearch>>>,
    is_ahead: AtomicBool,
    clock: Arc<dyn Clock>,
    facts: Facts,
    /// Held while `state/` is written, so that what was reset does not come back.
    writing: Mutex<()>,
}

/// What one profile learned.
#[derive(Debug, Default)]
struct ProfileUsage {
    learned: UsageStats,
    /// The tools of which `state/` knows something else.
    ahead: BTreeSet<ToolId>,
}

/// A search that a call may follow.
#[derive(Debug)]
struct RecentSearch {
    words: Vec<String>,
    /// What was found and not called since.
    found: Vec<ToolId>,
    at: Timestamp,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Under which scope of facts a profile's tools stand.
fn scope(profile: &ProfileName) -> String {
    format!("learned/{profile}")
}

// === impl UsageLearner ===

impl UsageLearner {
    pub(crate) fn new(facts: Facts, clock: Arc<dyn Clock>) -> Self {
        Self {
            profiles: Mutex::default(),
            recent: Mutex::default(),
            is_ahead: AtomicBool::new(false),
            clock,
            facts,
            writing: Mutex::default(),
        }
    }

    /// Reads what profiles that learn have learned before. Blocks.
    pub(crate) fn open<'a>(&self, profiles: impl Iterator<Item = &'a ProfileDefinition>) {
        for profile in profiles.filter(|profile| profile.learn) {
            let name = &profile.name;
            if lock(&self.profiles).contains_key(name) {
                continue;
            }
            let learned = self.read(name).unwrap_or_else(|error| {
                tracing::warn!(profile = %name, %error, "cannot read the learned ranking");
                UsageStats::default()
            });
            lock(&self.profiles).entry(name.clone()).or_insert(ProfileUsage { learned, ahead: BTreeSet::new() });
        }
    }

    /// What was learned of a query's words.
    pub(crate) fn boosts(&self, profile: &ProfileName, words: &[String]) -> Vec<(ToolId, f32)> {
        let today = self.today();
        lock(&self.profiles).get(profile).map(|kept| kept.learned.boosts(words, today)).unwrap_or_default()
    }

    /// Remembers for a while what a caller has found.
    pub(crate) fn found<'a>(&self, caller: &Caller, words: Vec<String>, found: impl Iterator<Item = &'a ToolId>) {
        let found: Vec<ToolId> = found.take(HITS).cloned().collect();
        if words.is_empty() || found.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut recent = lock(&self.recent);
        let key = (caller.principal.id.clone(), caller.profile.clone());
        if recent.len() >= ASKING && !recent.contains_key(&key) {
            recent.retain(|_, searches| searches.iter().any(|search| now.since(search.at) <= WITHIN));
            if recent.len() >= ASKING {
                return;
            }
        }
        let searches = recent.entry(key).or_default();
        searches.truncate(SEARCHES - 1);
        searches.push_front(RecentSearch { words, found, at: now });
    }

    /// Learns that a caller has called a tool well, if it has found it lately. Once for each search.
    pub(crate) fn called(&self, caller: &Caller, tool: &ToolId) {
        let now = self.clock.now();
        let words = {
            let mut recent = lock(&self.recent);
            let Some(searches) = recent.get_mut(&(caller.principal.id.clone(), caller.profile.clone())) else { return };
            searches.retain(|search| now.since(search.at) <= WITHIN);
            let Some(search) = searches.iter_mut().find(|search| search.found.contains(tool)) else { return };
            search.found.retain(|found| found != tool);
            search.words.clone()
        };
        let mut profiles = lock(&self.profiles);
        let Some(kept) = profiles.get_mut(&caller.profile) else { return };
        let gone = kept.learned.note(&words, tool, day(now));
        kept.ahead.extend(gone.into_iter().chain([tool.clone()]));
        self.is_ahead.store(true, Ordering::Release);
    }

    /// What a profile has learned, as of today: tool, word, what it is worth now, day of the last call. Sorted by tool
    /// and word.
    pub(crate) fn rows(&self, profile: &ProfileName) -> Vec<(ToolId, String, f32, Use)> {
        let today = self.today();
        let profiles = lock(&self.profiles);
        let rows = profiles.get(profile).into_iter().flat_map(|kept| kept.learned.rows());
        rows.map(|(tool, word, used)| (tool.clone(), word.to_owned(), used.now(today), used)).collect()
    }

    /// Forgets what a profile has learned, also what is only in `state/`; gives of how many tools. Blocks.
    pub(crate) fn reset(&self, profile: &ProfileName) -> Result<usize, StoreError> {
        let _one_at_a_time = lock(&self.writing);
        let mut tools: BTreeSet<String> = self.facts.all(&scope(profile))?.into_iter().map(|(tool, _)| tool).collect();
        for tool in &tools {
            self.facts.remove(&scope(profile), tool)?;
        }
        lock(&self.recent).retain(|key, _| key.1 != *profile);
        if let Some(kept) = lock(&self.profiles).get_mut(profile) {
            tools.extend(kept.learned.rows().map(|(tool, ..)| tool.to_string()));
            *kept = ProfileUsage::default();
        }
        Ok(tools.len())
    }

    /// Writes what has changed. Blocks. What could not be written is tried again the next time.
    /// Whether something was learned since the last write.
    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead.load(Ordering::Acquire)
    }

    pub(crate) fn write(&self) {
        let _one_at_a_time = lock(&self.writing);
        self.is_ahead.store(false, Ordering::Release);
        let mut ahead = Vec::new();
        for (profile, kept) in lock(&self.profiles).iter_mut() {
            for tool in std::mem::take(&mut kept.ahead) {
                let words = kept.learned.of_tool(&tool).map(|(word, used)| (word, json!([used.count, used.day])));
                let words: BTreeMap<&str, Value> = words.collect();
                let value = (!words.is_empty()).then(|| json!(words).to_string());
                ahead.push((profile.clone(), tool, value));
            }
        }
        for (profile, tool, value) in ahead {
            let (scope, key) = (scope(&profile), tool.to_string());
            let written = match &value {
                Some(value) => self.facts.put(&scope, &key, value),
                None => self.facts.remove(&scope, &key).map(|_| ()),
            };
            // What is too large is not tried again, or it would be logged for ever.
            let Err(error) = written else { continue };
            tracing::warn!(%profile, %error, "failed to save the learned ranking");
            let is_too_large = matches!(error, StoreError::TooLarge { .. });
            if let Some(kept) = lock(&self.profiles).get_mut(&profile).filter(|_| !is_too_large) {
                kept.ahead.insert(tool);
                self.is_ahead.store(true, Ordering::Release);
            }
        }
    }

    fn read(&self, profile: &ProfileName) -> Result<UsageStats, StoreError> {
        let mut learned = UsageStats::default();
        for (tool, fact) in self.facts.all(&scope(profile))? {
            let words: BTreeMap<String, (f32, i64)> = serde_json::from_str(&fact.value).unwrap_or_default();
            let Some(tool) = ToolId::parse(&tool) else { continue };
            words.iter().for_each(|(word, (count, day))| {
                learned.restore(&tool, word, Use { count: *count, day: *day });
            });
        }
        Ok(learned)
    }

    fn today(&self) -> i64 {
        day(self.clock.now())
    }
}

// === impl CallGuard ===

impl CallGuard for UsageLearner {
    fn after(&self, call: &GuardedCall<'_>) {
        if call.view.profile.learn {
            self.called(call.caller, &call.tool.id);
        }
    }
}

fn day(at: Timestamp) -> i64 {
    at.0.div_euclid(DAY)
}
