//! `/ui/search`: a search as an agent makes it, with what it gets and the reasons of each score, in one profile or two
//! side by side; and `/ui/search/cases`, a list of cases with what is missed, in `search/cases.rs`.

mod cases;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_catalog::Ranking;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::SearchPage;
use toolcrib_ui::page::search::SearchSide;
use toolcrib_ui::part::{Cell, Column, Filter, Level, Look, Section, Table};

use super::json::{link, number, rows, text};
use super::{Page, open_page, rendered};
use crate::route::ui::PageRequest;
use crate::route::ui::write::sentence;

pub(super) use cases::PAGE as CASES_PAGE;
pub(in crate::route::ui) use cases::{CASES, measure};

pub(super) const PAGE: Page = Page {
    path: "/ui/search",
    nav: Some(("Tools", "Search")),
    needs: "core_search_try",
    make: |request| Box::pin(async move { rendered(&page(request).await?) }),
    live: None,
};

const RANKINGS: [&str; 2] = [Ranking::Blend.as_str(), Ranking::TfIdf.as_str()];
/// How many rows of what was learned are shown.
const LEARNED: usize = 50;
/// The parts of a score: their key in an explanation, and their name.
const PARTS: [(&str, &str); 6] = [
    ("exact", "Exact"),
    ("words", "Words"),
    ("alike", "Alike"),
    ("meaning", "Meaning"),
    ("model", "Model"),
    ("server", "Server"),
];

async fn page(request: &PageRequest) -> Result<SearchPage, Problem> {
    let query = request.value("q");
    let (other, other_ranking) = (request.value("with"), request.value("with_ranking"));
    let (mut whole, mut sides) = (Vec::new(), Vec::new());
    if !query.is_empty() {
        let left = tried(request, &request.value("profile"), &request.value("ranking")).await?;
        match other.is_empty() && other_ranking.is_empty() {
            true => {
                whole = vec![Section::Facts(facts(&left)), explained(&left)];
                whole.push(answer(&left, "answer"));
            }
            false => {
                let profile = if other.is_empty() { text(&left, "profile") } else { other.clone() };
                let right = tried(request, &profile, &other_ranking).await?;
                whole.push(compared(&left, &right));
                sides = vec![side(&left, "answer"), side(&right, "answer-other")];
            }
        }
    }
    let pick = |name, label, none, options| Filter::Pick { name, label, none, options, value: request.value(name) };
    let rankings = || RANKINGS.map(str::to_owned).into();
    let filters = vec![
        Filter::Search { name: "q", label: "Ask in plain words", hint: "convert miles to kilometres", value: query },
        pick("profile", "As profile", "the default one", request.profiles()),
        pick("ranking", "Ranking", "the profile's", rankings()),
        pick("with", "Beside profile", "none", request.profiles()),
        pick("with_ranking", "Beside ranking", "none", rankings()),
    ];
    let mut actions = Vec::new();
    if request.allows("core_search_eval") {
        let chosen = |(name, value): (&str, String)| format!("{name}={}", encoded(&value));
        let kept = ["profile", "ranking"].map(|name| (name, request.value(name))).map(chosen).join("&");
        actions.push(open_page("Cases", &format!("{CASES}?{kept}"), Look::Plain));
    }
    Ok(SearchPage {
        frame: request.frame("Search"),
        actions,
        filters,
        path: request.path(),
        is_asked: !request.value("q").is_empty(),
        whole,
        sides,
        below: learned(request).await,
    })
}

/// A search in a profile; without a name in the default one, without a ranking by the profile's.
async fn tried(request: &PageRequest, profile: &str, ranking: &str) -> Result<Value, Problem> {
    let mut arguments = json!({ "query": request.value("q") });
    for (key, value) in [("profile", profile), ("ranking", ranking)] {
        if !value.is_empty() {
            arguments[key] = value.into();
        }
    }
    Ok(request.operate("core_search_try", arguments).await?.to_value())
}

fn facts(tried: &Value) -> Vec<(&'static str, Cell)> {
    vec![
        ("Profile", link("/ui/profiles", tried, "profile", "")),
        ("Ranking", Cell::Id(text(tried, "ranking"))),
        ("Tools that match", number(tried, "total")),
        ("An agent calls", Cell::Id(text(tried, "tool"))),
        ("The answer costs", Cell::Figure(format!("{} tokens", text(tried, "tokens")))),
    ]
}

/// The very text that an agent gets.
fn answer(tried: &Value, id: &'static str) -> Section {
    let title = format!("What the agent gets: {} tokens", text(tried, "tokens"));
    Section::Pre { title, id, text: text(tried, "text") }
}

fn label(tried: &Value) -> String {
    format!("profile {}, {}", text(tried, "profile"), text(tried, "ranking"))
}

fn side(tried: &Value, id: &'static str) -> SearchSide {
    SearchSide { label: label(tried), sections: vec![Section::Facts(facts(tried)), answer(tried, id)] }
}

/// The hits with the parts of their scores.
fn explained(tried: &Value) -> Section {
    let hits = rows(tried, "tools");
    // What is nothing for every hit is left out.
    let is_something = |part: &Value| part.as_f64().is_some_and(|share| share != 0.0);
    let has = |key: &str| hits.iter().any(|hit| is_something(share(&hit["explanation"], key)));
    let parts: Vec<(&str, &'static str)> = PARTS.into_iter().filter(|(key, _)| has(key)).collect();
    let learned = |hit: &Value| hit["explanation"]["learned"].as_f64().filter(|share| *share > 0.0);
    let shows_learned = tried["learns"] == true || hits.iter().any(|hit| learned(hit).is_some());
    let mut columns = vec![Column::text("Tool"), Column::number("Score")];
    columns.extend(parts.iter().map(|(_, label)| Column::number(label)));
    if shows_learned {
        columns.push(Column::number("Learned"));
    }
    columns.push(Column::text("Found by"));
    let table = hits.iter().map(|hit| {
        let why = &hit["explanation"];
        let mut cells = vec![link("/ui/tools", hit, "id", "summary"), figure(&hit["score"])];
        cells.extend(parts.iter().map(|(key, _)| figure(share(why, key))));
        if shows_learned {
            cells.push(learned(hit).map_or(Cell::Nothing, |share| Cell::Figure(format!("{share:.3}"))));
        }
        cells.push(Cell::Text(reasons(why)));
        cells
    });
    let table = Table { label: "Hits with the parts of their scores".to_owned(), columns, rows: table.collect() };
    Section::Table { title: "Why in this order".to_owned(), table, empty: "No tool matches.".to_owned() }
}

/// What a part has of a score: that of an exact name is a figure of its own.
fn share<'a>(why: &'a Value, key: &str) -> &'a Value {
    if key == "exact" { &why[key] } else { &why[key]["share"] }
}

/// The words that found a tool, with what each is worth, and what was corrected.
fn reasons(why: &Value) -> String {
    let exact = why["exact"].as_f64().filter(|share| *share > 0.0).map(|_| "its name was given".to_owned());
    let worth = |term: &Value| format!("{} {:.2}", text(term, "word"), term["score"].as_f64().unwrap_or_default());
    let terms = rows(why, "terms").iter().map(worth);
    let corrected = |it: &Value| format!("{} read as {}", text(it, "from"), text(it, "to"));
    let corrections = rows(why, "corrections").iter().map(corrected);
    exact.into_iter().chain(terms).chain(corrections).collect::<Vec<_>>().join(", ")
}

fn figure(number: &Value) -> Cell {
    number.as_f64().map_or(Cell::Nothing, |number| Cell::Figure(format!("{number:.3}")))
}

/// The hits of two searches in one table: where each stands in either.
fn compared(left: &Value, right: &Value) -> Section {
    let place = |side: &Value, id: &str| rows(side, "tools").iter().position(|hit| text(hit, "id") == id);
    let is_only_right = |hit: &&Value| place(left, &text(hit, "id")).is_none();
    let hits = rows(left, "tools").iter().chain(rows(right, "tools").iter().filter(is_only_right));
    let table = hits.map(|hit| {
        let id = text(hit, "id");
        let places = [place(left, &id), place(right, &id)];
        let of = |side: &Value, at: Option<usize>| match at {
            Some(at) => [Cell::Number(at as u64 + 1), figure(&rows(side, "tools")[at]["score"])],
            None => [Cell::Nothing, Cell::Nothing],
        };
        let mut cells = vec![link("/ui/tools", hit, "id", "summary")];
        cells.extend(of(left, places[0]));
        cells.extend(of(right, places[1]));
        let (level, word) = moved(places);
        cells.push(Cell::state(level, word));
        cells
    });
    let columns = vec![
        Column::text("Tool"),
        Column::number("Left: place"),
        Column::number("Score"),
        Column::number("Right: place"),
        Column::number("Score"),
        Column::text("From left to right"),
    ];
    let table = Table { label: "Hits of both".to_owned(), columns, rows: table.collect() };
    let title = format!("{} beside {}", sentence(&label(left)).trim_end_matches('.'), label(right));
    Section::Table { title, table, empty: "No tool matches in either.".to_owned() }
}

/// What becomes of a hit from the left to the right.
fn moved(places: [Option<usize>; 2]) -> (Level, String) {
    match places {
        [Some(left), Some(right)] if left == right => (Level::Ok, "same place".to_owned()),
        [Some(left), Some(right)] if left > right => (Level::Work, format!("up {}", left - right)),
        [Some(left), Some(right)] => (Level::Work, format!("down {}", right - left)),
        [Some(_), None] => (Level::Warn, "left only".to_owned()),
        [None, _] => (Level::Warn, "right only".to_owned()),
    }
}

/// What the profile learned from use, with the button that forgets it.
async fn learned(request: &PageRequest) -> Vec<Section> {
    let profile = match request.parameter("profile") {
        Some(profile) => profile.to_owned(),
        None => request.profile().to_string(),
    };
    if !request.allows("core_learning_show") {
        return Vec::new();
    }
    let Ok(shown) = request.operate("core_learning_show", json!({ "profile": profile })).await else {
        return Vec::new();
    };
    let shown = shown.to_value();
    let table: Vec<Vec<Cell>> = rows(&shown, "rows")
        .iter()
        .take(LEARNED)
        .map(|row| {
            let worth = row["count"].as_f64().unwrap_or_default();
            vec![Cell::Id(text(row, "word")), link("/ui/tools", row, "tool", ""), Cell::Figure(format!("{worth:.2}"))]
        })
        .collect();
    let empty = match shown["learns"] == true {
        true => "Nothing so far: no tool was called after a search.".to_owned(),
        false => format!("Profile `{profile}` does not learn. Set `learn: true` in its definition."),
    };
    let total = text(&shown, "total");
    let title = match table.len().to_string() == total {
        true => format!("Learned from use in profile {profile}"),
        false => format!("Learned from use in profile {profile}: the strongest {} of {total}", table.len()),
    };
    let has_any = !table.is_empty();
    let columns = vec![Column::text("After the word"), Column::text("Raises the tool"), Column::number("Worth")];
    let table = Table { label: "Learned from use".to_owned(), columns, rows: table };
    let mut sections = vec![Section::Table { title, table, empty }];
    if has_any && request.may_change() && request.allows("core_learning_reset") {
        let here = encoded(&request.here());
        let path = format!("/ui/operations/core_learning_reset?profile={}&return={here}", encoded(&profile));
        sections.push(Section::Actions(vec![open_page("Forget what was learned", &path, Look::Danger)]));
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_moves_or_is_on_one_side_only() {
        for (places, expected) in [
            ([Some(2), Some(2)], "same place"),
            ([Some(3), Some(0)], "up 3"),
            ([Some(0), Some(1)], "down 1"),
            ([Some(0), None], "left only"),
            ([None, Some(4)], "right only"),
        ] {
            assert_eq!(moved(places).1, expected, "{places:?}");
        }
    }

    #[test]
    fn hits_of_two_searches_stand_in_one_table() {
        let hit = |id: &str, score: f64| json!({ "id": id, "score": score });
        let left = json!({ "profile": "a", "ranking": "blend", "tools": [hit("x/one", 0.9), hit("x/two", 0.5)] });
        let right = json!({ "profile": "b", "ranking": "tfidf", "tools": [hit("x/two", 7.0), hit("x/three", 1.0)] });
        let Section::Table { title, table, .. } = compared(&left, &right) else { panic!("it is a table") };
        assert_eq!(title, "Profile a, blend beside profile b, tfidf");
        let text: Vec<String> = table.rows.iter().map(|row| format!("{row:?}")).collect();
        assert_eq!(text.len(), 3);
        for (row, parts) in text.iter().zip([["x/one", "left only"], ["x/two", "up 1"], ["x/three", "right only"]]) {
            assert!(parts.iter().all(|part| row.contains(part)), "{row}");
        }
    }
}
