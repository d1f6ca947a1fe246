//! Which entries of a list are wanted, and in which order they are shown.

use serde_json::Value;
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_protocol::raw;
use toolcrib_protocol::{Raw, json as scanner};

use crate::kind::Row;
use crate::kind::listing::{compare, entries, in_order, wrap_texts};
use crate::output::table::field;

/// What the person asked for.
pub(super) struct Selection {
    row: &'static Row,
    /// Each with its text; a plain name that fits nothing is an error, a glob is not.
    names: Vec<(String, Glob)>,
    filters: Vec<Glob>,
    description: Option<String>,
    /// The column or member to sort by, and whether the order is turned round.
    sort_by: Option<(String, bool)>,
}

// === impl Selection ===

impl Selection {
    pub(super) fn new(
        row: &'static Row,
        names: Vec<String>,
        filters: &[String],
        description: Option<&str>,
        sort_by: Option<&str>,
    ) -> Result<Self, Problem> {
        let glob = |text: &str| {
            Glob::new(text)
                .map_err(|error| Problem::new(Kind::InvalidParams, format!("`{text}` is not a name: {error}")))
        };
        let names = names.into_iter().map(|name| glob(&name).map(|glob| (name, glob))).collect::<Result<_, _>>()?;
        let filters = filters.iter().map(|text| glob(text)).collect::<Result<_, _>>()?;
        let sort_by = sort_by.map(|text| match text.strip_prefix('-') {
            Some(column) => (column.to_owned(), true),
            None => (text.to_owned(), false),
        });
        Ok(Self { row, names, filters, description: description.map(str::to_lowercase), sort_by })
    }

    /// The answer with the wanted entries only, and the names that fitted nothing.
    pub(super) fn of(&self, answer: &Raw) -> (Raw, Vec<&str>) {
        if self.is_all() {
            return (answer.clone(), Vec::new());
        }
        let list = self.list_in(answer);
        let items = items_of(list.as_ref());
        let mut seen = vec![false; self.names.len()];
        let mut kept = Vec::new();
        for item in items {
            let entry: Value = serde_json::from_str(item).unwrap_or_default();
            let fits = |glob: &Glob| {
                self.row.names.iter().filter_map(|key| entry[*key].as_str()).any(|name| glob.matches(name))
            };
            let mut is_named = self.names.is_empty();
            for ((_, glob), seen) in self.names.iter().zip(&mut seen) {
                let found = fits(glob);
                *seen |= found;
                is_named |= found;
            }
            let is_told =
                self.description.as_ref().is_none_or(|text| field(&entry, "description").to_lowercase().contains(text));
            if is_named && is_told && self.filters.iter().all(fits) {
                kept.push(item);
            }
        }
        let missing = self.names.iter().zip(seen);
        let missing = missing.filter(|((name, _), seen)| !seen && !name.contains(['*', '?', '[', '{']));
        (wrap_texts(self.row.member, &kept, kept.len()), missing.map(|((name, _), _)| name.as_str()).collect())
    }

    /// The answer with a part of its entries, in the order in which they are shown, each as it was written. The gateway
    /// has so many of them `in_all`, if not every one was fetched.
    pub(super) fn part(&self, answer: &Raw, skip: usize, take: usize, in_all: usize) -> Result<Raw, Problem> {
        let list = self.list_in(answer);
        let read = |item| (serde_json::from_str::<Value>(item).unwrap_or_default(), item);
        let mut pairs: Vec<(Value, &str)> = items_of(list.as_ref()).into_iter().map(read).collect();
        self.arrange(&mut pairs, |(value, _)| value)?;
        let kept: Vec<&str> = pairs.iter().map(|(_, item)| *item).skip(skip).take(take).collect();
        if !answer.is_object() {
            return Ok(raw::array(kept.iter().copied()));
        }
        Ok(wrap_texts(self.row.member, &kept, in_all.max(pairs.len())))
    }

    /// The entries of an answer in the order in which they are shown.
    pub(super) fn rows(&self, answer: &Value) -> Result<Vec<Value>, Problem> {
        let mut rows = entries(self.row, answer);
        self.arrange(&mut rows, |row| row)?;
        Ok(rows)
    }

    /// Whether the person said in which order.
    pub(super) fn is_sorted(&self) -> bool {
        self.sort_by.is_some()
    }

    /// Whether every entry is wanted.
    pub(super) fn is_all(&self) -> bool {
        self.names.is_empty() && self.filters.is_empty() && self.description.is_none()
    }

    fn list_in(&self, answer: &Raw) -> Option<Raw> {
        if answer.is_object() { answer.get(self.row.member) } else { Some(answer.clone()) }
    }

    fn arrange<T>(&self, entries: &mut [T], value: impl Fn(&T) -> &Value) -> Result<(), Problem> {
        let Some((wanted, turned)) = &self.sort_by else {
            in_order(self.row, entries, value);
            return Ok(());
        };
        order_by(self.row, wanted, entries, value)?;
        if *turned {
            entries.reverse();
        }
        Ok(())
    }
}

fn items_of(list: Option<&Raw>) -> Vec<&str> {
    match list.map(Raw::outline) {
        Some(scanner::Outline::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn order_by<T>(row: &Row, wanted: &str, entries: &mut [T], value: impl Fn(&T) -> &Value) -> Result<(), Problem> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-', ' '], "");
    if let Some(column) = row.columns.iter().find(|column| plain(column.title) == plain(wanted)) {
        entries.sort_by(|a, b| compare(&(column.cell)(value(a)), &(column.cell)(value(b))));
        return Ok(());
    }
    if entries.iter().any(|entry| !value(entry)[wanted].is_null()) {
        entries.sort_by(|a, b| compare(&field(value(a), wanted), &field(value(b), wanted)));
        return Ok(());
    }
    let titles: Vec<&str> = row.columns.iter().map(|column| column.title).collect();
    Err(Problem::new(Kind::InvalidParams, format!("{} have no column `{wanted}`", row.plural()))
        .hint(format!("columns: {}", titles.join(", "))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::rows::{EVENTS, SERVERS};

    fn names(rows: &[Value]) -> Vec<&str> {
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn rows_are_sorted_by_what_they_say() {
        let answer = json!({ "mcpServers": [
            { "name": "b", "tools": 10, "restarts": 1 }, { "name": "A", "tools": 9 }, { "name": "c", "tools": 100 },
        ]});
        let rows = |sort_by| Selection::new(&SERVERS, Vec::new(), &[], None, sort_by).unwrap().rows(&answer);
        assert_eq!(names(&rows(None).unwrap()), ["A", "b", "c"]);
        assert_eq!(names(&rows(Some("tools")).unwrap()), ["A", "b", "c"]);
        assert_eq!(names(&rows(Some("-TOOLS")).unwrap()), ["c", "b", "A"]);
        assert_eq!(names(&rows(Some("restarts")).unwrap()), ["A", "c", "b"]);
        let problem = rows(Some("colour")).unwrap_err();
        assert!(problem.message.contains("no column `colour`") && problem.hint.unwrap().contains("STATE, TRANSPORT"));
        let events = json!([{ "reason": "z", "name": "2" }, { "reason": "a", "name": "1" }]);
        let kept = Selection::new(&EVENTS, Vec::new(), &[], None, None).unwrap().rows(&events).unwrap();
        assert_eq!(names(&kept), ["2", "1"], "events stay in the order of time");
    }

    #[test]
    fn entries_are_kept_as_they_were_written() {
        let answer = r#"{"mcpServers":[{"name":"a","n":1.50,"description":"Reads Files"},{"name":"b"}],"total":2}"#;
        let answer = Raw::parse(answer.as_bytes().to_vec().into(), scanner::Rules::relayed(9)).unwrap();
        let of = |names: &[&str], filters: &[&str], description: Option<&str>| {
            let (names, filters): (Vec<String>, Vec<String>) =
                (names.iter().map(|it| (*it).into()).collect(), filters.iter().map(|it| (*it).into()).collect());
            let wanted = Selection::new(&SERVERS, names, &filters, description, None).unwrap();
            let (kept, missing) = wanted.of(&answer);
            (kept.as_str().to_owned(), missing.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        assert!(of(&["a"], &[], None).0.contains("1.50"));
        assert_eq!(of(&["a", "c", "d*"], &[], None).1, ["c"]);
        assert_eq!(of(&[], &["z*"], None).0, r#"{"mcpServers":[],"total":0}"#);
        assert!(of(&[], &["*"], Some("FILES")).0.contains(r#""total":1"#));
        assert!(Selection::new(&SERVERS, vec!["[".to_owned()], &[], None, None).is_err());
        let part = |answer: &Raw, sort_by, skip, take| {
            let wanted = Selection::new(&SERVERS, Vec::new(), &[], None, sort_by).unwrap();
            wanted.part(answer, skip, take, 0).unwrap().as_str().to_owned()
        };
        assert_eq!(part(&answer, Some("-name"), 0, 1), r#"{"mcpServers":[{"name":"b"}],"total":2}"#);
        assert!(part(&answer, None, 0, 1).contains("1.50"));
        assert_eq!(part(&answer, None, 7, 1), r#"{"mcpServers":[],"total":2}"#);
        let bare =
            Raw::parse(b"[{\"name\":\"b\"},{\"name\":\"a\"}]".to_vec().into(), scanner::Rules::relayed(9)).unwrap();
        assert_eq!(part(&bare, None, 0, 1), r#"[{"name":"a"}]"#);
    }
}
