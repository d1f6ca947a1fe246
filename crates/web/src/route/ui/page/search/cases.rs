//! `/ui/search/cases`: a list of cases, asked in a profile. It runs in the gateway; the page shows how far it is, which
//! share was found and what was missed.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Notice;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::CasesPage;
use toolcrib_ui::page::cases::CaseChoice;
use toolcrib_ui::part::{Cell, Column, Level, Section, Table};

use super::super::calls::{self, LongOperation};
use super::super::json::{link, number, rows, text, words};
use super::super::{Page, rendered};
use super::RANKINGS;
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, status_of, write};

/// Its path.
pub(in crate::route::ui) const CASES: &str = "/ui/search/cases";

pub(in crate::route::ui::page) const PAGE: Page = Page {
    path: CASES,
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&page(request)) }),
    live: Some(|request| Box::pin(async move { rendered(&page(request).as_live()) })),
};

/// What the cases are asked with.
#[derive(Debug, Default)]
struct CaseInputs {
    cases: String,
    profile: String,
    ranking: String,
}

/// The page with what was asked last, or with what its address says where nothing was.
fn page(request: &PageRequest) -> CasesPage {
    let call = calls::of_page(request, CASES);
    let inputs = match &call {
        Some(call) => {
            let kept: Value = serde_json::from_str(&call.inputs.kept).unwrap_or_default();
            let profile = call.inputs.profile.to_string();
            CaseInputs { cases: text(&kept, "cases"), profile, ranking: text(&kept, "ranking") }
        }
        None => CaseInputs::default(),
    };
    // What the address names counts, as where a search led here.
    let named = |name: &str, known: String| request.parameter(name).map_or(known, str::to_owned);
    let inputs = CaseInputs {
        profile: named("profile", inputs.profile),
        ranking: named("ranking", inputs.ranking),
        cases: inputs.cases,
    };
    let mut shown = form(request, inputs, None);
    if let Some(call) = &call {
        shown.sections = match calls::standing(request, call) {
            Ok(answer) => found(&answer.to_value()),
            Err(sections) => sections,
        };
    }
    shown.live = if calls::is_open(call.as_ref()) { request.live_path() } else { String::new() };
    shown
}

fn form(request: &PageRequest, inputs: CaseInputs, problem: Option<Notice>) -> CasesPage {
    let rankings = RANKINGS.map(str::to_owned).into();
    let choice = |name, label, none, options, value| CaseChoice { name, label, none, options, value };
    CasesPage {
        frame: request.frame("Search: cases"),
        path: CASES.to_owned(),
        choices: vec![
            choice("profile", "As profile", "the default one", request.profiles(), inputs.profile),
            choice("ranking", "Ranking", "the profile's", rankings, inputs.ranking),
        ],
        cases: inputs.cases,
        problem,
        sections: Vec::new(),
        live: String::new(),
    }
}

/// Begins to ask the cases of a form.
pub(in crate::route::ui) async fn measure(request: &PageRequest, fields: &Fields) -> Response<Body> {
    let field = |name: &str| fields.text(name).unwrap_or_default().to_owned();
    // Browsers send their own line ends.
    let cases = field("cases").replace("\r\n", "\n");
    let inputs = CaseInputs { cases, profile: field("profile"), ranking: field("ranking") };
    match begun(request, &inputs).await {
        Ok(response) => response,
        Err(problem) => {
            let status = StatusCode::max(status_of(&problem), StatusCode::BAD_REQUEST);
            write::page(request, status, &form(request, inputs, Some(write::notice(&problem))))
        }
    }
}

async fn begun(request: &PageRequest, inputs: &CaseInputs) -> Result<Response<Body>, Problem> {
    let named = Some(inputs.profile.as_str()).filter(|name| !name.is_empty());
    let mut arguments = json!({ "cases": inputs.cases });
    if !inputs.ranking.is_empty() {
        arguments["ranking"] = inputs.ranking.as_str().into();
    }
    let long = LongOperation {
        tool: "core_search_eval",
        title: "Measure the search",
        form: CASES,
        profile: request.profile_named(named)?,
        arguments,
    };
    calls::start_long(request, long).await
}

/// What came of it.
fn found(answer: &Value) -> Vec<Section> {
    let share = |key: &str| Cell::Figure(format!("{:.1} %", 100.0 * answer[key].as_f64().unwrap_or_default()));
    let score = |key: &str| Cell::Figure(format!("{:.3}", answer[key].as_f64().unwrap_or_default()));
    let missed = answer["missed"].as_u64().unwrap_or_default();
    let facts = vec![
        ("Profile", link("/ui/profiles", answer, "profile", "")),
        ("Ranking", Cell::Id(text(answer, "ranking"))),
        ("Cases", number(answer, "cases")),
        ("Recall at 1", share("recall_at_1")),
        ("Recall at 5", share("recall_at_5")),
        ("Recall at 10", share("recall_at_10")),
        ("Mean reciprocal rank", score("mrr")),
        ("NDCG at 10", score("ndcg_at_10")),
    ];
    let (profile, ranking) = (text(answer, "profile"), text(answer, "ranking"));
    let table = rows(answer, "misses").iter().map(|miss| {
        let asked = text(miss, "text");
        let path =
            format!("/ui/search?profile={}&ranking={}&q={}", encoded(&profile), encoded(&ranking), encoded(&asked));
        let unknown = rows(miss, "unknown").iter().filter_map(Value::as_str);
        vec![
            Cell::link(path, asked),
            number(miss, "line"),
            Cell::Id(words(miss, "missing")),
            Cell::Tags(unknown.map(|id| (Level::Warn, format!("not shown: {id}"))).collect()),
            Cell::Id(words(miss, "found")),
        ]
    });
    let columns = vec![
        Column::text("Asked"),
        Column::number("Line"),
        Column::text("Missed"),
        Column::text("In this profile"),
        Column::text("Found, the best first"),
    ];
    let table = Table { label: "Misses".to_owned(), columns, rows: table.collect() };
    let shown = table.rows.len() as u64;
    let title = match (missed, shown < missed) {
        (0, _) => "Misses".to_owned(),
        (_, true) => format!("Misses: {missed}, the first {shown} of which are shown"),
        _ => format!("Misses: {missed}"),
    };
    let empty = "Each tool that was wanted is among the first ten hits.".to_owned();
    vec![Section::Facts(facts), Section::Table { title, table, empty }]
}
