//! What must run before what: dependencies of service classes and services, their circles, and who needs whom.

use std::collections::{BTreeMap, BTreeSet};

use toolcrib_catalog::ObjectName;

/// Names and what each needs first. Names that no one has here are servers or are missing, which others find out.
pub(super) type Needs = BTreeMap<ObjectName, Vec<ObjectName>>;

/// A circle that can be reached from `name`, from one member round to itself; none where there is none.
pub(super) fn circle(needs: &Needs, name: &ObjectName) -> Option<Vec<ObjectName>> {
    let mut done = BTreeSet::new();
    // The way to where we are, each with how many of its needs were followed.
    let mut way: Vec<(&ObjectName, usize)> = vec![(name, 0)];
    while let Some((at, followed)) = way.last_mut() {
        let next = needs.get(*at).and_then(|of| of.get(*followed));
        *followed += 1;
        let at = *at;
        match next {
            None => {
                done.insert(at);
                way.pop();
            }
            Some(next) if done.contains(next) => {}
            Some(next) => {
                if let Some(first) = way.iter().position(|(before, _)| *before == next) {
                    let members = way[first..].iter().map(|(name, _)| (*name).clone());
                    return Some(members.chain([next.clone()]).collect());
                }
                way.push((next, 0));
            }
        }
    }
    None
}

/// `a -> b -> a`.
pub(super) fn shown(circle: &[ObjectName]) -> String {
    circle.iter().map(ObjectName::as_str).collect::<Vec<_>>().join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ObjectName {
        ObjectName::new(text).unwrap()
    }

    fn needs(of: &[(&str, &[&str])]) -> Needs {
        of.iter().map(|(who, whom)| (name(who), whom.iter().map(|other| name(other)).collect())).collect()
    }

    #[test]
    fn circles_are_found_and_named() {
        for (graph, from, expected) in [
            (&[("a", &["a"][..])][..], "a", Some("a -> a")),
            (&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])], "a", Some("a -> b -> c -> a")),
            (&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])], "a", Some("b -> c -> b")),
            (&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])], "a", None),
            (&[("a", &["nobody"])], "a", None),
            (&[("b", &["b"])], "a", None),
        ] {
            let found = circle(&needs(graph), &name(from));
            assert_eq!(found.as_deref().map(shown).as_deref(), expected, "{graph:?}");
        }
    }

    #[test]
    fn a_thousand_in_a_row_with_many_ways_are_walked_once() {
        let many: Vec<ObjectName> = (0..1_000).map(|number| name(&format!("n{number}"))).collect();
        let needs = (0..1_000).map(|at| (many[at].clone(), many[at + 1..(at + 20).min(1_000)].to_vec())).collect();
        assert_eq!(circle(&needs, &many[0]), None);
    }
}
