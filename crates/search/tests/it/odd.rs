//! Odd queries and odd catalogues: nothing fails, nothing grows, and what can be found is found.

use toolcrib_base::{ServerName, ToolId};
use toolcrib_search::{Document, Hits, Index, Query, Ranker, Ranking, ServerText, View};

use crate::world::{World, build, ids, world};

fn catalogue() -> World {
    world(&[
        (
            "files",
            "Files of this machine",
            &[
                ("read_file", "Read a file as text"),
                ("delete_file", "Delete a file"),
                ("find_duplicates", "Find files with equal content and report their names"),
            ],
        ),
        (
            "bing-cn",
            "中文必应搜索",
            &[("bing_search", "使用必应搜索指定的关键词，并返回搜索结果列表"), ("fetch_webpage", "获取网页内容")],
        ),
        ("photos", "", &[("remove_image", "Remove an image from an album"), ("convert", "")]),
    ])
}

fn ask(text: &str) -> Hits {
    build(&catalogue()).search(&Query::new(text))
}

fn check_first(text: &str, expect: &str) {
    let hits = ask(text);
    assert_eq!(ids(&hits).first().map(String::as_str), Some(expect), "{text:?}");
}

#[test]
fn slips_of_the_keyboard_are_corrected() {
    check_first("raed fiel", "files/read_file");
    check_first("delte file", "files/delete_file");
    check_first("duplciates", "files/find_duplicates");
    check_first("fidn dupilcates", "files/find_duplicates");
    assert_eq!(ask("xqzwv").total, 0, "what is near to nothing is not corrected");
}

#[test]
fn words_of_one_family_and_of_one_meaning_meet() {
    check_first("converter", "photos/convert");
    check_first("erase a picture", "photos/remove_image");
}

#[test]
fn other_scripts_are_searched_by_neighbours() {
    check_first("搜索关键词", "bing-cn/bing_search");
    check_first("网页", "bing-cn/fetch_webpage");
    assert_eq!(ask("ابحث عن الملفات").total, 0);
    assert_eq!(ask("🙈🙉🙊 🎉").total, 0);
    check_first("🎉 read file 🎉", "files/read_file");
}

#[test]
fn control_characters_and_blank_queries_are_no_failure() {
    check_first("read\u{0}file\u{7}", "files/read_file");
    check_first("\u{202e}read file\u{200b}", "files/read_file");
    assert_eq!(ask("\t \r\n").total, 7, "blank text lists everything");
    assert_eq!(ask("\u{0}\u{1}\u{2}").total, 0);
    assert!(ask("the of and to").total <= 7);
}

#[test]
fn long_queries_are_read_as_far_as_they_count() {
    let long = format!("delete file {}", "and then something else, ".repeat(500));
    assert!(long.len() > 10_000);
    check_first(&long, "files/delete_file");
    check_first(&"read_file ".repeat(1_000), "files/read_file");
    ask(&"搜".repeat(10_000));
    ask(&"x".repeat(10_000));
    ask(&(0..2_000).map(|n| format!("wort{n}")).collect::<Vec<_>>().join(" "));
}

#[test]
fn a_long_description_is_read_as_far_as_it_counts() {
    let mut servers = catalogue();
    let long = format!("Weighs parcels. {}", "lorem ipsum dolor ".repeat(60_000));
    assert!(long.len() > 1_000_000);
    servers.extend(world(&[("post", "", &[("weigh", long.as_str()), ("bare", "")])]));
    let index = build(&servers);
    assert_eq!(ids(&index.search(&Query::new("weigh a parcel")))[0], "post/weigh");
    assert_eq!(ids(&index.search(&Query::new("read file")))[0], "files/read_file");
    assert_eq!(ids(&index.search(&Query::new("bare")))[0], "post/bare");
}

#[test]
fn many_tools_of_one_pattern_do_not_hide_the_others() {
    let mut index = build(&catalogue());
    let names: Vec<String> = (0..10_000).map(|n| format!("get_record_{n:05}")).collect();
    let tools: Vec<Document<'_>> = names
        .iter()
        .map(|name| Document { tool: name.as_str().into(), description: "Gets one record.", ..Document::default() })
        .collect();
    index.replace(&ServerText::new(ServerName::new("many").unwrap()), &tools);
    assert_eq!(index.len(), 10_007);
    assert_eq!(ids(&index.search(&Query::new("get_record_04711")))[0], "many/get_record_04711");
    assert_eq!(ids(&index.search(&Query::new("get record 04711")))[0], "many/get_record_04711");
    assert_eq!(ids(&index.search(&Query::new("delete file")))[0], "files/delete_file");
    let page = index.search(&Query { offset: 9_990, limit: 100, ..Query::new("get record") });
    assert!(page.total >= 10_000 && page.hits.len() >= 10);
}

fn parts_of(hits: &Hits, index: &Index, query: &Query<'_>) {
    for hit in &hits.hits {
        let told = index.explain(query, &hit.id).unwrap();
        assert_eq!(told.score, hit.score, "{}", hit.id);
        let parts = [told.words, told.alike, told.meaning, told.server].map(|part| part.scaled * part.weight);
        let sum = parts.iter().sum::<f32>() + told.exact;
        assert!((sum - told.score).abs() < 1e-4, "{}: {told:?}", hit.id);
        assert!((told.terms.iter().map(|term| term.score).sum::<f32>() - told.words.raw).abs() < 1e-4, "{told:?}");
    }
}

#[test]
fn a_score_is_explained() {
    let index = build(&catalogue());
    for text in ["delte a file", "read_file", "files/read_file", "搜索", "erase a picture"] {
        let query = Query { fold: false, ..Query::new(text) };
        parts_of(&index.search(&query), &index, &query);
    }
    let id = ToolId::parse("files/delete_file").unwrap();
    let told = index.explain(&Query::new("delte a file"), &id).unwrap();
    assert_eq!(
        told.corrections.iter().map(|it| (it.from.as_str(), it.to.as_str())).collect::<Vec<_>>(),
        [("delte", "delete")]
    );
    assert_eq!(told.terms.iter().map(|term| term.word.as_str()).collect::<Vec<_>>(), ["delte", "file"]);
    assert!(told.exact == 0.0 && index.explain(&Query::new("files/delete_file"), &id).unwrap().exact > 0.5);

    let hidden: View = index.view(&|id| id.server.as_str() != "files");
    assert!(hidden.explain(&Query::new("delete"), &id).is_none(), "a hidden tool is like none");
    assert!(index.explain(&Query::new("delete"), &ToolId::parse("files/none").unwrap()).is_none());
    assert!(index.explain(&Query::new(" "), &id).is_none());
    assert!(index.explain(&Query { ranking: Ranking::TfIdf, ..Query::new("delete") }, &id).is_none());
}

#[test]
fn the_plain_ranking_is_frequency_times_rarity() {
    let index = build(&world(&[
        ("a", "", &[("spec_validate", "Validate a spec"), ("spec_list", "List all specs of the project")]),
        ("b", "", &[("loop_start", "Start a loop of the project"), ("spec_list", "List the project")]),
    ]));
    let plain = |text| index.search(&Query { ranking: Ranking::TfIdf, ..Query::new(text) });
    let hits = plain("validate spec");
    // Shares of the words times ln(tools / tools with the word): 2/4 ln(4/1) + 2/4 ln(4/3).
    assert_eq!(ids(&hits)[0], "a/spec_validate");
    assert!((hits.hits[0].score - (0.5 * 4.0_f32.ln() + 0.5 * (4.0_f32 / 3.0).ln())).abs() < 1e-5);
    assert_eq!(ids(&hits), ["a/spec_validate", "b/spec_list", "a/spec_list"], "best first, three have `spec`");
    assert_eq!(ids(&plain("go_ent_spec_validate"))[0], "a/spec_validate", "old names find the new ones");
    assert_eq!(plain("specification").total, 0, "there are no stems and no corrections");
    assert_eq!(plain("the of a").total, 0);
    assert_eq!(plain("validate validate spec").hits[0].score, 2.0 * 0.5 * 4.0_f32.ln() + 0.5 * (4.0_f32 / 3.0).ln());
    let page = index.search(&Query { ranking: Ranking::TfIdf, limit: 2, ..Query::new("list project") });
    assert_eq!((page.total, page.hits.len()), (3, 2), "not more than asked for");
    assert_eq!(ids(&plain("spec_list")), ["b/spec_list", "a/spec_list", "a/spec_validate"]);
}

#[test]
fn a_rebuilt_index_ranks_plainly_the_same() {
    let mut index = build(&catalogue());
    let query = Query { ranking: Ranking::TfIdf, ..Query::new("read file text") };
    let before = index.search(&query);
    for _ in 0..3 {
        for (name, (description, tools)) in &catalogue() {
            crate::world::replace(&mut index, name, description, tools);
        }
        assert_eq!(index.search(&query), before);
    }
    assert_eq!(ids(&before)[0], "files/read_file");
}
