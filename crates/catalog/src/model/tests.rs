//! Models as people write them, and what is refused.

use std::path::Path;

use serde_json::json;

use super::*;

const LOCAL: &str = "name: m\nwire: chat\nurl: http://127.0.0.1:11434/v1/\n";

fn read_named(name: &str, text: &str) -> Result<ModelDefinition, Vec<String>> {
    let file = format!("models/{name}.yaml");
    let told = |problem: &crate::DefinitionProblem| format!("{problem} {}", problem.hint.as_deref().unwrap_or(""));
    define::read(Path::new(&file), name, text).map_err(|problems| problems.iter().map(told).collect())
}

fn good(rest: &str) -> ModelDefinition {
    read_named("m", &format!("{LOCAL}{rest}")).unwrap()
}

#[track_caller]
fn bad(text: &str, parts: &[&str]) {
    let problems = read_named("m", text).expect_err(text).join("\n");
    for part in parts {
        assert!(problems.contains(part), "{text}: {problems} lacks {part}");
    }
}

/// The same after what every local model says.
#[track_caller]
fn bad_rest(rest: &str, parts: &[&str]) {
    bad(&format!("{LOCAL}{rest}"), parts);
}

fn warnings(text: &str) -> Vec<String> {
    let (model, findings) = define::read_all::<ModelDefinition>(Path::new("models/m.yaml"), "m", text);
    assert!(model.is_some(), "{:?}", findings.problems);
    findings.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn three_lines_are_a_model() {
    let model = good("");
    assert_eq!((model.base(), model.model.as_str()), (Some("http://127.0.0.1:11434/v1"), "m"));
    assert_eq!((model.max_output, model.parallel, model.timeout.to_string()), (4_096, 4, "10m".to_owned()));
    assert_eq!((model.key, model.prices, model.window, model.script), (None, None, None, None));
    assert_eq!(good("window: 2048\n").max_output, 1_024);
}

#[test]
fn prices_are_exact_and_those_of_the_cache_follow_input() {
    let prices = good("prices: {input: 3, cached: 0.30, cache_write: '3.75', output: 15.00}\n").prices.unwrap();
    let all = [prices.input, prices.cached, prices.cache_write, prices.cache_write_hour, prices.output];
    assert_eq!(all.map(TokenPrice::picodollars), [3_000_000, 300_000, 3_750_000, 3_750_000, 15_000_000]);
    let prices = good("prices: {input: 0.075, output: 0}\n").prices.unwrap();
    assert_eq!((prices.cached, prices.output.picodollars()), (prices.input, 0));
}

#[test]
fn a_negative_or_too_fine_price_is_refused() {
    for price in ["-1", "0.0000001", "1e3", "$3", "'3,5'", "[]"] {
        bad_rest(&format!("prices: {{input: {price}, output: 1}}\n"), &["prices.input", "expected"]);
    }
    bad_rest("prices: {input: 100001, output: 1}\n", &["prices.input", "at most `100000` dollars"]);
    bad_rest("prices: {input: 1}\n", &["prices.output", "expected the price of output", "remove `prices`"]);
    bad_rest("prices: {input: 1, output: 2, cache: 1}\n", &["prices.cache", "did you mean `cached`?"]);
}

#[test]
fn an_unknown_wire_and_unknown_keys_have_near_names() {
    bad("name: m\nwire: respones\nurl: http://127.0.0.1/v1\n", &["`respones`", "did you mean `responses`?"]);
    bad("name: m\nurl: http://127.0.0.1/v1\n", &["`wire`", "expected how the model is asked", "wire: chat"]);
    bad_rest("windw: 1000\n", &["`windw`", "did you mean `window`?"]);
    bad_rest("differs: {strikt: true}\n", &["differs.strikt", "did you mean `strict`?"]);
}

#[test]
fn an_address_is_there_and_has_no_secrets() {
    bad("name: m\nwire: chat\n", &["`url`", "expected the address of the model's API", "http://127.0.0.1:11434/v1"]);
    for (url, part) in [
        ("https://ann:hunter2@example.com/v1", "without a user or a password"),
        ("https://hunter2@example.com/v1", "without a user or a password"),
        ("https://example.com/v1?key=hunter2", "without a query or references"),
        ("\"https://example.com/${vault:hunter2}\"", "without a query or references"),
        ("ftp://example.com", "expected an address such as"),
        ("example.com/v1", "expected an address such as"),
    ] {
        let text = format!("name: m\nwire: chat\nurl: {url}\n");
        bad(&text, &[part]);
        let said = read_named("m", &text).unwrap_err().join("\n");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_key_is_a_reference_to_one_for_everyone() {
    for reference in ["env:MODEL_KEY", "vault:provider", "keyring:provider", "file:/run/key"] {
        assert_eq!(good(&format!("key: {reference}\n")).key.unwrap().to_string(), reference);
    }
    bad_rest("key: hunter2\n", &["`key`", "expected a reference to the key, got a value", "toolcrib secret set NAME"]);
    assert!(!read_named("m", &format!("{LOCAL}key: hunter2\n")).unwrap_err().join("\n").contains("hunter2"));
    bad_rest("key: user:mine\n", &["one key for all runs", "vault:NAME"]);
    bad_rest("key: 'env:A B'\n", &["expected a variable's name"]);
    bad_rest("headers: {X-Api-Key: hunter2}\n", &["headers", "expected a reference to a secret", "vault:NAME"]);
    bad_rest("headers: {X-A: user:mine}\n", &["one value for all runs"]);
    bad_rest("headers: {Host: a}\n", &["one of the protocol"]);
    bad_rest("key: env:K\nheaders: {Authorization: env:K}\n", &["`Authorization` beside `key`", "remove the header"]);
    let shown = good("key: vault:provider\nheaders: {X-Team: web, X-Org: env:ORG}\n").to_shown_value();
    assert_eq!(shown["key"], "vault:provider");
    assert_eq!(shown["headers"], json!({"X-Team": "****", "X-Org": "env:ORG"}));
}

#[test]
fn a_key_over_an_open_connection_is_warned_of() {
    let open = "name: m\nwire: chat\nurl: http://models.example.com/v1\nkey: env:K\n";
    assert!(warnings(open)[0].contains("unencrypted connection"));
    for fine in ["https://models.example.com/v1", "http://127.0.0.1:1/v1", "http://[::1]:1/v1", "http://localhost/v1"] {
        let text = format!("name: m\nwire: chat\nurl: '{fine}'\nkey: env:K\n");
        assert_eq!(warnings(&text), [""; 0], "{fine}");
    }
}

#[test]
fn limits_of_nothing_and_beyond_all_bounds_are_refused() {
    for (rest, key) in [
        ("window: 0\n", "window"),
        ("window: 100000001\n", "window"),
        ("max_output: 0\n", "max_output"),
        ("max_output: 10000001\n", "max_output"),
        ("parallel: 0\n", "parallel"),
        ("parallel: 1025\n", "parallel"),
        ("timeout: 0s\n", "timeout"),
        ("timeout: 200h\n", "timeout"),
    ] {
        bad_rest(rest, &[&format!("`{key}`"), "expected"]);
    }
    bad_rest("window: 4096\nmax_output: 4096\n", &["max_output", "expected less than the `window` of 4096 tokens"]);
}

#[test]
fn a_script_needs_no_address_and_only_a_script_has_one() {
    let scripted = read_named("m", "name: m\nwire: script\nscript: {turns: [{say: Hello.}]}\n").unwrap();
    assert_eq!((scripted.base(), scripted.script.clone()), (None, Some(json!({"turns": [{"say": "Hello."}]}))));
    bad("name: m\nwire: script\n", &["`script`", "expected what the model answers", "turns: [{say: Hello.}]"]);
    bad("name: m\nwire: script\nscript: hello\n", &["`script`", "expected a map"]);
    bad("name: m\nwire: script\nscript: {}\nurl: http://127.0.0.1/v1\n", &["`url`", "this is `wire: script`"]);
    bad_rest("script: {demo: true}\n", &["`script`", "belongs to `wire: script`, this is `chat`"]);
}

#[test]
fn the_name_of_the_built_in_model_is_taken() {
    let said = read_named("demo", "name: demo\nwire: chat\nurl: http://127.0.0.1/v1\n").unwrap_err().join("\n");
    assert!(said.contains("`name`") && said.contains("the model `demo` is built in"), "{said}");
    assert!(said.contains("choose another name"), "{said}");
}

#[test]
fn the_form_of_kubernetes_is_read() {
    let text = "apiVersion: toolcrib/v1\nkind: Model\nmetadata: {name: m}\nspec: {wire: messages, url: 'https://example.com/v1'}\n";
    let model = read_named("m", text).unwrap();
    assert_eq!((model.wire, model.spec["name"].as_str()), (ModelWire::Messages, Some("m")));
}
