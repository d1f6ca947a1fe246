//! What the index reads of schemas. The types are tested where they are rendered, in `signature`.

use super::*;

fn check(raw: &str, expect: &[(&str, &str, &[&str])]) {
    let read = parameters(raw);
    let read: Vec<(&str, &str, Vec<&str>)> = read
        .iter()
        .map(|p| (p.name.as_str(), p.description.as_str(), p.values.iter().map(String::as_str).collect()))
        .collect();
    let expect: Vec<(&str, &str, Vec<&str>)> = expect.iter().map(|(n, d, v)| (*n, *d, v.to_vec())).collect();
    assert_eq!(read, expect, "{raw}");
}

#[test]
fn names_descriptions_and_values_are_read() {
    check(
        r#"{"properties":{"b":{"description":"The b","enum":["x",1,"y"]},"a":true}}"#,
        &[("b", "The b", &["x", "y"]), ("a", "", &[])],
    );
}

#[test]
fn what_is_no_schema_has_no_parameters() {
    for raw in ["", "null", "[1]", "{}", r#"{"properties":[]}"#] {
        check(raw, &[]);
    }
    let large = format!(r#"{{"x":"{}","properties":{{"a":{{}}}}}}"#, "y".repeat(SCHEMA_BYTES));
    check(&large, &[]);
}

#[test]
fn parameters_are_bounded() {
    let many: Vec<String> = (0..1000).map(|n| format!(r#""p{n}":{{"description":"{}"}}"#, "é".repeat(600))).collect();
    let read = parameters(&format!(r#"{{"properties":{{{}}}}}"#, many[..300].join(",")));
    assert_eq!(read.len(), PARAMETERS);
    assert_eq!(read[0].description.len(), PARAMETER_BYTES);
}
