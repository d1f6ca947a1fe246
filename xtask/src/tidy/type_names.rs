//! Types are nouns: none is named by a bare participle, adverb, pronoun or preposition. Today's exceptions stand in
//! `xtask/tidy.toml` by crate, a list that only shrinks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::scan::{Source, is_word};
use super::{Finding, allowed};

const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Words that end as participles do and are none: nouns, and `Embed`, which names what a trait does. One that stands
/// for its result (a `Listing`) belongs here, one that stands for anyone who does it (`Running`) or for what was done
/// to it does not.
const NOUNS: [&str; 28] = [
    "Binding", "Caching", "Embed", "Ending", "Encoding", "Feed", "Finding", "Framing", "Heading", "Keyring", "Listing",
    "Mapping", "Meaning", "Naming", "Need", "Nesting", "Opening", "Paging", "Pairing", "Posting", "Ranking", "Reading",
    "Seed", "Setting", "Speed", "String", "Thing", "Warning",
];

/// Participles that no ending gives away.
const PARTICIPLES: [&str; 46] = [
    "Begun",
    "Born",
    "Broken",
    "Brought",
    "Built",
    "Chosen",
    "Done",
    "Drawn",
    "Driven",
    "Fallen",
    "Forgotten",
    "Found",
    "Frozen",
    "Given",
    "Gone",
    "Grown",
    "Heard",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Learnt",
    "Left",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Paid",
    "Proven",
    "Ran",
    "Risen",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Shut",
    "Spent",
    "Spoken",
    "Stuck",
    "Taken",
    "Thrown",
    "Told",
    "Understood",
    "Woken",
    "Written",
];

/// Adverbs, pronouns, prepositions and other words that name nothing.
const NO_NOUNS: [&str; 44] = [
    "About", "Above", "After", "Again", "Along", "Anew", "Apart", "Around", "Aside", "At", "Away", "Before", "Behind",
    "Below", "Beside", "Between", "Beyond", "By", "Else", "For", "From", "Here", "How", "In", "Into", "Now", "Of",
    "Off", "On", "Once", "Out", "Over", "Own", "Soon", "Then", "There", "To", "What", "When", "Where", "Which", "Who",
    "Whose", "With",
];

/// Nouns in `-ly`.
const NOUNS_IN_LY: [&str; 6] = ["Anomaly", "Assembly", "Family", "Reply", "Supply", "Tally"];

/// The findings about the sources of all crates.
pub fn check(sources: &[Source], list: &str) -> Result<Vec<Finding>> {
    let mut allowed = allowed::names(list, "type-names")?;
    let mut findings = Vec::new();
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let folder = source.path.strip_prefix("crates/").unwrap_or(&source.path).split('/').next().unwrap_or_default();
        for (offset, name) in types(source).into_iter().filter(|(_, name)| !is_noun(name)) {
            if allowed.get(folder).is_some_and(|names| names.contains(name)) {
                used.entry(folder).or_default().insert(name);
                continue;
            }
            let what = format!("the type `{name}` is not named by a noun");
            let fix = "name it as the field does: `Event`, `Request`, `CallOutcome`";
            let (path, line) = (source.path.clone(), source.line(offset));
            findings.push(Finding { check: "type-names", path, line, item: None, what, fix });
        }
    }
    for (folder, names) in used {
        if let Some(allowed) = allowed.get_mut(folder) {
            allowed.retain(|name| !names.contains(name.as_str()));
        }
    }
    findings.extend(allowed::unneeded(list, "type-names", &allowed));
    Ok(findings)
}

/// Where a type of one word is declared, and its name; tests are included.
fn types(source: &Source) -> Vec<(usize, &str)> {
    let declared = |offset: usize, keyword: &str| {
        let name = source.code[offset + keyword.len()..].strip_prefix(' ')?;
        let name = name.split(|letter| !is_word(letter)).next()?;
        let is_one_word = name.chars().filter(|letter| letter.is_uppercase()).count() == 1;
        (is_one_word && name.starts_with(char::is_uppercase)).then_some((offset, name))
    };
    let mut types: Vec<_> = KEYWORDS
        .iter()
        .flat_map(|keyword| source.find(keyword).into_iter().filter_map(|offset| declared(offset, keyword)))
        // `type` of a trait's implementation is named by the trait.
        .filter(|(offset, name)| !source.code[*offset..].starts_with("type") || !ASSOCIATED.contains(name))
        .collect();
    types.sort_unstable();
    types
}

const ASSOCIATED: [&str; 5] = ["Err", "Error", "Item", "Output", "Target"];

/// Whether a word can name a type.
fn is_noun(word: &str) -> bool {
    if NOUNS.contains(&word) || NOUNS_IN_LY.contains(&word) {
        return true;
    }
    if PARTICIPLES.contains(&word) || NO_NOUNS.contains(&word) {
        return false;
    }
    if let Some(rest) = word.strip_prefix("Un").filter(|rest| rest.len() > 2) {
        let (first, others) = rest.split_at(1);
        if PARTICIPLES.contains(&format!("{}{others}", first.to_uppercase()).as_str()) {
            return false;
        }
    }
    // Short words end so by chance: `Bed`, `Ring`, `Fly`.
    let ends = |ending: &str| word.len() > ending.len() + 2 && word.ends_with(ending);
    !(ends("ed") || ends("ing") || ends("ly"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, code: &str, list: &str) -> Vec<String> {
        let findings = check(&[Source::new(path, code)], list).unwrap();
        findings.iter().map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.what)).collect()
    }

    #[test]
    fn a_type_is_a_noun() {
        for noun in ["Event", "Setting", "Request", "Feed", "Reply", "Ring", "Bed", "Account", "Unit", "Union", "Embed"]
        {
            assert!(is_noun(noun), "{noun}");
        }
        for other in ["Told", "Asked", "Of", "What", "Running", "Passing", "Newly", "Unheard", "Unknown", "Unresolved"]
        {
            assert!(!is_noun(other), "{other}");
        }
    }

    #[test]
    fn declarations_are_found_and_uses_are_not() {
        let code = "pub(crate) struct Told;\nenum Asked<'a> { Gone }\ntrait Behind {}\ntype Found = u8;\n\
                    fn f(told: Held) -> CallTold { \"struct Lost\" }\n// struct Kept\nstruct ToolFound;\n\
                    impl X for Y { type Item = u8; }";
        let lines: Vec<String> = found("crates/x/src/a.rs", code, "")
            .iter()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(lines, ["crates/x/src/a.rs:1", "crates/x/src/a.rs:2", "crates/x/src/a.rs:3", "crates/x/src/a.rs:4"]);
    }

    #[test]
    fn an_exception_only_shrinks() {
        let list = "[type-names]\nx = [\n    \"Told\",\n]\n";
        assert_eq!(found("crates/x/src/a.rs", "struct Told;\nstruct Told;", list), [""; 0]);
        assert_eq!(
            found("crates/x/src/a.rs", "struct Event;", list),
            ["xtask/tidy.toml:3 `type-names.x` need not name `Told` any more"]
        );
        assert_eq!(found("crates/y/src/a.rs", "struct Told;", list).len(), 2, "another crate, and nothing in this one");
    }
}
