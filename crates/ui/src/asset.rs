//! What pages load beside their HTML: the style, our script, htmx. Each has a name that changes with its bytes, so a
//! browser may keep it for ever.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// Where assets are.
pub const ROOT: &str = "/ui/asset/";

/// A file inside the binary.
#[derive(Debug)]
pub struct Asset {
    /// The path under which it is served.
    pub path: String,
    /// Its media type.
    pub media: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

/// All of them, the style first.
pub static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    [
        Asset::new("toolcrib.css", "text/css; charset=utf-8", include_bytes!("../assets/toolcrib.css")),
        Asset::new("htmx.js", "text/javascript; charset=utf-8", include_bytes!("../assets/htmx-4.0.1.min.js")),
        Asset::new("htmx-sse.js", "text/javascript; charset=utf-8", include_bytes!("../assets/htmx-4.0.1-sse.min.js")),
        Asset::new("toolcrib.js", "text/javascript; charset=utf-8", include_bytes!("../assets/toolcrib.js")),
    ]
});

/// The asset that is served under a path.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

// === impl Asset ===

impl Asset {
    fn new(name: &str, media: &'static str, bytes: &'static [u8]) -> Self {
        let hash: String = Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let (stem, end) = name.split_once('.').unwrap_or((name, ""));
        Self { path: format!("{ROOT}{stem}.{hash}.{end}"), media, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_is_found_under_its_own_name_only() {
        for asset in ASSETS.iter() {
            assert_eq!(find(&asset.path).map(|found| found.bytes), Some(asset.bytes));
        }
        assert!(find("/ui/asset/toolcrib.css").is_none() && find("/ui/asset/").is_none());
    }

    /// The copies of htmx are those of its release 4.0.1 on npm; `assets/htmx-LICENSE.txt` is its licence.
    #[test]
    fn htmx_is_what_its_release_holds() {
        let digest = |index: usize| -> String {
            Sha256::digest(ASSETS[index].bytes).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        assert_eq!(digest(1), "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130");
        assert_eq!(digest(2), "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103");
    }
}
