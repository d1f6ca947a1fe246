//! Where in a definition's file a value stands, so that people find the line that an answer is about.

use std::path::Path;

use crate::problem::{Position, Sink};
use crate::yaml::{self, Content, Node};

/// The place of the value of `key` (`tools.deny`) in the text of a definition; of `item` in it where that is given and the
/// value is a list that has it. `None` where the file leaves the key out.
pub fn place_of(text: &str, key: &str, item: Option<&str>) -> Option<Position> {
    let root = yaml::parse_into(text, &Sink::new(Path::new("")))?;
    let mut value: &Node = &root;
    for part in key.split('.') {
        let Content::Map(entries) = &value.content else { return None };
        value = &entries.iter().find(|entry| *entry.key == *part)?.value;
    }
    let found = match (&value.content, item) {
        (Content::List(items), Some(item)) => {
            items.iter().find(|node| node.as_text().is_some_and(|text| **text == *item))
        }
        _ => None,
    };
    Some(found.unwrap_or(value).at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_by_its_key_and_its_pattern() {
        let text = "name: work\n# why\ntools:\n  allow: [\"*\"]\n  deny:\n    - \"files/write*\"\n    - \"*/remove\"\nread_only: true\n";
        let line = |key: &str, item: Option<&str>| place_of(text, key, item).map(|place| place.line);
        assert_eq!(line("tools.deny", Some("*/remove")), Some(7));
        assert_eq!(line("tools.deny", Some("files/write*")), Some(6));
        assert_eq!(line("tools.allow", None), Some(4));
        assert_eq!(line("read_only", None), Some(8));
        assert_eq!(line("servers", None), None);
        assert_eq!(line("tools.deny.more", None), None);
        assert_eq!(place_of("a: [", "a", None), None);
    }
}
