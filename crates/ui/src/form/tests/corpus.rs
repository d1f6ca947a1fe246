//! Schemas as servers have them, and values that fit them.

use super::*;

#[test]
fn schemas_of_known_servers_are_shown_and_keep_their_values() {
    let corpus = Json::parse(include_str!("corpus.json")).expect("a corpus");
    assert!(corpus.items().len() >= 40);
    for case in corpus.items() {
        let name = case.get("name").and_then(Json::as_text).expect("a name");
        let schema = case.get("schema").expect("a schema").to_string();
        let page = Page::parse(&form(&schema).to_string());
        page.check();
        let parts = page.pairs().iter().filter(|(name, _)| name.starts_with("json:")).count();
        assert_eq!(Some(parts), case.get("json").and_then(Json::as_count), "{name}: parts that are JSON");
        for value in case.get("values").expect("values").items() {
            check_kept(&schema, &value.to_string());
        }
    }
}
