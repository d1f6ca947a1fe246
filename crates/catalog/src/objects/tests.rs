//! What is read out of texts and folders, and where what is wrong is said to be.

use std::fs;

use serde_json::json;

use super::*;

fn read(text: &str) -> Objects {
    objects_of_text(text, Path::new("f.yaml"), None, None)
}

/// `kind/name` of everything that is right.
fn names(objects: &Objects) -> Vec<String> {
    objects.objects.iter().map(|object| format!("{}/{}", object.kind, object.name)).collect()
}

const SERVER: &str = "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata: {name: a, labels: {t: x}}\nspec: {type: stdio, command: run}\n";
const FLOW: &str = "kind: Workflow\napiVersion: muster.giantswarm.io/v1alpha1\nmetadata: {name: w}\nspec:\n  steps: [{id: s, tool: x_a_b}]\n";
const CLASS: &str =
    "name: c\nserviceConfig:\n  lifecycleTools:\n    start: {tool: x_a_up}\n    stop: {tool: x_a_down}\n";

#[test]
fn one_document_many_a_list_and_json_are_read_alike() {
    let many = format!("{SERVER}---\n{FLOW}---\n# nothing\n---\n{CLASS}---\nname: s\nserviceClassName: c\n");
    let objects = read(&many);
    assert_eq!(objects.problems, []);
    assert_eq!(names(&objects), ["server/a", "workflow/w", "service-class/c", "service/s"]);
    let [server, flow, class, _] = &objects.objects[..] else { panic!() };
    assert_eq!(server.form, ObjectForm::Muster);
    assert_eq!(json!(server.value), json!({"type": "stdio", "command": "run", "labels": {"t": "x"}}));
    assert_eq!((flow.text.as_deref(), flow.place.document), (Some(FLOW), Some(2)));
    assert_eq!((class.text.as_deref(), class.form), (Some(CLASS), ObjectForm::Own));
    assert_eq!(class.place.to_string(), "f.yaml:14:1 (document 3)");
    let item = |text: &str| text.lines().map(|line| format!("  {line}\n")).collect::<String>().replacen("  ", "- ", 1);
    for head in ["apiVersion: v1\nkind: List\n", "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServerList\n"] {
        let list = format!("{head}metadata: {{}}\nitems:\n{}{}", item(SERVER), item(FLOW));
        let objects = read(&list);
        assert_eq!((names(&objects), objects.problems.len()), (vec!["server/a".into(), "workflow/w".into()], 0));
        assert!(objects.objects.iter().all(|object| object.text.is_none()));
    }
    let json = r#"{"kind": "List", "items": [{"kind": "MCPServer", "metadata": {"name": "j"}, "spec": {"type": "sse", "url": "https://x.example/sse"}}]}"#;
    assert_eq!(names(&objects_of_text(json, Path::new("f.json"), None, None)), ["server/j"]);
}

#[test]
fn what_is_none_of_ours_is_named_and_left_out() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\ndata: {a: b}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: []}\n---\napiVersion: muster.giantswarm.io/v1alpha1\nkind: WorkflowExecution\nmetadata: {name: run-1}\nspec: {}\n---\napiVersion: muster.giantswarm.io/v1alpha1\nkind: Gadget\nmetadata: {}\n";
    let objects = read(text);
    assert!(objects.objects.is_empty() && objects.problems.is_empty(), "{objects:?}");
    let told: Vec<String> =
        objects.skipped.iter().map(|it| format!("{} at {}: {}", it.what, it.place, it.why)).collect();
    assert_eq!(
        told,
        [
            "`Secret` `token` at f.yaml:1:1 (document 1): objects of `v1` are not Toolcrib's and not muster's",
            "`Service` `web` at f.yaml:6:1 (document 2): objects of `v1` are not Toolcrib's and not muster's",
            "`WorkflowExecution` `run-1` at f.yaml:11:1 (document 3): it is the record of a run; runs are not carried over",
            "`Gadget` at f.yaml:16:1 (document 4): Toolcrib has no such kind",
        ]
    );
}

#[test]
fn what_is_wrong_has_its_place_and_its_document() {
    let server = |spec: &str| {
        format!("apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata:\n  name: a\nspec:\n{spec}")
    };
    for (text, expected) in [
        (
            server("  type: stdio\n  comand: x\n"),
            "f.yaml:6:3: `spec.command`: expected the program to start, got nothing",
        ),
        (server("  type: stdio\n  command: x\n  args: a b\n"), "f.yaml:8:9: `spec.args`: expected a list, got `a b`"),
        (server("  type: stdoi\n  command: x\n"), "f.yaml:6:9: `spec.type`: expected `stdio`"),
        (server("  type: sse\n"), "`spec.url`: expected the server's address, got nothing"),
        (
            server("  type: stdio\n  command: x\n  timeout: 900\n"),
            "f.yaml:8:12: `spec.timeout`: expected a whole number from 1 to 300",
        ),
        (
            format!("{SERVER}---\n{}", FLOW.replace("steps", "stepz")),
            "f.yaml:10:3 (document 2): `spec.stepz`: expected a known key",
        ),
        (format!("{SERVER}---\na: [\n"), "f.yaml:7:1 (document 2): `a[0]`: not valid YAML"),
        (
            format!("{SERVER}---\n{SERVER}"),
            "f.yaml:6:1 (document 2): the server `a` stands at f.yaml:1:1 (document 1) already",
        ),
        ("- 1\n".to_owned(), "f.yaml:1:1: expected a map of keys and values, got a list"),
        ("kind: List\nitems: 1\n".to_owned(), "`items`: expected a list of objects"),
        ("kind: MCPServer\nmetadata: {}\nspec: {}\n".to_owned(), "it has no name"),
        (
            "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\n".to_owned(),
            "`spec`: it has no `spec`",
        ),
    ] {
        let objects = read(&text);
        let told: Vec<String> = objects.problems.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|told| told.contains(expected)), "no `{expected}` in {told:#?} of\n{text}");
        assert!(objects.problems.iter().all(|wrong| wrong.problem.at.is_some()), "{told:#?}");
    }
    // A program with its arguments in one list, and keys that no one knows, are no reason to refuse a server.
    let lenient = read(&server("  type: stdio\n  command: [npx, '-y', thing]\n  healthCheck: {enabled: true}\n"));
    assert_eq!((lenient.problems.len(), lenient.objects.len()), (0, 1), "{lenient:?}");
    assert_eq!(
        lenient.warnings.iter().map(ObjectProblem::as_warning).collect::<Vec<_>>(),
        ["warning: f.yaml:8:3: `spec.healthCheck`: is not known and means nothing here"]
    );
    // What may be a secret is not repeated.
    let told = read(&server("  type: stdio\n  command: x\n  env: {KEY: [s3cret]}\n")).problems[0].to_string();
    assert!(told.contains("`spec.env.KEY`") && !told.contains("s3cret"), "{told}");
}

#[test]
fn keys_that_are_not_known_are_named_with_their_places() {
    let text = "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer\nextra: 1\nmetadata:\n  name: a\n  \
                namespase: x\n  uid: u\nspec:\n  type: stdio\n  command: run\n  autostart: true\n";
    let objects = read(
        &format!("{SERVER}---\n{text}---\nname: plain\ntype: stdio\ncommand: run\ntoolprefix: p\n")
            .replace("name: a, ", "name: b, "),
    );
    assert_eq!((objects.problems.len(), objects.objects.len()), (0, 3), "{objects:?}");
    let told: Vec<String> = objects.warnings.iter().map(ObjectProblem::as_warning).collect();
    assert_eq!(
        told,
        [
            "warning: f.yaml:16:3 (document 2): `spec.autostart`: is not known and means nothing here; did you mean `autoStart`?",
            "warning: f.yaml:8:1 (document 2): `extra`: is not known and means nothing here",
            "warning: f.yaml:11:3 (document 2): `metadata.namespase`: is not known and means nothing here; did you mean `namespace`?",
            "warning: f.yaml:21:1 (document 3): `toolprefix`: is not known and means nothing here; did you mean `toolPrefix`?",
        ]
    );
}

#[test]
fn bombs_end() {
    assert_eq!(
        read(&"a: 1\n---\n".repeat(2_000)).problems[0].to_string(),
        "f.yaml: expected at most 1000 documents, got 2000"
    );
    let deep = format!("{}kind: List\n", "kind: List\nitems:\n- ".replace('\n', "\n  "));
    assert!(!read(&deep).problems.is_empty());
    let nested =
        (0..10).fold(json!({"kind": "List", "items": []}), |inner, _| json!({"kind": "List", "items": [inner]}));
    assert!(read(&nested.to_string()).problems[0].to_string().contains("lists within lists"));
}

#[test]
fn a_folder_is_read_whole_but_for_what_holds_no_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("mcpservers/flat.yaml", "name: flat\ntype: stdio\ncommand: run\n");
    put("mcpservers/a.yml", SERVER);
    put("workflows/plain.yaml", "name: plain\nsteps: [{id: s, tool: x_a_b}]\n");
    put("serviceclasses/c.yaml", CLASS);
    put("services/s.yaml", "name: s\nserviceClassName: c\n");
    put("loose.json", r#"{"name": "l", "transport": "http", "url": "https://x.example/mcp"}"#);
    put("config.yaml", "aggregator: {port: 8090}\n");
    put("tokens/a.json", r#"{"access_token": "s3cret"}"#);
    put("events/e.json", "{}");
    put(".hidden/x.yaml", SERVER);
    put("notes.txt", "nothing");
    std::os::unix::fs::symlink(folder.path().join("mcpservers"), folder.path().join("again")).unwrap();
    let objects = objects_at(folder.path(), None);
    assert_eq!(objects.problems, []);
    assert_eq!(
        names(&objects),
        ["server/l", "server/a", "server/flat", "service-class/c", "service/s", "workflow/plain"]
    );
    let skipped: Vec<&str> = objects.skipped.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(skipped, ["file `config.yaml`", "folder `events`", "folder `tokens`"]);
    let one = objects_at(&folder.path().join("mcpservers/flat.yaml"), None);
    assert_eq!((names(&one), one.objects[0].form), (vec!["server/flat".to_owned()], ObjectForm::Muster));
    assert!(objects_at(&folder.path().join("gone.yaml"), None).problems[0].to_string().contains("cannot be read"));
    assert!(objects_at(&folder.path().join("events"), None).problems.len() == 1, "it is read where it is named");
}

#[test]
fn kinds_have_many_words() {
    for (word, kind) in [
        ("MCPServer", Some(DefinitionKind::Server)),
        ("service-class", Some(DefinitionKind::ServiceClass)),
        ("WORKFLOWS", Some(DefinitionKind::Workflow)),
        ("svc", Some(DefinitionKind::Service)),
        ("Pod", None),
    ] {
        assert_eq!(kind_named(word), kind, "{word}");
    }
}
