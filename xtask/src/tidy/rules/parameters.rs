//! Parameters of functions: no tuple, which would hide some of them from clippy's limit and leave its parts without
//! names. Collections of pairs, such as a slice of them, are no parameters in disguise.

use super::super::Report;
use super::super::scan::{Source, is_word};

const FIX: &str = "take its parts as parameters, or as a small struct named after what they are together";
/// What a tuple may stand in and still be one.
const WRAPPERS: [&str; 4] = ["Option<", "Box<", "Arc<", "Rc<"];

pub(super) fn no_tuples(source: &Source, report: &mut Report<'_>) {
    let aliases = aliases(source);
    for offset in source.find("fn") {
        let Some((name, parameters)) = signature(&source.code[offset + 2..]) else { continue };
        let is_tuple = |parameter: &str| type_of(parameter).is_some_and(|given| is_tuple(given, &aliases));
        let Some(tuple) = parts(parameters).into_iter().find(|parameter| is_tuple(parameter)) else { continue };
        // The signature is the trait's, which is checked where it is declared if it is ours.
        if !source.is_of_trait(offset) {
            let tuple = tuple.split_whitespace().collect::<Vec<_>>().join(" ");
            report.add("tuple-parameter", source.line(offset), format!("`{name}` takes the tuple `{tuple}`"), FIX);
        }
    }
}

/// The names that the file gives to tuples.
fn aliases(source: &Source) -> Vec<&str> {
    let alias = |offset: usize| {
        let (name, value) = source.code[offset + 4..].split_once(';')?.0.split_once('=')?;
        let name = name.trim_start().split(|letter| !is_word(letter)).next()?;
        is_tuple(value, &[]).then_some(name)
    };
    source.find("type").into_iter().filter_map(alias).collect()
}

/// The name of a function and what stands between its parentheses; `after` begins behind `fn`.
fn signature(after: &str) -> Option<(&str, &str)> {
    let after = after.trim_start();
    let (name, rest) = after.split_at(after.find(|letter| !is_word(letter))?);
    let rest = if rest.starts_with('<') { &rest[closing(rest)? + 1..] } else { rest };
    let parameters = rest.strip_prefix('(')?;
    (!name.is_empty()).then_some((name, &parameters[..closing(rest)? - 1]))
}

fn type_of(parameter: &str) -> Option<&str> {
    let mut depth = 0;
    for (offset, letter) in parameter.char_indices() {
        depth += turn(parameter, offset, letter);
        let is_path = parameter[offset + 1..].starts_with(':') || parameter[..offset].ends_with(':');
        if letter == ':' && depth == 0 && !is_path {
            return Some(&parameter[offset + 1..]);
        }
    }
    None
}

/// Whether a type is a tuple of two or more, or a reference to one, or one in a wrapper.
fn is_tuple(given: &str, aliases: &[&str]) -> bool {
    let given = given.trim();
    if let Some(referred) = given.strip_prefix('&') {
        let lifetime = referred.strip_prefix('\'').map(|rest| rest.trim_start_matches(is_word).trim_start());
        let referred = lifetime.unwrap_or(referred);
        return is_tuple(referred.strip_prefix("mut ").unwrap_or(referred), aliases);
    }
    if let Some(wrapped) = WRAPPERS.iter().find_map(|wrapper| given.strip_prefix(wrapper)) {
        return is_tuple(wrapped.strip_suffix('>').unwrap_or(wrapped), aliases);
    }
    let inside = given.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inside.is_some_and(|inside| parts(inside).len() > 1)
        || given.split('<').next().is_some_and(|name| aliases.contains(&name))
}

/// What stands between the commas, outside all brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (offset, letter) in text.char_indices() {
        depth += turn(text, offset, letter);
        if letter == ',' && depth == 0 {
            parts.push(&text[start..offset]);
            start = offset + 1;
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Where the bracket is closed with which the text begins.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (offset, letter) in text.char_indices() {
        depth += turn(text, offset, letter);
        if depth == 0 {
            return Some(offset);
        }
    }
    None
}

/// 1 where a bracket opens, -1 where it closes; an arrow is none.
fn turn(text: &str, offset: usize, letter: char) -> i32 {
    match letter {
        '(' | '[' | '{' | '<' => 1,
        ')' | ']' | '}' => -1,
        '>' if !text[..offset].ends_with(['-', '=']) => -1,
        _ => 0,
    }
}
