//! Names of controls: what a control says (`v`, `set`, …), a colon, and the path of its field. A path is a JSON pointer
//! in which three more things stand behind `~`, so that no property can be mistaken for them: `~+2` is the third row of
//! other properties, `~|1` the second alternative, `~(a)` a character that browsers would change in a name.

/// The pointer's step for a property.
pub(super) fn step(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '~' => out.push_str("~0"),
            '/' => out.push_str("~1"),
            _ if character.is_control() => out.push_str(&format!("~({:x})", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}

/// The step for a row of other properties.
pub(super) fn row(index: usize) -> String {
    format!("~+{index}")
}

/// The step for an alternative.
pub(super) fn alternative(index: usize) -> String {
    format!("~|{index}")
}

/// Where a walk through a form is: the path of the field, and the JSON pointer of its value.
#[derive(Debug, Default, Clone)]
pub(super) struct Walk {
    pub(super) control: String,
    pub(super) pointer: String,
}

/// How long a walk was, to go back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize, usize);

// === impl Walk ===

impl Walk {
    /// One step down. Without a key, the value is the same.
    pub(super) fn enter(&mut self, step: &str, key: Option<&str>) -> Mark {
        let mark = Mark(self.control.len(), self.pointer.len());
        self.control.push('/');
        self.control.push_str(step);
        if let Some(key) = key {
            self.pointer.push('/');
            self.pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        }
        mark
    }

    /// Back to a mark.
    pub(super) fn leave(&mut self, mark: Mark) {
        self.control.truncate(mark.0);
        self.pointer.truncate(mark.1);
    }
}
