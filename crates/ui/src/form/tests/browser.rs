//! A small part of a browser: parses HTML as strictly as a form is written, and sends what its controls hold.

use std::collections::{HashMap, HashSet};

/// An element: its name, attributes, and the text right in it.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) text: String,
    parents: Vec<usize>,
}

/// A parsed page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) elements: Vec<Element>,
}

impl Element {
    pub(super) fn get(&self, attribute: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == attribute).map(|(_, value)| value.as_str())
    }

    /// Its name and the names of its attributes.
    fn outline(&self) -> String {
        let names: Vec<&str> = self.attributes.iter().map(|(name, _)| name.as_str()).collect();
        format!("{} {}", self.name, names.join(" "))
    }
}

fn unescape(text: &str) -> String {
    let mut out = text.to_owned();
    for (from, to) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#13;", "\r"), ("&amp;", "&")]
    {
        out = out.replace(from, to);
    }
    out
}

impl Page {
    /// Fails where the text is not well formed.
    pub(super) fn parse(html: &str) -> Self {
        // A parser reads every line end as one character.
        let html = html.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "");
        let mut page = Self { elements: Vec::new() };
        let mut open: Vec<usize> = Vec::new();
        let mut rest = html.as_str();
        while let Some(at) = rest.find('<') {
            let text = unescape(&rest[..at]);
            if let Some(element) = open.last() {
                page.elements[*element].text.push_str(&text);
            }
            rest = &rest[at + 1..];
            let end = tag_end(rest);
            let tag = &rest[..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                let last = open.pop().unwrap_or_else(|| panic!("`{name}` is closed, but nothing is open"));
                assert_eq!(page.elements[last].name, name, "closed in another order");
                continue;
            }
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            assert!(name.chars().all(|character| character.is_ascii_alphanumeric()), "tag `{tag}`");
            page.elements.push(Element {
                name: name.to_owned(),
                attributes: parse_attributes(attributes),
                text: String::new(),
                parents: open.clone(),
            });
            if name != "input" {
                open.push(page.elements.len() - 1);
            }
            if name == "textarea" {
                let end = rest.find("</textarea>").expect("a textarea has an end");
                let text = unescape(&rest[..end]);
                page.elements.last_mut().unwrap().text = text.strip_prefix('\n').unwrap_or(&text).to_owned();
                rest = &rest[end + "</textarea>".len()..];
                open.pop();
            }
        }
        assert!(open.is_empty(), "not closed: {open:?}");
        page
    }

    /// What a browser sends when the first button is pressed.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let lines = |text: &str| text.replace("\r\n", "\n").replace(['\r', '\n'], "\r\n");
        // Of each list the option that is selected, else its first.
        let mut options: HashMap<usize, &str> = HashMap::new();
        for option in self.elements.iter().filter(|element| element.name == "option") {
            let value = option.get("value").unwrap_or_default();
            let list = *option.parents.last().expect("an option is in a list");
            if option.get("selected").is_some() {
                options.insert(list, value);
            } else {
                options.entry(list).or_insert(value);
            }
        }
        let mut pairs = Vec::new();
        for (index, element) in self.elements.iter().enumerate() {
            let Some(name) = element.get("name") else { continue };
            let value = match element.name.as_str() {
                "input" if element.get("type") == Some("hidden") => lines(element.get("value").unwrap_or_default()),
                // One line: its line ends are dropped.
                "input" => element.get("value").unwrap_or_default().replace(['\r', '\n'], ""),
                "textarea" => lines(&element.text),
                "select" => lines(options.get(&index).copied().unwrap_or_default()),
                _ => continue,
            };
            pairs.push((lines(name), value));
        }
        pairs
    }

    /// Ids are there once, labels and notes refer to what is there, controls have labels, names are there once.
    pub(super) fn check(&self) {
        let mut ids = HashSet::new();
        for id in self.elements.iter().filter_map(|element| element.get("id")) {
            assert!(ids.insert(id), "the id `{id}` is there twice");
        }
        let mut names = HashSet::new();
        let labels: HashSet<&str> = self.elements.iter().filter_map(|element| element.get("for")).collect();
        for element in &self.elements {
            let mut references: Vec<&str> = element.get("for").into_iter().collect();
            references.extend(element.get("aria-describedby").unwrap_or_default().split_whitespace());
            references.extend(element.get("data-press"));
            references.extend(element.get("href").and_then(|target| target.strip_prefix('#')));
            for reference in references {
                assert!(ids.contains(reference), "nothing has the id `{reference}`");
            }
            let is_control = matches!(element.name.as_str(), "input" | "textarea" | "select");
            if let (true, Some(name)) = (is_control, element.get("name")) {
                assert!(names.insert(name), "the name `{name}` is there twice");
            }
            if is_control && element.get("type") != Some("hidden") {
                let has_label = element.get("id").is_some_and(|id| labels.contains(id));
                assert!(has_label || element.get("aria-label").is_some(), "no label: {element:?}");
            }
        }
    }

    /// Elements with their attributes, without values and texts.
    pub(super) fn outline(&self) -> Vec<String> {
        let is_mark = |element: &&Element| element.get("class") != Some("invisible");
        self.elements.iter().filter(is_mark).map(Element::outline).collect()
    }

    /// All buttons by name.
    pub(super) fn buttons(&self) -> Vec<&str> {
        self.elements
            .iter()
            .filter(|element| element.name == "button")
            .filter_map(|element| element.get("name"))
            .collect()
    }
}

fn tag_end(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            '>' if !is_quoted => return at,
            '<' if !is_quoted => panic!("`<` within a tag: {}", &text[..at]),
            _ => {}
        }
    }
    panic!("a tag has no end");
}

fn parse_attributes(mut text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    while !text.is_empty() {
        let end = text.find(['=', ' ']).unwrap_or(text.len());
        let name = &text[..end];
        assert!(name.chars().all(|character| character.is_ascii_lowercase() || character == '-'), "attribute `{name}`");
        text = &text[end..];
        let mut value = "";
        if let Some(quoted) = text.strip_prefix("=\"") {
            let end = quoted.find('"').expect("a value has an end");
            value = &quoted[..end];
            text = &quoted[end + 1..];
        }
        assert!(!out.iter().any(|(known, _)| known == name), "the attribute `{name}` is there twice");
        out.push((name.to_owned(), unescape(value)));
        text = text.strip_prefix(' ').unwrap_or(text);
    }
    out
}
