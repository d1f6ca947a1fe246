//! Changes of a text as pieces that go out and come in at places, so that everything else stays byte for byte, and so
//! that they can be taken back.

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// Where, in bytes of the text as it was before any of the changes.
    pub at: usize,
    /// What goes out there.
    pub out: String,
    /// What comes in instead.
    pub into: String,
}

/// Changes in the order of their places, which do not overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Splices(Vec<Splice>);

// === impl Splices ===

impl Splices {
    /// From changes in any order; those at one place stay in the order that they were given in.
    pub fn new(mut splices: Vec<Splice>) -> Self {
        splices.retain(|splice| splice.out != splice.into);
        splices.sort_by_key(|splice| splice.at);
        Self(splices)
    }

    pub(crate) fn insertion(at: usize, text: impl Into<String>) -> Splice {
        Splice { at, out: String::new(), into: text.into() }
    }

    pub(crate) fn removal(text: &str, range: std::ops::Range<usize>) -> Splice {
        Splice { at: range.start, out: text[range].to_owned(), into: String::new() }
    }

    pub fn as_slice(&self) -> &[Splice] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changed text; `None` when the text is not the one that the changes were made for.
    pub fn apply(&self, text: &str) -> Option<String> {
        let mut changed = String::with_capacity(text.len() + 256);
        let mut from = 0;
        for splice in &self.0 {
            changed.push_str(text.get(from..splice.at)?);
            let end = splice.at.checked_add(splice.out.len())?;
            if text.get(splice.at..end)? != splice.out {
                return None;
            }
            changed.push_str(&splice.into);
            from = end;
        }
        changed.push_str(text.get(from..)?);
        Some(changed)
    }

    /// What takes the changes back, made for the changed text.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let (mut came, mut went) = (0, 0);
        let turned = self.0.iter().map(|splice| {
            let at = splice.at + came - went;
            came += splice.into.len();
            went += splice.out.len();
            Splice { at, out: splice.into.clone(), into: splice.out.clone() }
        });
        Self(turned.collect())
    }

    /// The same changes for a text in which something before them became longer or shorter: the largest piece that goes
    /// out is looked for, and counts only where it is there exactly once.
    #[must_use]
    pub(crate) fn moved(&self, text: &str) -> Option<Self> {
        let largest = self.0.iter().max_by_key(|splice| splice.out.len())?;
        let found = text.find(&largest.out).filter(|_| !largest.out.is_empty())?;
        if text.rfind(&largest.out) != Some(found) {
            return None;
        }
        let moved = |splice: &Splice| {
            let at = (splice.at + found).checked_sub(largest.at)?;
            Some(Splice { at, ..splice.clone() })
        };
        self.0.iter().map(moved).collect::<Option<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_made_and_taken_back() {
        let text = "one two three";
        let splices = Splices::new(vec![
            Splices::insertion(13, "!"),
            Splices::removal(text, 3..7),
            Splices::insertion(0, "<"),
            Splices::insertion(0, ">"),
        ]);
        let changed = splices.apply(text).unwrap();
        assert_eq!(changed, "<>one three!");
        assert_eq!(splices.inverse().apply(&changed).unwrap(), text);
        assert_eq!(splices.inverse().apply("<>one three?"), None);
        assert_eq!(splices.apply("ä"), None);
    }

    #[test]
    fn changes_move_with_what_stands_before_them() {
        let splices = Splices::new(vec![Splices::insertion(1, ","), Splices::insertion(3, " entry")]);
        let changed = splices.apply("a b c").unwrap();
        assert_eq!(changed, "a, b entry c");
        let longer = format!("xyz{changed}");
        assert_eq!(splices.inverse().apply(&longer), None);
        let moved = splices.inverse().moved(&longer).unwrap();
        assert_eq!(moved.apply(&longer).unwrap(), "xyza b c");
        assert_eq!(splices.inverse().moved("a, b entry entry"), None);
        assert_eq!(splices.inverse().moved("entry"), None);
    }
}
