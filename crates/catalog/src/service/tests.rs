//! Services as people and other gateways write them.

use std::path::Path;

use super::*;

fn read(text: &str) -> Result<ServiceDefinition, Vec<String>> {
    let file = Path::new("services/db.yaml");
    define::read(file, "db", text).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn a_service_is_read_and_shown() {
    let text = "name: db\nserviceClassName: postgres\nargs: {size: 3, on: true}\nautoStart: true\ndependencies: [disk]\nprofile: work\n";
    let service = read(text).unwrap();
    assert_eq!((service.class.as_str(), service.auto_start), ("postgres", true));
    assert_eq!(service.args["size"], 3);
    assert_eq!(read(&service.to_value().to_string()).unwrap(), service);
    let other = "name: db\nservice_class_name: postgres\nargs: {size: 3, on: true}\nauto_start: true\ndependencies: [disk]\nprofile: work\nenabled: true\n";
    assert_eq!(read(other).unwrap(), service);
    let object = "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {serviceClassName: postgres}\n";
    let bare =
        ServiceDefinition { args: Map::new(), auto_start: false, dependencies: Vec::new(), profile: None, ..service };
    assert_eq!(read(object).unwrap(), bare);
}

#[test]
fn what_is_wrong_is_reported() {
    for (text, expected) in [
        ("name: db\n", "`serviceClassName`: expected its service class, got nothing"),
        ("name: db\nserviceClassName: a/b\n", "expected a name, got `a/b`"),
        ("name: db\nserviceClassName: a\nargs: [1]\n", "`args`: expected a map"),
        ("name: db\nserviceClassName: a\nprofile: A\n", "expected the name of a profile"),
        ("name: db\nserviceClassName: a\nautostart: true\n", "`autostart`: expected a known key"),
        ("name: web\nserviceClassName: a\n", "expected the file's stem `db`, got `web`"),
    ] {
        let problems = read(text).unwrap_err().join("\n");
        assert!(problems.contains(expected), "{text}: {problems}");
    }
}
