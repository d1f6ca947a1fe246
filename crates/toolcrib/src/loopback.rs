//! Which URLs lead to this machine, so that no one else can answer there.

use http::Uri;

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    url.parse().is_ok_and(|uri| is_here(&uri))
}

/// Whether only this machine can answer.
pub(crate) fn is_here(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_several_names() {
        for (url, expected) in [
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://127.9.9.9", true),
            ("http://10.0.0.1", false),
            ("http://localhost.a.example", false),
        ] {
            assert_eq!(is_loopback(url), expected, "{url}");
        }
    }
}
