//! The key `auth` of a definition.

use std::path::Path;

use super::*;
use crate::define;
use crate::problem::DefinitionProblem;
use crate::server::ServerDefinition;

const REMOTE: &str = "name: files\ntransport: http\nurl: https://example.com/mcp\nauth: ";

fn read(text: &str) -> Result<ServerDefinition, Vec<DefinitionProblem>> {
    define::read(Path::new("servers/files.yaml"), "files", text)
}

#[track_caller]
fn good(auth: &str) -> ServerAuth {
    let server = read(&format!("{REMOTE}{auth}\n")).unwrap_or_else(|problems| panic!("{auth}: {problems:#?}"));
    server.auth.unwrap()
}

/// The problems, each with its hint after ` | `.
#[track_caller]
fn problems(text: &str) -> Vec<String> {
    let line = |problem: DefinitionProblem| {
        let text = problem.to_string().replacen("servers/files.yaml:", "", 1);
        problem.hint.map_or(text.clone(), |hint| format!("{text} | {hint}"))
    };
    read(text).expect_err(text).into_iter().map(line).collect()
}

#[track_caller]
fn bad(auth: &str, parts: &[&str]) {
    let told = problems(&format!("{REMOTE}{auth}\n"));
    assert_eq!(told.len(), 1, "{auth}: {told:?}");
    for part in parts {
        assert!(told[0].contains(part), "{auth}: {part}: {}", told[0]);
    }
    assert!(!told[0].contains("hush"), "{}", told[0]);
}

#[test]
fn a_login_is_what_its_keys_say() {
    let auth = good(
        "{type: oauth, client_id: ours, client_secret: 'vault:notion', redirect_uri: 'http://127.0.0.1:7411/oauth/callback', \
         scopes: [read, 'write:all'], issuer: 'https://login.example.com/', private: true, share: [work, home]}",
    );
    assert_eq!((auth.kind, auth.client_id.as_deref()), (AuthType::OAuth, Some("ours")));
    assert_eq!(auth.client_secret, Some(SecretRef::Vault("notion".into())));
    assert_eq!(auth.redirect_uri.unwrap().expose(), "http://127.0.0.1:7411/oauth/callback");
    assert_eq!(auth.scopes, ["read", "write:all"]);
    assert_eq!(auth.issuer.unwrap().expose(), "https://login.example.com/", "compared letter by letter");
    assert_eq!(auth.share.iter().map(ProfileName::as_str).collect::<Vec<_>>(), ["work", "home"]);
    assert!(auth.private && !auth.forward_token);
    let least = good("{}");
    assert_eq!((least.kind, least.private, least.issuer, least.client_id), (AuthType::OAuth, false, None, None));
    assert_eq!(["{dpop: true}", "{dpop: false}", "{}"].map(|auth| good(auth).dpop), [Some(true), Some(false), None]);
    assert_eq!(good("{type: oauth2}").kind, AuthType::OAuth, "what definitions of registry entries said once");
    assert!(good("{type: oauth}").wants_login() && !good("{type: none}").wants_login());
    assert_eq!(good("{scopes: ' openid  mcp:admin '}").scopes, ["openid", "mcp:admin"]);
}

#[test]
fn musters_keys_are_read() {
    let auth = good("{type: oauth, forwardToken: true, fallbackToOwnAuth: true, requiredAudiences: [a, b]}");
    assert!(auth.forward_token && auth.fallback_to_own_auth);
    assert_eq!(auth.required_audiences, ["a", "b"]);
    for spelling in ["connectorId", "connectorID"] {
        let exchange = good(&format!(
            "{{tokenExchange: {{enabled: true, dexTokenEndpoint: 'https://dex.example.com/token', {spelling}: central, \
             expectedIssuer: 'https://dex', scopes: openid mcp:admin, clientCredentialsSecretRef: {{name: creds, \
             namespace: ns, clientIdKey: i, clientSecretKey: s}}}}}}"
        ));
        let exchange = exchange.token_exchange.unwrap();
        assert_eq!((exchange.enabled, exchange.connector_id.as_deref()), (true, Some("central")));
        assert_eq!(exchange.scopes, ["openid", "mcp:admin"]);
        assert_eq!(exchange.client_credentials.unwrap().client_secret_key.as_deref(), Some("s"));
    }
    let auth = good("{authorizationServer: {issuer: 'https://login.example.com/x', scopes: a b}}");
    assert_eq!(auth.issuer.unwrap().expose(), "https://login.example.com/x");
    assert_eq!(auth.scopes, ["a", "b"]);
    let teleport = good("{type: teleport, teleport: {identityDir: /run/tbot, appName: kube}}").teleport.unwrap();
    assert_eq!(teleport.identity, TeleportIdentity::Folder("/run/tbot".into()));
    let teleport = good("{type: teleport, teleport: {identitySecretName: tbot, identitySecretNamespace: ns}}");
    let identity = TeleportIdentity::Secret { name: "tbot".into(), namespace: Some("ns".into()) };
    assert_eq!(teleport.teleport.unwrap().identity, identity);
}

#[test]
fn what_does_not_go_together_is_named() {
    let separate = "authorizationServer: {issuer: 'https://a.example'}";
    let exchange = "tokenExchange: {enabled: true, dexTokenEndpoint: 'https://dex.example/token'}";
    bad(&format!("{{forwardToken: true, {separate}}}"), &["mutually exclusive", "authorizationServer", "forwardToken"]);
    bad(&format!("{{{exchange}, {separate}}}"), &["mutually exclusive", "authorizationServer", "tokenExchange"]);
    bad(&format!("{{issuer: 'https://b.example', {separate}}}"), &["mutually exclusive", "`issuer`"]);
    bad(&format!("{{scopes: [a], {separate}}}"), &["mutually exclusive", "`scopes`"]);
    good(&format!("{{forwardToken: false, tokenExchange: {{enabled: false}}, {separate}}}"));
    good(&format!("{{forwardToken: true, {exchange}}}"));
    bad("{type: teleport}", &["4:7: `auth.teleport`", "identityDir"]);
    bad("{teleport: {appName: x}}", &["`auth.teleport`", "identityDir", "identitySecretName"]);
    bad("{teleport: {identityDir: /x, identitySecretName: y}}", &["mutually exclusive", "identitySecretName"]);
    bad("{tokenExchange: {enabled: true}}", &["dexTokenEndpoint", "https://"]);
    bad("{tokenExchange: {connectorId: a, connectorID: b}}", &["connectorI", "keep one of the two"]);
}

#[test]
fn wrong_values_are_named_and_not_repeated() {
    bad("{typ: oauth}", &["4:8: `auth.typ`: expected a known key", "did you mean `type`?"]);
    bad("{type: ldap}", &["4:14: `auth.type`: expected one of `oauth`, `none`, `teleport`, `client_credentials`"]);
    bad("{teleport: {identityDir: /x, appname: y}}", &["`auth.teleport.appname`", "did you mean `appName`?"]);
    bad("{authorizationServer: {}}", &["`auth.authorizationServer.issuer`: expected the address of the issuer"]);
    bad("hush", &["`auth`: expected a map of keys and values"]);
    for scopes in ["[hush, {a: b}]", "['']", "['a b']", "[\"a\\\"b\"]", "{a: b}", "[\"a\\\\b\"]", "\"a\\\"b\""] {
        bad(&format!("{{scopes: {scopes}}}"), &["`auth.scopes"]);
    }
    let many: Vec<String> = (0..=SCOPES_MAX).map(|number| format!("s{number}")).collect();
    bad(&format!("{{scopes: {}}}", many.join(" ")), &["at most 256 scopes"]);
    for id in ["''", "\"hush\\n\"", "[hush]", &format!("'{}'", "x".repeat(CLIENT_ID_MAX + 1)), "hushé"] {
        bad(&format!("{{client_id: {id}}}"), &["`auth.client_id`"]);
    }
    bad("{share: [work, work]}", &["`auth.share[1]`: expected each profile once"]);
    bad("{share: [../x]}", &["`auth.share[0]`: expected the name of a profile"]);
    bad("{private: perhaps}", &["`auth.private`: expected `true` or `false`"]);
    bad("{dpop: required}", &["`auth.dpop`: expected `true` or `false`"]);
    bad("{forwardToken: true, dpop: true}", &["`auth.dpop`: belongs to a login of the server's own"]);
}

#[test]
fn a_clients_secret_is_a_reference() {
    for secret in ["hush", "''", "ENV:X"] {
        let told = "expected a reference such as `vault:NAME`, got a secret in plain text";
        bad(&format!("{{client_id: a, client_secret: {secret}}}"), &["client_secret", told, "toolcrib secret set"]);
    }
    bad("{client_id: a, client_secret: 'user:x'}", &["`auth.client_secret`", "for all callers", "vault:NAME"]);
    bad("{client_secret: 'vault:x'}", &["`auth.client_secret`", "`client_id`"]);
    bad("{client_id: a, client_secret: 'vault:'}", &["`auth.client_secret`", "vault:github"]);
    for reference in ["env:KEY", "file:key", "keyring:key", "vault:key"] {
        let auth = good(&format!("{{client_id: a, client_secret: '{reference}'}}"));
        assert_eq!(auth.client_secret.unwrap().to_string(), reference);
    }
}

#[test]
fn addresses_of_a_login_are_secure_and_hold_no_secret() {
    for address in [
        "http://login.example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "https://u:hush@login.example.com",
        "https://login.example.com/${vault:hush}",
        "https://login.example.com/#part",
        "ftp://login.example.com",
        "javascript:alert(1)",
        "login.example.com",
        "",
    ] {
        for key in ["issuer", "redirect_uri"] {
            bad(&format!("{{{key}: '{address}'}}"), &[&format!("`auth.{key}`: expected an")]);
        }
        bad(
            &format!("{{authorizationServer: {{issuer: '{address}'}}}}"),
            &["authorizationServer.issuer`: expected an"],
        );
    }
    for address in ["http://127.0.0.1:9000", "http://[::1]:9000/x", "http://localhost/x", "HTTPS://login.example.com"] {
        assert_eq!(good(&format!("{{issuer: '{address}'}}")).issuer.unwrap().expose(), address);
        assert_eq!(good(&format!("{{redirect_uri: '{address}'}}")).redirect_uri.unwrap().expose(), address);
    }
    bad("{issuer: 'https://login.example.com?x=1'}", &["without a query"]);
    for issuer in ["https://a.example/", "http://127.0.0.1:9000", "https://a.example?x"] {
        bad(&format!("{{authorizationServer: {{issuer: '{issuer}'}}}}"), &["does not end in `/`"]);
    }
    bad("{tokenExchange: {dexTokenEndpoint: 'http://dex.example/token'}}", &["dexTokenEndpoint", "https://"]);
}

#[test]
fn a_program_is_not_logged_in_at() {
    let program = |auth: &str| format!("name: files\ncommand: x\nauth: {auth}\n");
    let told = problems(&program("{type: oauth}"));
    assert_eq!(
        told,
        [
            "3:7: `auth`: belongs to `transport: http` or `sse`, this is `stdio` | remove the key; a program gets its key in `env`"
        ]
    );
    assert!(read(&program("{type: none}")).is_ok());
}

#[test]
fn it_prints_no_secret() {
    let auth = good("{client_id: a, client_secret: 'vault:x', tokenExchange: {dexTokenEndpoint: 'https://dex/t'}}");
    let printed = format!("{auth:?}");
    assert!(printed.contains("vault:x"), "{printed}");
    bad("{tokenExchange: {dexTokenEndpoint: 'https://u:hush@dex/t'}}", &["dexTokenEndpoint", "without user"]);
}

#[test]
fn what_proves_itself_without_a_person_has_what_it_needs() {
    let auth = good(
        "{type: client_credentials, client_id: ours, private_key: 'vault:key', key_id: k1, scopes: [a], \
         token_endpoint: 'https://login.example.com/token'}",
    );
    assert!(auth.signs_on() && !auth.wants_login());
    assert_eq!((auth.private_key, auth.key_id.as_deref()), (Some(SecretRef::Vault("key".into())), Some("k1")));
    let auth = good("{type: workload, assertion: 'file:/var/run/token'}");
    assert!(auth.signs_on() && matches!(auth.assertion, Some(SecretRef::File(_))));
    let auth = good(
        "{type: enterprise, client_id: ours, client_secret: 'vault:s', identityProvider: {tokenEndpoint: \
         'https://idp.example.com/token', clientId: c, clientSecret: 'vault:t', idToken: 'file:/run/id'}}",
    );
    assert_eq!(auth.identity_provider.unwrap().client_id.as_deref(), Some("c"));
    assert!(good("{forwardToken: true, anyAudience: true}").signs_on());
    assert!(!good("{type: none, forwardToken: true}").signs_on() && !good("{}").signs_on());
    bad("{type: client_credentials, client_id: a}", &["`auth.client_secret`", "`client_secret` or `private_key`"]);
    bad("{type: client_credentials, private_key: 'vault:a'}", &["`auth.client_id`"]);
    bad("{type: client_credentials, client_id: a, private_key: hush}", &["private_key", "in plain text"]);
    bad("{type: workload}", &["`auth.assertion`", "which `type: workload` needs"]);
    bad("{type: workload, assertion: hush}", &["`auth.assertion`", "in plain text"]);
    bad("{type: enterprise}", &["`auth.identityProvider`"]);
    bad("{type: enterprise, identityProvider: {}}", &["`auth.identityProvider.tokenEndpoint`"]);
    bad("{assertion: 'file:/x'}", &["`auth.assertion`: belongs to `type: workload`"]);
    bad("{private_key: 'vault:x'}", &["`auth.private_key`: belongs to `type: client_credentials`"]);
    bad("{token_endpoint: 'https://a.example/t'}", &["`auth.token_endpoint`: belongs to"]);
    bad("{type: workload, assertion: 'file:/x', forwardToken: true}", &["mutually exclusive", "forwardToken"]);
    bad(
        "{type: client_credentials, client_id: a, client_secret: 'env:A', private_key: 'env:B'}",
        &["mutually exclusive", "private_key"],
    );
    let exchange = "enabled: true, dexTokenEndpoint: 'https://dex/t'";
    bad(
        &format!("{{tokenExchange: {{{exchange}, clientId: a, clientCredentialsSecretRef: {{name: b}}}}}}"),
        &["mutually exclusive", "clientCredentialsSecretRef"],
    );
}
