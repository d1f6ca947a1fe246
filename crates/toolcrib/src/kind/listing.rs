//! The list of one kind as a gateway answers it: its request, its entries, and their order. Which entries a person
//! wants is up to the callers.

use std::cmp::Ordering;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Outline;
use toolcrib_protocol::raw::{self, Writer};

use super::{Order, Row, Source};
use crate::client::Client;

/// The error for a name that no entry has.
pub(crate) fn unknown(row: &Row, name: &str) -> Problem {
    Problem::new(Kind::NotFound, format!("no {} `{name}`", row.singular()))
        .hint(format!("see all with `toolcrib list {}`", row.many))
}

/// Everything of a kind as the gateway answers it; `asked` are the arguments of the operation. Contexts are in a file
/// of the home, so their list is empty here.
pub(crate) async fn fetch(row: &Row, client: &Client, asked: &Value) -> Result<Raw, Problem> {
    match row.source {
        // muster's dialect leaves out servers that failed, which are those that someone looks for.
        Source::Operation(name) if row.one == "server" && asked["showAll"].is_null() => {
            let mut asked = asked.clone();
            asked["showAll"] = true.into();
            client.obtain_list(name, &asked).await
        }
        Source::Operation(name) => client.obtain_list(name, asked).await,
        Source::List(listing) if !client.wraps().await? => Ok(wrap(row.member, &client.list(listing).await?)),
        // muster's dialect lists these by meta-tools only, and says in words that there are none.
        Source::List(_) => {
            let answer = client.obtain(&format!("list_{}", row.member), asked).await?;
            let entries = match answer.outline() {
                Outline::Array(items) => items.into_iter().map(|item| answer.part(item)).collect(),
                Outline::Object(_) | Outline::Scalar(_) => Vec::new(),
            };
            Ok(wrap(row.member, &entries))
        }
        Source::Contexts => Ok(wrap(row.member, &[])),
    }
}

/// The entries of an answer: the answer itself where it is an array, else its member that holds them.
pub(crate) fn entries(row: &Row, answer: &Value) -> Vec<Value> {
    match answer {
        Value::Array(entries) => entries.clone(),
        other => other[row.member].as_array().cloned().unwrap_or_default(),
    }
}

/// Rows in the order of their kind.
pub(crate) fn sorted(row: &Row, mut rows: Vec<Value>) -> Vec<Value> {
    in_order(row, &mut rows, |row| row);
    rows
}

/// Sorts entries as their kind is shown.
pub(crate) fn in_order<T>(row: &Row, entries: &mut [T], value: impl Fn(&T) -> &Value) {
    if row.order == Order::FirstColumn {
        let cell = row.columns[0].cell;
        entries.sort_by(|a, b| compare(&cell(value(a)), &cell(value(b))));
    }
}

/// The order of two cells: numbers by their size, other texts by their letters.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.to_lowercase().cmp(&b.to_lowercase()).then_with(|| a.cmp(b)),
    }
}

fn wrap(member: &str, entries: &[Raw]) -> Raw {
    wrap_texts(member, &entries.iter().map(Raw::as_str).collect::<Vec<_>>(), entries.len())
}

/// `{<member>: […], "total": N}`, as operations answer.
pub(crate) fn wrap_texts(member: &str, entries: &[&str], total: usize) -> Raw {
    let mut out = Writer::object(64);
    out.member(member, raw::array(entries.iter().copied()).as_str());
    out.member("total", &total.to_string());
    out.finish()
}
