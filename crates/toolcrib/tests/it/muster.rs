//! muster's files as they are, by three doors: `create -f`, `apply` and `import muster`. Every construct of its kinds
//! is one document here.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::serving::GatewayFixture;
use crate::toolcrib::{CommandOutput, run, run_with_stdin};

const SERVERS: &[(&str, &str)] = &[
    ("plain-program", "type: stdio, command: some-tool"),
    ("with-arguments", "type: stdio, command: some-tool, args: [serve, '--level', '3']"),
    ("one-list", "type: stdio, command: [some-tool, serve, now]"),
    ("with-more", "type: stdio, command: some-tool, healthCheck: {enabled: true, interval: 30s}"),
    ("with-variables", "type: stdio, command: some-tool, env: {LEVEL: info, PORT: '8080', EMPTY: ''}"),
    ("with-secret", "type: stdio, command: some-tool, env: {API_TOKEN: abcdef0123456789abcdef}"),
    ("started-first", "type: stdio, command: /no/such/tool, autoStart: true"),
    ("never-first", "type: stdio, command: some-tool, autoStart: false"),
    ("with-prefix", "type: stdio, command: some-tool, toolPrefix: tp"),
    ("described", "type: stdio, command: some-tool, description: 'Says: \"something\"'"),
    ("over-http", "type: streamable-http, url: 'http://127.0.0.1:9/mcp'"),
    ("over-sse", "type: sse, url: 'http://127.0.0.1:9/sse'"),
    ("with-headers", "type: streamable-http, url: 'http://127.0.0.1:9/mcp', headers: {X-Team: blue}"),
    ("with-timeout", "type: streamable-http, url: 'http://127.0.0.1:9/mcp', timeout: 45"),
    ("in-family-a", "type: streamable-http, url: 'http://127.0.0.1:9/a', family: {name: fam, instanceArg: which}"),
    ("in-family-b", "type: streamable-http, url: 'http://127.0.0.1:9/b', family: {name: fam, instanceArg: which}"),
    ("signs-in", "type: streamable-http, url: 'https://127.0.0.1:9/mcp', auth: {type: oauth}"),
    (
        "forwards",
        "type: streamable-http, url: 'https://127.0.0.1:9/mcp', auth: {type: oauth, forwardToken: true, requiredAudiences: [aud]}",
    ),
    (
        "exchanges",
        "type: streamable-http, url: 'https://127.0.0.1:9/mcp', auth: {type: oauth, tokenExchange: {enabled: true, dexTokenEndpoint: 'https://dex.invalid/token', connectorId: c, scopes: openid}}",
    ),
    (
        "has-issuer",
        "type: streamable-http, url: 'https://127.0.0.1:9/mcp', auth: {type: oauth, authorizationServer: {issuer: 'https://idp.invalid', scopes: openid}}",
    ),
    ("no-sign-in", "type: stdio, command: some-tool, auth: {type: none}"),
    ("Odd_Name.1", "type: stdio, command: some-tool"),
    ("Odd_Prefixed", "type: stdio, command: some-tool, toolPrefix: odd"),
];

const WORKFLOWS: &[(&str, &str)] = &[
    ("one-step", "steps: [{id: a, tool: x_s_t}]"),
    (
        "typed-args",
        "args: {s: {type: string, required: true, description: d}, i: {type: integer, default: 3}, b: {type: boolean}, n: {type: number}, o: {type: object}, l: {type: array}}, steps: [{id: a, tool: x_s_t, args: {s: '{{ .input.s }}'}}]",
    ),
    ("deep-args", "steps: [{id: a, tool: x_s_t, args: {m: {k: ['{{ .input.x }}', 2, true]}}}]"),
    (
        "chained",
        "steps: [{id: a, tool: x_s_t, store: true}, {id: b, tool: x_s_t, args: {v: '{{ .results.a.items[0].name }}'}}]",
    ),
    ("camel-failure", "steps: [{id: a, tool: x_s_t, allowFailure: true}]"),
    ("snake-failure", "steps: [{id: a, tool: x_s_t, allow_failure: true}]"),
    ("if-template", "steps: [{id: a, tool: x_s_t, condition: {template: '{{ eq .input.x \"y\" }}'}}]"),
    (
        "if-tool",
        "steps: [{id: a, tool: x_s_t, condition: {tool: x_s_u, args: {q: 1}, expect: {success: true, jsonPath: {state: ok}}}}]",
    ),
    (
        "if-step",
        "steps: [{id: a, tool: x_s_t}, {id: b, tool: x_s_t, condition: {fromStep: a, expectNot: {success: true}}}]",
    ),
    (
        "if-step-snake",
        "steps: [{id: a, tool: x_s_t}, {id: b, tool: x_s_t, condition: {from_step: a, expect_not: {json_path: {x: y}}}}]",
    ),
    (
        "loop",
        "steps: [{id: l, forEach: {items: '{{ .input.list }}', as: it, steps: [{id: a, tool: x_s_t, args: {v: '{{ .vars.it }}-{{ .vars.it_index }}'}}]}}]",
    ),
    ("branches", "steps: [{id: p, parallel: [{id: a, tool: x_s_t}, {id: b, tool: x_s_u}]}]"),
    ("cleans-up", "steps: [{id: a, tool: x_s_t}], onFailure: [{id: z, tool: x_s_u}]"),
    (
        "with-output",
        "steps: [{id: a, tool: x_s_t}], output: {n: '{{ len .results.a.items }}', all: '{{ .results.a }}'}",
    ),
    (
        "with-functions",
        "steps: [{id: a, tool: x_s_t, args: {t: '{{ now | date \"2006-01-02T15:04:05Z07:00\" }}', u: '{{ .input.x | upper | default \"d\" }}', c: '{{ if gt (int .input.n) 2 }}many{{ else }}few{{ end }}'}}]",
    ),
    ("described-step", "description: Does things, steps: [{id: a, tool: core_service_list, description: Looks}]"),
];

const CLASSES: &[(&str, &str)] = &[
    ("smallest", "serviceConfig: {lifecycleTools: {start: {tool: x_s_up}, stop: {tool: x_s_down}}}"),
    (
        "whole",
        "description: d, version: '1', args: {size: {type: string, default: s}}, serviceConfig: {serviceType: db, defaultName: 'db-{{ .size }}', dependencies: [], lifecycleTools: {start: {tool: x_s_up, args: {size: '{{ .size }}'}, outputs: {id: $.id}}, stop: {tool: x_s_down, args: {id: '{{ .start.id }}'}}, restart: {tool: x_s_again}, status: {tool: x_s_state}, healthCheck: {tool: x_s_ping, expect: {success: true, jsonPath: {ok: true}}, expectNot: {jsonPath: {ok: false}}}}, healthCheck: {enabled: true, interval: 30s, failureThreshold: 3, successThreshold: 1}, timeout: {create: 60s, delete: 30s, healthCheck: 5s}, outputs: {url: 'http://{{ .start.id }}'}}",
    ),
];

/// Every document with its kind and its name here.
fn documents() -> Vec<(&'static str, String, String)> {
    let object = |kind: &str, name: &str, spec: &str| {
        format!(
            "# {name}\napiVersion: muster.giantswarm.io/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: default\n  labels: {{team: blue}}\nspec: {{{spec}}}\nstatus: {{state: Running}}\n"
        )
    };
    let own = |name: &str| name.to_lowercase().replace(['_', '.'], "-");
    let servers = SERVERS.iter().map(|(name, spec)| ("server", own(name), object("MCPServer", name, spec)));
    let flows = WORKFLOWS.iter().map(|(name, spec)| ("workflow", (*name).to_owned(), object("Workflow", name, spec)));
    let classes =
        CLASSES.iter().map(|(name, spec)| ("serviceclass", (*name).to_owned(), object("ServiceClass", name, spec)));
    let plain = [
        ("server", "flat".to_owned(), "name: flat\ntype: stdio\ncommand: some-tool\n".to_owned()),
        ("workflow", "plain".to_owned(), "name: plain\nsteps: [{id: a, tool: x_s_t}]\n".to_owned()),
        ("serviceclass", "bare".to_owned(), format!("name: bare\n{}\n", CLASSES[0].1)),
    ];
    servers.chain(flows).chain(classes).chain(plain).collect()
}

#[track_caller]
fn good(ran: &CommandOutput) -> &str {
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    &ran.stdout
}

/// No one is asked for a vault's key where there is a file for it.
async fn with_vault(home: &Path) {
    good(&run_with_stdin(home, &["secret", "set", "any", "--key-file"], &[], "x").await);
}

async fn definition(home: &Path, kind: &str, name: &str) -> Value {
    serde_json::from_str(good(&run(home, &["get", kind, name, "-o", "json"], &[]).await)).unwrap()
}

#[tokio::test]
async fn every_construct_of_muster_comes_in_by_every_door() {
    let all = documents();
    assert!(all.len() >= 36, "{}", all.len());
    let texts: Vec<&str> = all.iter().map(|(_, _, text)| text.as_str()).collect();

    // One file of many documents, created.
    let created = GatewayFixture::start(&[]).await;
    with_vault(created.home()).await;
    let file = created.home().join("all.yaml");
    fs::write(&file, texts.join("---\n")).unwrap();
    let ran = run(created.home(), &["create", "-f", file.to_str().unwrap()], &[]).await;
    let lines: Vec<&str> = good(&ran).lines().collect();
    assert_eq!(lines.len(), all.len(), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("odd-name-1: renamed from `Odd_Name.1`; its tools keep their names"), "{}", ran.stderr);
    assert!(ran.stderr.contains("in the vault as `with-secret-api-token`"), "{}", ran.stderr);

    // A list of Kubernetes on stdin, applied twice.
    let applied = GatewayFixture::start(&[]).await;
    with_vault(applied.home()).await;
    let items: Vec<String> = texts.iter().filter(|text| text.starts_with('#')).map(|text| item(text)).collect();
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", items.concat());
    for word in ["created", "unchanged"] {
        let ran = run_with_stdin(applied.home(), &["apply", "-f", "-"], &[], &list).await;
        let expected: String =
            all[..items.len()].iter().map(|(kind, name, _)| format!("{kind}/{name} {word}\n")).collect();
        assert_eq!(good(&ran), expected, "{}", ran.stderr);
    }
    let changed = list.replace("--level", "--degree").replace("Does things", "Does other things");
    let ran = run_with_stdin(applied.home(), &["apply", "-f", "-"], &[], &changed).await;
    let configured: Vec<&str> = good(&ran).lines().filter(|line| line.ends_with(" configured")).collect();
    assert_eq!(configured, ["server/with-arguments configured", "workflow/described-step configured"]);

    // muster's whole folder, imported without a gateway.
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for (kind, name, text) in &all {
        let below = [("server", "mcpservers"), ("workflow", "workflows"), ("serviceclass", "serviceclasses")];
        let below = below.iter().find(|(one, _)| one == kind).unwrap().1;
        fs::create_dir_all(folder.path().join("muster").join(below)).unwrap();
        fs::write(folder.path().join("muster").join(below).join(format!("{name}.yaml")), text).unwrap();
    }
    fs::write(folder.path().join("muster/config.yaml"), "aggregator: {port: 8090}\n").unwrap();
    let root = folder.path().join("muster");
    let arguments = ["import", "muster", "--file", root.to_str().unwrap(), "--yes", "--key-file"];
    let ran = run(&home, &arguments, &[]).await;
    assert!(good(&ran).contains(&format!("Wrote {} definitions", all.len())), "{}\n{}", ran.stdout, ran.stderr);
    good(&run(&home, &["registry", "validate"], &[]).await);

    // What came in is the same, whichever way it came.
    let imported = |kind: &str, name: &str| {
        let below = if kind == "serviceclass" { "service-classes" } else { &format!("{kind}s") };
        fs::read_to_string(home.join(below).join(format!("{name}.yaml"))).unwrap()
    };
    assert!(imported("workflow", "plain") == all[all.len() - 2].2);
    for name in ["odd-name-1", "in-family-a", "with-headers", "with-secret", "started-first"] {
        let text = imported("server", name).replace('"', "");
        let definition = definition(created.home(), "server", name).await["definition"].clone();
        let other = self::definition(applied.home(), "server", name).await["definition"].clone();
        assert_eq!(definition, other, "{name}");
        for (key, value) in definition.as_object().unwrap() {
            let shown = value.as_str().map_or_else(|| key.clone(), |value| format!("{key}: {value}"));
            assert!(text.contains(&shown), "no `{shown}` in\n{text}");
        }
    }
    let flow = definition(created.home(), "workflow", "if-step-snake").await;
    assert_eq!(flow["workflow"]["steps"][1]["condition"]["from_step"], json!("a"), "{flow}");
}

/// A document as an item of a list.
fn item(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let first = format!("- {}\n", lines.next().unwrap());
    first + lines.map(|line| format!("  {line}\n")).collect::<String>().as_str()
}

#[tokio::test]
async fn what_is_wrong_or_none_of_ours_is_told_with_its_place() {
    let serving = GatewayFixture::start(&[]).await;
    let home = serving.home();
    let file = home.join("x.yaml");
    let path = file.to_str().unwrap();
    let server = "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\nspec: {type: stdio, command: c}\n";
    fs::write(&file, format!("{server}---\n{}", server.replace("command", "comand"))).unwrap();
    for door in [&["create", "-f", path][..], &["apply", "-f", path], &["import", "muster", "--file", path, "--yes"]] {
        let ran = run(home, door, &[]).await;
        assert_eq!(ran.code, 1, "{door:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("x.yaml:9:7 (document 2): `spec.command`: expected the program"), "{}", ran.stderr);
    }
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {}\n";
    fs::write(&file, secret).unwrap();
    run(home, &["apply", "-f", path], &[])
        .await
        .fails(1, &["nothing can be created", "skipped `Secret` `s`", "expected servers"]);
    let ran = run(home, &["import", "muster", "--file", path, "--yes"], &[]).await;
    assert!(good(&ran).contains("skipped: objects of `v1` are not Toolcrib's"), "{}", ran.stdout);
    fs::write(&file, format!("{secret}---\n{}", server.replace("name: a", "name: b"))).unwrap();
    let ran = run(home, &["apply", "-f", path], &[]).await;
    assert_eq!(good(&ran), "server/b created\n");
    assert!(ran.stderr.contains("skipped `Secret` `s` at"), "{}", ran.stderr);
    fs::write(&file, "# nothing\n").unwrap();
    let ran = run(home, &["import", "muster", "--file", path, "--yes"], &[]).await;
    ran.fails(1, &["nothing to import in", "looked for objects of the kinds `MCPServer`"]);
    fs::write(&file, "{}").unwrap();
    run(home, &["import", "cursor", "--file", path], &[]).await.fails(1, &["nothing to import in", "`mcpServers`"]);
}

#[tokio::test]
async fn keys_that_are_not_known_are_told_at_every_door() {
    let serving = GatewayFixture::start(&[]).await;
    let home = serving.home();
    let file = home.join("a-server.yaml");
    let text = "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\n\
                spec:\n  type: stdio\n  command: some-tool\n  autostart: true\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let told = "a-server.yaml:7:3: `spec.autostart`: is not known and means nothing here; did you mean `autoStart`?";
    for door in [
        &["create", "-f", file, "--dry-run"][..],
        &["apply", "-f", file, "--dry-run"],
        &["import", "muster", "--file", file, "--preview"],
    ] {
        let ran = run(home, door, &[]).await;
        good(&ran);
        assert!(ran.stderr.contains("warning: ") && ran.stderr.contains(told), "{door:?}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn flags_words_and_logs_that_people_of_muster_know() {
    let serving = GatewayFixture::start(&[("a", "name: a\ncommand: /no/such/tool\nstart: eager\n")]).await;
    let home = serving.home();
    run(home, &["list", "tools", "--config-path", "/x"], &[])
        .await
        .fails(64, &["`--config-path`", "toolcrib import muster"]);
    run(home, &["serve", "--yolo"], &[]).await.fails(64, &["profiles decide which tools can be called"]);
    let listed = run(home, &["list", "mcpservers", "--all", "--verbose"], &[]).await;
    assert!(good(&listed).contains("COMMAND"), "{}", listed.stdout);
    let flow = "name: f\nsteps: [{id: a, tool: core_mcpserver_list}]\n";
    good(&run_with_stdin(home, &["workflow", "create", "-f", "-"], &[], flow).await);
    assert!(good(&run(home, &["workflow", "list"], &[]).await).contains('f'));
    assert!(good(&run(home, &["workflow", "run", "f", "-o", "json"], &[]).await).contains("completed"));
    assert!(good(&run(home, &["workflow", "runs"], &[]).await).contains("completed"));
    run(home, &["workflow", "get", "none"], &[]).await.fails(1, &["`none`"]);
    run(home, &["workflow", "get", "f", "--nonsense"], &[]).await.fails(64, &["--nonsense"]);
    // The gateway writes the log beside its work; anyone who follows it reads the line when it is there.
    serving.background(&["logs", "a", "--follow"]).reads("/no/such/tool").await;
    let one = run(home, &["logs", "a", "--tail", "1"], &[]).await;
    assert_eq!(good(&one).lines().count(), 1);
    assert!(good(&run(home, &["logs", "a"], &[]).await).contains("/no/such/tool"));
    run(home, &["logs", "b"], &[]).await.fails(1, &["`b` has no log", "toolcrib list servers"]);
}
