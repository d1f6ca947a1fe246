//! The browser of this machine: which addresses it may be given, and how it is opened. By argument lists only: no shell
//! reads an address, and no address can be taken for an option.

use std::time::Duration;

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::Platform;
use toolcrib_transport::process::Exit;
use toolcrib_transport::process::beside;
use url::Url;

use crate::home::Environment;

/// The longest address that is opened or shown, in bytes.
const URL_BYTES: usize = 16 * 1024;
/// How long a program may take to say that it cannot open a page. One that goes on is the browser itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a URL may hold and a shell would obey: written as `%XX`, which means the same to any server.
const SHELL: &[char] = &['$', '(', ')', '\'', '"', '`', ';', '|', '\\', '^', '{', '}', '<', '>', '!', '*'];

/// The address of a page: `http` or `https`, without userinfo, printable, and nothing that a shell would obey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageUrl(String);

/// A program that opens pages, with its arguments.
#[derive(Debug, PartialEq, Eq)]
struct Opener {
    program: String,
    arguments: Vec<String>,
}

// === impl PageUrl ===

impl PageUrl {
    /// Reads what a gateway says.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let refused = |why: &str| {
            Problem::new(Kind::BadServer, format!("the gateway answered with an address that is not opened: {why}"))
                .hint("check that the endpoint is a Toolcrib gateway of the same version with `toolcrib version`")
        };
        if text.len() > URL_BYTES {
            return Err(refused("it is too long"));
        }
        let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("it is neither `http` nor `https`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it holds a user name"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
        if !url.host_str().is_some_and(|host| !host.starts_with('-') && host.chars().all(is_plain)) {
            return Err(refused("its host is not a name"));
        }
        let mut plain = String::with_capacity(text.len());
        for c in url.as_str().chars() {
            match c {
                c if SHELL.contains(&c) => plain.push_str(&format!("%{:02X}", u32::from(c))),
                c if c.is_ascii_graphic() => plain.push(c),
                _ => return Err(refused("it holds a character that is not printable")),
            }
        }
        Ok(Self(plain))
    }

    /// A file of ours, by its percent-encoded path.
    pub(crate) fn of_file(path: &str) -> Self {
        Self(format!("file://{path}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether only this machine can open it.
    pub(crate) fn is_loopback(&self) -> bool {
        crate::loopback::is_loopback(&self.0)
    }
}

/// Opens a page in the browser of this machine.
///
/// # Errors
/// Why no browser opened, as a fragment.
pub(crate) async fn open(url: &PageUrl, environment: &Environment) -> Result<(), String> {
    let mut why = "there is no screen to open it on".to_owned();
    for Opener { program, arguments } in openers(url, environment, Platform::here()) {
        match beside::launch(&program, &arguments, PATIENCE).await {
            Ok(None | Some(Exit::Code(0))) => return Ok(()),
            Ok(Some(exit)) => why = format!("`{program}`: {exit}"),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// The programs that may open it, the most wanted first: those of `BROWSER`, then the system's, unless the person sits
/// elsewhere.
fn openers(url: &PageUrl, environment: &Environment, platform: Platform) -> Vec<Opener> {
    let named = environment.text("BROWSER").ok().flatten().unwrap_or_default();
    let mut all: Vec<Opener> = named.split(':').filter_map(|entry| Opener::named(entry, url)).collect();
    let is_set = |name: &str| environment.get(name).is_some();
    let system = if is_set("SSH_CONNECTION") {
        None
    } else if platform == Platform::MacOs {
        Some("open")
    } else if is_set("WSL_DISTRO_NAME") {
        Some("wslview")
    } else {
        // Without a screen it would start a browser in this terminal.
        (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")).then_some("xdg-open")
    };
    all.extend(system.map(|program| Opener { program: program.to_owned(), arguments: vec![url.as_str().to_owned()] }));
    all
}

// === impl Opener ===

impl Opener {
    /// An entry of `BROWSER`: words, in which `%s` is the address; without it the address comes last.
    fn named(entry: &str, url: &PageUrl) -> Option<Self> {
        let mut words = entry.split_whitespace().map(str::to_owned);
        let program = words.next().filter(|program| !program.starts_with('-'))?;
        let mut arguments: Vec<String> = words.collect();
        if arguments.iter().any(|word| word.contains("%s")) {
            arguments.iter_mut().for_each(|word| *word = word.replace("%s", url.as_str()));
        } else {
            arguments.push(url.as_str().to_owned());
        }
        Some(Self { program, arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect()
    }

    #[test]
    fn only_pages_are_opened() {
        for (text, expected) in [
            ("http://127.0.0.1:8700/connect/ab", Some("http://127.0.0.1:8700/connect/ab")),
            (" https://a.example/x?y=z#f\n", Some("https://a.example/x?y=z#f")),
            ("https://a.example/$(id)?q=`id`;'\"|", Some("https://a.example/%24%28id%29?q=%60id%60%3B%27%22%7C")),
            ("https://a.example/\u{1b}[2J", Some("https://a.example/%1B[2J")),
            ("https://[::1]:1/", Some("https://[::1]:1/")),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("data:text/html,x", None),
            ("--new-window", None),
            ("-x http://a", None),
            ("http:///", None),
            ("https://user:word@a.example/", None),
            ("https://-x.example/", None),
            ("https://a$(id).example/", None),
            ("", None),
        ] {
            let parsed = PageUrl::parse(text);
            assert_eq!(parsed.as_ref().ok().map(PageUrl::as_str), expected, "{text:?}: {parsed:?}");
        }
        assert!(PageUrl::parse(&format!("https://a/{}", "x".repeat(URL_BYTES))).is_err());
    }

    #[test]
    fn an_address_is_one_argument() {
        let url = PageUrl::parse("https://a.example/a%20b?c=d").unwrap();
        let opener = |program: &str, arguments: &[&str]| Opener {
            program: program.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        };
        let text = url.as_str();
        let set = [("BROWSER", "fox --new %s --x:--bad:  :plain"), ("SSH_CONNECTION", "a b c d"), ("DISPLAY", ":0")];
        assert_eq!(
            openers(&url, &environment(&set), Platform::here()),
            [opener("fox", &["--new", text, "--x"]), opener("plain", &[text])]
        );
        let by_itself = |platform: Platform, set: &[(&str, &str)]| openers(&url, &environment(set), platform);
        assert_eq!(by_itself(Platform::Linux, &[]), []);
        assert_eq!(by_itself(Platform::Linux, &[("WAYLAND_DISPLAY", "w")]), [opener("xdg-open", &[text])]);
        assert_eq!(by_itself(Platform::Linux, &[("WSL_DISTRO_NAME", "d")]), [opener("wslview", &[text])]);
        assert_eq!(by_itself(Platform::MacOs, &[]), [opener("open", &[text])]);
        assert_eq!(by_itself(Platform::MacOs, &[("SSH_CONNECTION", "x")]), []);
    }

    #[tokio::test]
    async fn a_browser_that_fails_gives_way_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        let url = PageUrl::parse("https://a.example/$(id)").unwrap();
        let browser = format!("no-such-browser:false:cp {} {}", "/dev/null", seen.display());
        // `cp` refuses three files of which the last is no folder.
        let why = open(&url, &environment(&[("BROWSER", &browser), ("SSH_CONNECTION", "x")])).await.unwrap_err();
        assert_eq!(why, "`cp`: exit code 1");
        let browser = format!("false:sh -c true {}", seen.display());
        open(&url, &environment(&[("BROWSER", &browser), ("SSH_CONNECTION", "x")])).await.unwrap();
        let why = open(&url, &environment(&[("SSH_CONNECTION", "x")])).await.unwrap_err();
        assert_eq!(why, "there is no screen to open it on");
    }
}
