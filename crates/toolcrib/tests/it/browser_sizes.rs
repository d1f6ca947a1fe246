//! How large pages are as a browser receives them, packed.

use serde_json::Value;
use toolcrib_testkit::fake_server;

use crate::browser_pages::Browser;
use crate::serving::GatewayFixture;

/// What a page takes at most that is opened after the first one, in bytes.
const NEXT_PAGE: u64 = 15 * 1_024;

#[tokio::test]
async fn the_page_of_every_operation_is_as_small_as_others() {
    let practice = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("try", &practice)]).await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/operations").await;
            let links = "return [...document.querySelectorAll('main a')].map((it) => it.getAttribute('href'))\
                         .filter((it) => it.startsWith('/ui/operations/core_'))";
            let links: Vec<String> = serde_json::from_value(pages.eval(links).await).unwrap();
            assert!(links.len() > 150, "{}", links.len());
            let mut sizes = Vec::new();
            for link in &links {
                let size = format!(
                    "performance.clearResourceTimings(); return fetch('{link}').then((it) => it.text()).then(() => \
                     performance.getEntriesByType('resource').map((it) => it.encodedBodySize).pop())"
                );
                let size: Value = pages.eval(&size).await;
                sizes.push((size.as_u64().filter(|size| *size > 0).unwrap_or_else(|| panic!("{link}: {size}")), link));
            }
            sizes.sort_unstable();
            sizes.reverse();
            println!("{} pages of operations, the largest: {:?}", sizes.len(), &sizes[..5]);
            let large: Vec<_> = sizes.iter().filter(|(size, _)| *size > NEXT_PAGE).collect();
            assert!(large.is_empty(), "{large:?}");
        })
        .await;
}
