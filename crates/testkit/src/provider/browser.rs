//! A browser without a screen and the person in front of it: it follows redirects, keeps cookies, and sends the forms
//! that it is shown. Synchronous, so that a test with one thread must not make it ask a server of that thread.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use http::Uri;

use super::form::Form;
use super::network::Network;

/// More redirects and forms than this are a loop.
const STEPS: usize = 20;
/// No answer takes longer, unless the test hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest page that is read, in bytes.
const PAGE: u64 = 1024 * 1024;

/// A browser with its cookies.
#[derive(Debug)]
pub struct Browser {
    network: Network,
    /// By host and port, then by name.
    cookies: BTreeMap<String, BTreeMap<String, String>>,
    consent: Consent,
    entered: Form,
    history: Vec<String>,
}

/// What the person does with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Sends it.
    Allow,
    /// Sends it with `decision=deny`.
    Deny,
    /// Leaves it alone.
    Leave,
}

/// Where a visit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// At a redirect to an address that starts as was said; it was not fetched.
    Callback(String),
    /// On a page.
    Page(BrowserPage),
}

/// A page, as the person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserPage {
    /// Its address.
    pub address: String,
    /// The HTTP status.
    pub status: u16,
    /// The headers with their names in lower case.
    pub headers: Vec<PageHeader>,
    /// The body as text.
    pub body: String,
}

/// A header of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// In lower case.
    pub name: String,
    /// As it came.
    pub value: String,
}

/// What a browser asks for.
struct Visit {
    address: String,
    /// Sent by POST.
    form: Option<Form>,
}

// === impl Browser ===

impl Browser {
    /// A browser that allows what it is asked, with the hosts of this network.
    pub fn new(network: &Network) -> Self {
        let (network, cookies, entered) = (network.clone(), BTreeMap::new(), Form::default());
        Self { network, cookies, consent: Consent::Allow, entered, history: Vec::new() }
    }

    /// The same with another person in front of it.
    #[must_use]
    pub fn with_consent(mut self, consent: Consent) -> Self {
        self.consent = consent;
        self
    }

    /// The same with a person who enters this value where a form asks for it.
    #[must_use]
    pub fn with_entry(mut self, name: &str, value: &str) -> Self {
        self.entered = self.entered.with(name, value);
        self
    }

    /// Keeps a cookie as a page of this address would set it.
    pub fn set_cookie(&mut self, address: &str, name: &str, value: &str) {
        if let Ok(uri) = address.parse::<Uri>() {
            self.cookies.entry(authority(&uri)).or_default().insert(name.to_owned(), value.to_owned());
        }
    }

    /// The addresses that were fetched so far.
    pub fn history(&self) -> &[String] {
        &self.history
    }

    /// Opens `address` and goes where it leads, until a redirect to an address that starts with `callback`.
    ///
    /// # Errors
    /// When a host is not known, does not answer, or the way has no end.
    pub fn open(&mut self, address: &str, callback: &str) -> io::Result<Destination> {
        let mut visit = Visit { address: address.to_owned(), form: None };
        for _ in 0..STEPS {
            if visit.form.is_none() && !callback.is_empty() && visit.address.starts_with(callback) {
                return Ok(Destination::Callback(visit.address));
            }
            let page = self.fetch(&visit)?;
            visit = match self.next(&page) {
                Some(next) => next,
                None => return Ok(Destination::Page(page)),
            };
        }
        Err(io::Error::other(format!("`{address}` leads on and on")))
    }

    /// Opens `address` and goes where it leads, callbacks too.
    ///
    /// # Errors
    /// As [`Browser::open`].
    pub fn visit(&mut self, address: &str) -> io::Result<BrowserPage> {
        match self.open(address, "")? {
            Destination::Page(page) => Ok(page),
            Destination::Callback(address) => Err(io::Error::other(format!("`{address}` was not fetched"))),
        }
    }

    fn next(&self, page: &BrowserPage) -> Option<Visit> {
        if (300..400).contains(&page.status) {
            let address = joined(&page.address, page.header("location")?)?;
            return Some(Visit { address, form: None });
        }
        let PageForm { action, fields } = PageForm::find(&page.body)?;
        let fields = fields.filled(&self.entered);
        let fields = match self.consent {
            Consent::Allow => fields,
            Consent::Deny => fields.with("decision", "deny"),
            Consent::Leave => return None,
        };
        Some(Visit { address: joined(&page.address, &action)?, form: Some(fields) })
    }

    fn fetch(&mut self, visit: &Visit) -> io::Result<BrowserPage> {
        let wrong = |what: &str| io::Error::other(format!("`{}`: {what}", visit.address));
        let uri: Uri = visit.address.split('#').next().unwrap_or_default().parse().map_err(|_| wrong("no address"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong("a browser opens http and https only"));
        }
        self.history.push(visit.address.clone());
        let address = self.network.address(&uri).ok_or_else(|| wrong("nobody knows this host"))?;
        let page = exchange(address, &visit.address, &self.request(&uri, visit.form.as_ref()))?;
        let kept = self.cookies.entry(authority(&uri)).or_default();
        for header in page.headers.iter().filter(|header| header.name == "set-cookie") {
            let cookie = header.value.split(';').next().unwrap_or_default();
            if let Some((name, value)) = cookie.split_once('=') {
                kept.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
        Ok(page)
    }

    fn request(&self, uri: &Uri, form: Option<&Form>) -> String {
        let method = if form.is_some() { "POST" } else { "GET" };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let host = authority(uri);
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: text/html\r\n");
        let cookies = self.cookies.get(&host).into_iter().flatten();
        let cookies: Vec<_> = cookies.map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            head += &format!("cookie: {}\r\n", cookies.join("; "));
        }
        if form.is_some() {
            // As browsers do: a form is sent from the page that it was shown on.
            head += &format!("origin: {}://{host}\r\n", uri.scheme_str().unwrap_or_default());
            head += "content-type: application/x-www-form-urlencoded\r\n";
        }
        let body = form.map(Form::encoded).unwrap_or_default();
        format!("{head}content-length: {}\r\n\r\n{body}", body.len())
    }
}

// === impl BrowserPage ===

impl BrowserPage {
    /// The first header of this name, which is written in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.name == name).map(|header| header.value.as_str())
    }
}

/// The first form of a page, filled in by a person who has no preference.
struct PageForm {
    action: String,
    fields: Form,
}

// === impl PageForm ===

impl PageForm {
    fn find(body: &str) -> Option<Self> {
        let start = body.find("<form")?;
        let form = &body[start..body[start..].find("</form").map_or(body.len(), |end| start + end)];
        let action = attribute(form.split('>').next()?, "action")?;
        let mut fields = Form::default();
        for input in form.split("<input").skip(1).filter_map(|input| input.split('>').next()) {
            if let Some(name) = attribute(input, "name") {
                fields = fields.with(&name, &attribute(input, "value").unwrap_or_else(|| "someone".to_owned()));
            }
        }
        // Who agrees presses the first button.
        if let Some(button) = form.split("<button").nth(1).and_then(|button| button.split('>').next())
            && let Some(name) = attribute(button, "name")
        {
            fields = fields.with(&name, &attribute(button, "value").unwrap_or_default());
        }
        Some(Self { action, fields })
    }
}

/// The value of `name="…"` in a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = tag[start..].split('"').next()?;
    Some(value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

/// Host and port as the header `Host` has them.
fn authority(uri: &Uri) -> String {
    uri.authority().map(ToString::to_string).unwrap_or_default()
}

/// A reference, seen from an address.
fn joined(from: &str, reference: &str) -> Option<String> {
    if reference.contains("://") || reference.split(['/', '?', '#']).next()?.contains(':') {
        return Some(reference.to_owned());
    }
    let uri: Uri = from.split('#').next()?.parse().ok()?;
    let origin = format!("{}://{}", uri.scheme_str()?, authority(&uri));
    match reference {
        _ if reference.starts_with('/') => Some(format!("{origin}{reference}")),
        "" => Some(from.to_owned()),
        _ => {
            let folder = uri.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            Some(format!("{origin}{folder}/{reference}"))
        }
    }
}

/// What a program of this machine answers to one request with these header lines, as a page.
///
/// # Errors
/// The address is not one of this machine, or nobody answers there.
pub fn fetch(method: &str, address: &str, lines: &[String], body: &str) -> io::Result<BrowserPage> {
    let uri: Uri = address.parse().map_err(io::Error::other)?;
    let socket = Network::default().address(&uri).ok_or_else(|| io::Error::other("only this machine is asked"))?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{lines}", authority(&uri));
    exchange(socket, address, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
}

fn exchange(socket: SocketAddr, address: &str, request: &str) -> io::Result<BrowserPage> {
    let stream = TcpStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    (&stream).write_all(request.as_bytes())?;
    read(address.to_owned(), &mut BufReader::new(&stream))
}

fn read(address: String, reader: &mut impl BufRead) -> io::Result<BrowserPage> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut page = BrowserPage { address, status, headers: Vec::new(), body: String::new() };
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        page.headers.push(PageHeader { name: name.to_ascii_lowercase(), value: value.trim().to_owned() });
    }
    let length = page.header("content-length").and_then(|length| length.parse().ok());
    let mut body = Vec::new();
    if page.header("transfer-encoding") == Some("chunked") {
        body = unchunked(reader)?;
    } else {
        reader.take(length.unwrap_or(PAGE)).read_to_end(&mut body)?;
    }
    page.body = String::from_utf8_lossy(&body).into_owned();
    Ok(page)
}

fn unchunked(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        if length == 0 || body.len() as u64 > PAGE {
            return Ok(body);
        }
        reader.by_ref().take(length).read_to_end(&mut body)?;
        reader.read_line(&mut String::new())?;
    }
}
