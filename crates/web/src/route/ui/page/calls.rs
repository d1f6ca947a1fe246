//! `/ui/calls`: the calls that this browser began, each with its progress, its questions, its result and its messages.

mod questions;
mod result;

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, Secret, nearest};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Raw};
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::json::Json;
use toolcrib_ui::page::call_status::{Comparison, Wire};
use toolcrib_ui::page::{CallStatusPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Level, Look, RunningCall, RunningCalls, Section, Table, Target};
use toolcrib_ui::text;
use toolcrib_view::Effect;

use questions::AnswerForm;
pub(super) use result::Room;

use super::operation::copies;
use super::{Listing, Page, name, rendered};
use crate::route::ui::calls::{
    BrowserCall, CallChange, CallInputs, CallPhase, CallProgress, CallStart, WireRows, begin,
};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, write};

pub(super) const PAGE: Page = Page {
    path: "/ui/calls",
    nav: Some(("Tools", "Calls")),
    needs: "core_tool_call",
    make: |request| Box::pin(async move { rendered(&list(request)) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/calls/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&page(request, &find(request)?)) }),
    live: Some(|request| Box::pin(async move { rendered(&page(request, &find(request)?).as_live()) })),
};

/// What every page shows while calls run.
pub(super) const RUNNING: Page = Page {
    path: "/ui/calls-running",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&list(request)) }),
    live: Some(|request| Box::pin(async move { rendered(&strip(request)) })),
};

/// The path of the calls.
pub(in crate::route::ui) const ROOT: &str = "/ui/calls/";
/// How long a form waits for the end of its call before it leads to the page that shows how it goes.
const GRACE: Duration = Duration::from_secs(1);
/// How long a form waits for the end of a call that it cancels: a server may have to be asked.
const CANCELLED: Duration = Duration::from_secs(15);
/// How much of all messages a page shows, and how much with `all`, in characters.
const MESSAGES: usize = 12_000;
const ALL_MESSAGES: usize = 2_000_000;
/// How much of arguments a list shows, in characters.
const SHORT: usize = 80;

/// What came of a call so far: how it looks, and in words.
fn state(progress: &CallProgress) -> (Level, String) {
    match &progress.phase {
        CallPhase::Running => match &progress.task {
            Some(status) => (Level::Work, format!("runs as a task, {status}")),
            None => (Level::Work, "runs".to_owned()),
        },
        CallPhase::Waiting(_) => (Level::Warn, "waits for your answer".to_owned()),
        CallPhase::Answered(result) if result.get("isError").is_some_and(|it| it.as_str() == "true") => {
            (Level::Bad, "the tool failed".to_owned())
        }
        CallPhase::Answered(_) => (Level::Ok, "done".to_owned()),
        CallPhase::Failed(_) => (Level::Bad, "failed".to_owned()),
        CallPhase::Cancelled => (Level::Idle, "cancelled".to_owned()),
    }
}

/// How far it is: in percent, and in words.
fn distance(progress: &CallProgress) -> (Option<u8>, String) {
    if !progress.is_open() {
        return (None, String::new());
    }
    let percent = match progress.done {
        Some((done, Some(total))) if total > 0.0 => {
            // Between 0 and 100, so nothing is lost.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let percent = (done / total * 100.0).clamp(0.0, 100.0) as u8;
            Some(percent)
        }
        _ => None,
    };
    let words = match progress.done {
        Some((done, Some(total))) => format!("{done} of {total}"),
        Some((done, None)) => done.to_string(),
        None => String::new(),
    };
    let words = match (words.is_empty(), progress.message.is_empty()) {
        (_, true) => words,
        (true, false) => progress.message.clone(),
        (false, false) => format!("{words}: {}", progress.message),
    };
    (percent, words)
}

fn session(request: &PageRequest) -> &str {
    request.viewer.as_ref().map_or("", |viewer| &viewer.session)
}

/// What runs, for every page; without the call whose own page it is, which shows that itself.
pub(in crate::route::ui) fn strip(request: &PageRequest) -> RunningCalls {
    request.follow_calls();
    let path = request.path();
    let own = path.strip_prefix(ROOT).or_else(|| request.parameter("without")).unwrap_or_default();
    let calls = request.site.calls.of(session(request));
    let row = |call: Arc<BrowserCall>| {
        let progress = call.progress();
        if !progress.is_open() || call.id == own {
            return None;
        }
        let ((level, word), (percent, words)) = (state(&progress), distance(&progress));
        let words = if words.is_empty() { word } else { format!("{word}, {words}") };
        Some(RunningCall { path: place(&call), title: call.inputs.title.clone(), level, words, percent })
    };
    RunningCalls { rows: calls.into_iter().filter_map(row).collect(), without: own.to_owned() }
}

fn list(request: &PageRequest) -> ListPage {
    request.follow_calls();
    let calls = request.site.calls.of(session(request));
    let listing = Listing {
        title: "Calls",
        intro: "What this browser called since it signed in. They are kept in memory until then, without secrets.",
        empty: ("No call was made here.", "Call a tool from its page."),
        is_live: true,
        ..Listing::new(&COLUMNS, Vec::new(), calls.iter().map(row).collect())
    };
    request.list(listing)
}

const COLUMNS: [Column; 5] = [
    Column::text("Call"),
    Column::text("State"),
    Column::text("Arguments"),
    Column::text("As"),
    Column::text("Begun (UTC)"),
];

fn row(call: &Arc<BrowserCall>) -> Vec<Cell> {
    let progress = call.progress();
    let ((level, word), (_, note)) = (state(&progress), distance(&progress));
    vec![
        Cell::link(place(call), call.inputs.title.clone()),
        Cell::State { level, word, note },
        Cell::Id(text::clipped(&call.inputs.kept, SHORT)),
        Cell::Text(format!("{}, {}", call.inputs.profile, era_word(call.inputs.era))),
        Cell::Time(call.begun.to_string()),
    ]
}

/// The calls of the same form that were made before.
pub(super) fn earlier(request: &PageRequest, form: &str) -> Table {
    let columns =
        vec![Column::text("Arguments"), Column::text("State"), Column::text("Begun (UTC)"), Column::text("Inputs")];
    let calls = request.site.calls.of(session(request));
    let same = calls.iter().filter(|call| call.inputs.form == form).take(5);
    let row = |call: &Arc<BrowserCall>| {
        let (level, word) = state(&call.progress());
        vec![
            Cell::link(format!("{ROOT}{}", call.id), text::clipped(&call.inputs.kept, SHORT)),
            Cell::state(level, word),
            Cell::Time(call.begun.to_string()),
            Cell::link(again(call), "use again"),
        ]
    };
    Table { label: "Earlier calls".to_owned(), columns, rows: same.map(row).collect() }
}

/// The page that shows how a call goes: its own, or that which began it where it is no call of a tool.
fn place(call: &BrowserCall) -> String {
    match call.inputs.operation.is_call() {
        true => format!("{ROOT}{}", call.id),
        false => format!("{}?again={}", call.inputs.form, call.id),
    }
}

/// An operation that takes long: it runs in the gateway, whether its page is looked at or not.
pub(super) struct LongOperation {
    /// The name of its tool.
    pub(super) tool: &'static str,
    /// What people read.
    pub(super) title: &'static str,
    /// The page that shows how it goes and what came of it.
    pub(super) form: &'static str,
    pub(super) profile: ProfileName,
    pub(super) arguments: Value,
}

/// Begins an operation that takes long, and leads to its page.
///
/// # Errors
/// It cannot be begun.
pub(super) async fn start_long(request: &PageRequest, long: LongOperation) -> Result<Response<Body>, Problem> {
    let unknown = || Problem::new(Kind::NotFound, format!("there is no operation `{}`", long.tool));
    let kept = long.arguments.to_string();
    let inputs = CallInputs {
        operation: request.operation(long.tool).ok_or_else(unknown)?,
        name: None,
        title: long.title.to_owned(),
        form: long.form.to_owned(),
        profile: long.profile,
        era: Era::Modern,
        kept: kept.clone(),
        is_whole: true,
        promise: None,
    };
    start(request, inputs, Vec::new(), &kept).await
}

/// The operation that a page is about: the one that the query names, or the newest that this page began.
pub(super) fn of_page(request: &PageRequest, form: &str) -> Option<Arc<BrowserCall>> {
    request.follow_calls();
    let named = request.parameter("again").unwrap_or_default();
    let calls = request.site.calls.of(session(request));
    let mut own = calls.into_iter().filter(|call| call.inputs.form == form).peekable();
    let newest = own.peek().cloned();
    own.find(|call| call.id == named).or(newest)
}

/// The answer of an operation that a page began, or how far it is.
pub(super) fn standing(request: &PageRequest, call: &BrowserCall) -> Result<Raw, Vec<Section>> {
    let progress = call.progress();
    let (level, word) = state(&progress);
    let mut facts = vec![("State", Cell::state(level, word))];
    let mut below = Vec::new();
    match progress.phase {
        CallPhase::Answered(ref answer) => return Ok(answer.clone()),
        CallPhase::Failed(ref problem) => {
            facts.push(("Why", Cell::Prose(write::sentence(&problem.message))));
            facts.extend(problem.hint.as_ref().map(|hint| ("What to do", Cell::Prose(write::sentence(hint)))));
        }
        CallPhase::Cancelled => {}
        CallPhase::Running | CallPhase::Waiting(_) => {
            let (percent, words) = distance(&progress);
            facts.push(("Progress", Cell::Progress(percent, words)));
            if may_cancel(request, call) {
                let target = Target::Send {
                    path: format!("{ROOT}{}", call.id),
                    fields: vec![("cancel".to_owned(), "true".to_owned())],
                };
                let about = call.inputs.title.clone();
                below.push(Action { label: "Cancel".to_owned(), about, target, look: Look::Danger });
            }
        }
    }
    facts.push(("Begun (UTC)", Cell::Time(call.begun.to_string())));
    let mut sections = vec![Section::Facts(facts)];
    if !below.is_empty() {
        sections.push(Section::Actions(below));
    }
    Err(sections)
}

/// Whether a page shows what still runs, and changes with it.
pub(super) fn is_open(call: Option<&Arc<BrowserCall>>) -> bool {
    call.is_some_and(|call| call.is_open())
}

/// What only reads may be taken back on pages that only show.
fn may_cancel(request: &PageRequest, call: &BrowserCall) -> bool {
    request.may_change() || call.inputs.operation.effect == Effect::Reads
}

/// The inputs of an earlier call.
pub(super) fn kept(request: &PageRequest, id: &str) -> Option<String> {
    request.site.calls.find(session(request), id).map(|call| call.inputs.kept.clone())
}

/// The form of a call with its inputs.
fn again(call: &BrowserCall) -> String {
    let CallInputs { form, profile, era, .. } = &call.inputs;
    format!("{form}?profile={}&era={}&again={}", encoded(profile.as_str()), era_name(*era), call.id)
}

/// The name of an era in a form.
pub(super) fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn era_word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "a client of 2025-11-25",
        Era::Modern => "a client of 2026-07-28",
    }
}

/// The call of the path.
fn find(request: &PageRequest) -> Result<Arc<BrowserCall>, Problem> {
    let id = name(request);
    request.site.calls.find(session(request), &id).ok_or_else(|| {
        let problem = Problem::new(Kind::NotFound, format!("this browser has no call `{id}`"));
        let known = request.site.calls.of(session(request));
        match nearest::similar(&id, known.iter().map(|call| call.id.as_str())).first() {
            Some(near) => problem.hint(format!("Did you mean `{ROOT}{near}`?")),
            None => problem.hint("Calls end with the session of their browser. See `/ui/calls`."),
        }
    })
}

fn page(request: &PageRequest, call: &Arc<BrowserCall>) -> CallStatusPage {
    request.follow_calls();
    let progress = call.progress();
    let mut shown = CallStatusPage {
        frame: request.frame(&call.inputs.title),
        above: vec![
            ("/ui/calls".to_owned(), "Calls".to_owned()),
            (call.inputs.form.clone(), call.inputs.title.clone()),
        ],
        path: format!("{ROOT}{}", call.id),
        state: state(&progress),
        facts: vec![
            ("Profile", Cell::Id(call.inputs.profile.to_string())),
            ("As", Cell::Text(era_word(call.inputs.era).to_owned())),
            ("Begun (UTC)", Cell::Time(call.begun.to_string())),
        ],
        progress: distance(&progress),
        is_open: progress.is_open() && request.may_change(),
        logged: progress.logged,
        problem: None,
        questions: None,
        result: None,
        arguments: Json::parse(&call.inputs.kept).map(|json| json.pretty()).unwrap_or_default(),
        again: if request.may_change() { again(call) } else { String::new() },
        is_whole: call.inputs.is_whole,
        others: others(request, call),
        compared: compared(request, call),
        wire: wire(request, call),
        copies: Vec::new(),
        // What a person types is not replaced: a page with questions, and one whose call has ended, stands still.
        live: if matches!(progress.phase, CallPhase::Running) { request.live_path() } else { String::new() },
    };
    if let Ok(arguments) = operation_arguments(request, &call.inputs, &call.inputs.kept) {
        let arguments: Map<String, Value> = serde_json::from_str(arguments.as_str()).unwrap_or_default();
        shown.copies = copies(request, call.inputs.operation, arguments);
    }
    match progress.phase {
        CallPhase::Waiting(required) => match questions::of(&required, progress.round) {
            Ok(questions) => shown.questions = Some(questions),
            Err(problem) => shown.problem = Some(write::notice(&problem)),
        },
        CallPhase::Answered(answer) => {
            let took = progress.took.unwrap_or_default();
            let answer = match call.inputs.operation.is_call() {
                true => answer,
                // An operation answers an object of its own.
                false => Raw::from_value(&json!({ "structuredContent": answer.to_value() })),
            };
            let (mut result, is_cut) = result::of(&answer, took, progress.fit, shows_all(request));
            if is_cut {
                result.whole = with_all(request);
            }
            shown.result = Some(result);
        }
        CallPhase::Failed(problem) => shown.problem = Some(write::notice(&problem)),
        CallPhase::Running | CallPhase::Cancelled => {}
    }
    shown
}

/// Whether a page shows all of what is long.
fn shows_all(request: &PageRequest) -> bool {
    request.parameter("all").is_some()
}

/// The page that does.
fn with_all(request: &PageRequest) -> String {
    request.with("all", "1")
}

fn wire(request: &PageRequest, call: &BrowserCall) -> Wire {
    let WireRows { first, dropped, last, .. } = call.wire.rows();
    let mut wire = Wire { first, dropped, last: last.into(), whole: String::new() };
    let is_all = shows_all(request);
    let mut room = Room::new(if is_all { ALL_MESSAGES } else { MESSAGES });
    for row in wire.first.iter_mut().chain(&mut wire.last) {
        row.text = room.take(std::mem::take(&mut row.text));
    }
    if room.is_cut && !is_all {
        wire.whole = with_all(request);
    }
    wire
}

/// Other calls of the same form that were answered.
fn others(request: &PageRequest, call: &BrowserCall) -> Vec<(String, String)> {
    if !matches!(call.progress().phase, CallPhase::Answered(_)) {
        return Vec::new();
    }
    let calls = request.site.calls.of(session(request));
    let same = calls.iter().filter(|other| other.id != call.id && other.inputs.form == call.inputs.form);
    let answered = same.filter(|other| matches!(other.progress().phase, CallPhase::Answered(_)));
    answered.take(5).map(|other| (format!("{ROOT}{}?with={}", call.id, other.id), label(other))).collect()
}

fn label(call: &BrowserCall) -> String {
    let begun = call.begun.to_string();
    format!("{} {}", begun.get(11..19).unwrap_or(&begun), text::clipped(&call.inputs.kept, SHORT))
}

/// The result of the call that the query names, beside this one.
fn compared(request: &PageRequest, call: &BrowserCall) -> Option<Comparison> {
    let other = request.site.calls.find(session(request), request.parameter("with")?)?;
    let text = |call: &BrowserCall| match call.progress().phase {
        CallPhase::Answered(answer) => Some(result::comparable(&answer)),
        _ => None,
    };
    Some(Comparison {
        what: label(&other),
        path: format!("{ROOT}{}", other.id),
        before: text(&other)?,
        after: text(call)?,
    })
}

/// The arguments of the operation that makes a call.
pub(super) fn operation_arguments(request: &PageRequest, inputs: &CallInputs, given: &str) -> Result<Raw, Problem> {
    let given = Raw::parse(given.to_owned().into(), Rules::relayed(request.site.limits.depth))
        .map_err(|fault| Problem::new(Kind::Parse, format!("the arguments cannot be used: {fault}")))?;
    Ok(match &inputs.name {
        Some(name) => Raw::from_value(&json!({ "name": name })).edit(&[("arguments", Edit::Set(given.as_str()))]),
        None => given,
    })
}

/// Begins a call and leads to its page, which shows the end already where that comes at once.
///
/// # Errors
/// It cannot be begun.
pub(super) async fn start(
    request: &PageRequest,
    inputs: CallInputs,
    secrets: Vec<Secret>,
    given: &str,
) -> Result<Response<Body>, Problem> {
    let viewer = request.viewer.clone().ok_or_else(|| Problem::new(Kind::Unauthenticated, "no one is signed in"))?;
    let arguments = operation_arguments(request, &inputs, given)?;
    let caller = request.caller(inputs.profile.clone())?;
    let mut changes = request.site.calls.watch();
    let call = begin(&request.site, CallStart { inputs, secrets, arguments, caller, viewer })?;
    let _ = tokio::time::timeout(GRACE, call.settled(&mut changes)).await;
    Ok(write::see_other(&place(&call)))
}

/// Answers, cancels or repeats the call of the path.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Response<Body> {
    match Box::pin(changed(request, fields)).await {
        Ok(response) => response,
        Err(problem) => write::problem(request, "This call cannot be changed", &problem),
    }
}

async fn changed(request: &PageRequest, fields: &Fields) -> Result<Response<Body>, Problem> {
    let call = find(request)?;
    let is_cancel = fields.text("cancel").is_some();
    let may = request.may_change() || (is_cancel && may_cancel(request, &call));
    if !may {
        return Err(Problem::new(Kind::Forbidden, "these pages only show"));
    }
    let mut changes = request.site.calls.watch();
    if fields.text("repeat").is_some() {
        return start(request, call.inputs.clone(), Vec::new(), &call.inputs.kept).await;
    }
    let progress = call.progress();
    if is_cancel {
        call.order(CallChange::Cancel);
        let ended = async { while call.is_open() && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(CANCELLED, ended).await;
        return Ok(write::see_other(&place(&call)));
    }
    let CallPhase::Waiting(required) = &progress.phase else { return Err(stale()) };
    match questions::answered(required, progress.round, fields)? {
        AnswerForm::Again(questions) => {
            let status = if questions.problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            let shown = CallStatusPage { questions: Some(*questions), live: String::new(), ..page(request, &call) };
            Ok(write::page(request, status, &shown))
        }
        AnswerForm::Stale => Err(stale()),
        AnswerForm::Complete(retry) => {
            if !call.take(progress.round) {
                return Err(stale());
            }
            call.order(CallChange::Answer(retry));
            let _ = tokio::time::timeout(GRACE, call.settled(&mut changes)).await;
            Ok(write::see_other(&format!("{ROOT}{}", call.id)))
        }
    }
}

/// The question of a form was answered already, or taken back.
fn stale() -> Problem {
    Problem::new(Kind::Conflict, "the call does not wait for this answer any more: it was given already, or taken back")
        .hint("Load the page of the call again.")
}
