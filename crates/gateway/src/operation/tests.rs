//! The table of operations: whole, without doubles, with schemas that hold.

use std::collections::BTreeSet;

use serde_json::json;
use toolcrib_view::{Effect, Method, OperationTable, RoutedOperation};

use super::*;

const ASK_WITH_BODY: [&str; 9] = [
    "core_client_import_preview",
    "core_policy_check",
    "core_policy_diff",
    "core_policy_explain",
    "core_policy_simulate",
    "core_policy_test",
    "core_profile_preview",
    "core_search_eval",
    "core_write_preview",
];

fn table() -> OperationTable {
    super::table(&[])
}

#[test]
fn no_operation_stands_twice_and_each_is_reported_whole() {
    let mut tools = BTreeSet::new();
    let mut routes = BTreeSet::new();
    for rows in FILES {
        assert!(rows.is_sorted_by_key(|row| row.operation.tool), "{}", rows[0].operation.tool);
    }
    for operation in table().iter() {
        let name = operation.tool;
        assert!(tools.insert(name), "{name} stands twice");
        assert!(routes.insert((operation.method, operation.path)), "{name}: its route stands twice");
        assert!(name.starts_with("core_") && operation.path.starts_with('/'), "{name}");
        assert!(!operation.tag.is_empty() && !operation.summary.is_empty(), "{name}");
        assert!(operation.description.ends_with('.') && !operation.summary.ends_with('.'), "{name}");
        assert_eq!(table().by_tool(name).map(|found| found.tool), Some(name));
        // What is asked about a text or a case takes it as its body.
        let asks_with_body = name.ends_with("_validate") || ASK_WITH_BODY.contains(&name);
        assert_eq!(operation.effect == Effect::Reads, operation.method == Method::Get || asks_with_body, "{name}");
    }
    assert!(table().by_tool("core_nothing").is_none() && table().by_tool("find_tools").is_none());
}

/// Two routes that one path fits would make it a matter of luck which one answers.
#[test]
fn a_path_fits_one_template_only() {
    for operation in table().iter() {
        let sample: Vec<&str> =
            operation.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        let operations = table();
        let fits = operations.iter().filter(|other| {
            let parts: Vec<&str> = other.path.split('/').collect();
            parts.len() == sample.len()
                && parts.iter().zip(&sample).all(|(part, text)| part.starts_with('{') || part == text)
        });
        let fitting: BTreeSet<&str> = fits.map(|other| other.path).collect();
        assert_eq!(fitting, BTreeSet::from([operation.path]));
    }
}

#[test]
fn schemas_compile_and_name_what_the_path_has() {
    for operation in table().iter() {
        let name = operation.tool;
        let (input, output) = (operation.input_schema(), operation.output_schema());
        assert!(serde_json::from_str::<Value>(operation.input).is_ok(), "{name}: input");
        assert!(serde_json::from_str::<Value>(operation.output).is_ok(), "{name}: output");
        jsonschema::draft202012::new(&input).unwrap_or_else(|error| panic!("{name}: {error}"));
        jsonschema::draft202012::new(&output).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(input["additionalProperties"], false, "{name}");
        for parameter in operation.path_parameters() {
            assert!(input["required"].as_array().unwrap().iter().any(|it| it == parameter), "{name}: {parameter}");
        }
        let problem = operation.check(&Raw::from_value(&json!({ "no_such": 1 }))).unwrap_err();
        assert!(problem.message.contains("no_such"), "{}", problem.message);
    }
}

#[test]
fn a_mistyped_argument_is_reported_with_the_nearest() {
    let problem =
        table().by_tool("core_audit_list").unwrap().check(&Raw::from_value(&json!({ "limti": 1 }))).unwrap_err();
    assert!(problem.message.contains("`limti`"), "{}", problem.message);
    assert!(problem.hint.unwrap().contains("`limit`"));
}

#[test]
fn what_destroys_says_so() {
    let hints = |name: &str| table().by_tool(name).unwrap().entry().to_value()["annotations"].clone();
    assert_eq!(hints("core_mcpserver_delete")["destructiveHint"], true);
    assert_eq!(hints("core_mcpserver_update")["destructiveHint"], true);
    assert_eq!(hints("core_mcpserver_create")["destructiveHint"], false);
    assert_eq!(hints("core_status")["readOnlyHint"], true);
    assert_eq!(hints("core_tool_call").get("readOnlyHint"), None);
}

#[test]
fn paths_lead_to_operations() {
    let operations = table();
    let find = |method, path| operations.find(method, path);
    let check = |method, path, expect: Option<(&str, &[(&str, &str)])>| match (find(method, path), expect) {
        (RoutedOperation::Operation(operation, values), Some((tool, expected))) => {
            assert_eq!((operation.tool, values.as_slice()), (tool, expected), "{method} {path}");
        }
        (RoutedOperation::Nothing, None) => {}
        (found, _) => panic!("{method} {path}: {found:?}"),
    };
    check("GET", "/servers", Some(("core_mcpserver_list", &[])));
    check("GET", "/servers/a%2Fb", Some(("core_mcpserver_get", &[("name", "a%2Fb")])));
    check("POST", "/servers/a/start", Some(("core_mcpserver_start", &[("name", "a")])));
    for path in ["", "/", "/nothing", "/servers/", "/servers/a/b/c", "/servers//start", "servers"] {
        check("GET", path, None);
    }
    assert_eq!(
        find("PATCH", "/servers/a"),
        RoutedOperation::OtherMethods(vec![Method::Get, Method::Put, Method::Delete])
    );
}
