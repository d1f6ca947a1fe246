//! What a child inherits of our environment: a short documented list, nothing else.

use std::ffi::{OsStr, OsString};

/// The variables that every child inherits. A trailing `*` stands for any rest of the name.
///
/// Everything else (our own `TOOLCRIB_*`, tokens of the shell that started us, cloud credentials …) stays here unless
/// a definition names it. Mind that `npm_config_*`, `PIP_*`, `UV_*` and the proxy variables may carry credentials of
/// a registry or a proxy: they are here because without them `npx` and `uvx` reach nothing inside many companies.
pub const INHERITED: &[&str] = &[
    // where programs and files are
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // language and time
    "LANG",
    "LC_*",
    "TZ",
    // the way out
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    // certificates of a company
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // package runners
    "npm_config_*",
    "PIP_*",
    "UV_*",
];

/// Those of `variables` that a child inherits: those that every child does, and those of these names.
pub fn inherited(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    more: &[String],
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.into_iter().filter(|(name, _)| is_inherited(name) || more.iter().any(|more| name == more.as_str()))
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => name == *entry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_are_inherited() {
        for (name, expected) in [
            ("PATH", true),
            ("LC_ALL", true),
            ("LC_", false),
            ("npm_config_registry", true),
            ("PIP_INDEX_URL", true),
            ("UV_CACHE_DIR", true),
            ("https_proxy", true),
            ("NODE_EXTRA_CA_CERTS", true),
            ("Path", false),
            ("PATH2", false),
            ("LD_PRELOAD", false),
            ("NODE_OPTIONS", false),
            ("PYTHONPATH", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("TOOLCRIB_HOME", false),
            ("XDG_CONFIG_HOME", true),
            ("KUBECONFIG", false),
            ("", false),
        ] {
            let kept = inherited([(name.into(), "x".into())], &[]).count() == 1;
            assert_eq!(kept, expected, "{name}");
        }
        let more = ["KUBECONFIG".to_owned()];
        let names = ["KUBECONFIG", "KUBECONFIG2", "PATH"].map(|name| (name.into(), "x".into()));
        assert_eq!(inherited(names, &more).count(), 2);
    }
}
