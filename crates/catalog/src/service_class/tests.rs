//! Service classes as people and other gateways write them.

use std::path::Path;

use super::*;

fn read(text: &str) -> Result<ServiceClassDefinition, Vec<String>> {
    let file = Path::new("service-classes/web.yaml");
    define::read(file, "web", text).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

const PLAIN: &str = "name: web\nargs:\n  app: {type: string, required: true}\nserviceConfig:\n  lifecycleTools:\n    start: {tool: make, args: {name: \"{{ .app }}\", deep: [1, {x: true}]}, outputs: {id: result.id}}\n    stop: {tool: drop}\n";

#[test]
fn the_plain_form_is_read_with_its_defaults() {
    let class = read(PLAIN).unwrap();
    assert_eq!(class.tools.names(), ["make", "drop"]);
    assert_eq!(
        Value::from(class.tools.start.args.clone()),
        serde_json::json!({"name": "{{ .app }}", "deep": [1, {"x": true}]})
    );
    assert_eq!(class.tools.start.outputs["id"], "result.id");
    assert!(class.args["app"].required && class.args["app"].kind == ArgumentKind::String);
    assert!(!class.health.enabled, "there is no tool for it");
    assert_eq!((class.health.failure_threshold, class.health.success_threshold), (3, 1));
    assert_eq!(class.timeouts, ServiceTimeouts::default());
    // What is shown of it reads back as the same.
    assert_eq!(
        read(&class.to_value().to_string()).unwrap(),
        ServiceClassDefinition { health: class.health, ..class.clone() }
    );
    let jinja = ServiceClassDefinition { templates: TemplateLanguage::Jinja, ..class };
    assert_eq!(read(&jinja.to_value().to_string()).unwrap(), jinja);
}

#[test]
fn both_spellings_and_the_form_of_kubernetes_say_the_same() {
    let camel = "name: web\nserviceConfig:\n  serviceType: t\n  lifecycleTools:\n    start: {tool: a}\n    stop: {tool: b}\n    healthCheck: {tool: c, expect: {jsonPath: {state: up}}, expectNot: {success: false}}\n  healthCheck: {interval: 5s, failureThreshold: 2, successThreshold: 4}\n  timeout: {create: 2m, healthCheck: 1s}\n";
    let snake = camel
        .replace("serviceConfig", "service_config")
        .replace("serviceType", "service_type")
        .replace("lifecycleTools", "lifecycle_tools")
        .replace("healthCheck", "health_check")
        .replace("jsonPath", "json_path")
        .replace("expectNot", "expect_not")
        .replace("failureThreshold", "failure_threshold")
        .replace("successThreshold", "success_threshold");
    let object = format!(
        "apiVersion: muster.giantswarm.io/v1alpha1\nkind: ServiceClass\nmetadata: {{name: web, namespace: default, labels: {{a: b}}}}\nspec:\n  {}status: {{available: true}}\n",
        camel.replace("name: web\n", "").replace('\n', "\n  ").trim_end_matches(' ')
    );
    let class = read(camel).unwrap();
    assert!(class.health.enabled, "there is a tool for it");
    assert_eq!(class.health.interval.to_string(), "5s");
    assert_eq!(read(&snake).unwrap(), class);
    assert_eq!(read(&object).unwrap(), class);
}

#[test]
fn older_words_are_understood() {
    let class = read("name: web\ntype: x\nserviceConfig:\n  args: {echo: {type: string, required: true}}\n  lifecycleTools:\n    start: {tool: a, responseMapping: {serviceId: database_id}}\n    stop: {tool: b, condition: \"{{ .args.wanted }}\"}\n").unwrap();
    assert_eq!(class.tools.start.outputs["serviceId"], "database_id");
    assert_eq!(class.tools.stop.condition.as_deref(), Some("{{ .args.wanted }}"));
    assert!(class.args["echo"].required);
}

#[test]
fn what_is_wrong_is_reported_with_its_place() {
    let check = |from: &str, to: &str, expected: &str| {
        let problems = read(&PLAIN.replace(from, to)).unwrap_err().join("\n");
        assert!(problems.contains(expected), "{to}: {problems}");
    };
    check("name: web", "name: other", "1:7: `name`: expected the file's stem `web`, got `other`");
    check("name: web", "name: ../web", "expected a name, got `../web`");
    check(
        "    start:",
        "    begin:",
        "`serviceConfig.lifecycleTools.start`: expected the tool that starts a service, got nothing",
    );
    check(
        "    stop: {tool: drop}",
        "    stop: {}",
        "`serviceConfig.lifecycleTools.stop.tool`: expected the name of a tool, got nothing",
    );
    check(
        "lifecycleTools:",
        "lifecycle:",
        "`serviceConfig.lifecycleTools`: expected the tools of its services, got nothing",
    );
    check("type: string", "type: text", "expected one of `string`, `integer`");
    check("type: string", "type: integer, default: few", "expected a default that is of the type `integer`, got `few`");
    check(
        "  lifecycleTools",
        "  timeout: {create: soon}\n  lifecycleTools",
        "`serviceConfig.timeout.create`: expected a duration",
    );
    check(
        "  lifecycleTools",
        "  healthCheck: {failureThreshold: 0}\n  lifecycleTools",
        "a whole number from 1 to 1000",
    );
    check("  lifecycleTools", "  dependencies: [a, a]\n  lifecycleTools", "each name once");
    check("  lifecycleTools", "  healthChek: {}\n  lifecycleTools", "`serviceConfig.healthChek`: expected a known key");
    let object = "apiVersion: v1\nkind: Server\nmetadata: {name: web}\nspec: {}\n";
    assert!(read(object).unwrap_err().join("\n").contains("expected `ServiceClass`, got `Server`"));
    let twice = "name: web\nserviceConfig: {}\nservice_config: {}\n";
    assert!(read(twice).unwrap_err().join("\n").contains("is `serviceConfig`, which stands here, too"));
}

#[test]
fn values_fit_kinds_without_being_converted() {
    let json = |text| serde_json::from_str::<Value>(text).unwrap();
    for (kind, good, bad) in [
        (ArgumentKind::String, "\"x\"", "12345"),
        (ArgumentKind::Integer, "3.0", "3.5"),
        (ArgumentKind::Integer, "-7", "\"7\""),
        (ArgumentKind::Boolean, "false", "\"false\""),
        (ArgumentKind::Number, "1.5", "\"1.5\""),
        (ArgumentKind::Object, "{}", "[]"),
        (ArgumentKind::Array, "[]", "{}"),
    ] {
        assert!(kind.fits(&json(good)) && !kind.fits(&json(bad)), "{kind}");
    }
}
