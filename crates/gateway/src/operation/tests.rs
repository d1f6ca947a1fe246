//! The table of operations: whole, without doubles, with schemas that hold.

use std::collections::BTreeSet;

use super::*;

#[test]
fn no_operation_stands_twice_and_each_is_told_whole() {
    let mut tools = BTreeSet::new();
    let mut routes = BTreeSet::new();
    for rows in FILES {
        assert!(rows.is_sorted_by_key(|operation| operation.tool), "{}", rows[0].tool);
    }
    for operation in Operations::new(&[]).iter() {
        let name = operation.tool;
        assert!(tools.insert(name), "{name} stands twice");
        assert!(routes.insert((operation.method, operation.path)), "{name}: its route stands twice");
        assert!(name.starts_with("core_") && operation.path.starts_with('/'), "{name}");
        assert!(!operation.tag.is_empty() && !operation.summary.is_empty(), "{name}");
        assert!(operation.description.ends_with('.') && !operation.summary.ends_with('.'), "{name}");
        assert_eq!(Operations::new(&[]).by_tool(name).map(|found| found.tool), Some(name));
        assert_eq!(operation.effect == Effect::Reads, operation.method == Method::Get || name.ends_with("_validate"));
    }
    assert!(
        Operations::new(&[]).by_tool("core_nothing").is_none() && Operations::new(&[]).by_tool("find_tools").is_none()
    );
}

/// Two routes that one path fits would make it a matter of luck which one answers.
#[test]
fn a_path_fits_one_template_only() {
    for operation in Operations::new(&[]).iter() {
        let sample: Vec<&str> =
            operation.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        let operations = Operations::new(&[]);
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
    for operation in Operations::new(&[]).iter() {
        let name = operation.tool;
        let (input, output) = (operation.input_schema(), operation.output_schema());
        assert!(serde_json::from_str::<Value>(operation.input).is_ok(), "{name}: input");
        assert!(serde_json::from_str::<Value>(operation.output).is_ok(), "{name}: output");
        jsonschema::draft202012::new(&input).unwrap_or_else(|error| panic!("{name}: {error}"));
        jsonschema::draft202012::new(&output).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(input["additionalProperties"], false, "{name}");
        for parameter in route::parameters(operation.path) {
            assert!(input["required"].as_array().unwrap().iter().any(|it| it == parameter), "{name}: {parameter}");
        }
        let problem = operation.check(&Raw::from_value(&json!({ "no_such": 1 }))).unwrap_err();
        assert!(problem.message.contains("no_such"), "{}", problem.message);
    }
}

#[test]
fn a_mistyped_argument_is_told_with_the_nearest() {
    let problem = Operations::new(&[])
        .by_tool("core_audit_list")
        .unwrap()
        .check(&Raw::from_value(&json!({ "limti": 1 })))
        .unwrap_err();
    assert!(problem.message.contains("`limti`"), "{}", problem.message);
    assert!(problem.hint.unwrap().contains("`limit`"));
}

#[test]
fn what_destroys_says_so() {
    let hints = |name: &str| Operations::new(&[]).by_tool(name).unwrap().entry().to_value()["annotations"].clone();
    assert_eq!(hints("core_mcpserver_delete")["destructiveHint"], true);
    assert_eq!(hints("core_mcpserver_update")["destructiveHint"], true);
    assert_eq!(hints("core_mcpserver_create")["destructiveHint"], false);
    assert_eq!(hints("core_status")["readOnlyHint"], true);
    assert_eq!(hints("core_tool_call").get("readOnlyHint"), None);
}
