//! One build of all views: what everyone sees, and what of it each principal sees that has credentials of its own at
//! servers. Views of principals are made when they are asked for, and shared by all who see the same.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use toolcrib_base::{Identity, PrincipalId, ProfileName, Proof, Role, ServerName};
use toolcrib_catalog::{ChangedTools, ProfileDefinition};
use toolcrib_policy::{Class, ClassRules, HeldItems, LabelTable, Policies, Subject};
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_upstream::{OwnPart, Sight, State};
use toolcrib_view::view::{Builder, View, VisibilityRules};
use toolcrib_view::{ServerEntry, ServerTable};

use crate::client::name_at_servers;

/// How many different views of principals are kept beside those of everyone; one that was not used for longest is made
/// again when it is asked for.
const VARIANTS: usize = 128;
/// How many principals are remembered with the view of each; beyond that all are looked up again.
const SEEN: usize = 32_768;
/// How long what a principal sees is taken as it is: then its servers are asked whether it is time to list them again.
const LOOK: Duration = Duration::from_secs(10);

/// How often servers may change under someone who looks before only what everyone sees is shown.
const LOOKS: usize = 4;

/// The views of all profiles.
pub type Views = BTreeMap<ProfileName, Arc<View>>;

/// What is held of servers as they look to someone.
pub type HeldBy = Arc<dyn Fn(&ServerTable) -> Arc<HeldItems> + Send + Sync>;

/// What views of principals are made of: all that the views of everyone were made of.
pub struct ViewMaker {
    /// With the index of this build.
    pub builder: Builder,
    /// The servers that views show.
    pub servers: Arc<ServerTable>,
    /// The profiles as their files say.
    pub profiles: BTreeMap<ProfileName, Arc<ProfileDefinition>>,
    /// What profiles hold back.
    pub held: HeldBy,
    /// What decides beside profiles and roles.
    pub policies: Option<PolicySet>,
}

/// The policies of a build.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// The policies.
    pub policies: Policies,
    /// The labels of servers.
    pub labels: Arc<LabelTable>,
}

/// What sets a view apart from that of the owner: how each server looks that looks different.
type Sights = Vec<(ServerName, OwnPart)>;

/// What a view of principals is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct VariantKey {
    profile: ProfileName,
    sights: Sights,
    class: Option<ClassIdentity>,
}

/// A class is equal to itself alone: there is one of each kind of principal in a set of policies.
#[derive(Debug, Clone)]
struct ClassIdentity(Arc<Class>);

impl PartialEq for ClassIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClassIdentity {}

impl Hash for ClassIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A view of principals, and when someone looked at it last.
#[derive(Debug)]
struct Variant {
    view: Arc<View>,
    used: Instant,
}

/// The views of one build.
pub struct Build {
    /// What the owner of this installation sees.
    main: Views,
    /// What everyone sees who has no credential anywhere.
    public: Views,
    maker: Option<ViewMaker>,
    seen: RwLock<HashMap<ProfileName, SeenViews>>,
    variants: Mutex<HashMap<VariantKey, Variant>>,
    /// Changes when what some principal sees does.
    stamp: Arc<AtomicU64>,
}

/// What principals saw last, each by each door.
type SeenViews = HashMap<(PrincipalId, Door), SeenView>;

/// What a principal saw last.
#[derive(Debug)]
struct SeenView {
    view: Weak<View>,
    /// What its class of policies was found by.
    role: Role,
    identity: Arc<Identity>,
    stamp: u64,
    at: Instant,
}

impl fmt::Debug for ViewMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewMaker").finish_non_exhaustive()
    }
}

impl fmt::Debug for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Build").field("main", &self.main).finish_non_exhaustive()
    }
}

impl ViewMaker {
    /// The views of everyone where servers show something to their owner alone.
    fn public(&self, main: &Views) -> Views {
        let hidden = |view: &View| -> Sights {
            let personal = view.servers.iter().filter(|(_, server)| server.is_personal());
            personal.map(|(it, _)| (it.name.clone(), OwnPart::nothing(State::NeedsLogin))).collect()
        };
        let of = |(name, view): (&ProfileName, &Arc<View>)| {
            let mut sights = hidden(view);
            let class = self.class_of_unknown(name);
            loop {
                let same = || Arc::clone(view);
                let is_same = sights.is_empty() && class.is_none();
                let public =
                    if is_same { same() } else { self.make(name, &sights, class.as_ref()).unwrap_or_else(same) };
                // A server may have shown something to its owner for the first time while the view was made of it. What
                // is one's own never becomes everyone's again, so that this ends.
                let now = hidden(view);
                if now.len() <= sights.len() {
                    return (name.clone(), public);
                }
                sights = now;
            }
        };
        main.iter().map(of).collect()
    }

    /// A view of a profile in which servers look like this; `None` where there is no such profile.
    fn make(&self, profile: &ProfileName, sights: &Sights, class: Option<&ClassIdentity>) -> Option<Arc<View>> {
        let profile = self.profiles.get(profile)?;
        let mut servers = ServerTable::clone(&self.servers);
        for (name, part) in sights {
            if let Some(entry) = servers.get_mut(name) {
                let server = entry.server.as_seen(&Sight::Own(part.clone()));
                *entry = ServerEntry { definition: Arc::clone(&entry.definition), server };
            }
        }
        let mut builder = self.builder.clone();
        builder.index_servers(&servers);
        let holds = profile.changed_tools == ChangedTools::Hold;
        let held = if holds { (self.held)(&servers) } else { Arc::default() };
        let class_rules = |ClassIdentity(class): &ClassIdentity| {
            let labels = self.policies.as_ref().map(|it| Arc::clone(&it.labels)).unwrap_or_default();
            ClassRules { class: Arc::clone(class), labels }
        };
        let rules = VisibilityRules { held, policies: class.map(class_rules) };
        Some(Arc::new(builder.view(profile, &servers, &rules)))
    }

    /// The class of a principal, where policies decide.
    fn class(&self, profile: &ProfileName, principal: &Principal, door: Door) -> Option<ClassIdentity> {
        let policies = &self.policies.as_ref()?.policies;
        let Principal { id, role, identity } = principal;
        let subject = Subject { principal: id, role: *role, identity, profile, door: door.as_str() };
        Some(ClassIdentity(policies.class(&subject)))
    }

    /// The class of someone of whom nothing is known, and who may do least.
    fn class_of_unknown(&self, profile: &ProfileName) -> Option<ClassIdentity> {
        let unknown = Principal::new(PrincipalId::new(""), Role::Viewer, Identity::by(Proof::Nothing));
        self.class(profile, &unknown, Door::MCP)
    }
}

// === impl Build ===

impl Build {
    /// The first, of nothing.
    pub(crate) fn empty() -> Self {
        Self::new(Views::new(), None, Arc::default())
    }

    /// `maker` is there where servers may look different to principals. Blocks: it makes the views of everyone.
    pub(crate) fn new(main: Views, maker: Option<ViewMaker>, stamp: Arc<AtomicU64>) -> Self {
        let public = maker.as_ref().map_or_else(|| main.clone(), |maker| maker.public(&main));
        Self { main, public, maker, seen: RwLock::default(), variants: Mutex::default(), stamp }
    }

    /// What the owner of this installation sees.
    pub fn main(&self) -> &Views {
        &self.main
    }

    /// What everyone sees of a profile.
    pub(crate) fn public(&self, profile: &str) -> Option<&Arc<View>> {
        self.public.get(profile)
    }

    /// What a principal sees of a profile by a door. Blocks for a moment where no one has seen the same before.
    pub fn seen_by(&self, profile: &ProfileName, principal: &Principal, door: Door) -> Option<Arc<View>> {
        let is_owner = name_at_servers(&principal.id).is_none();
        let Some(maker) = self.maker.as_ref().filter(|maker| !is_owner || maker.policies.is_some()) else {
            return if is_owner { self.main.get(profile).cloned() } else { self.public.get(profile).cloned() };
        };
        // Before the look at the servers, so that a change after it is not missed.
        let stamp = self.stamp.load(Ordering::Acquire);
        let key = (principal.id.clone(), door);
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let known = seen.get(profile).and_then(|of_profile| of_profile.get(&key));
        let is_good = |it: &&SeenView| it.stamp == stamp && it.at.elapsed() < LOOK && it.is_of(principal);
        if let Some(view) = known.filter(is_good).and_then(|it| it.view.upgrade()) {
            return Some(view);
        }
        drop(seen);
        let view = self.look(maker, profile, principal, door)?;
        let (role, identity) = (principal.role, Arc::clone(&principal.identity));
        let now = SeenView { view: Arc::downgrade(&view), role, identity, stamp, at: Instant::now() };
        self.note(profile, principal, door, now);
        Some(view)
    }

    /// What a principal saw last, whether that is so by now or not; what everyone sees if it saw nothing.
    pub fn last_seen_by(&self, profile: &ProfileName, principal: &PrincipalId) -> Option<Arc<View>> {
        let has_policies = self.maker.as_ref().is_some_and(|maker| maker.policies.is_some());
        if name_at_servers(principal).is_none() && !has_policies {
            return self.main.get(profile).cloned();
        }
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let known = seen.get(profile).and_then(|of_profile| of_profile.get(&(principal.clone(), Door::MCP)));
        known.and_then(|it| it.view.upgrade()).or_else(|| self.public.get(profile).cloned())
    }

    /// What a principal sees now, whatever it has been shown or notified of.
    pub(crate) fn seen_now_by(&self, profile: &ProfileName, principal: &Principal, door: Door) -> Option<Arc<View>> {
        match &self.maker {
            Some(maker) if name_at_servers(&principal.id).is_some() => self.look(maker, profile, principal, door),
            _ => self.seen_by(profile, principal, door),
        }
    }

    fn note(&self, profile: &ProfileName, principal: &Principal, door: Door, now: SeenView) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.values().map(HashMap::len).sum::<usize>() >= SEEN {
            seen.clear();
        }
        seen.entry(profile.clone()).or_default().insert((principal.id.clone(), door), now);
    }

    fn look(&self, maker: &ViewMaker, profile: &ProfileName, principal: &Principal, door: Door) -> Option<Arc<View>> {
        let (main, public) = (self.main.get(profile)?, self.public.get(profile)?);
        let class = maker.class(profile, principal, door);
        let mut sights = sights_of(main, &principal.id);
        for _ in 0..LOOKS {
            let key = || VariantKey { profile: profile.clone(), sights: sights.clone(), class: class.clone() };
            let view = match &sights[..] {
                _ if class.is_some() => self.variant(maker, key())?,
                [] => Arc::clone(main),
                sights if shows_just_public(public, sights) => Arc::clone(public),
                _ => self.variant(maker, key())?,
            };
            // As for everyone: a server may have become its owner's alone while the view was made.
            let now = sights_of(main, &principal.id);
            if now.iter().map(|(name, _)| name).eq(sights.iter().map(|(name, _)| name)) {
                return Some(view);
            }
            sights = now;
        }
        Some(Arc::clone(public))
    }

    /// The view of all who see servers like this.
    fn variant(&self, maker: &ViewMaker, key: VariantKey) -> Option<Arc<View>> {
        // Held while one is made: whoever wants the same waits for it.
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = variants.get_mut(&key) {
            known.used = Instant::now();
            return Some(Arc::clone(&known.view));
        }
        let view = maker.make(&key.profile, &key.sights, key.class.as_ref())?;
        if variants.len() >= VARIANTS {
            let oldest = variants.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| variants.remove(&oldest));
        }
        variants.insert(key, Variant { view: Arc::clone(&view), used: Instant::now() });
        Some(view)
    }

    /// How many different views of principals there are.
    pub fn variants(&self) -> usize {
        self.variants.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

// === impl SeenView ===

impl SeenView {
    /// Whether the principal is still what it was then.
    fn is_of(&self, principal: &Principal) -> bool {
        let identity = &principal.identity;
        self.role == principal.role && (Arc::ptr_eq(&self.identity, identity) || self.identity.is_like(identity))
    }
}

/// How the servers of a profile look to a principal, those that do not look as they do to their owner.
fn sights_of(main: &View, principal: &PrincipalId) -> Sights {
    let seen = main.servers.iter().map(|(it, server)| (&it.name, server.seen_by(name_at_servers(principal))));
    let own = seen.filter_map(|(name, sight)| match sight {
        Sight::Main => None,
        Sight::Own(part) => Some((name.clone(), part)),
    });
    own.collect()
}

/// Whether servers look to someone as they do to everyone.
fn shows_just_public(public: &View, sights: &[(ServerName, OwnPart)]) -> bool {
    let nothing = OwnPart::nothing(State::NeedsLogin);
    let hidden = public.servers.iter().filter(|(_, server)| server.is_part()).map(|(it, _)| &it.name);
    hidden.eq(sights.iter().filter(|(_, part)| *part == nothing).map(|(name, _)| name))
        && sights.iter().all(|(_, part)| *part == nothing)
}
