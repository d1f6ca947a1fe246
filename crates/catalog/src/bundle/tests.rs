//! What a bundle holds, what it never holds, and what is refused of someone else's.

use super::*;
use crate::write::{Change, Files, WriteError};

/// A home with these files, as it is loaded.
struct Ground {
    home: tempfile::TempDir,
}

impl Ground {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { home }
    }

    /// The bundle of the profile `team` with all servers.
    fn bundle(&self) -> Result<Bundle, BundleError> {
        let loaded = crate::load(self.home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let files = Files::new(self.home.path());
        let read = |which: DefinitionId| files.read(&which).unwrap();
        let servers: Vec<_> = loaded
            .servers
            .keys()
            .map(|name| (name.clone(), read(DefinitionId::Server(name.clone())).unwrap()))
            .collect();
        let name = ProfileName::new("team").unwrap();
        let profile = read(DefinitionId::Profile(name.clone()));
        Bundle::of(&name, profile.as_ref(), &servers, &loaded)
    }

    fn text(&self) -> String {
        self.bundle().unwrap().to_yaml().unwrap()
    }
}

fn read(text: &str) -> Result<Bundle, Vec<DefinitionProblem>> {
    Bundle::read(Path::new("bundle"), text)
}

/// What is said of a wrong bundle, hints included.
fn report(text: &str) -> String {
    let problems = read(text).expect_err(text);
    let line = |problem: &DefinitionProblem| format!("{problem} | {}\n", problem.hint.clone().unwrap_or_default());
    problems.iter().map(line).collect()
}

const TEAM: &str = "name: team\ntools: {deny: [\"github/x\"]}\nservers: [github, docs]\nregistry: [own]\nenv: {REGION: eu, TEAM_TOKEN: \"vault:team\"}\nkeys: []\n";
const GITHUB: &str = "name: github\ncommand: npx\nargs: [\"-y\", server-github]\nenv: {GITHUB_PERSONAL_ACCESS_TOKEN: \"env:GH\", MODE: fast, DEBUG_KEY: \"on\", PLAIN_TOKEN: hunter2hunter2}\ntools: [{name: a, inputSchema: {type: object}}]\nverified_at: \"2026-01-01\"\n";
const DOCS: &str = "name: docs\ntransport: http\nurl: https://docs.example.com/mcp\nheaders: {Authorization: \"Bearer abcdefgh\", X-Kind: team}\n";
const OWN: &str = "name: own\ntitle: Own\ndescription: d\ncategory: c\nicon: i\nabout: a\nhomepage: https://example.com\nruntime: {command: own-server}\n";

fn files() -> Vec<(&'static str, &'static str)> {
    vec![
        ("profiles/team.yaml", TEAM),
        ("servers/github.yaml", GITHUB),
        ("servers/docs.yaml", DOCS),
        ("registry/own.yaml", OWN),
    ]
}

#[test]
fn a_bundle_holds_what_a_profile_is_and_no_secret() {
    let ground = Ground::new(&files());
    let text = ground.text();
    for absent in ["hunter2", "abcdefgh", "keys", "inputSchema", "verified_at"] {
        assert!(!text.contains(absent), "{absent} in\n{text}");
    }
    for present in
        ["MODE: fast", "DEBUG_KEY: \"on\"", "REGION: eu", "X-Kind: team", "name: own", "bundle: 1", "github/x"]
    {
        assert!(text.contains(present), "{present} not in\n{text}");
    }
    let again = read(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    assert_eq!(again.to_yaml().unwrap(), text, "it reads back as what it was");
    let needs: Vec<(String, String)> = again.needs.iter().map(|need| (need.id(), need.reference.to_string())).collect();
    let expected = [
        ("TEAM_TOKEN", "vault:team"),
        ("docs/Authorization", "vault:team/docs/Authorization"),
        ("github/GITHUB_PERSONAL_ACCESS_TOKEN", "env:GH"),
        ("github/PLAIN_TOKEN", "vault:team/github/PLAIN_TOKEN"),
    ];
    assert_eq!(needs, expected.map(|(id, reference)| (id.to_owned(), reference.to_owned())));
    assert!(again.needs[2].help_url.is_some(), "the built-in entry `github` knows where to get it");
}

#[test]
fn a_secret_in_any_other_place_is_refused_by_its_name_and_not_repeated() {
    for (server, place) in [
        ("command: x\nargs: [\"--api-key\", 0123456789]", "args[1]"),
        ("command: x\nargs: [\"--token=abcdefgh\"]", "args[0]"),
        ("command: x\nargs: [\"ghp_0123456789abcdef\"]", "args[0]"),
        ("command: x\ndescription: with ghp_0123456789abcdef inside", "description"),
        ("command: x\nlabels: {a: ghp_0123456789abcdef}", "labels.a"),
        ("transport: http\nurl: https://x.example.com/mcp?key=12345678", "url"),
        ("transport: http\nurl: https://u:p4ssword@x.example.com/mcp", "url"),
    ] {
        let text = format!("name: github\n{server}\n");
        let ground = Ground::new(&[("profiles/team.yaml", TEAM), ("servers/github.yaml", &text)]);
        let report = ground.bundle().unwrap_err().to_string();
        assert!(report.starts_with(&format!("`{place}` of server `github`")), "{report}");
    }
    let fine = "name: github\ncommand: x\nargs: [\"--token-file\", /run/t, \"--keys\", \"--max-tokens\", \"800\", \"${API_KEY}\"]\n";
    let ground = Ground::new(&[("profiles/team.yaml", TEAM), ("servers/github.yaml", fine)]);
    assert_eq!(ground.bundle().unwrap().needs.len(), 1, "only the profile's own");
}

#[test]
fn what_someone_else_wrote_is_read_strictly() {
    let bundle = |rest: &str| format!("bundle: 1\nprofile: {{name: team, servers: [a]}}\n{rest}");
    for (text, place, expected) in [
        (bundle("servers: [{name: ../a, command: x}]"), ":3:", "expected a name"),
        (bundle("servers: [{name: a, command: x}, {name: a, command: y}]"), ":3:", "each name once"),
        (bundle("servers: [{name: b, command: x}]"), ":3:", "a server that the profile shows"),
        (bundle("servers: [{name: a, comand: x}]"), ":3:", "did you mean `command`?"),
        (bundle("servers: [{name: a, command: x, tools: []}]"), ":3:", "in no bundle"),
        (bundle("registry: [{name: b}]"), ":3:", "an entry that the profile finds"),
        (
            bundle("registry: [{name: a, runtime: {command: x, env: {K: \"vault:k\"}}}]"),
            ":3:",
            "plain text, got a reference",
        ),
        (bundle("needs: [{server: a, variable: K}]"), ":3:", "a need of a definition above, got `a/K`"),
        (bundle("server: []"), ":3:", "did you mean `servers`?"),
        ("bundle: 2\nprofile: {name: team}".to_owned(), ":1:", "a whole number from 1 to 1"),
        ("profile: {name: team}".to_owned(), ":1:", "add a line `bundle: 1`"),
        ("bundle: 1\nprofile: {name: ../../x}".to_owned(), ":2:", "expected a name"),
        ("bundle: 1\nprofile: {name: team, keys: []}".to_owned(), ":2:", "in no bundle"),
        ("bundle: 1\nprofile: {name: team}\n---\nbundle: 1".to_owned(), "", "expected one document"),
        ("[".repeat(100), "", "levels"),
        (" ".repeat(BUNDLE_BYTES + 1), "", "at most 1048576 bytes"),
        (String::new(), "", "the file is empty"),
    ] {
        let shown: String = text.chars().take(200).collect();
        let report = report(&text);
        assert!(report.contains(expected) && report.contains(&format!("bundle{place}")), "{shown}\n{report}");
    }
}

#[test]
fn references_are_put_in_place_and_nothing_else() {
    let text = "bundle: 1\nprofile: {name: team, env: {T: \"vault:t\"}}\nservers: [{name: a, command: x, env: {K: \"env:K\", M: fast}}]\n";
    let mut bundle = read(text).unwrap();
    let refer =
        |bundle: &mut Bundle, id: &str, to: &str| bundle.refer(&BTreeMap::from([(id.to_owned(), to.parse().unwrap())]));
    refer(&mut bundle, "a/K", "vault:mine").unwrap();
    refer(&mut bundle, "T", "file:t").unwrap();
    for (id, to) in [("a/M", "env:M"), ("b/K", "env:K"), ("a/K", "hunter2")] {
        let problem = refer(&mut bundle, id, to).unwrap_err();
        assert!(!problem.message.contains("hunter2") && problem.hint.is_some(), "{problem}");
    }
    let definitions = bundle.definitions();
    assert_eq!(definitions[0].1["env"], json!({ "K": "vault:mine", "M": "fast" }));
    assert_eq!(
        definitions[1],
        (DefinitionId::Profile(ProfileName::new("team").unwrap()), json!({ "name": "team", "env": { "T": "file:t" } }))
    );
}

const MAPS: &str = "name: maps\ntransport: http\nurl: \"https://maps.example.com/${env:TENANT}/mcp?key=${vault:maps}&again=${vault:maps}\"\nheaders: {X-Key: \"env:X\"}\n";

#[test]
fn references_in_an_address_are_needs_too() {
    let team = "name: team\nservers: [maps]\n";
    let text = Ground::new(&[("profiles/team.yaml", team), ("servers/maps.yaml", MAPS)]).text();
    let mut bundle = read(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    assert_eq!(bundle.to_yaml().unwrap(), text, "it reads back as what it was");
    let needs = |bundle: &Bundle| bundle.needs.iter().map(|it| (it.id(), it.reference.to_string())).collect::<Vec<_>>();
    let expected = [("maps/X-Key", "env:X"), ("maps/url", "env:TENANT"), ("maps/url-2", "vault:maps")];
    assert_eq!(needs(&bundle), expected.map(|(id, reference)| (id.to_owned(), reference.to_owned())));
    assert_eq!(bundle.needs[1].to_value()["kind"], "url");
    let given = [("maps/url", "vault:maps"), ("maps/url-2", "env:KEY")];
    let given = given.map(|(id, to)| (id.to_owned(), to.parse().unwrap()));
    bundle.refer(&BTreeMap::from(given)).unwrap();
    let url = "https://maps.example.com/${vault:maps}/mcp?key=${env:KEY}&again=${env:KEY}";
    assert_eq!(bundle.definitions()[0].1["url"], url);
    let braces = BTreeMap::from([("maps/url".to_owned(), "file:a}b".parse().unwrap())]);
    assert!(bundle.refer(&braces).unwrap_err().message.contains("the address of server `maps`"));
}

#[test]
fn several_definitions_are_written_or_none() {
    let ground = Ground::new(&[("servers/a.yaml", "name: a\ncommand: old\n")]);
    let files = Files::new(ground.home.path());
    let which = |name: &str| DefinitionId::Server(ServerName::new(name).unwrap());
    let change =
        |name: &str, revision| Change { which: which(name), text: format!("name: {name}\ncommand: new\n"), revision };
    let exists = |path: &str| ground.home.path().join(path).exists();
    assert!(matches!(files.put_all(&[change("b", None), change("a", None)]), Err(WriteError::Exists(_))));
    let stale = Some("0".to_owned());
    assert!(matches!(files.put_all(&[change("b", None), change("a", stale)]), Err(WriteError::Changed(_))));
    assert!(!exists("servers/b.yaml"));
    // The second cannot be written, because something else is where its folder would be.
    std::fs::write(ground.home.path().join("registry"), "").unwrap();
    let revision = files.read(&which("a")).unwrap().map(|written| written.revision);
    let entry = Change {
        which: DefinitionId::Entry(ServerName::new("e").unwrap()),
        text: "name: e\n".to_owned(),
        revision: None,
    };
    let failed = files.put_all(&[change("b", None), change("a", revision.clone()), entry]);
    assert!(failed.is_err(), "{failed:?}");
    assert!(!exists("servers/b.yaml"));
    assert_eq!(std::fs::read_to_string(ground.home.path().join("servers/a.yaml")).unwrap(), "name: a\ncommand: old\n");
    assert_eq!(files.put_all(&[change("b", None), change("a", revision)]).unwrap().len(), 2);
    assert!(exists("servers/b.yaml"));
}
