//! Names in policies that nothing has.

use super::*;

#[test]
fn names_that_nothing_has_come_with_the_nearest() {
    let policies = compile(
        r#"@id("typo") forbid (principal in Group::"acme/dev", action, resource in Server::"prd");
           forbid (principal == User::"acmee/ann", action, resource == Tool::"prod/delete");"#,
    )
    .expect("good");
    let set = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
    let vocabulary = Vocabulary {
        labels: set(&["env=prod"]),
        servers: set(&["prod", "files"]),
        tools: set(&["prod/delete"]),
        groups: set(&["acme/dev"]),
        issuers: set(&["acme"]),
        ..Vocabulary::default()
    };
    let said: Vec<String> =
        check(&policies, &vocabulary).iter().map(|it| format!("{it} {}", it.hint.as_deref().unwrap_or(""))).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], "team.cedar:1: policy `typo`: server `prd` does not exist Did you mean `prod`?");
    assert!(said[1].contains("issuer `acmee`") && said[1].contains("Did you mean `acme`?"), "{said:?}");
}

#[test]
fn approvers_servers_and_acts_that_never_count_are_warned_of() {
    let set = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
    let known = Vocabulary { groups: set(&["acme/ops"]), servers: set(&["prod"]), ..Vocabulary::default() };
    for (text, expect) in [
        (r#"@approve("opps") forbid (principal, action == Action::"call", resource);"#, "Did you mean `ops`?"),
        // Which other groups there are only issuers know.
        (r#"@approve("finance") forbid (principal, action == Action::"call", resource);"#, ""),
        (r#"@approve("ops") forbid (principal, action == Action::"call", resource);"#, ""),
        (r#"@approve("acme/ops") forbid (principal, action == Action::"run", resource);"#, ""),
        (r#"@approve("") forbid (principal, action, resource);"#, ""),
        (r#"forbid (principal, action, resource == Prompt::"prd/review");"#, "server `prd`"),
        (r#"forbid (principal, action, resource == Resource::"prd file:///a");"#, "server `prd`"),
        (r#"forbid (principal, action, resource == Resource::"prod file:///a");"#, ""),
        (
            r#"@confirm("") forbid (principal, action == Action::"read", resource);"#,
            "`@confirm` asks no one about `read`",
        ),
        (r#"@approve("") forbid (principal, action in [Action::"call", Action::"get"], resource);"#, "about `get`"),
        (r#"@approve("") forbid (principal, action == Action::"status", resource);"#, "about `status`"),
    ] {
        let faults = check(&compile(text).expect("good"), &known);
        let said: Vec<String> = faults.iter().map(|it| format!("{it} {}", it.hint.as_deref().unwrap_or(""))).collect();
        assert_eq!(said.is_empty(), expect.is_empty(), "{text}: {said:?}");
        assert!(said.iter().all(|it| it.contains(expect)), "{text}: {said:?}");
    }
}

#[test]
fn groups_are_open_and_issuers_entries_and_operations_are_not() {
    let set = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
    let known = Vocabulary {
        groups: set(&["acme/developers"]),
        issuers: set(&["acme"]),
        entries: set(&["filesystem"]),
        operations: set(&["server_list"]),
        ..Vocabulary::default()
    };
    for (text, expect) in [
        (r#"forbid (principal in Group::"acme/developer", action, resource);"#, "Did you mean `acme/developers`?"),
        (r#"forbid (principal in Group::"acme/developers", action, resource);"#, ""),
        (r#"forbid (principal in Group::"acme/finance", action, resource);"#, ""),
        (r#"forbid (principal in Group::"other/finance", action, resource);"#, "names the issuer `other`"),
        (r#"forbid (principal == User::"other/ann", action, resource);"#, "`[identity]` of the settings"),
        (r#"forbid (principal, action == Action::"configure", resource == Entry::"filesistem");"#, "`filesystem`"),
        (r#"forbid (principal, action == Action::"configure", resource == Entry::"filesystem");"#, ""),
        (r#"forbid (principal, action, resource == Operation::"server_lst");"#, "Did you mean `server_list`?"),
        (r#"forbid (principal, action, resource == Operation::"server_list");"#, ""),
    ] {
        let faults = check(&compile(text).expect("good"), &known);
        let said: Vec<String> = faults.iter().map(|it| format!("{it} {}", it.hint.as_deref().unwrap_or(""))).collect();
        assert_eq!(said.is_empty(), expect.is_empty(), "{text}: {said:?}");
        assert!(said.iter().all(|it| it.contains(expect)), "{text}: {said:?}");
        assert_eq!(check(&compile(text).expect("good"), &Vocabulary::default()), [], "nothing is known");
    }
}
