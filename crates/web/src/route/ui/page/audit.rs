//! `/ui/audit`: the audit log, whether it is intact, and its events as a file.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, Response};
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Filter, Level, Look, Section, Target};

use super::calls::LongOperation;
use super::json::{cell, level, link, pretty, rows, text, time};
use super::{Listing, Page, calls, name, open_page, rendered};
use crate::respond;
use crate::route::ui::{PageRequest, write};

pub(super) const PAGE: Page = Page {
    path: "/ui/audit",
    nav: Some(("Record", "Audit log")),
    needs: "core_audit_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    // The newest page follows the log. What is before a row or a moment stays as it is.
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/audit/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

pub(super) const VERIFY: Page = Page {
    path: CHECKED,
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&verification(request)) }),
    live: Some(|request| Box::pin(async move { rendered(&verification(request).as_live()) })),
};

/// Where the log is verified.
pub(in crate::route::ui) const CHECKED: &str = "/ui/audit/verify";

/// Where events are given as a file.
pub(in crate::route::ui) const EXPORT: &str = "/ui/audit/export";

/// How many rows a page has.
const ROWS: usize = 100;
const OUTCOMES: [&str; 5] = ["ok", "tool_error", "error:*", "denied", "cancelled"];
/// The parameters that narrow the list and the file.
const NARROWING: [&str; 6] = ["target", "principal", "profile", "outcome", "since", "until"];
/// What is on record of an event, in the order of its page.
const FACTS: [(&str, &str); 30] = [
    ("at", "At (UTC)"),
    ("principal", "Who"),
    ("user", "User"),
    ("actor", "On whose behalf"),
    ("role", "Role"),
    ("target", "What"),
    ("method", "Method"),
    ("outcome", "Outcome"),
    ("decision", "Decided by"),
    ("policies", "Policies"),
    ("duration_us", "Took"),
    ("door", "Door"),
    ("profile", "Profile"),
    ("client", "Client"),
    ("address", "From"),
    ("credential", "Credential"),
    ("token", "Token"),
    ("issuer", "Issuer"),
    ("oauth_client", "OAuth client"),
    ("bridge", "Bridge"),
    ("session", "Session"),
    ("approval", "Approval"),
    ("approver", "Approved by"),
    ("halt", "Halt"),
    ("canary", "Canary"),
    ("guard", "Guard"),
    ("proof", "Proof"),
    ("args_hash", "Hash of the arguments"),
    ("prev_hash", "Hash of the event before"),
    ("hash", "Hash"),
];
/// How many events are taken of the log at a time, and how many a file has at most: some 50 MB.
const EXPORTED: usize = 1_000;
const FILE_EVENTS: usize = 50_000;

fn narrowed(request: &PageRequest, mut arguments: Value) -> Value {
    for key in NARROWING {
        if let Some(value) = request.parameter(key) {
            arguments[key] = value.into();
        }
    }
    arguments
}

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 8] = [
        Column::text("Event"),
        Column::text("At (UTC)"),
        Column::text("Who"),
        Column::text("What"),
        Column::text("Outcome"),
        Column::text("Decided"),
        Column::number("Took"),
        Column::text("Door"),
    ];
    let mut arguments = narrowed(request, json!({ "limit": ROWS }));
    let before = request.parameter("before").and_then(|before| before.parse::<u64>().ok());
    if let Some(before) = before {
        arguments["before"] = before.into();
    }
    let answer = request.operate("core_audit_list", arguments).await?.to_value();
    let events = rows(&answer, "events");
    let table = events.iter().map(|row| {
        let outcome = text(row, "outcome");
        let took = row["duration_us"].as_u64().map_or_else(String::new, duration);
        vec![
            Cell::link(format!("{}/{}", PAGE.path, text(row, "seq")), text(row, "seq")),
            time(row, "at"),
            Cell::Id(text(row, "principal")),
            Cell::Id(text(row, "target")),
            Cell::state(level(outcome.split(':').next().unwrap_or_default()), outcome),
            Cell::Summary(text(row, "decision")),
            Cell::Figure(took),
            cell(row, "door"),
        ]
    });
    let last = events.last().and_then(|row| row["seq"].as_u64()).filter(|_| answer["truncated"] == true);
    let after = last.map(|seq| request.with("before", &seq.to_string()));
    let is_live = before.is_none() && request.parameter("until").is_none();
    let file = format!("{EXPORT}?format=jsonl{}", query(request));
    let listing = Listing {
        title: "Audit log",
        intro: "Who did what, and who decided. Each event holds the hash of the one before.",
        empty: ("Nothing is on record.", "Every call leaves an event here."),
        actions: vec![verify_now(Look::Primary), open_page("Export as JSON Lines", &file, Look::Plain)],
        after,
        is_open_ended: true,
        is_live,
        unseen: unseen(request, events),
        ..Listing::new(&COLUMNS, filters(request), table.collect())
    };
    Ok(request.list(listing))
}

/// What is said of events that passed between two views of the live list.
fn unseen(request: &PageRequest, events: &[Value]) -> String {
    let number = |event: Option<&Value>| event.and_then(|event| event["seq"].as_u64()).unwrap_or_default();
    // With room left in the list, none passed.
    let oldest = if events.len() < ROWS { 0 } else { number(events.last()) };
    let passed = request.shown.take(number(events.first()), oldest);
    let at_most = if NARROWING.iter().any(|key| request.parameter(key).is_some()) { "up to " } else { "" };
    match passed {
        0 => String::new(),
        passed => format!("Since this page was opened {at_most}{passed} events passed too fast to be shown."),
    }
}

/// One event: all that is on record of it.
async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let given = name(request);
    let seq = given.parse::<u64>().ok().filter(|seq| *seq > 0);
    let missing = || {
        Problem::new(Kind::NotFound, format!("there is no audit event `{given}`"))
            .hint("`audit.days` in `config.toml` says how long events are kept. The list at `/ui/audit` begins with the newest.")
    };
    let seq = seq.ok_or_else(missing)?;
    let arguments = json!({ "before": seq.saturating_add(1), "limit": 1 });
    let answer = request.operate("core_audit_list", arguments).await?.to_value();
    let event = rows(&answer, "events").first().filter(|event| event["seq"].as_u64() == Some(seq));
    let event = event.ok_or_else(missing)?;
    let facts = FACTS.iter().filter(|(key, _)| !event[*key].is_null()).map(|(key, label)| {
        let value = match *key {
            "at" => time(event, key),
            "outcome" => Cell::state(level(text(event, key).split(':').next().unwrap_or_default()), text(event, key)),
            "duration_us" => Cell::Figure(event[*key].as_u64().map_or_else(String::new, duration)),
            "target" => Cell::link(audit_of(&text(event, key)), text(event, key)),
            "halt" => Cell::link("/ui/halts".to_owned(), text(event, key)),
            "approval" => link("/ui/approvals", event, key, ""),
            "profile" => link("/ui/profiles", event, key, ""),
            _ => Cell::Id(text(event, key)),
        };
        (*label, value)
    });
    let mut fixed = Vec::new();
    if !event["arguments"].is_null() {
        fixed.push(Section::Pre {
            title: "Arguments, as they are on record".into(),
            id: "arguments",
            text: text(event, "arguments"),
        });
    }
    fixed.push(Section::Pre { title: "As JSON".into(), id: "event", text: pretty(event) });
    Ok(DetailPage {
        frame: request.frame(&format!("Audit event {seq}")),
        above: (PAGE.path, "Audit log"),
        name: text(event, "request_id"),
        intro: String::new(),
        actions: Vec::new(),
        changing: vec![Section::Facts(facts.collect())],
        fixed,
        live: String::new(),
    })
}

fn filters(request: &PageRequest) -> Vec<Filter> {
    let search = |name, label, hint| Filter::Search { name, label, hint, value: request.value(name) };
    let mut filters = vec![
        search("target", "What", "files/*"),
        search("principal", "Who", "user:acme/ann"),
        Filter::Choice {
            name: "outcome",
            label: "Outcome",
            options: OUTCOMES.iter().map(|outcome| (*outcome).to_owned()).collect(),
            value: request.value("outcome"),
        },
        search("since", "Since", "2026-11-20"),
        search("until", "Before", "2026-11-21"),
    ];
    if !request.value("profile").is_empty() {
        filters.push(search("profile", "Profile", "default"));
    }
    filters
}

/// The narrowing parameters as the rest of a query.
fn query(request: &PageRequest) -> String {
    let given = NARROWING.iter().filter_map(|key| Some((key, request.parameter(key)?)));
    given.map(|(key, value)| format!("&{key}={}", encoded(value))).collect()
}

/// Microseconds in a unit that people read.
pub(super) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

/// Where the audit log is shown for one target.
pub(super) fn audit_of(target: &str) -> String {
    format!("/ui/audit?target={}", encoded(target))
}

/// The button that begins a verification.
fn verify_now(look: Look) -> Action {
    let target = Target::Send { path: CHECKED.to_owned(), fields: vec![("begin".to_owned(), "true".to_owned())] };
    Action { label: "Verify".to_owned(), about: String::new(), target, look }
}

/// Begins to read the whole chain and its signatures.
pub(in crate::route::ui) async fn verify(request: &PageRequest) -> Response<Body> {
    let long = LongOperation {
        tool: "core_audit_verify",
        title: "Verify the audit log",
        form: CHECKED,
        profile: request.profile(),
        arguments: json!({}),
    };
    match calls::start_long(request, long).await {
        Ok(response) => response,
        Err(problem) => write::problem(request, "Nothing is verified", &problem),
    }
}

/// Whether the log is intact, as this browser has found it last; how far it is while it is read.
fn verification(request: &PageRequest) -> DetailPage {
    let call = calls::of_page(request, CHECKED);
    let changing = match &call {
        None => vec![Section::Prose { title: String::new(), text: "This browser has verified nothing.".into() }],
        Some(call) => match calls::standing(request, call) {
            Ok(found) => found_of(&found.to_value()),
            Err(sections) => sections,
        },
    };
    DetailPage {
        frame: request.frame("Verification"),
        above: (PAGE.path, "Audit log"),
        name: "verify".into(),
        intro: "Every event, its hash, and the checkpoints that are signed for them. It runs in the gateway, also while you look at other pages.".into(),
        actions: vec![verify_now(Look::Plain)],
        changing,
        fixed: Vec::new(),
        live: if calls::is_open(call.as_ref()) { request.live_path() } else { String::new() },
    }
}

/// What a verification has found, and what to do then.
fn found_of(found: &Value) -> Vec<Section> {
    let mut facts = Vec::new();
    let broken = &found["broken"];
    if found["intact"] == true {
        facts.push(("The log", Cell::state(Level::Ok, "intact")));
        facts.push(("Events", Cell::Number(found["events"].as_u64().unwrap_or_default())));
        facts.push(("Signed up to event", Cell::Number(found["signed"].as_u64().unwrap_or_default())));
        if !found["key"].is_null() {
            facts.push(("By the key", Cell::Id(text(found, "key"))));
        }
        facts.push(("Newest hash", Cell::Id(text(&found["head"], "hash"))));
    } else {
        let seq = broken["seq"].as_u64().unwrap_or_default();
        facts.push(("The log", Cell::state(Level::Bad, "broken")));
        facts.push((
            "First wrong event",
            Cell::link(format!("/ui/audit?before={}", seq.saturating_add(1)), seq.to_string()),
        ));
        facts.push(("What is wrong", Cell::Text(text(broken, "fault").replace('_', " "))));
    }
    let next = match found["intact"] == true {
        true => {
            "Keep the newest checkpoint elsewhere: `toolcrib audit checkpoints`. It shows later whether the log was cut."
        }
        false => {
            "Rows were changed, removed or added outside Toolcrib. Compare with a sink or a backup: `toolcrib audit verify --kept FILE`."
        }
    };
    vec![Section::Facts(facts), Section::Prose { title: String::new(), text: next.into() }]
}

/// The events that the list shows, all of them, as a file.
pub(in crate::route::ui) async fn export(request: &PageRequest) -> Response<Body> {
    match Box::pin(exported(request)).await {
        Ok(file) => file,
        Err(problem) => write::problem(request, "Nothing was exported", &problem),
    }
}

async fn exported(request: &PageRequest) -> Result<Response<Body>, Problem> {
    let format = request.parameter("format").unwrap_or("jsonl");
    let arguments = narrowed(request, json!({ "format": format, "limit": EXPORTED }));
    let (mut pieces, mut after, mut count) = (Vec::new(), 0, 0);
    loop {
        let mut page = arguments.clone();
        page["after"] = after.into();
        let answer = request.operate("core_audit_export", page).await?.to_value();
        let lines = rows(&answer, "lines");
        count += lines.len();
        let text: String = lines.iter().filter_map(Value::as_str).flat_map(|line| [line, "\n"]).collect();
        pieces.push(Bytes::from(text));
        if answer["truncated"] != true {
            break;
        }
        if count >= FILE_EVENTS {
            return Err(Problem::new(Kind::TooLarge, format!("more than {FILE_EVENTS} events match"))
                .hint("Narrow the list by time, or run `toolcrib audit export`, which has no limit."));
        }
        after = answer["next"].as_u64().unwrap_or(u64::MAX);
    }
    let mut response = respond::status(http::StatusCode::OK);
    *response.body_mut() = Body::pieces(pieces);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"audit.jsonl\""));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
