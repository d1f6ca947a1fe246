//! One list in all forms: pages, cursors, and what is shared between revisions.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolcrib_protocol::error::INVALID_PARAMS;

use super::*;

fn paging(profile: &str, size: usize) -> Paging {
    Paging { profile: ProfileName::new(profile).unwrap(), size }
}

fn entries(count: usize) -> Vec<Raw> {
    (0..count).map(|number| Raw::from_value(&json!({ "name": format!("tool-{number}") }))).collect()
}

/// Asks for a page with its own gateway for each key.
fn page(listed: &PagedList, revision: Revision, cursor: Option<&Raw>) -> Result<Raw, RpcError> {
    let (sealer, info) = (Sealer::new([1; 32]), Raw::from_value(&json!({ "name": "t" })));
    listed.page(revision, Stamp { sealer: &sealer, server_info: &info }, cursor)
}

/// Follows the cursors to the end.
fn walk(listed: &PagedList, revision: Revision) -> (Vec<String>, usize) {
    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = page(listed, revision, cursor.as_ref()).unwrap().to_value();
        let member = page[listed.listing.member()].as_array().unwrap();
        names.extend(member.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        pages += 1;
        match &page["nextCursor"] {
            Value::Null => return (names, pages),
            next => cursor = Some(Raw::from_value(next)),
        }
    }
}

fn first_cursor(listed: &PagedList) -> Raw {
    page(listed, Revision::LATEST, None).unwrap().get("nextCursor").unwrap()
}

const REVISIONS: [Revision; 4] =
    [Revision::LATEST, Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2024_11_05];

#[test]
fn a_list_of_one_page_is_shared_and_not_copied() {
    let listed = PagedList::new(Listing::Tools, &paging("p", 10), entries(10));
    for revision in REVISIONS {
        let first = page(&listed, revision, None).unwrap();
        assert!(first.get("nextCursor").is_none());
        assert_eq!(first.bytes().as_ptr(), page(&listed, revision, None).unwrap().bytes().as_ptr(), "{revision}");
    }
    let legacy = |revision| page(&listed, revision, None).unwrap();
    let (new, old) = (legacy(Revision::V2025_11_25), legacy(Revision::V2024_11_05));
    assert_eq!(new.bytes().as_ptr(), old.bytes().as_ptr(), "nothing needs a change, so one copy is enough");
    let null = Raw::from_value(&Value::Null);
    assert!(page(&listed, Revision::LATEST, Some(&null)).is_ok(), "null is no cursor");
}

#[test]
fn each_revision_reads_its_own_form() {
    let tool = json!({
        "name": "a", "execution": { "taskSupport": "optional" }, "outputSchema": { "type": "object" },
        "inputSchema": { "type": "object" },
    });
    let listed = PagedList::new(Listing::Tools, &paging("p", 10), vec![Raw::from_value(&tool)]);
    for (revision, execution, output) in [
        (Revision::LATEST, false, true),
        (Revision::V2025_11_25, true, true),
        (Revision::V2025_06_18, true, true),
        (Revision::V2025_03_26, true, false),
        (Revision::V2024_11_05, true, false),
    ] {
        let page = page(&listed, revision, None).unwrap().to_value();
        let tool = &page["tools"][0];
        assert_eq!(tool.get("execution").is_some(), execution, "{revision}");
        assert_eq!(tool.get("outputSchema").is_some(), output, "{revision}");
        assert_eq!(page.get("ttlMs").is_some(), revision == Revision::LATEST, "{revision}");
    }
}

#[test]
fn cursors_that_were_not_given_out_for_the_list_as_it_is_are_refused() {
    let listed = PagedList::new(Listing::Tools, &paging("p", 10), entries(25));
    let good = first_cursor(&listed);
    let same = PagedList::new(Listing::Tools, &paging("p", 10), entries(25));
    assert!(
        page(&same, Revision::V2025_03_26, Some(&good)).is_ok(),
        "an equal list, whenever and wherever it was built"
    );
    let (other_profile, other_list) = (paging("q", 10), paging("p", 10));
    for (other, text) in [
        (PagedList::new(Listing::Tools, &other_profile, entries(25)), "not one of this list's"),
        (PagedList::new(Listing::Prompts, &other_list, entries(25)), "not one of this list's"),
        (PagedList::new(Listing::Tools, &other_list, entries(26)), "has changed"),
        (PagedList::new(Listing::Tools, &other_list, entries(3)), "has changed"),
        (PagedList::new(Listing::Tools, &paging("p", 7), entries(25)), "has changed"),
    ] {
        let error = page(&other, Revision::LATEST, Some(&good)).unwrap_err();
        assert_eq!(error.code, INVALID_PARAMS);
        assert!(error.message.contains(text) && error.message.contains("without a cursor"), "{}", error.message);
    }
    for odd in [json!(""), json!("x"), json!(7), json!({}), json!(true), json!("from-10")] {
        let error = page(&listed, Revision::LATEST, Some(&Raw::from_value(&odd))).unwrap_err();
        assert_eq!(error.code, INVALID_PARAMS, "{odd}");
    }
}

proptest! {
    #[test]
    fn pages_hold_each_entry_once_and_in_order(count in 0_usize..60, size in 0_usize..20) {
        for listing in Listing::ALL {
            let listed = PagedList::new(listing, &paging("p", size), entries(count));
            for revision in REVISIONS {
                let (names, pages) = walk(&listed, revision);
                let expect: Vec<_> = (0..count).map(|number| format!("tool-{number}")).collect();
                prop_assert_eq!(&names, &expect);
                prop_assert_eq!(pages, count.div_ceil(size.max(1)).max(1));
            }
        }
    }

    #[test]
    fn a_tampered_cursor_is_refused(at in 0_usize..60, to in "[A-Za-z0-9_-]") {
        let listed = PagedList::new(Listing::Tools, &paging("p", 10), entries(25));
        let good = json::text(first_cursor(&listed).as_str()).unwrap().into_owned();
        let at = at % good.len();
        let tampered = format!("{}{to}{}", &good[..at], &good[at + 1..]);
        let asked = page(&listed, Revision::LATEST, Some(&Raw::from_value(&tampered)));
        prop_assert_eq!(asked.is_ok(), tampered == good);
    }
}
