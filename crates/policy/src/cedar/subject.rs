//! Who asks, as policies see it.

use std::collections::HashSet;

use cedar_policy::{Entity, EntityUid, RestrictedExpression};
use toolcrib_base::{Identity, PrincipalId, ProfileName, Role};

use super::schema::entity;
use super::scope::EntityPlace;

/// Who asks, in which profile, and by which door.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The principal.
    pub principal: &'a PrincipalId,
    /// What it may do in the profile.
    pub role: Role,
    /// What else was proven about it.
    pub identity: &'a Identity,
    /// The profile that it uses.
    pub profile: &'a ProfileName,
    /// The door that it came in by: `mcp`, `rest`, `cli` …
    pub door: &'a str,
}

/// What all principals of one class have in common. Principals whom no policy tells apart are of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClassKey {
    /// The type, with the id where a policy names it.
    pub(super) principal: EntityUid,
    /// What it is in, of what policies name, sorted.
    pub(super) parents: Vec<EntityUid>,
    /// What of the request policies look at.
    pub(super) door: Option<String>,
    pub(super) proof: Option<&'static str>,
    pub(super) client: Option<String>,
}

/// Which names policies use and what they look at, of those who ask.
#[derive(Debug, Clone, Default)]
pub(super) struct SubjectWords {
    /// Principals, groups, clients … that some policy names.
    pub(super) named: HashSet<EntityUid>,
    /// Whether some policy looks at who asks as itself.
    pub(super) itself: bool,
    pub(super) door: bool,
    pub(super) proof: bool,
    pub(super) client: bool,
}

// === impl Subject ===

impl Subject<'_> {
    pub(super) fn class(&self, words: &SubjectWords) -> ClassKey {
        let (of_type, id) = typed(self.principal);
        let whole = entity(of_type, id);
        let counts = words.itself || words.named.contains(&whole);
        let mut parents: Vec<EntityUid> = self.parents().into_iter().filter(|it| words.named.contains(it)).collect();
        parents.sort_unstable_by_key(ToString::to_string);
        ClassKey {
            principal: if counts { whole } else { entity(of_type, "") },
            parents,
            door: words.door.then(|| self.door.to_owned()),
            proof: words.proof.then(|| self.identity.proof.as_str()),
            client: words.client.then(|| self.identity.client.as_deref().map(str::to_owned)).flatten(),
        }
    }

    /// Everything that it is in.
    fn parents(&self) -> Vec<EntityUid> {
        let identity = self.identity;
        let of_issuer = |of_type: &'static str, name: &str| match &identity.issuer {
            Some(issuer) => entity(of_type, &format!("{issuer}/{name}")),
            None => entity(of_type, name),
        };
        let roles = Role::ALL.iter().filter(|role| **role <= self.role).map(|role| entity("Role", role.as_str()));
        let groups = identity.groups.iter().map(|group| of_issuer("Group", group));
        let tenant = identity.tenant.iter().map(|tenant| of_issuer("Tenant", tenant));
        let client = identity.client.iter().map(|client| of_issuer("Client", client));
        let profile = [entity("Profile", self.profile.as_str())];
        roles.chain(groups).chain(tenant).chain(client).chain(profile).collect()
    }
}

// === impl ClassKey ===

impl ClassKey {
    pub(super) fn placed(&self) -> EntityPlace {
        EntityPlace { uid: self.principal.clone(), parents: self.parents.iter().cloned().collect() }
    }

    pub(super) fn entity(&self) -> Entity {
        Entity::new_no_attrs(self.principal.clone(), self.parents.iter().cloned().collect())
    }

    /// What the class settles of the context. Cedar refuses what is not there, so what no policy reads is left out.
    pub(super) fn context(&self) -> Vec<(String, RestrictedExpression)> {
        let text = |name: &str, value: &str| (name.to_owned(), RestrictedExpression::new_string(value.to_owned()));
        let door = self.door.iter().map(|door| text("door", door));
        let proof = self.proof.iter().map(|proof| text("proof", proof));
        let client = self.client.iter().map(|client| text("client", client));
        door.chain(proof).chain(client).collect()
    }
}

/// The type and the id of a principal: `user:acme/ann` is `User::"acme/ann"`.
pub(super) fn typed(principal: &PrincipalId) -> (&'static str, &str) {
    let types = [("user:", "User"), ("service:", "Service"), ("key:", "Key"), ("cert:", "Certificate")];
    let text = principal.as_str();
    types.iter().find_map(|(prefix, of_type)| Some((*of_type, text.strip_prefix(prefix)?))).unwrap_or(("Local", text))
}
