//! What profile files mean, and what is said of wrong ones.

use std::path::Path;

use super::*;
use crate::DefinitionProblem;

fn read(text: &str) -> Result<ProfileDefinition, Vec<DefinitionProblem>> {
    define::read(Path::new("profiles/default.yaml"), "default", text)
}

fn good(text: &str) -> ProfileDefinition {
    read(text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn bad(text: &str, expected: &str) {
    let line = |problem: DefinitionProblem| {
        let text = problem.to_string().replacen("profiles/default.yaml:", "", 1);
        problem.hint.map_or(text.clone(), |hint| format!("{text} | {hint}"))
    };
    let problems: Vec<String> = read(text).expect_err(text).into_iter().map(line).collect();
    assert_eq!(problems, [expected], "{text}");
}

fn words(globs: &[Glob]) -> Vec<&str> {
    globs.iter().map(Glob::as_str).collect()
}

#[test]
fn the_printed_profile_is_the_built_in_one() {
    let printed = good(
        r#"
# profiles/default.yaml
name: default
servers: ["*"]
tools: {allow: ["*"], deny: []}     # globs on server/tool
exposure: meta            # meta | direct | pinned | dynamic
pinned: []                # with exposure pinned: globs of tools to list
dialect: native           # native | muster | go-ent | scooter
prefix: server            # server | none
"#,
    );
    assert_eq!(printed, ProfileDefinition::built_in());
    assert_eq!(good("name: default\n"), ProfileDefinition::built_in());
    assert_eq!(good("name: default\ntools: {}\n"), ProfileDefinition::built_in());
}

#[test]
fn empty_lists_mean_nothing() {
    let profile = good("name: default\nservers: []\ntools: {allow: []}\n");
    assert!(profile.servers.is_empty() && profile.tools.allow.is_empty());
    let profile = good("name: default\ntools: {deny: ['*/write*']}\n");
    assert_eq!((words(&profile.tools.allow), words(&profile.tools.deny)), (vec!["*"], vec!["*/write*"]));
    let profile = good("name: default\ntools: {confirm: ['mail/*'], approve: ['prod/delete*']}\n");
    assert_eq!((words(&profile.tools.confirm), words(&profile.tools.approve)), (vec!["mail/*"], vec!["prod/delete*"]));
}

#[test]
fn further_keys_are_read_or_kept() {
    let profile = good(
        "name: default\ntitle: T\nregistry: ['*']\ngroups: [load, admin, load]\nread_only: true\nactive_set: durable\n\
         max_tokens: 1200\nenv: {A: 'env:B'}\nranking: tfidf\nchanged_tools: hold\nlearn: true\nexamples: shared\nlimits: {}\n\
         exposure: pinned\npinned: ['files/*']\nprefix: none\n",
    );
    assert_eq!(profile.groups, [Group::Load, Group::Admin]);
    assert!(profile.read_only && profile.learn && !profile.require_load);
    assert!(!ProfileDefinition::built_in().learn);
    assert_eq!((profile.examples, ProfileDefinition::built_in().examples), (Examples::Shared, Examples::Given));
    assert_eq!((profile.active_set, profile.max_tokens), (ActiveSet::Durable, 1200));
    assert_eq!(
        (profile.exposure, words(&profile.pinned), profile.prefix),
        (Exposure::Pinned, vec!["files/*"], Prefix::None)
    );
    assert_eq!(profile.changed_tools, ChangedTools::Hold);
}

#[test]
fn the_scooter_dialect_wants_tools_loaded() {
    for (lines, expected) in [
        ("dialect: scooter", true),
        ("dialect: scooter\nrequire_load: false", false),
        ("dialect: go-ent", false),
        ("dialect: muster\nrequire_load: true", true),
    ] {
        assert_eq!(good(&format!("name: default\n{lines}\n")).require_load, expected, "{lines}");
    }
}

#[test]
fn quotas_and_what_becomes_of_loaded_tools() {
    let default = good("name: default\n");
    assert_eq!(default.quota, Quota { tools: 200, servers: None, policy: OverQuota::Block });
    assert_eq!((default.unload_after, default.reset_on_session, &default.keys), (None, false, &None));
    let profile = good(
        "name: default\nquota: {tools: 40, servers: 5, policy: evict}\nunload_after: 10m\nreset_on_session: true\n",
    );
    assert_eq!(profile.quota, Quota { tools: 40, servers: Some(5), policy: OverQuota::Evict });
    assert_eq!(profile.unload_after.unwrap().to_string(), "10m");
    assert!(profile.reset_on_session);
    assert_eq!(good("name: default\nquota: {}\n").quota, Quota::default());
}

#[test]
fn a_key_opens_what_holds_its_hash() {
    let (secret, made) = GatewayKey::generate(KeyName::new("ci").unwrap(), Some("2026-01-31".into()));
    assert!(secret.expose().starts_with("tcb_") && secret.expose().len() == 68);
    let (other, _) = GatewayKey::generate(KeyName::new("ci").unwrap(), None);
    assert_ne!(secret, other);
    let text = format!(
        "name: default\nkeys:\n  - {{name: old, hash: '{}'}}\n  - {{name: ci, hash: '{}', created: 2026-01-31}}\n",
        KeyHash::of("x"),
        made.hash
    );
    let keys = good(&text).keys.unwrap();
    assert_eq!(keys[1], made);
    assert_eq!(key::matching(&keys, secret.expose()), Some(&made));
    for wrong in ["", other.expose(), &secret.expose()[4..], &format!("{} ", secret.expose()), &made.hash.to_string()] {
        assert_eq!(key::matching(&keys, wrong), None, "{wrong}");
    }
    assert_eq!(good("name: default\nkeys: []\n").keys, Some(Vec::new()), "locked, and no key opens it");
    assert!(!format!("{made:?}").contains(&made.hash.to_string()[7..]));
}

#[test]
fn a_key_in_the_place_of_its_hash_is_not_repeated() {
    let (secret, made) = GatewayKey::generate(KeyName::new("ci").unwrap(), None);
    for hash in [secret.expose(), "sha256:12", &made.hash.to_string().to_uppercase(), "7"] {
        let problems = read(&format!("name: default\nkeys: [{{name: ci, hash: '{hash}'}}]\n")).unwrap_err();
        let text = format!("{problems:?}");
        assert!(text.contains("keys[0].hash") && !text.contains(secret.expose()), "{text}");
    }
    for (keys, expected) in [
        ("7", "2:7: `keys`: expected a list, got a text"),
        ("[a]", "2:8: `keys[0]`: expected a map of keys and values, got a text"),
    ] {
        bad(&format!("name: default\nkeys: {keys}\n"), expected);
    }
    let twice = format!("{{name: a, hash: '{0}'}}, {{name: b, hash: '{0}'}}", made.hash);
    assert!(read(&format!("name: default\nkeys: [{twice}]\n")).is_err());
}

#[test]
fn wrong_values_are_reported_with_place_and_hint() {
    for (lines, expected) in [
        ("read_only: yes", "2:12: `read_only`: expected `true` or `false`, got `yes`"),
        ("read_only:", "2:1: `read_only`: expected `true` or `false`, got nothing | remove the key for its default"),
        ("readonly: true", "2:1: `readonly`: expected a known key, got this one | did you mean `read_only`?"),
        ("tools: {alow: []}", "2:9: `tools.alow`: expected a known key, got this one | did you mean `allow`?"),
        (
            "tools: {allow:}",
            "2:9: `tools.allow`: expected a list, got nothing | write `[]` for nothing, or remove the key for its default",
        ),
        ("tools: ['*']", "2:8: `tools`: expected a map of keys and values, got a list"),
        ("max_tokens: many", "2:13: `max_tokens`: expected a whole number from 50 to 1000000, got `many`"),
        ("limits: {per_minute: 0}", "2:22: `limits.per_minute`: expected a whole number from 1 to 1000000, got `0`"),
        (
            "limits: {calls: 1}",
            "2:10: `limits.calls`: expected a known key, got this one | known keys are concurrent, per_minute, argument_bytes, result_bytes",
        ),
        ("quota: 7", "2:8: `quota`: expected a map of keys and values, got `7`"),
        ("quota: {tools: 0}", "2:16: `quota.tools`: expected a whole number from 1 to 500, got `0`"),
        ("quota: {policy: drop}", "2:17: `quota.policy`: expected one of `evict`, `block`, got `drop`"),
        (
            "unload_after: 10",
            "2:15: `unload_after`: expected a duration above 0 such as `30s`, `500ms`, `2m` or `1h`, at most a week, \
             got `10`",
        ),
        ("max_tokens: 0", "2:13: `max_tokens`: expected a whole number from 50 to 1000000, got `0`"),
        (
            "groups: [loading]",
            "2:10: `groups[0]`: expected one of `load`, `resources`, `prompts`, `admin`, got `loading`",
        ),
        (
            "dialect: goent",
            "2:10: `dialect`: expected one of `native`, `muster`, `go-ent`, `scooter`, got `goent` | did you mean `go-ent`?",
        ),
        ("servers: files", "2:10: `servers`: expected a list, got `files`"),
    ] {
        bad(&format!("name: default\n{lines}\n"), expected);
    }
}

/// A rule that silently never matches is worst where it should deny.
#[test]
fn patterns_that_cannot_match_are_reported() {
    for (pattern, hint) in [
        ("write_file", "write `*/write_file` for this tool of any server, or `write_file/*` for a whole server"),
        ("write_*", "write `*/write_*`, or the name of the server in front"),
        ("Files/read", "write `*/Files/read`, or the name of the server in front"),
    ] {
        let expected =
            format!("2:16: `tools.deny[0]`: expected a pattern that can match `server/tool`, got `{pattern}` | {hint}");
        bad(&format!("name: default\ntools: {{deny: [{pattern}]}}\n"), &expected);
    }
    bad(
        "name: default\nservers: [files/read]\n",
        "2:11: `servers[0]`: expected a pattern that can match the name of a server, got `files/read` | names of servers are made of a-z, 0-9 and `-`; patterns for tools go into `tools`",
    );
    bad(
        "name: default\ntools: {deny: ['files/{a,b}']}\n",
        "2:16: `tools.deny[0]`: expected a pattern, got `files/{a,b}`: `{` is not supported in a pattern: `*` matches \
         any characters, `?` matches one | write one pattern for each alternative",
    );
    let rules = good("name: default\ntools: {deny: ['*', 'files/x', 'f?les/*', 'git*', '*_write']}\n").tools;
    assert_eq!(words(&rules.deny), ["*", "files/x", "f?les/*", "git*", "*_write"]);
}

#[test]
fn keys_of_one_name_are_of_one_user() {
    let hash = |text: &str| format!("{:?}", KeyHash::of(text).to_string());
    let keys = |first: &str, second: &str| {
        format!(
            "name: default\nkeys:\n  - {{name: ci, hash: {}{first}}}\n  - {{name: ci, hash: {}{second}}}\n",
            hash("1"),
            hash("2")
        )
    };
    let ann = ", user: 'user:acme/ann'";
    let problem = |text: &str| {
        let problems = read(text).expect_err(text);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ")
    };
    let user = good(&keys(ann, ann)).keys.unwrap()[1].user.clone();
    assert_eq!(user.as_ref().map(toolcrib_base::PrincipalId::as_str), Some("user:acme/ann"));
    assert!(problem(&keys(ann, "")).contains("expected the same `user` as the other key of this name"));
    for wrong in ["ann", "user:ann", "user:/ann", "user:acme/", "user:acme/a b", "key:work/ci"] {
        let message = problem(&keys(&format!(", user: '{wrong}'"), ""));
        assert!(message.contains("expected a user such as `user:acme/ann`"), "{wrong}: {message}");
    }
}
