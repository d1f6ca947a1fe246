//! What entries mean in both forms, what is said of wrong ones, and what becomes of them.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::define;
use crate::problem::Findings;
use crate::{SecretRef, Transport};

const FULL: &str = r#"
name: crm
version: 1.2.0
title: "CRM: customers"
description: Customers and orders
category: productivity
source: community
tags: [crm, "true", "8"]
icon: people
about: |
  Two lines

  with a gap.
homepage: https://example.com/crm#start
repository: https://example.com/git
documentation: https://example.com/docs
authorization:
  type: custom
  description: Ask in the office.
  help_url: https://example.com/keys
  variables:
    - {name: CRM_KEY, title: Key, description: The key, help_url: "https://example.com/k", pattern: "^k-[a-z]+$", header: X-Key}
    - {name: REGION, secret: false, required: false, default: eu, options: [eu, us]}
runtime:
  transport: http
  url: https://example.com/${REGION}/mcp
  headers: {X-Mode: fast}
  timeouts: {call: 90s}
package: {type: npm, name: "@example/crm", version: "2.0"}
tools:
  - name: find
    description: Finds customers
    inputSchema: {type: object, properties: {query: {type: string, minLength: 1}}, x: [null, 1.5, -2, true]}
verified_at: "2026-11-20T00:00:00Z"
metadata: {author: somebody, n: 1}
"#;

/// An entry in the form of MCP Scooter, every member of its format in use.
const SCOOTER: &str = r##"{
	"$schema": "../schema.json",
	"name": "weather-desk",
	"version": "0.3.1",
	"title": "Weather \ud83c\udf26 desk",
	"description": "Forecasts for the desk by the window",
	"category": "utility",
	"source": "community",
	"tags": ["weather"],
	"icon": "/registry-logos/weather.svg",
	"icon_background": {"light": "#fff", "dark": "#000"},
	"banner": "x", "color": "#123456", "installed": true,
	"about": "# Weather",
	"homepage": "https://example.com/weather#top",
	"authorization": {
		"type": "api_key", "required": true, "env_var": "WEATHER_KEY", "display_name": "Weather key",
		"help_url": "https://example.com/key", "validation": {"pattern": "^w-", "test_endpoint": "https://example.com"}
	},
	"runtime": {
		"transport": "stdio", "command": "npx", "args": ["-y", "weather-desk", "${HOME}"], "env": {"UNITS": "metric"}, "cwd": null,
		"timeout": 45000, "healthCheck": {"enabled": true, "interval": 5000}
	},
	"package": {"type": "npm", "name": "weather-desk", "version": "0.3.1"},
	"tools": [{"name": "forecast", "description": "Tells the weather", "inputSchema": {"type": "object", "properties": {}}, "sampleInput": {"city": "Oslo"}}],
	"metadata": {"author": "somebody", "verified_at": "2026-10-01T00:00:00Z"}
}"##;

fn read(file: &str, text: &str) -> (Option<RegistryEntry>, Findings) {
    let file = Path::new(file);
    define::read_all(file, file.file_stem().unwrap().to_str().unwrap(), text)
}

fn good(file: &str, text: &str) -> RegistryEntry {
    let (entry, findings) = read(file, text);
    entry.unwrap_or_else(|| panic!("{:#?}", findings.problems))
}

fn lines(found: &[crate::DefinitionProblem]) -> Vec<String> {
    found.iter().map(|problem| problem.to_string().split_once(':').unwrap().1.trim().to_owned()).collect()
}

/// The first problem of `text`, an entry called `crm`, without its file.
fn problem(text: &str) -> String {
    let (entry, findings) = read("registry/crm.yaml", text);
    assert!(entry.is_none(), "{text}");
    lines(&findings.problems).remove(0)
}

fn answers(values: &[(&str, &str)]) -> Answers {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.parse().unwrap()));
    Answers { name: None, values: values.collect() }
}

#[test]
fn an_entry_is_read_written_and_read() {
    let (entry, findings) = read("registry/crm.yaml", FULL);
    assert_eq!(findings.warnings, []);
    let entry = entry.unwrap();
    assert_eq!(entry.homepage.as_ref().unwrap().as_str(), "https://example.com/crm#start");
    assert_eq!(entry.tags, ["crm", "true", "8"]);
    let key = entry.authorization.variable("CRM_KEY").unwrap();
    assert!(key.secret && key.required && key.accepts("k-abc") && !key.accepts("abc"));
    let region = entry.authorization.variable("REGION").unwrap();
    assert!(!region.secret && region.accepts("us") && !region.accepts("asia"));
    assert_eq!(good("registry/crm.yaml", &entry.to_yaml()), entry);
    assert!(entry.to_yaml().contains("about: |\n  Two lines\n\n  with a gap.\n"), "{}", entry.to_yaml());
}

#[test]
fn what_people_miss_is_a_warning() {
    let (entry, findings) = read("registry/crm.yaml", "name: crm\ndescription: d\n");
    assert_eq!(entry.unwrap().source, Source::Custom);
    let fields: Vec<&str> = findings.warnings.iter().map(|warning| warning.field.as_str()).collect();
    assert_eq!(fields, ["about", "category", "homepage", "icon", "runtime", "title"]);
    assert_eq!(good("registry/official/crm.yaml", "name: crm\n").source, Source::Official);
}

#[test]
fn wrong_entries_are_reported_with_their_place() {
    let head = "name: crm\nruntime: {command: x}\n";
    let (mut told, mut wanted) = (Vec::new(), Vec::new());
    for (text, expected) in [
        ("name: ../x\n".to_owned(), "1:7: `name`: expected a name, got `../x`"),
        ("name: other\n".to_owned(), "1:7: `name`: expected the file's stem `crm`, got `other`"),
        (format!("{head}titel: x\n"), "3:1: `titel`: expected a known key, got this one"),
        (format!("{head}homepage: 'javascript:alert(1)'\n"), "3:11: `homepage`: expected an address such as `https://example.com/mcp`, got `javascript:alert(1)`"),
        (format!("{head}source: mine\n"), "3:9: `source`: expected one of `official`, `community`, `enterprise`, `local`, `custom`, got `mine`"),
        (format!("{head}authorization: {{type: api_key}}\n"), "3:16: `authorization.variables`: expected the variable that holds it, got nothing"),
        (format!("{head}authorization: {{type: none, variables: [{{name: A}}]}}\n"), "3:40: `authorization.variables`: belongs to another type, this is `none`"),
        (format!("{head}authorization: {{type: custom, variables: [{{name: A}}, {{name: A}}]}}\n"), "3:54: `authorization.variables[1]`: expected each variable once, got it again"),
        (format!("{head}authorization: {{type: custom, variables: [{{name: A-B}}]}}\n"), "3:50: `authorization.variables[0].name`: expected a variable's name of A-Z, a-z, 0-9 and `_`, the first not a digit, got `A-B`"),
        (format!("{head}authorization: {{type: custom, variables: [{{name: A, pattern: '('}}]}}\n"), "3:62: `authorization.variables[0].pattern`: expected a regular expression such as `^sk-[a-z0-9]+$`, got one that does not compile"),
        (format!("{head}authorization: {{type: custom, variables: [{{name: A, default: x}}]}}\n"), "3:62: `authorization.variables[0].default`: belongs to a variable that is not a secret"),
        (format!("{head}authorization: {{type: custom, variables: [{{name: A, header: Host}}]}}\n"), "3:61: `authorization.variables[0].header`: expected a header that is the server's own, got one of the protocol"),
        (format!("{head}authorization: {{type: custom, variables: [{{name: A, header: X}}, {{name: B, header: x}}]}}\n"), "3:65: `authorization.variables[1]`: expected each header for one variable, got it again"),
        ("name: crm\nruntime: {command: x, args: ['${A}']}\n".to_owned(), "2:30: `runtime.args[0]`: expected a variable of this entry, got `${A}`"),
        ("name: crm\nauthorization: {type: custom, variables: [{name: A}]}\nruntime: {command: x, args: ['${A}']}\n".to_owned(), "3:30: `runtime.args[0]`: expected no secret here, got `${A}`, which everyone could see"),
        ("name: crm\nauthorization: {type: custom, variables: [{name: A, secret: false}]}\nruntime: {transport: http, url: 'https://${A}/mcp'}\n".to_owned(), "3:33: `runtime.url`: expected an address whose host is fixed, got one that a variable fills"),
        ("name: crm\nruntime: {url: 'https://example.com'}\n".to_owned(), "2:10: `runtime.transport`: expected how the `url` is spoken to, got nothing"),
        ("name: crm\nruntime: {command: x, url: 'https://example.com'}\n".to_owned(), "2:23: `runtime.url`: belongs to `transport: http` or `sse`, this is `stdio`"),
    ] {
        told.push(problem(&text));
        wanted.push(expected);
    }
    assert_eq!(told, wanted);
}

/// The author of an entry would otherwise choose which of our secrets its server gets.
#[test]
fn an_entry_cannot_take_secrets() {
    for runtime in [
        "{command: x, env: {A: 'env:AWS_SECRET_ACCESS_KEY'}}",
        "{transport: http, url: 'https://example.com', headers: {X-A: 'file:/etc/passwd'}}",
        "{command: x, env: {A: 'vault:github'}}",
    ] {
        let text = format!("name: crm\nruntime: {runtime}\n");
        assert!(problem(&text).contains("expected plain text, got a reference"), "{text}");
        let json = format!(r#"{{"name": "crm", "runtime": {}}}"#, runtime.replace("x,", "\"x\",").replace('\'', "\""));
        let (entry, findings) = read("registry/crm.json", &json.replace("transport: http", "transport: \"http\""));
        assert!(entry.is_none() && lines(&findings.problems)[0].contains("got a reference"), "{findings:?}");
    }
    let text = "name: crm\nauthorization: {type: custom, variables: [{name: A, secret: false, default: 'env:HOME'}]}\n";
    assert!(problem(text).contains("expected plain text, got a reference"));
}

#[test]
fn variables_are_counted() {
    let many: Vec<String> = (0..1_000).map(|n| format!("{{name: V{n}, pattern: 'a{{9}}'}}")).collect();
    let text = format!("name: crm\nauthorization: {{type: custom, variables: [{}]}}\n", many.join(", "));
    assert!(problem(&text).contains("expected at most 64 variables"));
}

#[test]
fn scooters_entries_are_read_as_they_are() {
    let (entry, findings) = read("registry/official/weather-desk.json", SCOOTER);
    assert_eq!(findings.problems, []);
    assert_eq!(findings.warnings, []);
    let entry = entry.unwrap();
    assert_eq!(entry.title.as_deref(), Some("Weather 🌦 desk"));
    assert_eq!((entry.source, entry.authorization.kind), (Source::Community, AuthorizationKind::ApiKey));
    let key = &entry.authorization.variables[0];
    assert_eq!((key.name.as_str(), key.title.as_deref()), ("WEATHER_KEY", Some("Weather key")));
    assert!(key.required && key.secret && key.accepts("w-1") && !key.accepts("1"));
    let runtime = entry.runtime.as_ref().unwrap();
    assert_eq!(runtime.timeouts.call.to_string(), "45s");
    assert_eq!(entry.verified_at.as_deref(), Some("2026-10-01T00:00:00Z"));
    let tool: Value = serde_json::from_str(&entry.tools[0].json).unwrap();
    assert_eq!(tool["sampleInput"], json!({"city": "Oslo"}));
    let configured = entry.to_definition(&answers(&[("WEATHER_KEY", "vault:weather")])).unwrap();
    assert!(configured.text.contains("WEATHER_KEY: \"vault:weather\""), "{}", configured.text);
    assert!(configured.text.contains("\"${HOME}\""), "what it does not declare stays: {}", configured.text);
}

#[test]
fn the_rates_of_scooters_tools_become_limits() {
    let text = r#"{"name": "weather", "runtime": {"transport": "stdio", "command": "weather"}, "tools": [
        {"name": "now", "inputSchema": {"type": "object"}, "annotations": {"rateLimit": "60/min"}},
        {"name": "past", "inputSchema": {"type": "object"}, "annotations": {"rateLimit": "90/hour"}},
        {"name": "maps", "inputSchema": {"type": "object"}, "annotations": {"rateLimit": "as you like"}},
        {"name": "free", "inputSchema": {"type": "object"}, "annotations": {"rateLimit": ""}}]}"#;
    let (entry, findings) = read("registry/custom/weather.json", text);
    let told: Vec<String> = lines(&findings.warnings).into_iter().filter(|line| line.contains("rateLimit")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("it becomes `per_minute: 1`") && told[1].contains("is not understood"), "{told:?}");
    let configured = entry.unwrap().to_definition(&answers(&[])).unwrap();
    let server: crate::ServerDefinition = define::read(&configured.file, "weather", &configured.text).unwrap();
    let limits = |tool: &str| server.limits.of_tool(tool).map(|limits| limits.per_minute).collect::<Vec<_>>();
    assert_eq!([limits("now"), limits("past")], [[Some(60)], [Some(1)]]);
    assert!(limits("maps").is_empty() && limits("free").is_empty());
}

#[test]
fn scooters_tools_that_require_approval_are_confirmed() {
    let text = r#"{"name": "weather", "runtime": {"transport": "stdio", "command": "weather"}, "tools": [
        {"name": "now", "inputSchema": {"type": "object"}, "annotations": {"requiresApproval": false}},
        {"name": "change", "inputSchema": {"type": "object"}, "annotations": {"requiresApproval": true}}]}"#;
    let (entry, _) = read("registry/custom/weather.json", text);
    let configured = entry.unwrap().to_definition(&answers(&[])).unwrap();
    let server: crate::ServerDefinition = define::read(&configured.file, "weather", &configured.text).unwrap();
    assert_eq!(server.confirm.iter().map(toolcrib_base::Glob::as_str).collect::<Vec<_>>(), ["change"]);
}

#[test]
fn what_scooters_loader_tolerates_is_a_warning() {
    let text = "{\"name\": \"weather\",\n \"rating\": 5,\n \"homepage\": \"nowhere\",\n \"source\": \"mine\",\n \"tags\": \"x\"}";
    let (entry, findings) = read("registry/custom/other.json", text);
    let entry = entry.unwrap();
    assert_eq!((entry.name.as_str(), entry.source, entry.runtime.is_none()), ("weather", Source::Custom, true));
    let told: Vec<String> =
        lines(&findings.warnings).into_iter().filter(|line| !line.ends_with("is missing")).collect();
    assert_eq!(
        told,
        [
            "1:10: `name`: is `weather` in a file called `other`",
            "2:2: `rating`: is not known and means nothing here",
            "3:14: `homepage`: expected an address such as `https://example.com`, got `nowhere`",
            "4:12: `source`: expected a known source, got `mine`",
            "5:10: `tags`: expected a list, got `x`",
        ]
    );
    for (text, expected) in [
        ("{\"title\": \"x\"}", "1:1: `name`: expected the entry's name, got nothing"),
        ("{\"name\": \"../x\"}", "1:10: `name`: expected a name, got `../x`"),
        ("{\"name\": \"a\",\n \"title\": \"half", "2:"),
        ("", "1:1: expected a definition"),
    ] {
        let (entry, findings) = read("registry/custom/a.json", text);
        assert!(entry.is_none() && lines(&findings.problems)[0].starts_with(expected), "{text}: {findings:?}");
    }
}

#[test]
fn every_kind_of_scooters_authorization_becomes_variables() {
    let check = |authorization: &str, kind, expected: &[(&str, bool, bool)]| {
        let text = format!(r#"{{"name": "a", "authorization": {authorization}}}"#);
        let entry = good("registry/a.json", &text);
        let found = entry.authorization.variables.iter().map(|v| (v.name.as_str(), v.secret, v.required));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{authorization}");
        assert_eq!(entry.authorization.kind, kind);
    };
    check(r#"{"type": "none"}"#, AuthorizationKind::None, &[]);
    check(
        r#"{"type": "api_key", "env_var": "K", "required": false}"#,
        AuthorizationKind::ApiKey,
        &[("K", true, false)],
    );
    check(
        r#"{"type": "bearer_token", "env_var": "T", "scopes": ["repo"]}"#,
        AuthorizationKind::Bearer,
        &[("T", true, true)],
    );
    let oauth = r#"{"type": "oauth2", "provider": "google", "oauth": {"authorization_url": "https://example.com/a",
        "token_url": "https://example.com/t", "scopes": ["mail"], "token_env": "TOKEN"}}"#;
    check(oauth, AuthorizationKind::OAuth2, &[("TOKEN", true, true)]);
    let custom = r#"{"type": "custom", "env_vars": [{"name": "A"}, {"name": "B", "secret": false, "required": false, "default": "x"}]}"#;
    check(custom, AuthorizationKind::Custom, &[("A", true, true), ("B", false, false)]);
}

#[test]
fn an_entry_becomes_a_definition() {
    let entry = good("registry/crm.yaml", FULL);
    let configured = entry.to_definition(&answers(&[("CRM_KEY", "keyring:crm")])).unwrap();
    assert_eq!((configured.name.as_str(), configured.file.as_path()), ("crm", Path::new("servers/crm.yaml")));
    let server: crate::ServerDefinition = define::read(&configured.file, "crm", &configured.text).unwrap();
    let Transport::Http(remote) = &server.transport else { panic!("not http") };
    assert_eq!(remote.url.expose(), "https://example.com/eu/mcp");
    assert_eq!(remote.headers["X-Key"], SecretRef::Keyring("crm".into()));
    assert_eq!(server.timeouts.call.to_string(), "90s");

    let named = Answers { name: Some("crm-us".to_owned()), ..answers(&[("CRM_KEY", "env:K"), ("REGION", "us")]) };
    let configured = entry.to_definition(&named).unwrap();
    assert_eq!(configured.file.as_path(), Path::new("servers/crm-us.yaml"));
    assert!(configured.text.contains("https://example.com/us/mcp"), "{}", configured.text);
    assert!(!format!("{configured:?}").contains("env:K"));
}

#[test]
fn answers_that_do_not_fit_are_refused() {
    let entry = good("registry/crm.yaml", FULL);
    let refused = |name: Option<&str>, values: &[(&str, &str)]| {
        let answers = Answers { name: name.map(str::to_owned), ..answers(values) };
        let error = entry.to_definition(&answers).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    };
    let key = ("CRM_KEY", "env:K");
    for name in ["../x", "a/b", "..", "", "C:\\x", "A"] {
        assert!(refused(Some(name), &[key]).ends_with("is not a name for a server"), "{name}");
    }
    assert_eq!(refused(None, &[]), "`CRM_KEY` of entry `crm` has no value");
    assert_eq!(refused(None, &[("CRM_KEY", "k-abc")]), "`CRM_KEY` is a secret and must not be stored in a file");
    assert_eq!(refused(None, &[key, ("REGION", "asia")]), "the server does not accept this value of `REGION`");
    assert_eq!(
        refused(None, &[key, ("REGION", "env:R")]),
        "`REGION` is in arguments or a URL, where references are not resolved"
    );
    assert_eq!(refused(None, &[key, ("OTHER", "x")]), "entry `crm` has no variable `OTHER`");
    let entry = good("registry/a.yaml", "name: a\n");
    assert_eq!(entry.to_definition(&Answers::default()).unwrap_err(), ConfigureError::NoRuntime(entry.name.clone()));
}

#[test]
fn every_built_in_entry_can_be_configured() {
    for available in crate::built_in().values() {
        let entry = &available.entry;
        let values = entry.authorization.variables.iter().filter(|variable| variable.required).map(|variable| {
            let value = if variable.secret { format!("vault:{}", variable.name) } else { "/srv/data".to_owned() };
            (variable.name.clone(), value.parse().unwrap())
        });
        let answers = Answers { name: None, values: values.collect() };
        let configured = entry.to_definition(&answers).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert!(!configured.text.contains("${"), "{}", configured.text);
        assert_eq!(good(&format!("registry/{}.yaml", entry.name), &entry.to_yaml()), **entry);
    }
}

/// Texts with everything that YAML could take for something else.
fn texts() -> impl Strategy<Value = String> {
    let odd = [
        "true",
        "null",
        "~",
        "1.0",
        "- a",
        "a: b",
        "#",
        "a #b",
        "'",
        "\"",
        "\\",
        "|",
        ">",
        "%",
        "@x",
        "{",
        "[",
        "---",
        "é",
        "\u{1f326}",
        "\u{85}",
        "\u{feff}",
        "\u{2028}",
        "\t",
        " ",
        "\n",
        "a\n b\n\nc\n",
        "https://example.com/a?b=c",
    ];
    let piece = prop_oneof![
        proptest::sample::select(odd.to_vec()).prop_map(str::to_owned),
        "[a-zA-Z0-9 .:,-]{0,12}",
        any::<char>().prop_filter("NUL is refused", |c| *c != '\0').prop_map(String::from)
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn words() -> impl Strategy<Value = String> {
    "[A-Za-z_][A-Za-z0-9_]{0,8}".prop_map(|name| name)
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        texts().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(texts(), inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        (title, about, tags) in (texts(), texts(), proptest::collection::vec(texts(), 0..4)),
        env in proptest::collection::btree_map(words(), texts(), 0..4),
        args in proptest::collection::vec(texts(), 0..4),
        variables in proptest::collection::btree_map(words(), (texts(), any::<bool>(), any::<bool>()), 0..4),
        metadata in proptest::collection::btree_map(texts(), json_values(), 0..3),
    ) {
        let mut entry = good("registry/crm.yaml", FULL);
        let is_plain = |text: &String| matches!(text.parse(), Ok(SecretRef::Literal(_)));
        let env = env.into_iter().filter(|(_, value)| is_plain(value)).collect();
        let args = args.into_iter().filter(|arg| !arg.contains("${")).collect();
        entry.runtime = Some(Runtime {
            reach: Reach::Stdio { command: "x y".to_owned(), args, env, inherit_env: Vec::new(), cwd: None },
            timeouts: Default::default(),
        });
        entry.title = Some(title);
        entry.about = Some(about);
        entry.tags = tags;
        entry.authorization.variables = variables.into_iter().map(|(name, (text, secret, required))| Variable {
            default: Some(text).filter(|text| !secret && is_plain(text)), secret, required, ..Variable::new(&name)
        }).collect();
        entry.metadata = (!metadata.is_empty()).then(|| OpaqueValue::of_json(json!(metadata).to_string()));
        let text = entry.to_yaml();
        let again = read("registry/crm.yaml", &text);
        prop_assert!(again.0.is_some(), "{:#?}\n{text}", again.1);
        prop_assert_eq!(again.0.unwrap(), entry, "{}", text);
    }

    #[test]
    fn no_text_of_any_form_brings_the_reader_down(text in ".{0,200}", cut in 0usize..2000) {
        for whole in [text.as_str(), FULL, SCOOTER] {
            let part: String = whole.chars().take(cut).collect();
            for file in ["registry/crm.yaml", "registry/crm.json"] {
                let (entry, findings) = read(file, &part);
                prop_assert_eq!(entry.is_some(), findings.problems.is_empty());
            }
        }
    }
}
