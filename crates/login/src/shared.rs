//! Values of which many credentials have the same: the provider, the client, the URLs. They are kept once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many different values are kept once; each takes about one server, or one more after it has changed. What is above
/// is kept as often as it comes.
const VALUES: usize = 1_024;

/// Values that are kept once.
pub(crate) struct Pool<T: ?Sized>(Mutex<Vec<Weak<T>>>);

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: ?Sized> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl<T: PartialEq + ?Sized> Pool<T> {
    /// The value that is equal to this one and was there before; otherwise this one from now on.
    pub(crate) fn share(&self, value: &mut Arc<T>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) = known.iter().filter_map(Weak::upgrade).find(|known| *known == *value) {
            *value = equal;
            return;
        }
        known.retain(|known| known.strong_count() > 0);
        if known.len() < VALUES {
            known.push(Arc::downgrade(value));
        }
    }
}

/// A shared value as it stands in JSON.
pub(crate) mod value {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        T::serialize(value, serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

/// A shared text as it stands in JSON.
pub(crate) mod text {
    use super::{Arc, Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_what_is_gone_makes_room() {
        let pool = Pool::default();
        let shared = |text: &str| {
            let mut text: Arc<str> = text.into();
            pool.share(&mut text);
            text
        };
        let first = shared("a");
        assert!(Arc::ptr_eq(&first, &shared("a")) && !Arc::ptr_eq(&first, &shared("b")));
        let all: Vec<Arc<str>> = (0..2 * VALUES).map(|number| shared(&number.to_string())).collect();
        assert!(Arc::ptr_eq(&first, &shared("a")));
        assert!(!Arc::ptr_eq(&all[2 * VALUES - 1], &shared(&all[2 * VALUES - 1])), "they are bounded");
        drop(all);
        let last = shared("last");
        assert!(Arc::ptr_eq(&last, &shared("last")));
    }
}
