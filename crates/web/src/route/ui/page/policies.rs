//! `/ui/policies`: the policies in force and their files, who may call what, and why a request is decided as it is.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{ListPage, MatrixPage};
use toolcrib_ui::part::{Cell, Column, Filter, Level, Look};

use super::json::{cell, number, rows, text, words};
use super::{Listing, Page, open_page, policy_editor, rendered};
use crate::route::ui::PageRequest;
use crate::route::ui::write::sentence;

pub(super) const PAGE: Page = Page {
    path: "/ui/policies",
    nav: Some(("People", "Policies")),
    needs: "core_policy_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const WHO: Page = Page {
    path: "/ui/policies/who",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&who(request).await?) }),
    live: None,
};

pub(super) const EXPLAIN: Page = Page {
    path: "/ui/policies/explain",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&explain(request).await?) }),
    live: None,
};

const DECISIONS: [&str; 6] = ["permit", "hidden", "deny", "confirm", "approve", "open"];
const ROLES: [&str; 5] = ["member", "viewer", "operator", "admin", "owner"];
/// How many rows the table has on a page.
const TOOLS: usize = 50;

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 5] = [
        Column::text("Policy"),
        Column::text("Effect"),
        Column::text("File"),
        Column::number("Line"),
        Column::text("Only on record"),
    ];
    let answer = request.operate("core_policy_list", json!({})).await?.to_value();
    let known: Vec<&str> = rows(&answer, "files").iter().filter_map(|file| file["name"].as_str()).collect();
    let file_of = |row: &Value| {
        let file = text(row, "file");
        match known.contains(&&*file) {
            true => Cell::link(policy_editor::path_of(&file), file),
            // What is shipped has no file.
            false => Cell::Id(file),
        }
    };
    let problems = rows(&answer, "problems").iter().map(|row| {
        vec![
            Cell::Text(text(row, "message")),
            Cell::State { level: Level::Bad, word: "problem".into(), note: text(row, "hint") },
            file_of(row),
            number(row, "line"),
            Cell::Nothing,
        ]
    });
    // A file without policies has no other row to be opened from.
    let bare = rows(&answer, "files").iter().filter(|file| file["policies"] == 0 && file["problems"] == 0);
    let bare = bare.map(|file| {
        let name = text(file, "name");
        let link = Cell::link(policy_editor::path_of(&name), name);
        vec![Cell::Text("No policies".into()), Cell::Nothing, link, Cell::Nothing, Cell::Nothing]
    });
    let policies = rows(&answer, "policies").iter().map(|row| {
        let records = row["recordsOnly"] == true;
        vec![
            Cell::Text(format!("{} {}", text(row, "id"), text(row, "description"))),
            cell(row, "effect"),
            file_of(row),
            number(row, "line"),
            if records { Cell::state(Level::Warn, "yes") } else { Cell::Nothing },
        ]
    });
    let mut actions = vec![
        open_page("Who may do what", WHO.path, Look::Primary),
        open_page("Explain a request", EXPLAIN.path, Look::Plain),
    ];
    actions.extend(request.if_changing(|| vec![open_page("Add a file", policy_editor::PATH, Look::Plain)]));
    let listing = Listing {
        title: "Policies",
        empty: (
            "There are no policies.",
            "Profiles and roles decide alone. Files `policies/*.cedar` of the home folder add rules.",
        ),
        actions,
        ..Listing::new(&COLUMNS, Vec::new(), problems.chain(bare).chain(policies).collect())
    };
    Ok(request.list(listing))
}

/// A decision in its word, and how it looks.
pub(super) fn decision(word: &str, note: String) -> Cell {
    let level = match word {
        "permit" => Level::Ok,
        "hidden" | "deny" => Level::Bad,
        "confirm" | "approve" => Level::Warn,
        _ => Level::Idle,
    };
    let shown = if word == "open" { "depends on the call" } else { word };
    Cell::State { level, word: shown.to_owned(), note }
}

async fn who(request: &PageRequest) -> Result<MatrixPage, Problem> {
    let [query, who, decided] = ["q", "who", "decision"].map(|name| request.value(name));
    let profile = request.profile_named(request.parameter("profile"))?.to_string();
    let offset = request.offset();
    let mut arguments = json!({ "profile": profile, "query": query, "who": who, "limit": TOOLS, "offset": offset });
    if DECISIONS.contains(&&*decided) {
        arguments["decision"] = decided.as_str().into();
    }
    let answer = request.operate("core_policy_matrix", arguments).await?.to_value();
    let people = rows(&answer, "principals");
    let table = rows(&answer, "tools").iter().map(|row| {
        let tool = text(row, "tool");
        let fields = people.iter().zip(rows(row, "decisions")).map(|(person, of_person)| {
            let (word, by) = (text(of_person, "decision"), text(of_person, "by"));
            let note = if by.is_empty() { String::new() } else { format!("`{by}`") };
            let path = explain_path(person, &tool, &profile);
            let why = Cell::Link { path, text: "why".to_owned(), note: String::new() };
            Cell::Several(vec![decision(&word, note), why])
        });
        let head = Cell::link(format!("/ui/tools/{}?profile={}", encoded(&tool), encoded(&profile)), &tool);
        (head, fields.collect::<Vec<_>>())
    });
    let table: Vec<(Cell, Vec<Cell>)> = table.collect();
    let total = answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()).unwrap_or_default();
    let end = offset + table.len();
    let step = |from: usize| request.with("from", &from.to_string());
    let around = ((offset > 0).then(|| step(offset.saturating_sub(TOOLS))), (end < total).then(|| step(end)));
    let all_people = answer["principalsTotal"].as_u64().unwrap_or_default();
    let unseen = match (answer["truncated"] == true, all_people > people.len() as u64) {
        (true, _) => "Not all tools were looked at: narrow the filters.".to_owned(),
        (_, true) => format!("{} of {all_people} principals are shown: narrow “Who”.", people.len()),
        _ => String::new(),
    };
    let is_in_force = answer["inForce"] == true;
    let intro = match is_in_force {
        true => "What profile, role and policies decide of calls, for each role and for whom policies name.",
        false => "There are no policies: the profile and the role decide alone.",
    };
    let options = DECISIONS.map(str::to_owned).into();
    Ok(MatrixPage {
        frame: request.frame("Who may do what"),
        above: ("/ui/policies", "Policies"),
        intro: intro.to_owned(),
        filters: vec![
            Filter::Search { name: "q", label: "Tool", hint: "words of its id", value: query },
            Filter::Search { name: "who", label: "Who", hint: "such as role member", value: who },
            Filter::Choice { name: "decision", label: "Has for someone", options, value: decided },
            request.profile_filter(),
        ],
        path: request.path(),
        corner: "Tool",
        columns: people.iter().map(|person| Cell::Text(text(person, "who"))).collect(),
        range: format!("{} to {end} of {total}", offset + 1),
        rows: table,
        unseen,
        around,
        empty: "Nothing matches.".to_owned(),
    })
}

/// Where it is explained what a principal may do with a tool.
fn explain_path(person: &Value, tool: &str, profile: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("as", &text(person, "principal")).append_pair("role", &text(person, "role"));
    for (name, value) in
        [("groups", words(person, "groups")), ("client", text(person, "client")), ("tenant", text(person, "tenant"))]
    {
        if !value.is_empty() {
            query.append_pair(name, &value);
        }
    }
    query.append_pair("tool", tool).append_pair("profile", profile);
    format!("{}?{}", EXPLAIN.path, query.finish())
}

async fn explain(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 4] =
        [Column::text("What"), Column::text("Decides"), Column::text("Why"), Column::text("Where")];
    let [principal, role, groups, client, tenant, tool, given] =
        ["as", "role", "groups", "client", "tenant", "tool", "arguments"].map(|name| request.value(name));
    let role = if role.is_empty() { ROLES[0].to_owned() } else { role };
    let mut asked = json!({ "as": principal, "role": role, "tool": tool });
    asked["profile"] = request.profile_named(request.parameter("profile"))?.to_string().into();
    let split: Vec<&str> = groups.split([',', ' ']).filter(|group| !group.is_empty()).collect();
    if !split.is_empty() {
        asked["groups"] = split.into();
    }
    for (key, value) in [("client", &client), ("tenant", &tenant)] {
        if !value.is_empty() {
            asked[key] = value.as_str().into();
        }
    }
    let mut wrong = None;
    if !given.is_empty() {
        match serde_json::from_str::<Value>(&given) {
            Ok(arguments) if arguments.is_object() => asked["arguments"] = arguments,
            _ => wrong = Some("The arguments are no JSON object.".to_owned()),
        }
    }
    let mut table = Vec::new();
    if !tool.is_empty() && wrong.is_none() {
        match request.operate("core_policy_explain", asked).await {
            Ok(answer) => table = explained(&answer.to_value()),
            Err(problem) => {
                let hint = problem.hint.as_deref().map(sentence).unwrap_or_default();
                wrong = Some(format!("{} {hint}", sentence(&problem.message)));
            }
        }
    }
    let search = |name, label, hint, value| Filter::Search { name, label, hint, value };
    let roles = ROLES.map(str::to_owned).into();
    let filters = vec![
        search("as", "Who", "user:acme/ann", principal),
        Filter::Switch { name: "role", label: "With role", options: roles, value: role },
        search("groups", "In groups", "developers", groups),
        search("client", "By the client", "editor", client),
        search("tenant", "Of the tenant", "t1", tenant),
        search("tool", "Calls the tool", "server/tool", tool),
        search("arguments", "With arguments", "{\"path\": \"/etc\"}", given),
        request.profile_filter(),
    ];
    let listing = Listing {
        title: "Explain a request",
        above: Some(("/ui/policies", "Policies")),
        intro: "What profile, role and policies decide of a call, which policies are about it, and what else would be \
                needed. Without arguments it may depend on them.",
        actions: vec![open_page("Others than calls", "/ui/operations/core_policy_explain", Look::Plain)],
        empty: ("Nothing is asked.", "Name who asks, and a tool."),
        unseen: wrong.unwrap_or_default(),
        is_open_ended: true,
        ..Listing::new(&COLUMNS, filters, table)
    };
    Ok(request.list(listing))
}

/// The decision, then each policy that is about the request.
fn explained(answer: &Value) -> Vec<Vec<Cell>> {
    let (reason, needed) = (text(answer, "reason"), words(answer, "needed"));
    let mut why = sentence(&reason);
    if !needed.is_empty() {
        why = format!("{why} It takes: {needed}.").trim().to_owned();
    }
    let by = text(answer, "by");
    let by = if by.is_empty() { Cell::Nothing } else { Cell::Id(by) };
    let first = vec![
        Cell::Text("The request".into()),
        decision(&text(answer, "decision"), String::new()),
        Cell::Prose(why),
        by,
    ];
    let policies = rows(answer, "policies").iter().map(|row| {
        let counts = text(row, "counts");
        let level = if counts.starts_with("yes") { Level::Warn } else { Level::Idle };
        vec![
            Cell::Id(text(row, "id")),
            Cell::State { level, word: format!("{}: {}", text(row, "effect"), counts), note: String::new() },
            Cell::Text(text(row, "description")),
            Cell::Id(format!("{}:{}", text(row, "file"), text(row, "line"))),
        ]
    });
    std::iter::once(first).chain(policies).collect()
}
