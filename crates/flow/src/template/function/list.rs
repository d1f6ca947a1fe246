//! Functions on lists and maps.

use std::collections::BTreeMap;

use minijinja::value::ValueKind;
use minijinja::{Error, Value as Cell};

use super::logic::equal;
use super::number::{count, whole};
use super::{MANY, Row, at, failed, made, row, text_of};
use crate::template::engine::caused;
use crate::template::error::{Fault, TemplateError};
use crate::template::limit::TEXT_BYTES;

pub(super) const ROWS: &[Row] = &[
    row("len", 1, 1, len),
    row("index", 1, MANY, index),
    row("slice", 1, 3, slice),
    row("list", 0, MANY, |a| Ok(Cell::from(a.to_vec()))),
    row("tuple", 0, MANY, |a| Ok(Cell::from(a.to_vec()))),
    row("first", 1, 1, |a| Ok(items(at(a, 0)?)?.first().cloned().unwrap_or(Cell::from(())))),
    row("last", 1, 1, |a| Ok(items(at(a, 0)?)?.last().cloned().unwrap_or(Cell::from(())))),
    row("rest", 1, 1, |a| Ok(Cell::from(items(at(a, 0)?)?.into_iter().skip(1).collect::<Vec<_>>()))),
    row("initial", 1, 1, |a| {
        on(a, |items| {
            items.pop();
        })
    }),
    row("append", 2, 2, |a| {
        let added = at(a, 1)?.clone();
        on(a, |items| items.push(added))
    }),
    row("prepend", 2, 2, |a| {
        let added = at(a, 1)?.clone();
        on(a, |items| items.insert(0, added))
    }),
    row("concat", 0, MANY, |a| {
        let lists = a.iter().map(items).collect::<Result<Vec<_>, _>>()?;
        Ok(Cell::from(lists.concat()))
    }),
    row("reverse", 1, 1, |a| on(a, |items| items.reverse())),
    row("uniq", 1, 1, |a| {
        let mut kept: Vec<Cell> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for item in items(at(a, 0)?)? {
            if seen.insert(format!("{}{item}", item.kind())) {
                kept.push(item);
            }
        }
        Ok(Cell::from(kept))
    }),
    row("compact", 1, 1, |a| on(a, |items| items.retain(Cell::is_true))),
    row("without", 1, MANY, |a| {
        let (list, unwanted) = a.split_first().ok_or_else(|| failed("`without` takes a list"))?;
        let kept = items(list)?.into_iter().filter(|item| !unwanted.iter().any(|it| equal(it, item)));
        Ok(Cell::from(kept.collect::<Vec<_>>()))
    }),
    row("has", 2, 2, |a| Ok(Cell::from(items(at(a, 1)?)?.iter().any(|item| equal(item, &a[0]))))),
    row("sortAlpha", 1, 1, |a| {
        let mut texts = items(at(a, 0)?)?.iter().map(text_of).collect::<Result<Vec<_>, _>>()?;
        texts.sort();
        Ok(Cell::from(texts))
    }),
    row("join", 2, 2, |a| join_with(&text_of(at(a, 0)?)?, at(a, 1)?)),
    row("split", 2, 2, |a| {
        let text = text_of(at(a, 1)?)?;
        let parts = cut(&text_of(at(a, 0)?)?, &text);
        Ok(Cell::from_iter(parts.into_iter().enumerate().map(|(at, part)| (format!("_{at}"), Cell::from(part)))))
    }),
    row("splitList", 2, 2, |a| split_list(&text_of(at(a, 0)?)?, &text_of(at(a, 1)?)?)),
    row("dict", 0, MANY, |a| {
        let pairs =
            a.chunks(2).map(|pair| Ok((text_of(&pair[0])?, pair.get(1).cloned().unwrap_or_else(|| Cell::from("")))));
        Ok(Cell::from(pairs.collect::<Result<BTreeMap<_, _>, Error>>()?))
    }),
    row("get", 2, 2, |a| Ok(members(at(a, 0)?)?.remove(&text_of(&a[1])?).unwrap_or_else(|| Cell::from("")))),
    row("set", 3, 3, |a| {
        let mut changed = members(at(a, 0)?)?;
        changed.insert(text_of(&a[1])?, a[2].clone());
        Ok(Cell::from(changed))
    }),
    row("unset", 2, 2, |a| {
        let mut changed = members(at(a, 0)?)?;
        changed.remove(&text_of(&a[1])?);
        Ok(Cell::from(changed))
    }),
    row("hasKey", 2, 2, |a| Ok(Cell::from(members(at(a, 0)?)?.contains_key(&text_of(&a[1])?)))),
    row("keys", 1, MANY, |a| {
        let maps = a.iter().map(members).collect::<Result<Vec<_>, _>>()?;
        Ok(Cell::from(maps.into_iter().flat_map(BTreeMap::into_keys).collect::<Vec<_>>()))
    }),
    row("values", 1, 1, |a| Ok(Cell::from(members(at(a, 0)?)?.into_values().collect::<Vec<_>>()))),
    row("pick", 1, MANY, |a| chosen(a, true)),
    row("omit", 1, MANY, |a| chosen(a, false)),
    row("merge", 1, MANY, |a| {
        let mut merged = BTreeMap::new();
        for map in a.iter().rev() {
            merged.extend(members(map)?);
        }
        Ok(Cell::from(merged))
    }),
    row("pluck", 1, MANY, |a| {
        let key = text_of(at(a, 0)?)?;
        let found = a[1..].iter().filter_map(|map| members(map).ok()?.remove(&key));
        Ok(Cell::from(found.collect::<Vec<_>>()))
    }),
    row("dig", 3, MANY, |a| {
        let ([keys @ .., default], map) = (&a[..a.len() - 1], &a[a.len() - 1]) else { return Ok(Cell::from(())) };
        let mut at = map.clone();
        for key in keys {
            match members(&at).ok().and_then(|mut map| map.remove(&text_of(key).ok()?)) {
                Some(next) => at = next,
                None => return Ok(default.clone()),
            }
        }
        Ok(at)
    }),
];

/// The items of a list.
fn items(value: &Cell) -> Result<Vec<Cell>, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => Ok(value.try_iter()?.collect()),
        ValueKind::None => Ok(Vec::new()),
        kind => Err(failed(format!("expected a list, got a {kind}"))),
    }
}

/// The members of a map.
fn members(value: &Cell) -> Result<BTreeMap<String, Cell>, Error> {
    match value.kind() {
        ValueKind::Map => {
            let pair = |key: Cell| Ok((text_of(&key)?, value.get_item(&key)?));
            value.try_iter()?.map(pair).collect()
        }
        ValueKind::None => Ok(BTreeMap::new()),
        kind => Err(failed(format!("expected a map, got a {kind}"))),
    }
}

fn on(arguments: &[Cell], change: impl FnOnce(&mut Vec<Cell>)) -> Result<Cell, Error> {
    let mut items = items(at(arguments, 0)?)?;
    change(&mut items);
    Ok(Cell::from(items))
}

fn len(arguments: &[Cell]) -> Result<Cell, Error> {
    let value = at(arguments, 0)?;
    match value.as_str() {
        // Go counts bytes; people mean characters.
        Some(text) => Ok(Cell::from(text.chars().count())),
        None if value.is_none() => Ok(Cell::from(0)),
        None => value.len().map(Cell::from).ok_or_else(|| failed(format!("`len` of a {}", value.kind()))),
    }
}

/// `index .list 0 "name"`: one step after the other, each of which must be there.
fn index(arguments: &[Cell]) -> Result<Cell, Error> {
    let mut value = at(arguments, 0)?.clone();
    for key in &arguments[1..] {
        let next = match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => value.get_item_by_index(count(key)?)?,
            ValueKind::Map | ValueKind::Plain => value.get_item(&Cell::from(text_of(key)?))?,
            ValueKind::String => {
                let sign = value.as_str().and_then(|text| text.chars().nth(count(key).ok()?));
                sign.map_or(Cell::UNDEFINED, |sign| Cell::from(sign.to_string()))
            }
            kind => return Err(failed(format!("`index` of a {kind}"))),
        };
        if next.is_undefined() {
            let key = text_of(key)?;
            let message = format!("`index`: no `{key}` in a {}", value.kind());
            return Err(caused(TemplateError::new(Fault::Missing(key), message)));
        }
        value = next;
    }
    Ok(value)
}

fn slice(arguments: &[Cell]) -> Result<Cell, Error> {
    let clamp = |cell: Option<&Cell>, default: usize, most: usize| {
        cell.map_or(Ok(default), |cell| Ok::<_, Error>(usize::try_from(whole(cell)?).unwrap_or(0).min(most)))
    };
    let value = at(arguments, 0)?;
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        let start = clamp(arguments.get(1), 0, chars.len())?;
        let end = clamp(arguments.get(2), chars.len(), chars.len())?.max(start);
        return Ok(Cell::from(chars[start..end].iter().collect::<String>()));
    }
    let items = items(value)?;
    let start = clamp(arguments.get(1), 0, items.len())?;
    let end = clamp(arguments.get(2), items.len(), items.len())?.max(start);
    Ok(Cell::from(items[start..end].to_vec()))
}

pub(super) fn join_with(between: &str, list: &Cell) -> Result<Cell, Error> {
    let parts = match list.kind() {
        ValueKind::Seq | ValueKind::Iterable => items(list)?,
        _ => vec![list.clone()],
    };
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        out.push_str(&text_of(part)?);
        if out.len() > TEXT_BYTES {
            break;
        }
    }
    made(out)
}

pub(super) fn split_list(between: &str, text: &str) -> Result<Cell, Error> {
    Ok(Cell::from(cut(between, text)))
}

fn cut(between: &str, text: &str) -> Vec<String> {
    if between.is_empty() {
        return text.chars().map(String::from).collect();
    }
    text.split(between).map(str::to_owned).collect()
}

fn chosen(arguments: &[Cell], wanted: bool) -> Result<Cell, Error> {
    let keys = arguments[1..].iter().map(text_of).collect::<Result<Vec<_>, _>>()?;
    let mut kept = members(at(arguments, 0)?)?;
    kept.retain(|key, _| keys.contains(key) == wanted);
    Ok(Cell::from(kept))
}
