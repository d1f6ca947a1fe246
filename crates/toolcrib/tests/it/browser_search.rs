//! The search bench of the real binary in a real browser: what an agent gets and why, two searches side by side, a list
//! of cases with its misses, and what was learned from use.

use serde_json::Value;
use thirtyfour::prelude::*;
use toolcrib_testkit::{eventually, fake_server};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

/// Cases as `toolcrib eval search` has them: one is found by an exposed name, one misses a tool that the profile hides.
const CASES: &str = r#"{"id":"1","text":"add two numbers","relevant":["try/add"]}
{"id":"2","text":"wait a while before the answer","relevant":["try_slow"]}

{"id":"3","text":"return a picture","relevant":["try/image","try/hidden-from-all"]}
"#;

async fn gateway() -> GatewayFixture {
    let server = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let files = [
        ("servers/try.yaml", server.as_str()),
        ("profiles/default.yaml", "name: default\nlearn: true\n"),
        ("profiles/small.yaml", "name: small\nranking: tfidf\ntools: {deny: [try/add]}\n"),
    ];
    GatewayFixture::of_person(&files).await
}

/// What an element says.
async fn text_of(pages: &Pages, css: &str) -> String {
    pages.until(css).await.text().await.unwrap()
}

#[tokio::test]
async fn a_search_shows_what_an_agent_gets_and_why_and_two_profiles_beside_each_other() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    let told = run(&home, &["call", "find_tools", "query=add two numbers"], &[]).await;
    assert_eq!(told.code, 0, "{}", told.stderr);
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/search").await;
            pages.types("input[name=q]", "add two numbers").await;
            pages.click("form[role=search] button.primary").await;
            // The very text of an agent.
            let shown = text_of(&pages, "#answer").await;
            assert_eq!(shown.trim(), told.stdout.trim());
            let text = pages.text().await;
            for part in ["Why in this order", "Words", "Meaning", "Found by", "numbers ", "An agent calls find_tools"] {
                assert!(text.replace('\n', " ").contains(part), "{part}: {text}");
            }
            let tokens = text.lines().find(|line| line.starts_with("What the agent gets: ")).unwrap().to_owned();
            let tokens: u32 = tokens.split(' ').rev().nth(1).unwrap().parse().unwrap();
            assert!((10..2_000).contains(&tokens), "{tokens}");
            let first = text_of(&pages, "tbody tr:first-child th a").await;
            assert_eq!(first, "try/add");
            // The parts add up to the score.
            let sum = "const cells = [...document.querySelectorAll('tbody tr')][0].querySelectorAll('td.number');\
                       const parts = [...cells].map((it) => Number(it.textContent || 0));\
                       return [parts[0], parts.slice(1).reduce((sum, it) => sum + it, 0)];";
            let sum = pages.driver.execute(sum, Vec::new()).await.unwrap().json().clone();
            let (score, parts) = (sum[0].as_f64().unwrap(), sum[1].as_f64().unwrap());
            assert!(score > 0.0 && (score - parts).abs() < 0.01, "{score} {parts}");
            // Another ranking beside it, then a profile that hides the tool; the address says both.
            pages.go("/ui/search?q=add+two+numbers&with_ranking=tfidf").await;
            pages.reads("Profile default, blend beside profile default, tfidf").await;
            pages.until("#answer").await;
            pages.until("#answer-other").await;
            pages.go("/ui/search?q=add+two+numbers&with=small").await;
            pages.reads("Profile default, blend beside profile small, tfidf").await;
            assert!(pages.text().await.contains("left only"), "{}", pages.text().await);
            assert!(text_of(&pages, "#answer").await.contains("try/add"));
            assert!(!text_of(&pages, "#answer-other").await.contains("try/add"));
            // A query is text.
            pages.go("/ui/search?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&with=small").await;
            pages.until("#answer-other").await;
            assert!(pages.driver.find_all(By::Css("main img")).await.unwrap().is_empty());
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn a_list_of_cases_is_measured_and_its_misses_are_listed() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    let file = home.join("cases.jsonl");
    std::fs::write(&file, CASES).unwrap();
    let name = file.display().to_string();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/search").await;
            pages.click("a[href^='/ui/search/cases']").await;
            // A line that is wrong is named, and what was put in stays.
            pages.types("#cases", "{\"text\": \"add\"}").await;
            pages.click("form[action='/ui/search/cases'] button.primary").await;
            pages.reads("Line 1 of cases has no list relevant").await;
            assert_eq!(pages.until("#cases").await.prop("value").await.unwrap().unwrap(), "{\"text\": \"add\"}");
            // From a file, which the browser reads.
            pages.until("input[data-into]").await.send_keys(&name).await.unwrap();
            eventually("the file is in the field", async {
                while pages.until("#cases").await.prop("value").await.unwrap().unwrap() != CASES {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            pages.click("form[action='/ui/search/cases'] button.primary").await;
            pages.reads("Misses: 1").await;
            let text = pages.text().await;
            for part in ["83.3 %", "return a picture", "try/hidden-from-all", "not shown: try/hidden-from-all"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            // Its address shows the same again, and a miss leads to its search.
            pages.driver.refresh().await.unwrap();
            pages.reads("Misses: 1").await;
            pages.click("tbody th a").await;
            pages.until("#answer").await;
            // In the other profile a hidden tool is missed.
            pages.go("/ui/search/cases").await;
            pages.click("select[name=profile] option:last-child").await;
            pages.click("form[action='/ui/search/cases'] button.primary").await;
            pages.reads("not shown: try/add").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    let asked = serde_json::json!({ "cases": CASES.lines().next().unwrap() }).to_string();
    let measured = ["api", "core_search_eval", "--json", &asked];
    let measured: Value = serde_json::from_str(&run(gateway.home(), &measured, &[]).await.stdout).unwrap();
    assert_eq!((&measured["recall_at_1"], &measured["missed"]), (&1.0.into(), &0.into()), "{measured}");
}

#[tokio::test]
async fn what_was_learned_from_use_is_shown_and_forgotten_and_trying_teaches_nothing() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/search?q=picture").await;
            pages.reads("Nothing so far").await;
            // What is tried here is no search of an agent: a call afterwards teaches nothing.
            let called = run(&home, &["call", "try/image"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            pages.driver.refresh().await.unwrap();
            pages.reads("Nothing so far").await;
            let found = run(&home, &["call", "find_tools", "query=picture of process"], &[]).await;
            assert_eq!(found.code, 0, "{}", found.stderr);
            let called = run(&home, &["call", "try/pid"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            pages.go("/ui/search?q=picture").await;
            pages.reads("After the word").await;
            pages.reads("try/pid").await;
            pages.click("main .actions a.danger").await;
            pages.click("form[action='/ui/do/core_learning_reset'] button.danger").await;
            pages.reads("Nothing so far").await;
            pages.reads("Done.").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn a_long_list_of_cases_shows_how_far_it_is_on_every_page_and_is_cancelled() {
    let server = format!("name: many\ncommand: {}\nargs: [--tools, '10000']\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("many", server.as_str())]).await;
    // Each with words of many tools, so that asking all of them takes longer than a browser needs to look.
    let numbers = |number: usize| (number..number + 70).map(|it| it.to_string()).collect::<Vec<_>>().join(" ");
    let words = "list create update delete search invoice ticket branch calendar deployment customer image metric";
    let case = |number: usize| format!("{{\"text\":\"{words} {}\",\"relevant\":[\"many/none\"]}}", numbers(number));
    let cases: Vec<String> = (0..2_000).map(case).collect();
    let file = gateway.home().join("cases.jsonl");
    std::fs::write(&file, cases.join("\n")).unwrap();
    let name = file.display().to_string();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/search/cases").await;
            pages.until("input[data-into]").await.send_keys(&name).await.unwrap();
            eventually("the file is in the field", async {
                while pages.until("#cases").await.prop("value").await.unwrap().unwrap().is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            pages.click("form[action='/ui/search/cases'] button.primary").await;
            pages.until("#live progress").await;
            // Elsewhere, too, and from there it is found again.
            pages.go("/ui/halts").await;
            pages.until("#running progress").await;
            pages.click("#running a").await;
            pages.click("form[action^='/ui/calls/'] button.danger").await;
            pages.reads("cancelled").await;
            pages.go("/ui/halts").await;
            pages.reads("Nothing is halted").await;
            assert!(pages.driver.find_all(By::Css("#running progress")).await.unwrap().is_empty());
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    let listed = ["audit", "list", "--target", "core_search_eval", "-o", "json"];
    let listed: Value = serde_json::from_str(&run(gateway.home(), &listed, &[]).await.stdout).unwrap();
    assert_eq!((&listed["events"][0]["outcome"], &listed["events"][0]["door"]), (&"cancelled".into(), &"ui".into()));
}
