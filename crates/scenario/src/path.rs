//! Paths into JSON: keys and numbers between dots, `steps.0.id`, also `$.steps[0].id`. Keys may hold dots themselves.

use serde_json::Value;

/// The value at a path.
pub(crate) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.strip_prefix("$.").unwrap_or(path);
    let plain = path.replace('[', ".").replace(']', "");
    at(value, plain.trim_start_matches('.'))
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() || path == "$" {
        return Some(value);
    }
    match value {
        Value::Array(items) => {
            let (index, rest) = path.split_once('.').unwrap_or((path, ""));
            at(items.get(index.parse::<usize>().ok()?)?, rest)
        }
        Value::Object(members) => {
            // The shortest key first, then keys with dots in them.
            let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
            ends.into_iter().find_map(|end| {
                let inner = members.get(&path[..end])?;
                at(inner, path.get(end + 1..).unwrap_or_default())
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let value = json!({"a": {"b": [1, {"c": null}], "b.d": 2}, "x.y": {"z": 3}, "0": "zero"});
        for (path, expected) in [
            ("a.b.0", Some(json!(1))),
            ("a.b[1].c", Some(Value::Null)),
            ("$.a.b.1", Some(json!({"c": null}))),
            ("a.b.d", Some(json!(2))),
            ("x.y.z", Some(json!(3))),
            ("0", Some(json!("zero"))),
            ("a.b.2", None),
            ("a.b.-1", None),
            ("a.q", None),
            ("a.b.0.c", None),
        ] {
            assert_eq!(find(&value, path), expected.as_ref(), "{path}");
        }
    }
}
