//! Every page as people with other eyes, screens and settings meet it: axe-core's rules, both themes, wide and narrow,
//! twice the text, no motion, colours of the system.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use super::{Browser, Pages, gateway, outline};

/// The widths at which every page is looked at, in pixels.
const WIDE: u32 = 1280;
const NARROW: u32 = 320;
/// Pages below those of the navigation.
const MORE: [&str; 19] = [
    "/ui/servers/try",
    "/ui/tools/try%2Fecho",
    "/ui/call/try%2Fecho",
    "/ui/profiles/default",
    "/ui/operations/core_halt_add",
    "/ui/registry/github",
    "/ui/models/demo",
    "/ui/runs/compare",
    "/ui/tools?show=hidden",
    "/ui/profiles/-/edit",
    "/ui/profiles/-/edit?name=default",
    "/ui/policies/who",
    "/ui/policies/explain?as=user:acme/ann&tool=try/echo",
    "/ui/policies/-/edit",
    "/ui/edit/workflow",
    "/ui/edit/workflow?as=yaml",
    "/ui/edit/server/try",
    "/ui/edit/server/try?as=yaml",
    "/ui/service-classes",
];

#[tokio::test]
async fn every_page_is_accessible_quiet_and_fits_in_both_themes_wide_and_narrow() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            with_axe(&pages).await;
            let paths =
                pages.eval("return [...document.querySelectorAll('nav a')].map(it => it.getAttribute('href'))").await;
            let mut paths: Vec<String> = serde_json::from_value(paths).unwrap();
            assert!(paths.len() >= 20, "{paths:?}");
            paths.extend(MORE.map(str::to_owned));
            let places: Vec<PagePlace> = paths.into_iter().map(PagePlace::of).collect();
            let (begun, count) = (Instant::now(), places.len());
            let (wrong, outlines) = examine(&pages, &home, places).await;
            println!("{count} pages in {:?}", begun.elapsed());
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            outline::compare(&outlines, "outlines.txt");
        })
        .await;
}

/// A page, and how it is called where its path is another one each time.
pub(super) struct PagePlace {
    pub(super) name: String,
    pub(super) path: String,
}

impl PagePlace {
    pub(super) fn of(path: String) -> Self {
        Self { name: path.clone(), path }
    }
}

/// Looks at pages in both themes, wide and narrow: gives what is wrong with them, and their outlines. Of the start page
/// the outline is that of all of the page.
pub(super) async fn examine(
    pages: &Pages,
    home: &Path,
    places: Vec<PagePlace>,
) -> (Vec<String>, Vec<(String, String)>) {
    let (mut wrong, mut outlines) = (Vec::new(), Vec::new());
    for PagePlace { name, path } in places {
        pages.look(WIDE, "light").await;
        pages.go(&path).await;
        outlines.push((name.clone(), outline::of(pages, home, path == "/ui").await));
        // Each page is loaded once; widths and themes change while it is open. Only contrast depends on themes.
        for (width, theme, rules) in
            [(WIDE, "light", "all"), (WIDE, "dark", "contrast"), (NARROW, "dark", "all"), (NARROW, "light", "contrast")]
        {
            pages.look(width, theme).await;
            let place = format!("{name} at {width} pixels, {theme}");
            wrong.extend(violations(pages, rules).await.into_iter().map(|text| format!("{place}: {text}")));
            wrong.extend(faults(pages, theme).await.into_iter().map(|text| format!("{place}: {text}")));
        }
        wrong.extend(pages.complaints().await.into_iter().map(|line| format!("{name}: {line}")));
    }
    (wrong, outlines)
}

#[tokio::test]
async fn pages_follow_the_settings_of_people() {
    let gateway = gateway().await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            // Who reads text at twice its size loses nothing: no page is wider than the window.
            let sizes = json!({ "fontSizes": { "standard": 32, "fixed": 26 } });
            pages.cdp.send_raw("Page.setFontSizes", sizes).await.unwrap();
            for path in ["/ui", "/ui/tools", "/ui/servers/try", "/ui/call/try%2Fecho", "/ui/audit", "/ui/settings"] {
                pages.look(WIDE, "light").await;
                pages.go(path).await;
                let size = pages.eval("return getComputedStyle(document.documentElement).fontSize").await;
                assert_eq!(size, "28px", "{path}");
                assert_eq!(pages.eval(WIDER).await, json!([]), "{path} with text at 200 %");
            }
            // Who wants no motion sees none.
            pages.media(&[("prefers-reduced-motion", "reduce")]).await;
            assert_eq!(pages.eval(MOVING).await, json!([]));
            // Where the system sets the colours, what is chosen, what a state is and what is a button is still seen.
            pages.media(&[("forced-colors", "active")]).await;
            pages.go("/ui/servers").await;
            assert_eq!(pages.eval("return matchMedia('(forced-colors: active)').matches").await, true);
            assert_eq!(pages.eval(FORCED).await, json!([]));
        })
        .await;
}

/// Loads the rules with each page from now on.
pub(super) async fn with_axe(pages: &Pages) {
    pages.cdp.send_raw("Page.addScriptToEvaluateOnNewDocument", json!({ "source": axe() })).await.unwrap();
}

/// The rules, as `cargo xtask test --only need` installs them.
fn axe() -> String {
    let program = std::env::current_exe().unwrap();
    let path = PathBuf::from("acceptance/node/node_modules/axe-core/axe.min.js");
    let found = program.ancestors().map(|folder| folder.join(&path)).find(|path| path.exists());
    let found = found.expect("axe-core is installed: `cargo xtask test --only need` does that");
    std::fs::read_to_string(found).unwrap()
}

/// What axe-core finds wrong with the page: rule, element, what to do.
pub(super) async fn violations(pages: &Pages, rules: &str) -> Vec<String> {
    let found = pages.driver.execute_async(AXE, vec![json!(rules)]).await.unwrap().json().clone();
    assert!(found["checked"].as_u64() > Some(0), "the rules ran: {found}");
    serde_json::from_value(found["wrong"].clone()).unwrap()
}

const AXE: &str = r#"
const done = arguments[arguments.length - 1];
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const runOnly = arguments[0] === "all" ? { type: "tag", values: tags } : { type: "rule", values: ["color-contrast"] };
axe.run(document, { runOnly, resultTypes: ["violations"] }).then((found) => done({
  checked: found.passes.length + found.inapplicable.length,
  wrong: found.violations.flatMap((rule) => rule.nodes.map((it) => `${rule.id}: ${it.html.slice(0, 200)}: ${it.failureSummary}`)),
}), (error) => done({ checked: 0, wrong: [String(error)] }));
"#;

/// What no rule of axe-core looks at.
async fn faults(pages: &Pages, theme: &str) -> Vec<String> {
    let seen = pages.eval(LOOK).await;
    let expected = json!({ "wider": [], "headings": 1, "unnamed": [], "twice": [], "elsewhere": [], "theme": theme });
    let keys = expected.as_object().unwrap().iter().filter(|(key, value)| &&seen[key.as_str()] != value);
    keys.map(|(key, _)| format!("{key}: {}", seen[key.as_str()])).collect::<Vec<String>>()
}

const LOOK: &str = r#"
const all = (css) => [...document.querySelectorAll(css)];
const name = (it) => it.getAttribute("aria-label") || it.labels?.[0]?.textContent.trim() || it.textContent.trim() || it.title;
const ids = all("[id]").map((it) => it.id);
const light = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).map(Number);
const width = document.documentElement.clientWidth;
return {
  wider: document.documentElement.scrollWidth > width
    ? all("main *").filter((it) => it.getBoundingClientRect().right > width + 1).slice(0, 3).map((it) => it.outerHTML.slice(0, 120)) : [],
  headings: all("h1").length,
  unnamed: all("button, a, input:not([type=hidden]), select, textarea").filter((it) => !name(it)).map((it) => it.outerHTML),
  twice: ids.filter((id, at) => ids.indexOf(id) !== at),
  elsewhere: performance.getEntriesByType("resource").map((it) => it.name)
    .filter((it) => !it.startsWith(location.origin) && !it.startsWith("data:")),
  theme: light[0] < 128 ? "dark" : "light",
};
"#;

/// Elements that make the page wider than its window.
const WIDER: &str = r#"
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= width) return [];
return [...document.querySelectorAll("body *")].filter((it) => it.getBoundingClientRect().right > width + 1)
  .slice(0, 3).map((it) => it.outerHTML.slice(0, 120));
"#;

const MOVING: &str = r#"
const moves = (it) => ["transitionDuration", "animationDuration"].some((key) => parseFloat(getComputedStyle(it)[key]) > 0);
return [...document.querySelectorAll("*")].filter(moves).map((it) => it.outerHTML.slice(0, 80));
"#;

const FORCED: &str = r#"
const wrong = [];
const side = (it, key) => parseFloat(getComputedStyle(it)[key]) > 0;
for (const it of document.querySelectorAll("button:not(.plain), .button")) {
  if (!side(it, "borderTopWidth")) wrong.push(it.outerHTML);
}
const current = document.querySelector("nav [aria-current]");
const other = document.querySelector("nav a:not([aria-current])");
if (getComputedStyle(current).borderLeftColor === getComputedStyle(other).borderLeftColor) wrong.push("the page that is shown");
for (const it of document.querySelectorAll(".state")) {
  if (!it.textContent.trim()) wrong.push(it.outerHTML);
}
return wrong;
"#;
