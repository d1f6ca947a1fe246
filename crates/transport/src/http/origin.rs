//! References that a server gives us, such as redirects: followed within its own origin and nowhere else, because the
//! definition's headers hold secrets that are meant for it alone.

use http::Uri;

/// What `reference` points to, seen from `base`, when that is the same origin.
///
/// Source: RFC 3986, section 5.2, for references to HTTP resources. Whatever the reference names, the result has the
/// authority of `base`.
pub(crate) fn within(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default().trim_matches(' ');
    let path = if let Some(rest) = reference.strip_prefix("//") {
        same_origin(base, &format!("{}://{rest}", base.scheme_str()?))?
    } else if has_scheme(reference) {
        same_origin(base, reference)?
    } else if reference.starts_with('/') {
        reference.to_owned()
    } else if reference.is_empty() {
        base.path_and_query()?.to_string()
    } else if reference.starts_with('?') {
        format!("{}{reference}", base.path())
    } else {
        merged(base.path(), reference)
    };
    let (scheme, authority) = (base.scheme()?.clone(), base.authority()?.clone());
    Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
}

/// The path and query of an absolute URL of the same origin.
fn same_origin(base: &Uri, url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let same =
        url.scheme()? == base.scheme()? && url.host()?.eq_ignore_ascii_case(base.host()?) && port(&url)? == port(base)?;
    same.then(|| url.path_and_query().map_or("/", |path| path.as_str()).to_owned())
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or_else(|| match uri.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

fn has_scheme(reference: &str) -> bool {
    reference.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// A relative path in the folder of `path`.
fn merged(path: &str, reference: &str) -> String {
    let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut rest = reference;
    loop {
        if let Some(next) = rest.strip_prefix("./") {
            rest = next;
        } else if let Some(next) = rest.strip_prefix("../") {
            rest = next;
            folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
        } else {
            return format!("{folder}/{rest}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, reference: &str, expect: Option<&str>) {
        let found = within(&base.parse().unwrap(), reference).map(|uri| uri.to_string());
        assert_eq!(found.as_deref(), expect, "{reference:?} from {base}");
    }

    #[test]
    fn references_within_the_origin_are_resolved() {
        let base = "http://h:81/a/sse?k=1";
        for (reference, expect) in [
            ("/messages?id=1", "http://h:81/messages?id=1"),
            ("messages", "http://h:81/a/messages"),
            ("./m", "http://h:81/a/m"),
            ("../../../m", "http://h:81/m"),
            ("?id=2", "http://h:81/a/sse?id=2"),
            ("", "http://h:81/a/sse?k=1"),
            ("http://H:81/x#y", "http://h:81/x"),
            ("HTTP://h:81", "http://h:81/"),
            ("//h:81/x", "http://h:81/x"),
            ("http://user:pass@h:81/x", "http://h:81/x"),
            ("m?next=http://other/", "http://h:81/a/m?next=http://other/"),
            (r"/\other/x", r"http://h:81/\other/x"),
        ] {
            check(base, reference, Some(expect));
        }
        check("https://h/mcp", "https://h:443/mcp/", Some("https://h/mcp/"));
        check("https://h:443/mcp", "https://h/x", Some("https://h:443/x"));
        check("http://[::1]:8/mcp", "http://[::1]:8/x", Some("http://[::1]:8/x"));
    }

    #[test]
    fn other_origins_and_nonsense_are_refused() {
        for reference in [
            "http://other:81/a",
            "http://h/a",
            "http://h:82/a",
            "https://h:81/a",
            "//other:81/a",
            "http://h:81@other/a",
            "http://h:81.other/a",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http:///x",
            "http://",
            "/a b",
            "/a\r\nx: y",
            "http://h:99999/",
        ] {
            check("http://h:81/a/sse", reference, None);
        }
    }
}
