//! Lists longer than a page: cursors of our own, for every list and in both eras.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped, strings};

/// Reads a list to its end: its pages and the cursors between them.
async fn walk(client: &Client, method: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut pages, mut cursors) = (Vec::new(), Vec::new());
    let mut params = json!({});
    loop {
        let page = client.ask(method, &params).await.unwrap();
        let next = page["nextCursor"].clone();
        pages.push(page);
        if next.is_null() {
            return (pages, cursors);
        }
        params = json!({ "cursor": next });
        cursors.push(next);
    }
}

#[tokio::test]
async fn thousands_of_tools_are_listed_in_pages_and_a_change_starts_them_again() {
    let direct = [profile("direct", "exposure: direct"), profile("other", "exposure: direct")];
    let files = [vec![server("alpha", &["--tools", "2500"])], direct.to_vec()].concat();
    let house = TestGateway::settled(&files).await;
    let mut given = Vec::new();
    for client in house.both("direct") {
        let (pages, cursors) = walk(&client, "tools/list").await;
        let lengths: Vec<_> = pages.iter().map(|page| page["tools"].as_array().unwrap().len()).collect();
        let menu = lengths.iter().sum::<usize>() - 2_500;
        assert_eq!(lengths, [1_000, 1_000, 500 + menu]);
        let mut names: Vec<_> = pages.iter().flat_map(|page| strings(&page["tools"], "name")).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 2_500 + menu, "each stands on one page only");
        let scopes: Vec<_> = pages.iter().map(|page| page.get("cacheScope").cloned()).collect();
        assert!(scopes.windows(2).all(|two| two[0] == two[1]), "{scopes:?}");
        // Cursors are good in any order and more than once.
        let again = client.ask("tools/list", &json!({ "cursor": cursors[1] })).await.unwrap();
        assert_eq!(again, pages[2]);
        given = cursors;
    }
    let [modern, legacy] = house.both("direct");
    assert!(legacy.ask("tools/list", &json!({ "cursor": given[0] })).await.is_ok(), "eras share their cursors");
    for (client, method, cursor) in [
        (&house.modern("other"), "tools/list", &given[0]),
        (&modern, "prompts/list", &given[0]),
        (&modern, "resources/list", &given[0]),
        (&legacy, "resources/templates/list", &given[0]),
        (&legacy, "tools/list", &json!("")),
        (&modern, "tools/list", &json!("")),
        (&modern, "tools/list", &json!("from-1000")),
        (&legacy, "tools/list", &json!(1)),
    ] {
        let error = client.ask(method, &json!({ "cursor": cursor })).await.unwrap_err();
        assert_eq!(error.code, -32_602, "{method} {cursor}");
        assert!(error.message.contains("Ask again without a cursor"), "{}", error.message);
    }
    house.apply(&[stopped("beta", &["one"], "")]).await;
    for client in house.both("direct") {
        let error = client.ask("tools/list", &json!({ "cursor": given[0] })).await.unwrap_err();
        assert_eq!(error.code, -32_602);
        assert!(error.message.contains("has changed"), "{}", error.message);
        assert_eq!(walk(&client, "tools/list").await.0.len(), 3);
    }
    house.apply(&[("servers/beta.yaml".into(), String::new())]).await;
    let back = legacy.ask("tools/list", &json!({ "cursor": given[0] })).await.unwrap();
    assert_eq!(back["tools"].as_array().unwrap().len(), 1_000, "the same list has the same cursors");
}

#[tokio::test]
async fn every_list_has_pages() {
    let files = [server("alpha", &[]), server("beta", &[]), profile("direct", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    let whole = house.both("direct");
    let lists = [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ];
    for (method, member) in lists {
        for client in &whole {
            let (pages, _) = walk(client, method).await;
            assert_eq!(pages.len(), 1, "{method}");
            house.gateway.list_in_pages_of(1);
            let (small, cursors) = walk(client, method).await;
            let entries: Vec<_> = small.iter().flat_map(|page| page[member].as_array().unwrap().clone()).collect();
            assert_eq!(&json!(entries), &pages[0][member], "{method}");
            assert_eq!(small.len(), entries.len());
            assert_eq!(cursors.len(), small.len() - 1);
            house.gateway.list_in_pages_of(1_000);
        }
    }
}
