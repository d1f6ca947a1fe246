//! What holds for every catalogue and every query.

use proptest::prelude::*;
use toolcrib_base::{ServerName, ToolId};
use toolcrib_search::budget::{self, Entry};
use toolcrib_search::{Detail, Hits, Index, Query, Ranker, Signature, schema, tokens};

use crate::world::{Tool, World, build, replace, without};

/// Few words, so that they meet; some odd ones.
const WORDS: &[&str] = &[
    "read",
    "Reads",
    "file",
    "files",
    "read_file",
    "readFile",
    "hub",
    "spot",
    "HubSpot",
    "the",
    "of",
    "list",
    "s1",
    "日本",
    "é",
    "--",
    "a/b",
    "s1/read",
    "",
];

fn words(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..most).prop_map(|words| words.join(" "))
}

fn tool() -> impl Strategy<Value = Tool> {
    let fold_key = prop::option::weighted(0.4, 0..3_u64);
    (words(3), words(8), words(3), fold_key).prop_map(|(name, description, parameter, fold_key)| Tool {
        name,
        description,
        parameter,
        fold_key,
    })
}

fn server() -> impl Strategy<Value = (String, Vec<Tool>)> {
    (words(4), prop::collection::vec(tool(), 0..6))
}

fn world() -> impl Strategy<Value = World> {
    prop::collection::btree_map("s[0-5]", server(), 0..6)
}

/// An arbitrary but fixed choice of tools.
fn chosen(seed: u64) -> impl Fn(&ToolId) -> bool {
    move |id| {
        let sum = id.to_string().bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        (sum >> 3) % 3 > 0
    }
}

fn everything(text: &str, fold: bool) -> Query<'_> {
    Query { limit: usize::MAX, fold, ..Query::new(text) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_way_to_a_state_does_not_matter(
        world in world(),
        before in prop::collection::vec(("s[0-5]", server()), 0..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 6),
        text in words(5),
        fold: bool,
    ) {
        let built = build(&world);
        let mut grown = Index::new();
        for (name, (description, tools)) in &before {
            replace(&mut grown, name, description, tools);
            // Searching between updates leaves nothing behind.
            grown.search(&Query::new(&text));
        }
        for name in before.iter().map(|(name, _)| name).filter(|name| !world.contains_key(*name)) {
            grown.remove(&ServerName::new(name).unwrap());
        }
        let mut names: Vec<&String> = world.keys().collect();
        for (at, swap) in order.iter().enumerate().take(names.len()) {
            let other = swap.index(names.len());
            names.swap(at, other);
        }
        for name in names {
            let (description, tools) = &world[name];
            let mut tools = tools.clone();
            let mut seen = std::collections::HashSet::new();
            tools.retain(|tool| seen.insert(tool.name.clone()));
            tools.reverse();
            replace(&mut grown, name, description, &tools);
        }
        prop_assert_eq!(built.search(&everything(&text, fold)), grown.search(&everything(&text, fold)));
    }

    #[test]
    fn pages_are_parts_of_the_whole(world in world(), text in words(5), offset in 0..20_usize, limit in 0..20_usize, fold: bool) {
        let index = build(&world);
        let all = index.search(&everything(&text, fold));
        let page = index.search(&Query { offset, limit, ..everything(&text, fold) });
        prop_assert_eq!(all.total, all.hits.len());
        prop_assert_eq!(page.total, all.total);
        let expect: Vec<_> = all.hits.iter().skip(offset).take(limit).cloned().collect();
        prop_assert_eq!(page.hits, expect);
        for pair in all.hits.windows(2) {
            let in_order = pair[0].score > pair[1].score || (pair[0].score == pair[1].score && pair[0].id < pair[1].id);
            prop_assert!(in_order, "{:?}", pair);
        }
    }

    #[test]
    fn each_match_is_in_exactly_one_hit(world in world(), text in words(5)) {
        let index = build(&world);
        let mut alone: Vec<ToolId> = index.search(&everything(&text, false)).hits.into_iter().map(|hit| hit.id).collect();
        let folded = index.search(&everything(&text, true));
        let mut spread: Vec<ToolId> =
            folded.hits.iter().flat_map(|hit| std::iter::once(&hit.id).chain(&hit.also)).cloned().collect();
        alone.sort();
        spread.sort();
        prop_assert_eq!(alone, spread);
        prop_assert!(folded.hits.iter().all(|hit| hit.also.is_sorted()));
    }

    #[test]
    fn a_hidden_tool_is_like_one_that_does_not_exist(world in world(), text in words(5), seed: u64, fold: bool) {
        let visible = chosen(seed);
        let expect = build(&without(&world, &visible)).search(&everything(&text, fold));
        let index = build(&world);
        let check = |hits: Hits| {
            prop_assert_eq!(&hits, &expect);
            Ok(())
        };
        check(index.search(&Query { visible: Some(&visible), ..everything(&text, fold) }))?;
        check(index.view(&visible).search(&everything(&text, fold)))?;
        check(index.view(&|_| true).search(&Query { visible: Some(&visible), ..everything(&text, fold) }))?;
        check(index.view(&visible).search(&Query { visible: Some(&|_| true), ..everything(&text, fold) }))?;
    }

    #[test]
    fn arbitrary_text_is_no_failure(
        name in ".{0,40}", description in ".{0,300}", parameter in ".{0,40}", text in ".{0,300}", server in ".{0,9}",
    ) {
        let tool = Tool { name: name.clone(), description, parameter, fold_key: Some(1) };
        let world = World::from([("s1".to_owned(), (text.clone(), vec![tool.clone(), tool]))]);
        let index = build(&world);
        prop_assert_eq!(index.len(), 1);
        let listed = index.search(&Query { server: Some(&server), ..Query::new(&text) });
        prop_assert!(listed.total <= 1);
        let exact = index.search(&Query::new(&name));
        prop_assert_eq!(exact.total, 1, "a tool is found by its name");
        prop_assert!(toolcrib_base::nearest::similar(&text, [name.as_str(), &text]).len() <= 2);
        prop_assert!(budget::summary(&text).chars().count() <= budget::SUMMARY_CHARS);
        prop_assert!(tokens::count(&text) <= text.len());
    }

    #[test]
    fn arbitrary_schemas_have_a_short_signature(raw in json(), output in json()) {
        let signature = Signature::read(&raw, Some(&output));
        let line = signature.line("f");
        let most = signature.render(Detail::RequiredNames).chars().count().max(toolcrib_search::SIGNATURE_CHARS) + 1;
        prop_assert!(line.starts_with("f(") && line.chars().count() <= most, "{}", line);
        schema::parameters(&raw);
    }

    #[test]
    fn rendered_hits_are_all_there_and_fit(raw in json(), text in ".{0,200}", count in 0..12_usize, most in 0..500_usize) {
        let signature = Signature::read(&raw, None);
        let summary = budget::summary(&text);
        let ids: Vec<ToolId> = (0..count).map(|n| ToolId::parse(&format!("s{n}/tool")).unwrap()).collect();
        let entries: Vec<Entry<'_>> = ids
            .iter()
            .map(|id| Entry { id, name: "tool", signature: &signature, summary: &summary, also: &ids })
            .collect();
        let rendered = budget::render(&entries, most);
        let least = |id: &ToolId| match count {
            0..=8 => tokens::count(&format!("- {id}{} …\n", signature.render(Detail::RequiredNames))),
            _ => tokens::count(&format!("- {id}\n")),
        };
        prop_assert!(rendered.tokens <= most.max(ids.iter().map(least).sum()));
        prop_assert!(count > 8 || rendered.tokens <= budget::MOST_TOKENS);
        prop_assert!(tokens::count(&rendered.text) <= rendered.tokens);
        prop_assert_eq!(rendered.text.lines().count(), count);
        for (line, id) in rendered.text.lines().zip(&ids) {
            prop_assert!(line.starts_with(&format!("- {id}")), "{}", line);
        }
    }
}

/// JSON texts that look like schemas, with every keyword in every place.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("7".to_owned()),
        prop::sample::select(&["string", "object", "array", "#", "#/$defs/a", "#/properties/a", "x y"][..])
            .prop_map(|text| format!("{text:?}")),
    ];
    let keys = &[
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "$defs",
        "enum",
        "const",
        "additionalProperties",
        "a",
        "b c",
        "description",
    ][..];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((prop::sample::select(keys), inner), 0..6).prop_map(|fields| {
                let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}
