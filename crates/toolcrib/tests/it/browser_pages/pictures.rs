//! The pictures of the README and of the guide: pages of the demo in both themes, with a clock that stands. They are
//! taken twice and must be the same; `cargo xtask test --screenshots` writes them into `docs/ui/`.

mod png;

use std::path::PathBuf;

use serde_json::json;
use toolcrib_testkit::launch::Launch;

use super::{Browser, Pages};

/// Says that they are written.
const WRITTEN: &str = "TOOLCRIB_SCREENSHOTS";
/// The size of a picture, in pixels, and what it may weigh.
const SIZE: [u32; 2] = [1040, 640];
const BYTES: usize = 60 * 1024;
const THEMES: [&str; 2] = ["light", "dark"];
/// The name of each picture, its page, and what the page reads once it is whole.
const PAGES: [(&str, &str, &str); 3] = [
    ("tools", "/ui/tools?profile=default", "clock/weekday"),
    ("search", "/ui/search?profile=default&q=convert+miles+to+kilometres", "units/convert_length"),
    ("call", "/ui/call/units%2Fconvert_length", "42.1"),
];
/// What differs from one time to the next: moments, durations, ports and names of sessions.
const STILL: &str = r"
    const clock = '2026-11-28 09:30';
    const times = [3.8, 0.2, 2.9, 3.4, 3.8];
    let at = 0;
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        node.data = node.data
            .replace(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?Z?)?/g, clock)
            .replace(/\b\d+(\.\d+)? ?(µs|ms|s)\b/g, () => `${times[at++ % times.length]} ms`)
            .replace(/(127\.0\.0\.1|localhost):\d+/g, '127.0.0.1:8700');
    }
    document.activeElement.blur();
    window.scrollTo(0, 0);
";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/ui")
}

/// A page as it looks.
async fn picture(pages: &Pages, path: &str, whole: &str) -> Vec<u8> {
    pages.go(path).await;
    if path.starts_with("/ui/call/") {
        pages.types("[name='v:/value']", "26.2").await;
        for (field, unit) in [("from", "mile"), ("to", "kilometre")] {
            pages.click(&format!("[name='v:/{field}'] option[value='\"{unit}\"']")).await;
        }
        pages.click("form[action^='/ui/call/'] button.primary").await;
    }
    pages.reads(whole).await;
    pages.eval(STILL).await;
    png::small(&pages.driver.screenshot_as_png().await.unwrap())
}

#[tokio::test]
async fn the_pictures_of_the_documents_are_taken_from_the_demo() {
    let temporary = tempfile::tempdir().unwrap();
    let demo = Launch::new(env!("CARGO_BIN_EXE_toolcrib"), &["demo", "--listen", "127.0.0.1:0"]);
    let mut demo = demo.env("TMPDIR", temporary.path()).start();
    let printed = demo.reads_to("when the demo ends").await;
    let home = printed.split("This home is temporary: ").nth(1).unwrap().lines().next().unwrap();
    let home = PathBuf::from(home.trim());
    Browser::start()
        .await
        .signed_in_at(&home, |pages| async move {
            for (name, path, whole) in PAGES {
                for theme in THEMES {
                    let size = json!({
                        "width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": false,
                    });
                    pages.media(&[("prefers-color-scheme", theme)]).await;
                    pages.cdp.send_raw("Emulation.setDeviceMetricsOverride", size).await.unwrap();
                    let taken = picture(&pages, path, whole).await;
                    assert!(taken.len() <= BYTES, "{name}: {} bytes", taken.len());
                    let again = picture(&pages, path, whole).await;
                    assert!(taken == again, "{name} in {theme}: two pictures of one page differ");
                    let file = folder().join(format!("{name}-{theme}.png"));
                    if std::env::var_os(WRITTEN).is_some() {
                        std::fs::create_dir_all(folder()).unwrap();
                        std::fs::write(&file, &taken).unwrap();
                    }
                    let kept = std::fs::metadata(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                    assert!(kept.len() <= BYTES as u64, "{}: {} bytes", file.display(), kept.len());
                }
            }
        })
        .await;
    demo.signal(rustix::process::Signal::TERM);
    assert_eq!(demo.finish().await.code, 0);
}
