//! Keys that open a profile: the key `keys`. The file holds their hashes only.
//!
//! A key is 256 random bits, so that one round of SHA-256 is enough: there is nothing to guess that a slow hash would
//! protect. Two keys may have one name: the old and the new one while clients change over.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest, Sha256};
use toolcrib_base::{CredentialName, PrincipalId, ProfileName, Role, Secret, Timestamp, own_secret};

use crate::period::Period;
use crate::reader::Cursor;

/// A day, in milliseconds.
const DAY: u64 = 24 * 60 * 60 * 1_000;
/// As long as the name of an issuer and the subject of a token get, with what is escaped in it.
const USER_MAX: usize = 1_024;
/// What a user looks like.
const USER_PATTERN: &str = "^user:[^/]+/.+$";

/// One key of a profile, by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayKey {
    /// Whose it is; its bearer is the principal `key:<profile>/<name>`.
    pub name: KeyName,
    pub hash: KeyHash,
    /// When it was made, for people.
    pub created: Option<String>,
    /// What its bearer may do in the profile; never `owner`.
    pub role: Role,
    /// From when on it opens nothing.
    pub expires: Option<Timestamp>,
    /// The principal whose key it is, who is counted as one with all keys that say so.
    pub user: Option<PrincipalId>,
}

/// The name of a key: a-z, 0-9 and `-`, at most 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(Box<str>);

/// The SHA-256 of a key. Anyone who knows it cannot make the key from it; it is still no one's to read in a log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

/// Why a text is not the hash of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `sha256:` and 64 digits of 0-9 and a-f")]
pub struct KeyHashError;

// === impl KeyName ===

impl KeyName {
    /// A name; `None` for a text that is none.
    pub fn new(text: &str) -> Option<Self> {
        // One rule for all names in files.
        ProfileName::new(text).ok().map(|name| Self(name.as_str().into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl KeyHash ===

impl KeyHash {
    /// The hash of a key.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// What the audit log calls the key.
    pub fn name(&self) -> CredentialName {
        CredentialName::of_hash(&self.0)
    }

    /// Compares in time that does not depend on where the hashes differ.
    fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |difference, (ours, theirs)| difference | (ours ^ theirs)) == 0
    }
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    fn from_str(text: &str) -> Result<Self, KeyHashError> {
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or(KeyHashError)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let digit = |byte: u8| match byte {
                b'0'..=b'9' => Ok(byte - b'0'),
                b'a'..=b'f' => Ok(byte - b'a' + 10),
                _ => Err(KeyHashError),
            };
            *byte = digit(pair[0])? * 16 + digit(pair[1])?;
        }
        Ok(Self(hash))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

// === impl GatewayKey ===

impl GatewayKey {
    /// A new key: the secret, which is kept nowhere, and what the profile's file holds of it.
    pub fn generate(name: KeyName, created: Option<String>) -> (Secret, Self) {
        let key = own_secret::make(own_secret::PROFILE_KEY);
        let hash = KeyHash::of(key.expose());
        (key, Self { name, hash, created, role: Role::Member, expires: None, user: None })
    }

    /// A new key in the place of this one: of the same name, role and user, that lasts as long as this one was made to
    /// last.
    pub fn successor(&self, now: Timestamp) -> (Secret, Self) {
        let made = self.created.as_deref().and_then(Timestamp::parse);
        let life = self.expires.zip(made).map(|(expires, made)| whole_days(expires.since(made)));
        let expires = life.map(|life| after(now, Duration::from_millis(life)));
        let (secret, key) = Self::generate(self.name.clone(), Some(day_of(now)));
        (secret, Self { role: self.role, expires, user: self.user.clone(), ..key })
    }

    /// Whether it still opens the profile at a moment.
    pub fn lasts(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

/// The day of a moment, as files say when a key was made.
pub fn day_of(moment: Timestamp) -> String {
    moment.to_string().chars().take(10).collect()
}

/// A period of days, or of what other settings have: how long a key lasts.
pub fn key_period(text: &str) -> Option<Duration> {
    match text.strip_suffix('d') {
        Some(days) => {
            let days: u32 = days.parse().ok().filter(|days| (1..=3_650).contains(days))?;
            Some(Duration::from_millis(DAY) * days)
        }
        None => text.parse::<Period>().ok().map(Period::duration),
    }
}

/// The moment that a date, a time or a period names, if it is still to come.
pub fn key_expiry(text: &str, now: Timestamp) -> Option<Timestamp> {
    let moment = match key_period(text) {
        Some(period) => after(now, period),
        None => Timestamp::parse(text).filter(|_| text.contains('-'))?,
    };
    (moment > now).then_some(moment)
}

/// The moment that is so much later.
pub fn after(now: Timestamp, period: Duration) -> Timestamp {
    Timestamp(now.0.saturating_add(i64::try_from(period.as_millis()).unwrap_or(i64::MAX)))
}

/// A life of a day or more in whole days, in milliseconds: a key's file says the day on which it was made, not the hour.
fn whole_days(life: u64) -> u64 {
    if life < DAY { life } else { life - life % DAY }
}

/// The key among `keys` that `presented` is. All are compared, whichever it is.
pub fn matching<'k>(keys: &'k [GatewayKey], presented: &str) -> Option<&'k GatewayKey> {
    let hash = KeyHash::of(presented);
    keys.iter().fold(None, |found, key| if key.hash.is(&hash) { Some(key) } else { found })
}

pub(super) fn read(cursor: &Cursor<'_>) -> Vec<GatewayKey> {
    let mut keys: Vec<GatewayKey> = Vec::new();
    for item in cursor.items() {
        let Some(key) = one(item.clone()) else { continue };
        if keys.iter().any(|other| other.hash == key.hash) {
            item.problem("expected each key once, got it again", Some("remove it, or make a new key".to_owned()));
        }
        if keys.iter().any(|other| other.name == key.name && other.user != key.user) {
            let hint = "who comes with either is one principal: write the same `user`, or give it another name";
            item.problem("expected the same `user` as the other key of this name", Some(hint.to_owned()));
        }
        keys.push(key);
    }
    keys
}

fn one(cursor: Cursor<'_>) -> Option<GatewayKey> {
    let fields = cursor.fields()?;
    let hint = "make a key with `toolcrib profile key add`";
    let name = fields.require("name", "the key's name", hint.to_owned()).and_then(|cursor| {
        let name = KeyName::new(cursor.text()?);
        if name.is_none() {
            cursor.expected("a name of at most 64 characters of a-z, 0-9 and `-`, the first not `-`");
        }
        name
    });
    // What stands there instead of a hash may be the key itself: it is never repeated.
    let hash = fields.require("hash", "the key's hash", hint.to_owned()).and_then(|cursor| {
        let parsed = cursor.text_or_nothing().map(str::parse::<KeyHash>);
        if !matches!(parsed, Some(Ok(_))) {
            let hint = "never write the key itself: `toolcrib profile key add` writes its hash";
            cursor.problem(KeyHashError.to_string(), Some(hint.to_owned()));
        }
        parsed?.ok()
    });
    let created = fields.get("created").and_then(|cursor| cursor.word("a date such as `2026-01-31`"));
    let role = fields.get("role").map_or(Some(Role::Member), |cursor| {
        let role = cursor.text()?.parse().ok().filter(|role| *role != Role::Owner);
        if role.is_none() {
            cursor.expected("`viewer`, `member`, `operator` or `admin`");
        }
        role
    });
    let expires = fields.get("expires").map_or(Some(None), |cursor| {
        // A number alone would be milliseconds, which no person writes.
        let expires = cursor.text()?;
        let expires = Timestamp::parse(expires).filter(|_| expires.contains('-'));
        if expires.is_none() {
            cursor.expected("a date or a time such as `2027-01-31` or `2027-01-31T12:00:00Z`");
        }
        expires.map(Some)
    });
    let user = fields.get("user").map_or(Some(None), |cursor| user(&cursor).map(Some));
    fields.finish();
    // A key that is not understood opens nothing.
    Some(GatewayKey { name: name?, hash: hash?, created, role: role?, expires: expires?, user: user? })
}

/// A person, as audit logs name one.
fn user(cursor: &Cursor<'_>) -> Option<PrincipalId> {
    cursor.fits(USER_PATTERN);
    let user = user_named(cursor.text()?);
    if user.is_none() {
        cursor.expected("a user such as `user:acme/ann`, without spaces");
    }
    user
}

/// The principal of a user, `user:<issuer>/<subject>`; `None` for a text that names none.
pub fn user_named(text: &str) -> Option<PrincipalId> {
    let (issuer, subject) = text.strip_prefix("user:")?.split_once('/')?;
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    let fits = !issuer.is_empty() && !subject.is_empty() && text.len() <= USER_MAX && text.chars().all(is_plain);
    fits.then(|| PrincipalId::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_a_key_does_not_grow_by_rotation() {
        let hour = 60 * 60 * 1_000;
        for (life, expected) in [(5 * hour, 5 * hour), (24 * hour, DAY), ((30 * 24 + 7) * hour, DAY * 30)] {
            assert_eq!(whole_days(life), expected);
        }
        let now = Timestamp::parse("2027-03-01T07:00:00Z").unwrap();
        let made = GatewayKey::generate(KeyName::new("ci").unwrap(), Some("2027-01-01".to_owned())).1;
        let old = GatewayKey { role: Role::Viewer, expires: Timestamp::parse("2027-01-31T09:00:00Z"), ..made };
        let (_, new) = old.successor(now);
        assert_eq!(
            (new.role, new.expires, new.created),
            (Role::Viewer, Timestamp::parse("2027-03-31T07:00:00Z"), Some("2027-03-01".into()))
        );
        assert_ne!(new.hash, old.hash);
    }

    #[test]
    fn the_end_of_a_key_is_a_moment_to_come() {
        let now = Timestamp::parse("2027-03-01T07:00:00Z").unwrap();
        for (text, expected) in [
            ("90d", Timestamp::parse("2027-05-30T07:00:00Z")),
            ("2h", Timestamp::parse("2027-03-01T09:00:00Z")),
            ("2027-04-01", Timestamp::parse("2027-04-01")),
            ("2027-02-28", None),
            ("0d", None),
            ("99999999999999999999d", None),
            ("soon", None),
        ] {
            assert_eq!(key_expiry(text, now), expected, "{text}");
        }
    }
}
