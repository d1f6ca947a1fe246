//! What is found first, in small catalogues.

use toolcrib_base::ToolId;
use toolcrib_search::{Index, Query, Ranker};

use crate::world::{Tool, World, build, ids, world};

fn office() -> World {
    world(&[
        (
            "files",
            "Files of this machine",
            &[
                ("read_file", "Read a file as text"),
                ("write_file", "Write a text to a file"),
                ("list_directory", "List the files of a directory"),
            ],
        ),
        (
            "hubspot",
            "Customers and deals",
            &[
                ("createContact", "Adds a person"),
                ("list", "All contacts"),
                ("data_table_index", "The index of a table of data, by id and type"),
            ],
        ),
        ("time", "", &[("convert_time", "Convert a time between timezones"), ("now", "")]),
    ])
}

fn check(text: &str, expect: &[&str]) {
    let hits = build(&office()).search(&Query::new(text));
    let found = ids(&hits);
    assert!(found.len() >= expect.len(), "{text:?} found only {found:?}");
    assert_eq!(found[..expect.len()], *expect, "{text:?}");
}

#[test]
fn words_identifiers_and_stems_meet() {
    check("reading files", &["files/read_file"]);
    check("ReadFile", &["files/read_file"]);
    check("directory listing", &["files/list_directory"]);
    check("create contact", &["hubspot/createContact"]);
    check("hub spot contact", &["hubspot/createContact"]);
    check("hubspot add contact", &["hubspot/createContact"]);
    check("please convert the timezone for me", &["time/convert_time"]);
    check("index of data tables by id and type", &["hubspot/data_table_index"]);
}

#[test]
fn of_like_tools_that_of_the_server_that_is_about_the_query_comes_first() {
    let index = build(&world(&[
        (
            "alpha",
            "",
            &[("search", "Search for entries"), ("resize_image", "Make an image small"), ("now", "The time")],
        ),
        (
            "beta",
            "",
            &[("search", "Search for entries"), ("read_entries", "Read entries"), ("count_entries", "How many")],
        ),
    ]));
    let hits = index.search(&Query { fold: false, ..Query::new("search entries") });
    assert_eq!(ids(&hits)[..2], ["beta/search", "alpha/search"]);
    let server = |id| index.explain(&Query::new("search entries"), &ToolId::parse(id).unwrap()).unwrap().server;
    let (alpha, beta) = (server("alpha/search"), server("beta/search"));
    assert!(beta.raw > alpha.raw && beta.weight == alpha.weight && alpha.weight > 0.0, "{alpha:?} {beta:?}");
    let one = index.view(&|id| &*id.tool == "search");
    let hits = one.search(&Query { fold: false, ..Query::new("search entries") });
    assert_eq!(ids(&hits), ["alpha/search", "beta/search"], "hidden tools speak for no server");
}

#[test]
fn names_of_folders_and_files_are_not_what_is_wanted() {
    check("write the text to ~/hubspot/contacts/list/contact.txt", &["files/write_file"]);
    check("contacts list", &["hubspot/list"]);
}

#[test]
fn exact_names_come_first() {
    check("list", &["hubspot/list"]);
    check(" files/write_file ", &["files/write_file"]);
    check("WRITE_FILE", &["files/write_file"]);
    check("now", &["time/now"]);
    let odd = world(&[("a", "", &[("***", "")]), ("b", "", &[("***", "of stars")])]);
    let hits = build(&odd).search(&Query::new("***"));
    assert_eq!(ids(&hits), ["a/***", "b/***"]);
    let hits = build(&odd).search(&Query::new("b/***"));
    assert_eq!(ids(&hits)[0], "b/***");
}

#[test]
fn blank_text_lists_everything_in_pages() {
    let index = build(&office());
    let page = |offset, limit| {
        let hits = index.search(&Query { offset, limit, ..Query::new("  \n") });
        assert_eq!(hits.total, 8);
        ids(&hits)
    };
    let mut all = page(0, 3);
    assert_eq!(all, ["files/list_directory", "files/read_file", "files/write_file"]);
    all.extend(page(3, 100));
    assert_eq!(all, index.ids().map(ToString::to_string).collect::<Vec<_>>());
    assert!(page(8, 3).is_empty() && page(usize::MAX, usize::MAX).is_empty() && page(0, 0).is_empty());
}

#[test]
fn a_server_can_be_asked_alone() {
    let index = build(&office());
    let ask = |text, server| index.search(&Query { server: Some(server), ..Query::new(text) });
    assert_eq!(ids(&ask("list", "files")), ["files/list_directory"]);
    assert_eq!(ids(&ask("", "time")), ["time/convert_time", "time/now"]);
    assert_eq!(ask("list", "nowhere").total, 0);
    assert_eq!(ask("hubspot/list", "files").hits.first().map(|hit| hit.id.server.as_str()), Some("files"));
}

#[test]
fn nonsense_finds_nothing() {
    for text in ["zzzzqqq", "?!", "\u{0}\u{202e}", "://"] {
        assert_eq!(build(&office()).search(&Query::new(text)).total, 0, "{text:?}");
    }
    assert_eq!(Index::new().search(&Query::new("read")).total, 0);
    assert_eq!(Index::new().search(&Query::new("")).total, 0);
}

#[test]
fn equal_tools_are_folded_unless_asked_otherwise() {
    let mut servers = office();
    for server in ["time", "hubspot", "files"] {
        let tools = &mut servers.get_mut(server).unwrap().1;
        tools.push(Tool { fold_key: Some(7), ..Tool::new("search_web", "Search the web") });
    }
    let index = build(&servers);
    let hits = index.search(&Query::new("search the web"));
    let found = ids(&hits);
    assert_eq!(found[0], "time/search_web");
    assert!(found[1..].iter().all(|id| !id.ends_with("search_web")), "{found:?}");
    let also: Vec<String> = hits.hits[0].also.iter().map(ToString::to_string).collect();
    assert_eq!(also, ["files/search_web", "hubspot/search_web"]);
    let spread = index.search(&Query { fold: false, ..Query::new("search the web") });
    assert_eq!((spread.total, spread.hits.iter().all(|hit| hit.also.is_empty())), (hits.total + 2, true));
    assert!(ids(&spread)[..3].iter().all(|id| id.ends_with("search_web")));
    assert_eq!(index.search(&Query::new("hubspot/search_web")).hits[0].id.server.as_str(), "hubspot");
    assert_eq!(index.search(&Query::new("")).total, 9);
    let one = index.search(&Query { server: Some("time"), ..Query::new("search the web") });
    assert_eq!((ids(&one)[0].as_str(), one.hits[0].also.len()), ("time/search_web", 0));
}

#[test]
fn a_snapshot_does_not_change() {
    let mut index = build(&office());
    let snapshot = index.clone();
    let name = toolcrib_base::ServerName::new("files").unwrap();
    assert!(index.remove(&name) && !index.remove(&name));
    assert_eq!((index.len(), snapshot.len()), (5, 8));
    assert_eq!(snapshot.search(&Query::new("read")).total, 1);
    assert_eq!(index.search(&Query::new("read")).total, 0);
}

#[test]
fn a_ranker_can_be_kept_behind_a_pointer() {
    let rankers: [Box<dyn Ranker>; 2] = [Box::new(build(&office())), Box::new(build(&office()).view(&|_| true))];
    for ranker in rankers {
        assert_eq!(ids(&ranker.search(&Query { limit: 1, ..Query::new("write") })), ["files/write_file"]);
    }
}
