//! A text that is made to say something else, with its comments and its order kept: key by key, by lines. Whatever cannot
//! be changed in this way is for the caller to write anew.

use serde_json::{Map, Value, json};

use crate::server::edit::block_of;
use crate::yaml;

/// How many places of a line are tried as the beginning of its comment: each is read anew.
const PLACES: usize = 8;

/// The text, which says `before`, made to say `after`; `read` gives what a text says. `None` where its keys are not at the
/// beginnings of lines, or the result would not say exactly that.
pub(super) fn amend(
    text: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    read: &dyn Fn(&str) -> Option<Value>,
) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, was) in before {
        let now = after.get(key);
        if now == Some(was) {
            continue;
        }
        let block = block_of(&lines, key)?;
        let written = now.map(|now| yaml::render(&json!({ key: now }))).unwrap_or_default();
        let mut written: Vec<String> = written.lines().map(str::to_owned).collect();
        if let (1, [line]) = (block.len(), written.as_mut_slice()) {
            line.push_str(comment_of(lines.get(block.start)?, key, was, read));
        }
        lines.splice(block, written);
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let new = after.iter().filter(|(key, _)| !before.contains_key(*key));
    lines.extend(new.flat_map(|(key, now)| {
        let written = yaml::render(&json!({ key: now }));
        written.lines().map(str::to_owned).collect::<Vec<_>>()
    }));
    let text = lines.join("\n") + "\n";
    let says = read(&text)?;
    (says.as_object() == Some(after)).then_some(text)
}

/// The comment at the end of a line with one key: what can be left away without changing what the line says.
fn comment_of<'a>(line: &'a str, key: &str, was: &Value, read: &dyn Fn(&str) -> Option<Value>) -> &'a str {
    let says = json!({ key: was });
    let mut places = line.match_indices(" #").map(|(at, _)| at).take(PLACES);
    places.find(|at| read(&line[..*at]).as_ref() == Some(&says)).map_or("", |at| &line[at..])
}

#[cfg(test)]
mod tests {
    use toolcrib_base::ServerName;

    use super::*;
    use crate::write::{Which, Written};

    const TEXT: &str = "# what it is for\nname: a # it\n\n# where it is\ncommand: run # old\n\nargs:\n# first\n- one\n- two\n\n# the end\nstart: eager\n";

    fn changed(text: &str, after: &Value) -> String {
        let which = Which::Server(ServerName::new("a").unwrap());
        let written = Written::new(std::path::Path::new("servers/a.yaml"), text.to_owned());
        let changed = written.amended(&which, &which.text_of(after));
        assert_eq!(which.value(&changed).as_ref(), Some(after), "{changed}");
        changed
    }

    #[test]
    fn comments_and_order_stay() {
        let mut after = json!({ "name": "a", "command": "run", "args": ["one", "two"], "start": "eager" });
        assert_eq!(changed(TEXT, &after), TEXT, "nothing is changed");
        after["command"] = "other".into();
        assert_eq!(changed(TEXT, &after), TEXT.replace("command: run", "command: other"));
        after["args"] = json!(["three"]);
        after["timeouts"] = json!({ "call": "5s" });
        after.as_object_mut().unwrap().remove("start");
        let text = changed(TEXT, &after);
        assert_eq!(
            text,
            "# what it is for\nname: a # it\n\n# where it is\ncommand: other # old\n\nargs: [three]\n\n# the end\ntimeouts:\n  call: \"5s\"\n"
        );
    }

    #[test]
    fn what_only_looks_like_a_comment_goes_with_its_value() {
        let text = "name: a\ncommand: \"run # not\" # one # two\n";
        let after = json!({ "name": "a", "command": "x" });
        assert_eq!(changed(text, &after), "name: a\ncommand: x # one # two\n");
        assert_eq!(changed("name: a\ncommand: 'a # b'\n", &after), "name: a\ncommand: x\n");
    }

    #[test]
    fn a_text_of_another_form_is_written_anew() {
        let after = json!({ "name": "a", "command": "x" });
        for text in
            ["{name: a, command: run} # c\n", "\"name\": a\n'command': run\n", "? name\n: a\n", "name: a\n...\n"]
        {
            let text = changed(text, &after);
            assert!(text.ends_with("command: x\n") && !text.contains('{'), "{text}");
        }
    }
}
