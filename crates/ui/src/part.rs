//! What pages are made of: cells, tables, facts, actions, filters. Lists and details look alike everywhere because they are
//! made of these.

use askama::Template;

use crate::filters;
use crate::graph::Graph;
pub use crate::level::Level;
use crate::schema::SchemaTree;

/// One value of a table or a fact.
#[derive(Debug, Clone, Template)]
#[template(path = "part/cell.html")]
pub enum Cell {
    /// Text that others may have written.
    Text(String),
    /// Words of ours, whose parts between backticks are code.
    Prose(String),
    /// Text that others may have written, less important; at most two lines are shown.
    Summary(String),
    /// A name or an id.
    Id(String),
    /// A link to a page of ours.
    Link {
        /// Its path.
        path: String,
        /// What it reads.
        text: String,
        /// What stands below it; empty for nothing.
        note: String,
    },
    /// A state, and why it is so; empty for nothing.
    State {
        /// How it looks.
        level: Level,
        /// The word.
        word: String,
        /// Why.
        note: String,
    },
    /// A count.
    Number(u64),
    /// A figure with its unit.
    Figure(String),
    /// A moment, in UTC.
    Time(String),
    /// Short words, some of which are a warning.
    Tags(Vec<(Level, String)>),
    /// A button.
    Action(Action),
    /// A box that chooses something for a form elsewhere on the page.
    Check(Check),
    /// A text that is folded: what is in it, whose it is, the text.
    Folded {
        /// What is in it.
        label: &'static str,
        /// Whose it is, for who does not see the row.
        about: String,
        /// The text.
        text: String,
    },
    /// How far something is: in percent, where that is known, and in words.
    Progress(Option<u8>, String),
    /// Several of these.
    Several(Vec<Cell>),
    /// Nothing.
    Nothing,
}

/// A box that chooses something.
#[derive(Debug, Clone)]
pub struct Check {
    /// The id of the form.
    pub form: &'static str,
    /// The argument that takes the chosen ones.
    pub argument: &'static str,
    /// What is sent.
    pub value: String,
}

/// A form that does something with those of a list that are chosen, by boxes in its rows.
#[derive(Debug, Clone)]
pub struct ManyForm {
    /// Its id, which the boxes name.
    pub id: &'static str,
    /// The name of the operation's tool.
    pub tool: &'static str,
    /// An argument that is picked.
    pub pick: Option<Pick>,
    /// What is sent as it is.
    pub hidden: Vec<(String, String)>,
    /// The argument that each button sends, and the buttons: what it reads, what is sent, how it looks.
    pub argument: &'static str,
    /// The buttons.
    pub buttons: Vec<(&'static str, &'static str, Look)>,
    /// Whether the lines that would change in files are shown first.
    pub is_previewed: bool,
    /// Where to go on.
    pub next: String,
}

/// An argument that is picked.
#[derive(Debug, Clone)]
pub struct Pick {
    /// Its name.
    pub argument: &'static str,
    /// Its label.
    pub label: &'static str,
    /// What there is.
    pub options: Vec<String>,
    /// What is chosen at first.
    pub value: String,
}

/// A form that is one button: an operation with its arguments.
#[derive(Debug, Clone, Template)]
#[template(path = "part/action.html")]
pub struct Action {
    /// What the button reads.
    pub label: String,
    /// For whom cannot see what it is about: the thing.
    pub about: String,
    /// What is done.
    pub target: Target,
    /// How it looks.
    pub look: Look,
}

/// What an action does.
#[derive(Debug, Clone)]
pub enum Target {
    /// Goes to a page of ours.
    Page(String),
    /// Opens an address that is none of these pages, in a tab of its own.
    Elsewhere(String),
    /// Does an operation and comes back.
    Operation {
        /// The name of its tool.
        tool: &'static str,
        /// Its arguments.
        arguments: Vec<(&'static str, String)>,
        /// Where to go on.
        next: String,
    },
    /// Sends a form to a page of ours.
    Send {
        /// Its path.
        path: String,
        /// What is sent.
        fields: Vec<(String, String)>,
    },
}

/// How a button looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Look {
    /// One of several.
    #[default]
    Plain,
    /// What people come for.
    Primary,
    /// What takes something away.
    Danger,
}

/// What runs, on every page.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/running.html")]
pub struct RunningCalls {
    /// Each of them.
    pub rows: Vec<RunningCall>,
    /// The id of a call that is not among them; empty for none.
    pub without: String,
}

/// A call that runs.
#[derive(Debug, Clone)]
pub struct RunningCall {
    /// The path of its page.
    pub path: String,
    /// What is called.
    pub title: String,
    /// How it looks.
    pub level: Level,
    /// How it goes.
    pub words: String,
    /// The same in percent, where it is known.
    pub percent: Option<u8>,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands above it.
    pub label: &'static str,
    /// Whether its figures stand at the right.
    pub is_number: bool,
}

/// A table. The first cell of a row is its heading.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/table.html")]
pub struct Table {
    /// What it is, for whom cannot see it.
    pub label: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A part of a page below its heading.
#[derive(Debug, Clone)]
pub enum Section {
    /// Names and values.
    Facts(Vec<(&'static str, Cell)>),
    /// A table with a heading, or what is said where it has no rows.
    Table {
        /// The heading.
        title: String,
        /// The table.
        table: Table,
        /// What is said without rows.
        empty: String,
    },
    /// A text as it is, with a button that copies it.
    Pre {
        /// The heading.
        title: String,
        /// The id of the text in the page.
        id: &'static str,
        /// The text.
        text: String,
    },
    /// Lines that change in a file.
    Difference {
        /// The heading.
        title: String,
        /// What stands above them; empty for nothing.
        note: String,
        /// The lines, after ` `, `-` or `+`.
        text: String,
    },
    /// A form to choose some of several things.
    Choices(ChoiceForm),
    /// A schema as a tree, with its JSON beside it.
    Schema {
        /// The heading.
        title: String,
        /// The id of the JSON in the page.
        id: &'static str,
        /// The tree.
        tree: SchemaTree,
        /// The JSON.
        text: String,
        /// Where all of both is shown; empty where it is.
        whole: String,
    },
    /// Words of ours.
    Prose {
        /// The heading; empty for none.
        title: String,
        /// The words.
        text: String,
    },
    /// The steps of a workflow, drawn. A table beside it says the same.
    Graph(Graph),
    /// What steps of a run were given and gave.
    Records {
        /// The heading.
        title: String,
        /// The steps, in order.
        rows: Vec<StepRecord>,
        /// What is said without any.
        empty: String,
    },
    /// Buttons.
    Actions(Vec<Action>),
    /// A form for one operation.
    Form(OperationForm),
    /// A form for what something requires.
    Requirements(RequirementForm),
    /// A form that shows the page again with what is put in.
    Questions(QuestionForm),
}

/// One step of a run.
#[derive(Debug, Clone)]
pub struct StepRecord {
    /// Its id.
    pub id: String,
    /// How it looks.
    pub level: Level,
    /// How it went.
    pub word: String,
    /// What it called.
    pub tool: String,
    /// When it was, and how long it took.
    pub about: String,
    /// Why it failed; empty where it did not.
    pub error: String,
    /// What it was given and what it gave: labels and texts.
    pub parts: Vec<(&'static str, String)>,
}

/// A short form for one operation.
#[derive(Debug, Clone)]
pub struct OperationForm {
    /// The heading.
    pub title: String,
    /// The name of the operation's tool.
    pub tool: &'static str,
    /// What is sent as it is.
    pub hidden: Vec<(&'static str, String)>,
    /// What is put in: name, label, whether it may be long.
    pub fields: Vec<(&'static str, &'static str, bool)>,
    /// What the button reads.
    pub button: &'static str,
    /// How the button looks.
    pub look: Look,
    /// Where to go on; empty to see the answer.
    pub next: String,
}

/// A form for what something requires before an operation makes it.
#[derive(Debug, Clone)]
pub struct RequirementForm {
    /// The heading.
    pub title: String,
    /// The name of the operation's tool.
    pub tool: &'static str,
    /// What is sent as it is.
    pub hidden: Vec<(&'static str, String)>,
    /// What is put in.
    pub requirements: Vec<Requirement>,
    /// What the button reads.
    pub button: &'static str,
    /// Where to go on.
    pub next: String,
}

/// A form that shows its page again, with what is put in.
#[derive(Debug, Clone)]
pub struct QuestionForm {
    /// The heading.
    pub title: String,
    /// What it is for.
    pub note: String,
    /// The page.
    pub path: String,
    /// Parameters that stay.
    pub hidden: Vec<(&'static str, String)>,
    /// What is put in.
    pub requirements: Vec<Requirement>,
    /// What the button reads.
    pub button: &'static str,
}

/// What is put in.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// The field that takes it: the argument of an operation after `arg.`, or a parameter of the page.
    pub argument: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub note: String,
    /// Where it comes from: a page elsewhere.
    pub help: Option<String>,
    /// A regular expression that it fits; empty for any.
    pub pattern: String,
    /// What it is without an answer.
    pub default: String,
    /// What it may be; empty for any.
    pub options: Vec<String>,
    /// Whether it is a secret, which goes into the vault.
    pub is_secret: bool,
    /// Whether it must be given.
    pub is_required: bool,
}

/// A form that does one operation with those of several things that are chosen.
#[derive(Debug, Clone)]
pub struct ChoiceForm {
    /// The heading.
    pub title: String,
    /// The name of the operation's tool.
    pub tool: &'static str,
    /// The argument that takes the chosen ones.
    pub argument: &'static str,
    /// What is sent as it is, also without a choice.
    pub hidden: Vec<(&'static str, String)>,
    /// More arguments that are sent as they are.
    pub answers: Vec<(String, String)>,
    /// What is put in beside the choice.
    pub requirements: Vec<Requirement>,
    /// Whether each is chosen until a person says otherwise.
    pub are_chosen: bool,
    /// What there is.
    pub choices: Vec<Choice>,
    /// What the button reads.
    pub button: String,
    /// What else can be done with the chosen ones.
    pub other: Option<OtherButton>,
    /// Where to go on.
    pub next: String,
}

/// A second button of a form, that sends it to another operation.
#[derive(Debug, Clone)]
pub struct OtherButton {
    /// The name of the operation's tool.
    pub tool: &'static str,
    /// What it reads.
    pub label: String,
}

/// One that can be chosen.
#[derive(Debug, Clone)]
pub struct Choice {
    /// What is sent.
    pub value: String,
    /// Whose it is, in a few words.
    pub note: String,
    /// What a person should know of it.
    pub warnings: Vec<String>,
    /// All of it; empty for nothing.
    pub text: String,
    /// Where that would be written.
    pub file: String,
}

/// A filter of a list.
#[derive(Debug, Clone, Template)]
#[template(path = "part/filter.html")]
pub enum Filter {
    /// Words.
    Search {
        /// The parameter.
        name: &'static str,
        /// Its label.
        label: &'static str,
        /// What may be put in.
        hint: &'static str,
        /// What was put in.
        value: String,
    },
    /// One of these, or what is said where none is chosen.
    Pick {
        /// The parameter.
        name: &'static str,
        /// Its label.
        label: &'static str,
        /// What no choice means.
        none: &'static str,
        /// What there is.
        options: Vec<String>,
        /// What was chosen.
        value: String,
    },
    /// One of these.
    Switch {
        /// The parameter.
        name: &'static str,
        /// Its label.
        label: &'static str,
        /// What there is.
        options: Vec<String>,
        /// What was chosen.
        value: String,
    },
    /// One of these, or all.
    Choice {
        /// The parameter.
        name: &'static str,
        /// Its label.
        label: &'static str,
        /// What there is.
        options: Vec<String>,
        /// What was chosen.
        value: String,
    },
}

// === impl Section ===

impl Section {
    /// Lines that change, as HTML.
    pub fn html(text: &str) -> String {
        crate::diff::unified(text)
    }
}

// === impl Look ===

impl Look {
    /// Its class in the style.
    pub fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Primary => "primary",
            Self::Danger => "danger",
        }
    }
}

// === impl Cell ===

impl Cell {
    /// A link that reads like its name.
    pub fn link(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Link { path: path.into(), text: text.into(), note: String::new() }
    }

    /// A state without a reason.
    pub fn state(level: Level, word: impl Into<String>) -> Self {
        Self::State { level, word: word.into(), note: String::new() }
    }
}

// === impl Column ===

impl Column {
    /// A column of texts.
    pub const fn text(label: &'static str) -> Self {
        Self { label, is_number: false }
    }

    /// A column of figures.
    pub const fn number(label: &'static str) -> Self {
        Self { label, is_number: true }
    }
}

// === impl Table ===

impl Table {
    /// The class of a column's cells.
    pub fn class(&self, index: &usize) -> &'static str {
        if self.columns.get(*index).is_some_and(|column| column.is_number) { "number" } else { "" }
    }
}

// === impl Filter ===

impl Filter {
    /// Whether something was put in.
    pub fn is_set(&self) -> bool {
        match self {
            Self::Search { value, .. } | Self::Choice { value, .. } | Self::Pick { value, .. } => !value.is_empty(),
            Self::Switch { .. } => false,
        }
    }
}
