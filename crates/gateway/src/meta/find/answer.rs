//! The native answer: hits within a budget, whether they fit, what else matches, and how to go on. Its words and their
//! order are always the same, so that a client's prompt cache holds.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcrib_base::ToolId;
use toolcrib_protocol::Raw;
use toolcrib_search::budget::{self, DEFAULT_HITS, Entry, MOST_TOKENS, RenderedHits};
use toolcrib_search::{Confidence, Detail, Hit, tokens};
use toolcrib_upstream::{Server, State};
use toolcrib_view::view::{AVAILABLE, SearchHit, View};
use toolcrib_view::{dialect, reply};

use super::{Ask, DetailLevel, Findings, rounded};

/// How many other servers and how many that could be loaded are named.
const SERVERS: usize = 4;
/// How many servers are named where no tool matches.
const KNOWN: usize = 20;
/// From how many bytes on a word of a query may name a server.
const WORD: usize = 3;
/// How many servers are named that are still being listed, or that want a login.
const PENDING: usize = 5;
/// What is said where something was left out.
const SHORTENED: &str = "… marks what was left out; describe_tool tells all of one tool.";

/// The text around the hits.
struct Frame {
    head: String,
    tail: Vec<String>,
    confidence: Option<Confidence>,
    /// Other servers with how many tools of each match.
    others: Vec<(String, usize)>,
    /// Servers that could be loaded.
    loadable: Vec<String>,
}

/// The schemas that fit.
#[derive(Default)]
struct Schemas {
    lines: Vec<String>,
    /// Which hits have theirs.
    given: Vec<bool>,
}

/// An answer in both forms.
pub(super) struct Answer {
    pub(super) text: String,
    data: Value,
}

// === impl Answer ===

impl Answer {
    pub(super) fn reply(&self) -> Raw {
        reply::structured(&self.text, &self.data)
    }
}

pub(super) fn render(view: &View, ask: &Ask, mut findings: Findings<'_>) -> Answer {
    let mut frame = Frame::new(view, ask, &findings);
    let is_page = findings.page.len() <= DEFAULT_HITS;
    let budget = if is_page { ask.max_tokens.min(MOST_TOKENS) } else { ask.max_tokens };
    let room = |frame: &Frame| budget.saturating_sub(frame.tokens() + tokens::count(SHORTENED) + 1);
    if ask.detail == DetailLevel::Names {
        // What is said around them grows a little when some are left for the next page.
        while findings.cut_to_names(room(&frame)) {
            frame = Frame::new(view, ask, &findings);
        }
    }
    let (room, findings) = (room(&frame), &findings);
    let rendered = hits(ask, findings, room);
    let schemas = match ask.detail {
        DetailLevel::Schemas => Schemas::fitting(findings, room.saturating_sub(rendered.tokens)),
        _ => Schemas::default(),
    };
    let left_out = schemas.given.iter().filter(|given| !**given).count();
    let mut lines = vec![frame.head.clone()];
    lines.extend((!rendered.text.is_empty()).then(|| rendered.text.clone()));
    lines.extend(schemas.lines.iter().cloned());
    lines.extend((rendered.shortened || left_out > 0).then(|| SHORTENED.to_owned()));
    lines.extend(frame.tail.iter().cloned());
    let tools: Vec<Value> = (0..findings.page.len()).map(|at| tool(ask, findings, &rendered, &schemas, at)).collect();
    let truncated = findings.total > ask.offset + findings.page.len();
    let mut value = json!({ "total": findings.total, "truncated": truncated, "tools": tools });
    if let Some(confidence) = frame.confidence {
        value["confidence"] = confidence.as_str().into();
    }
    if !frame.others.is_empty() {
        let others = frame.others.iter().map(|(server, tools)| json!({ "server": server, "tools": tools }));
        value["others"] = others.collect();
    }
    if !frame.loadable.is_empty() {
        value["loadable"] = frame.loadable.clone().into();
    }
    Answer { text: lines.join("\n"), data: value }
}

/// The hits as text.
fn hits(ask: &Ask, findings: &Findings<'_>, room: usize) -> RenderedHits {
    if ask.detail == DetailLevel::Names {
        let (lines, tokens) = budget::names(&findings.labels(), usize::MAX);
        return RenderedHits { tokens, text: lines.join("\n"), shortened: false, shown: Vec::new() };
    }
    let summaries: Vec<String> = findings.page.iter().map(|(_, found)| found.summary()).collect();
    let entries: Vec<Entry<'_>> = findings
        .page
        .iter()
        .zip(&summaries)
        .map(|((hit, found), summary)| Entry {
            id: &hit.id,
            name: found.name(),
            signature: found.signature(),
            summary,
            also: &hit.also,
        })
        .collect();
    budget::render(&entries, room)
}

/// One hit as data: what its line shows, so that it costs no more where clients give models the data.
fn tool(ask: &Ask, findings: &Findings<'_>, rendered: &RenderedHits, schemas: &Schemas, at: usize) -> Value {
    let (hit, found) = &findings.page[at];
    let mut value = json!({
        "id": hit.id.to_string(), "name": found.name(), "server": hit.id.server.as_str(),
        "signature": "", "summary": "", "score": rounded(hit.score), "state": found.state(),
        "also": hit.also.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    if let Some(shown) = rendered.shown.get(at) {
        value["signature"] = shown.signature.as_str().into();
        value["summary"] = shown.summary.as_str().into();
        if shown.shortened {
            value["shortened"] = true.into();
        }
    }
    if ask.detail == DetailLevel::Schemas {
        match schemas.given.get(at) {
            Some(true) => {
                value["inputSchema"] = found.input_schema().map_or(Value::Null, |schema| schema.to_value());
                if let Some(schema) = found.output_schema() {
                    value["outputSchema"] = schema.to_value();
                }
            }
            _ => value["shortened"] = true.into(),
        }
    }
    value
}

// === impl Findings ===

impl Findings<'_> {
    fn labels(&self) -> Vec<(&ToolId, &str)> {
        self.page.iter().map(|(hit, found)| (&hit.id, found.name())).collect()
    }

    /// Leaves names that do not fit to the next page; `true` when there were any.
    fn cut_to_names(&mut self, room: usize) -> bool {
        let fitting = budget::names(&self.labels(), room).0.len();
        let cut = self.page.split_off(fitting);
        let is_cut = !cut.is_empty();
        self.rest.splice(0..0, cut.into_iter().map(|(hit, _)| hit));
        is_cut
    }
}

// === impl Schemas ===

impl Schemas {
    /// Of the best hit first; one that does not fit leaves its room to the next.
    fn fitting(findings: &Findings<'_>, mut room: usize) -> Self {
        let mut schemas = Self::default();
        for (hit, found) in &findings.page {
            let label = budget::label(&hit.id, found.name());
            let input = found.input_schema().map(|schema| format!("{label} input: {}", schema.as_str()));
            let output = found.output_schema().map(|schema| format!("{label} output: {}", schema.as_str()));
            let lines: Vec<String> = input.into_iter().chain(output).collect();
            // A text of many more bytes than tokens are left need not be counted to know that it does not fit.
            let bytes: usize = lines.iter().map(String::len).sum();
            let cost: usize = match bytes / 16 > room {
                true => usize::MAX,
                false => lines.iter().map(|line| tokens::count(line) + 1).sum(),
            };
            let fits = cost <= room;
            if fits {
                room -= cost;
                schemas.lines.extend(lines);
            }
            schemas.given.push(fits);
        }
        schemas
    }
}

// === impl Frame ===

impl Frame {
    fn new(view: &View, ask: &Ask, findings: &Findings<'_>) -> Self {
        let (shown, total) = (findings.page.len(), findings.total);
        let is_query = !ask.query.trim().is_empty();
        let confidence =
            findings.page.first().filter(|_| is_query && ask.offset == 0).map(|(hit, found)| sureness(ask, hit, found));
        let fits_nothing = is_query && ask.offset == 0 && (shown == 0 || confidence == Some(Confidence::Low));
        let is_more = total > ask.offset + shown;
        let head = match (shown, is_query) {
            (0, _) if ask.offset > 0 => format!("No more tools: {total} in all."),
            (0, false) => "No tools are available.".to_owned(),
            (0, true) => "No tool matches.".to_owned(),
            _ if fits_nothing => format!("Perhaps nothing fits; the nearest {shown} of {total} tools:"),
            _ if is_more => format!("{shown} of {total} tools:"),
            (1, _) => "1 tool:".to_owned(),
            _ => format!("{shown} tools:"),
        };
        let others = others(ask, &findings.rest);
        let names_others = !findings.is_filtered;
        let loadable = if fits_nothing && names_others { loadable(view, findings) } else { Vec::new() };
        let load = dialect::name_of(dialect::Act::Load, view.profile.dialect);
        let mut tail = Vec::new();
        if findings.page.iter().any(|(_, found)| !found.is_there()) {
            tail.push(format!("({AVAILABLE}) ones are started by {load}."));
        }
        tail.extend(is_more.then(|| more(&others, ask)));
        if is_more && ask.detail == DetailLevel::Names && shown > 0 && shown < ask.limit {
            tail.push(format!("The next with offset {}.", ask.offset + shown));
        }
        if fits_nothing {
            tail.push("Try other words: action, object, service.".to_owned());
            let servers = view.servers.iter().map(|(server, _)| server.name.as_str());
            let servers: Vec<&str> = servers.take(KNOWN).collect();
            if shown == 0 && !servers.is_empty() && names_others {
                tail.push(format!("Servers: {}.", servers.join(", ")));
            }
        }
        if !loadable.is_empty() {
            let first = json!({ "names": [format!("{}/*", loadable[0])] });
            tail.push(format!("Could be loaded: {}; e.g. {load} {first}.", loadable.join(", ")));
        }
        let pending = view.pending();
        if !pending.is_empty() && names_others {
            let names: Vec<_> = pending.iter().take(PENDING).map(|name| name.as_str()).collect();
            tail.push(format!("There may be more, still being listed: {}.", names.join(", ")));
        }
        let locked = if names_others { locked(view, &ask.query, fits_nothing) } else { Vec::new() };
        if !locked.is_empty() {
            tail.push(format!("Requires a login first, by core_auth_login: {}.", locked.join("; ")));
        }
        Self { head, tail, confidence, others, loadable }
    }

    fn tokens(&self) -> usize {
        std::iter::once(&self.head).chain(&self.tail).map(|line| tokens::count(line) + 1).sum()
    }
}

/// The servers of which nothing is known before somebody logs in, and which the query may be about: by their names, with
/// what their definitions say of them.
fn locked(view: &View, query: &str, fits_nothing: bool) -> Vec<String> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= WORD).collect();
    let is_locked = |server: &Server| server.status().state == State::NeedsLogin && server.inventory().tools.is_empty();
    let mut found = Vec::new();
    for (definition, _) in view.servers.iter().filter(|(_, server)| is_locked(server)) {
        let about = definition.description.as_deref().or(definition.title.as_deref()).unwrap_or_default();
        let text = format!("{} {about}", definition.name).to_lowercase();
        if fits_nothing || words.iter().any(|word| text.contains(word)) {
            let about = budget::summary(about);
            let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
            found.push(format!("{}{about}", definition.name));
        }
        if found.len() == PENDING {
            break;
        }
    }
    found
}

/// How well the best hit fits.
fn sureness(ask: &Ask, hit: &Hit, found: &SearchHit<'_>) -> Confidence {
    let signature = found.signature().render(Detail::OptionalNames);
    let words = found.keywords().join(" ");
    let texts = [
        hit.id.server.as_str(),
        &*hit.id.tool,
        found.title().unwrap_or_default(),
        found.category().unwrap_or_default(),
        &words,
        found.about().unwrap_or_default(),
        &signature,
        found.description(),
    ];
    Confidence::of(&ask.query, &texts, hit.near)
}

/// Which servers the next hits are of, most first.
fn others(ask: &Ask, rest: &[Hit]) -> Vec<(String, usize)> {
    if ask.server.is_some() {
        return Vec::new();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for hit in rest {
        *counts.entry(hit.id.server.as_str()).or_default() += 1;
    }
    let mut others: Vec<(String, usize)> =
        counts.into_iter().map(|(server, count)| (server.to_owned(), count)).collect();
    others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    others.truncate(SERVERS);
    others
}

/// What else matches and how to get there.
fn more(others: &[(String, usize)], ask: &Ask) -> String {
    let names: Vec<String> = others.iter().map(|(server, count)| format!("{server} {count}")).collect();
    match names.is_empty() {
        false => format!("More of {}. Narrow with server or more words.", names.join(", ")),
        true if ask.server.is_some() => "Narrow with more words.".to_owned(),
        true => "Narrow with server or more words.".to_owned(),
    }
}

/// The nearest servers that could be loaded: those of hits first, then any.
fn loadable(view: &View, findings: &Findings<'_>) -> Vec<String> {
    let available = &view.available;
    let of_hits = findings.page.iter().map(|(hit, _)| hit).chain(&findings.rest).map(|hit| hit.id.server.as_str());
    let mut names: Vec<String> = Vec::new();
    for name in of_hits.filter(|name| !available.of_server(name).is_empty()).chain(available.servers()) {
        if names.len() < SERVERS && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}
