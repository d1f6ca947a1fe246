//! `/ui/setup`: from an empty home to the first call, step by step. No state of its own: which steps are done is what
//! the definitions and the clients' files say, so each can be skipped, taken again and undone.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::SetupPage;
use toolcrib_ui::page::setup::Step;
use toolcrib_ui::part::{
    Action, Cell, Choice, ChoiceForm, Column, Level, Look, QuestionForm, Requirement, Section, Table,
};

use super::clients::{change, refused};
use super::json::{level, link, number, rows, text};
use super::{Page, open_page, rendered, run};
use crate::route::ui::PageRequest;
use crate::route::ui::write::sentence;

pub(super) const PAGE: Page = Page {
    path: "/ui/setup",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&page(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&page(request).await?.as_live()) })),
};

/// The steps: their name, label, heading, and what they are for.
const STEPS: [(&str, &str, &str, &str); 4] = [
    (
        "choose",
        "Choose servers",
        "Which servers shall Toolcrib take over?",
        "Found in your clients' settings. Secrets go into the encrypted vault; the clients' files are not changed.",
    ),
    (
        "verify",
        "See them answer",
        "Does each server answer?",
        "Each is started and lists its tools. One that fails does not hold up the others: repair it, or remove it.",
    ),
    (
        "connect",
        "Connect clients",
        "Which clients shall use Toolcrib?",
        "One entry is added to a client's settings. You see the lines first; a copy of the file is kept.",
    ),
    (
        "call",
        "First call",
        "Call a tool",
        "By the way that every client's call takes; the audit log has it afterwards.",
    ),
];

/// What is on disk, as operations answer it.
struct Ground {
    servers: Value,
    clients: Result<Value, Problem>,
}

async fn page(request: &PageRequest) -> Result<SetupPage, Problem> {
    let servers = request.operate("core_mcpserver_list", json!({})).await?.to_value();
    let clients = request.operate("core_client_list", json!({})).await.map(|answer| answer.to_value());
    let ground = Ground { servers, clients };
    let states = states(&ground);
    let first_open = states.iter().position(|(level, _)| *level != Level::Ok).unwrap_or(STEPS.len() - 1);
    let named = request.parameter("step").and_then(|name| STEPS.iter().position(|step| step.0 == name));
    let current = named.unwrap_or(first_open);
    let (_, _, title, intro) = STEPS[current];
    let steps = STEPS.iter().zip(states).enumerate().map(|(at, (step, (level, word)))| Step {
        name: step.0,
        label: step.1,
        level,
        word,
        is_current: at == current,
    });
    let steps: Vec<Step> = steps.collect();
    let (mut changing, mut fixed) = (Vec::new(), Vec::new());
    match current {
        0 => fixed = choose(request, &ground).await,
        1 => changing = verify(request, &ground),
        2 => fixed = connect(request, &ground).await,
        _ => fixed = call(request).await?,
    }
    let way = |at: usize, label: &str, look| open_page(label, &format!("/ui/setup?step={}", STEPS[at].0), look);
    let mut ways = Vec::new();
    if current > 0 {
        ways.push(way(current - 1, "Back", Look::Plain));
    }
    match current + 1 < STEPS.len() {
        true if steps[current].level == Level::Ok => ways.push(way(current + 1, "Next", Look::Primary)),
        true => ways.push(way(current + 1, "Skip this step", Look::Plain)),
        false => ways.push(open_page("To the start page", "/ui", Look::Plain)),
    }
    // Where a step was named the address says so; its live part must show the same one.
    let is_live = current == 1;
    let live = if is_live { format!("/ui/live/setup?step={}", STEPS[1].0) } else { String::new() };
    Ok(SetupPage { frame: request.frame("Set up Toolcrib"), steps, title, intro, changing, fixed, live, ways })
}

/// How each step stands.
fn states(ground: &Ground) -> [(Level, String); 4] {
    let servers = rows(&ground.servers, "mcpServers");
    let count = |what: &str, number: usize| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let ready = servers.iter().filter(|server| server["tools"].as_u64().is_some_and(|tools| tools > 0)).count();
    let failed = servers.iter().filter(|server| level(&text(server, "state")) == Level::Bad).count();
    let choose = match servers.len() {
        0 => (Level::Idle, "open".to_owned()),
        number => (Level::Ok, count("server", number)),
    };
    let verify = match (servers.len(), ready, failed) {
        (0, ..) => (Level::Idle, "no servers yet".to_owned()),
        (_, _, failed) if failed > 0 => (Level::Bad, format!("{failed} failed")),
        (all, ready, _) if all == ready => (Level::Ok, "all answer".to_owned()),
        (all, ready, _) => (Level::Work, format!("{ready} of {all} answered")),
    };
    let connected = |clients: &Value| rows(clients, "clients").iter().filter(|it| it["state"] == "connected").count();
    let connect = match &ground.clients {
        Err(_) => (Level::Idle, "by command only".to_owned()),
        Ok(clients) => match connected(clients) {
            0 => (Level::Idle, "open".to_owned()),
            number => (Level::Ok, format!("{number} connected")),
        },
    };
    let call = match ready {
        0 => (Level::Idle, "no tools yet".to_owned()),
        _ => (Level::Idle, "ready to try".to_owned()),
    };
    [choose, verify, connect, call]
}

/// The servers of clients to choose from.
async fn choose(request: &PageRequest, ground: &Ground) -> Vec<Section> {
    let elsewhere = || {
        let actions = request.if_changing(|| {
            vec![
                open_page("Add from the registry", "/ui/registry", Look::Plain),
                open_page(
                    "Add by command or URL",
                    "/ui/operations/core_mcpserver_create?return=/ui/setup",
                    Look::Plain,
                ),
            ]
        });
        Section::Actions(actions)
    };
    let answers = answers(request);
    let asked = json!({ "answers": answers.iter().cloned().collect::<BTreeMap<_, _>>() });
    let shown = match request.operate("core_client_import_preview", asked).await {
        Ok(shown) => shown.to_value(),
        Err(problem) => return vec![refused("Servers of clients", &problem), elsewhere()],
    };
    let mut sections = Vec::new();
    for problem in rows(&shown, "problems") {
        let what = format!("{} {}", sentence(&text(problem, "problem")), sentence(&text(problem, "hint")));
        sections.push(Section::Prose { title: "A file cannot be read".into(), text: what });
    }
    let (secret, plain): (Vec<&Value>, Vec<&Value>) =
        rows(&shown, "questions").iter().partition(|question| question["secret"] == true);
    if !plain.is_empty() && request.may_change() {
        let given = |question: &Value| {
            let name = text(question, "name");
            answers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        sections.push(Section::Questions(QuestionForm {
            title: "What your clients fill in".to_owned(),
            note: "Their settings have placeholders. Nothing is written by this: you see below what would be."
                .to_owned(),
            path: "/ui/setup".to_owned(),
            hidden: vec![("step", STEPS[0].0.to_owned())],
            requirements: plain.iter().map(|it| requirement(it, ANSWER, given(it))).collect(),
            button: "Show what is written with these",
        }));
    }
    let of_state = |state: &'static str| rows(&shown, "servers").iter().filter(move |it| it["state"] == state);
    let choices: Vec<Choice> = of_state("new").map(choice).collect();
    if choices.is_empty() {
        let text = match (rows(&ground.servers, "mcpServers").len(), of_state("present").count()) {
            (_, present) if present > 0 => "All servers of your clients are taken over.",
            (0, _) => "No client on this machine has servers. Add one here:",
            _ => "There is nothing more to take over.",
        };
        sections.push(Section::Prose { title: String::new(), text: text.to_owned() });
    } else if request.may_change() {
        let button = if choices.len() == 1 { "Import it".to_owned() } else { "Import the chosen servers".to_owned() };
        sections.push(Section::Choices(ChoiceForm {
            title: String::new(),
            tool: "core_client_import",
            argument: "servers",
            hidden: vec![("clients", String::new())],
            answers: answers.iter().map(|(name, value)| (format!("answers.{name}"), value.clone())).collect(),
            requirements: secret.iter().map(|it| requirement(it, "arg.secrets.", None)).collect(),
            are_chosen: true,
            choices,
            button,
            other: None,
            next: "/ui/setup?step=verify".to_owned(),
        }));
    }
    let skipped: Vec<Vec<Cell>> = of_state("skipped")
        .map(|it| vec![Cell::Id(text(it, "key")), Cell::Text(text(it, "title")), Cell::Prose(text(it, "why"))])
        .collect();
    if !skipped.is_empty() {
        let columns = vec![Column::text("Server"), Column::text("Client"), Column::text("Why")];
        let table = Table { label: "Left out".into(), columns, rows: skipped };
        sections.push(Section::Table { title: "Left out".into(), table, empty: String::new() });
    }
    sections.push(elsewhere());
    sections
}

/// What stands before the name of an answer in the address.
const ANSWER: &str = "answer.";

/// What was put in for placeholders of clients.
fn answers(request: &PageRequest) -> Vec<(String, String)> {
    let named = request.query.iter().filter_map(|(key, value)| Some((key.strip_prefix(ANSWER)?, value)));
    named.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// The field of something that a client asks for.
fn requirement(question: &Value, before: &str, given: Option<String>) -> Requirement {
    let (name, asked) = (text(question, "name"), sentence(&text(question, "description")));
    let whose = text(question, "title");
    let note = match asked.is_empty() {
        true => format!("{whose} fills in `${{{name}}}` by itself; say what stands for it."),
        false => format!("{whose} asks: {asked}"),
    };
    Requirement {
        argument: format!("{before}{name}"),
        note,
        help: None,
        pattern: String::new(),
        default: given.unwrap_or_else(|| text(question, "default")),
        options: Vec::new(),
        is_secret: question["secret"] == true,
        is_required: false,
        name,
    }
}

fn choice(server: &Value) -> Choice {
    let (key, name) = (text(server, "key"), text(server, "name"));
    let called = if key == name { String::new() } else { format!(", called {key} there") };
    let warnings = rows(server, "notes").iter().filter_map(Value::as_str).map(sentence);
    Choice {
        value: name,
        note: format!("{} of {}{called}", text(server, "transport"), text(server, "title")),
        warnings: warnings.collect(),
        text: text(server, "text"),
        file: text(server, "file"),
    }
}

/// The servers as they are now.
fn verify(request: &PageRequest, ground: &Ground) -> Vec<Section> {
    let columns = vec![Column::text("Server"), Column::text("State"), Column::number("Tools"), Column::text("Do")];
    let table = rows(&ground.servers, "mcpServers").iter().map(|server| {
        let (name, word) = (text(server, "name"), text(server, "state"));
        let has_tools = server["tools"].as_u64().is_some_and(|tools| tools > 0);
        let level = match level(&word) {
            Level::Idle if has_tools => Level::Ok,
            level => level,
        };
        let note = text(server, "lastError");
        let actions = request.if_changing(|| {
            let about = |action: Action| Cell::Action(Action { about: name.clone(), ..action });
            let again = run("Try again", "core_mcpserver_restart", vec![("name", name.clone())], &request.here());
            let here = encoded(&request.here());
            let edit = format!("/ui/operations/core_mcpserver_update?name={}&return={here}", encoded(&name));
            let remove = format!("/ui/operations/core_mcpserver_delete?name={}&return={here}", encoded(&name));
            vec![
                about(again),
                about(open_page("Repair", &edit, Look::Plain)),
                about(open_page("Remove", &remove, Look::Danger)),
            ]
        });
        vec![
            link("/ui/servers", server, "name", ""),
            Cell::State { level, word, note },
            number(server, "tools"),
            Cell::Several(actions),
        ]
    });
    let table = Table { label: "Servers".into(), columns, rows: table.collect() };
    let empty = "There are no servers yet. Choose some in the step before.";
    vec![Section::Table { title: String::new(), table, empty: empty.to_owned() }]
}

/// Each client with what connecting it changes.
async fn connect(request: &PageRequest, ground: &Ground) -> Vec<Section> {
    let clients = match &ground.clients {
        Ok(clients) => clients,
        Err(problem) => return vec![refused("Clients", problem)],
    };
    let mut sections = Vec::new();
    for client in rows(clients, "clients") {
        match client["state"].as_str() {
            Some("connected") => sections.extend(change(request, client, "undo").await),
            Some("not connected" | "no settings") => sections.extend(change(request, client, "connect").await),
            Some("unreadable") => {
                let what = format!("{} {}", sentence(&text(client, "problem")), sentence(&text(client, "hint")));
                sections.push(Section::Prose { title: text(client, "title"), text: what });
            }
            _ => {}
        }
    }
    if sections.is_empty() {
        let text = "No client was found on this machine. Connect one later with `toolcrib connect CLIENT`.";
        sections.push(Section::Prose { title: String::new(), text: text.to_owned() });
    }
    sections
}

/// A tool to begin with: one that only reads, if there is one.
async fn call(request: &PageRequest) -> Result<Vec<Section>, Problem> {
    let answer = request.operate("core_tool_list", json!({})).await?.to_value();
    let tools = rows(&answer, "tools");
    let first = tools.iter().find(|tool| tool["readOnly"] == true).or_else(|| tools.first());
    let Some(tool) = first else {
        let text = "No server has shown a tool yet. Go back and see why.";
        return Ok(vec![Section::Prose { title: String::new(), text: text.to_owned() }]);
    };
    let id = text(tool, "id");
    let facts =
        vec![("Tool", link("/ui/tools", tool, "id", "description")), ("Tools in all", number(&answer, "total"))];
    let open = format!("/ui/call/{}", encoded(&id));
    Ok(vec![
        Section::Facts(facts),
        Section::Actions(vec![
            open_page("Call it", &open, Look::Primary),
            open_page("See all tools", "/ui/tools", Look::Plain),
            open_page("Search as an agent does", "/ui/search", Look::Plain),
        ]),
    ])
}
