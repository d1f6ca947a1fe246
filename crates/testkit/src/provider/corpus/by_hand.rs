//! Remotes whose provider lets nobody register: a person registers a client and writes it into the definition. Each
//! stands here twice, without that and with it.

use serde_json::json;

use super::{CLIENT, ClientSettings, CorpusEntry, LoginEnd, REGISTER_BY_HAND, REGISTER_LOCALHOST, SECRET};
use crate::provider::rules::{
    AnswerForm, ClientEntry, ErrorForm, LockedPart, MetadataPlace, Page, PkceRule, ProviderRules, RedirectRule,
    RefreshCondition, RefreshRule, Registration, RemoteRules, ResourcePlace, ResourceRule, Rotation, ScopeAnswer,
    ScopeRule, ServerRules, StatedIssuer,
};

pub(super) fn entries(redirect: &str) -> Vec<CorpusEntry> {
    let localhost = redirect.replacen("127.0.0.1", "localhost", 1);
    let pairs = [
        Pair { name: "github", rules: github(), end: LoginEnd::Token, scopes: &["repo", "read:org"] },
        Pair { name: "google", rules: google(), end: LoginEnd::Renewal, scopes: &[] },
        Pair { name: "slack", rules: slack(), end: LoginEnd::Renewal, scopes: &[] },
        Pair { name: "entra", rules: entra(), end: LoginEnd::Renewal, scopes: &["api://mcp/.default"] },
        Pair { name: "okta", rules: okta(), end: LoginEnd::Renewal, scopes: &[] },
        Pair { name: "cognito", rules: cognito(), end: LoginEnd::Renewal, scopes: &["openid"] },
        Pair { name: "salesforce", rules: salesforce(), end: LoginEnd::Renewal, scopes: &["mcp_api", "refresh_token"] },
    ];
    let mut entries = Vec::new();
    for Pair { name, rules, end, scopes } in pairs {
        // Some forms take `localhost` only.
        let is_localhost = matches!(name, "entra" | "salesforce");
        let advice = if is_localhost { REGISTER_LOCALHOST } else { REGISTER_BY_HAND };
        let settings = ClientSettings::default();
        entries.push(CorpusEntry { name, rules: rules.clone(), settings, end: advice });
        let entered = if is_localhost { &localhost } else { redirect };
        let client = ClientEntry { id: CLIENT, secret: SECRET, redirects: vec![entered.to_owned()] };
        let mut rules = rules;
        rules.provider.clients.push(client);
        let name = match name {
            "github" => "github, client by hand",
            "google" => "google, client by hand",
            "slack" => "slack, client by hand",
            "entra" => "entra, client by hand",
            "okta" => "okta, client by hand",
            "cognito" => "cognito, client by hand",
            _ => "salesforce, client by hand",
        };
        let settings = ClientSettings { client_id: CLIENT, client_secret: SECRET, scopes };
        entries.push(CorpusEntry { name, rules, settings, end });
    }
    entries
}

/// A remote without and with a client.
struct Pair {
    name: &'static str,
    rules: RemoteRules,
    end: LoginEnd,
    scopes: &'static [&'static str],
}

/// No registration ("we will never be able to implement": github/github-mcp-server#2532). Metadata only before the
/// issuer's path, 404 behind it (#2901). The resource has no slash at its end, the URL that people add has one
/// (microsoft/vscode#259251). Tokens as a form unless JSON is asked for (preset-io/agor#2192), errors with status 200
/// (ciaranj/node-oauth#279), scopes with commas. Tokens of an OAuth app live until they are revoked: neither
/// `expires_in` nor a refresh token (BerriAI/litellm#30298). One redirect for an app, entered by hand.
fn github() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "github.com",
            path: "/login/oauth",
            registration: Registration::Absent,
            answers: AnswerForm::FormByDefault,
            errors: ErrorForm::Success,
            resource: ResourceRule::Unread,
            scopes: ScopeRule { answer: ScopeAnswer::Commas, ..ScopeRule::default() },
            refresh: RefreshRule { condition: RefreshCondition::Never, ..RefreshRule::default() },
            lifetime: None,
            token_type: "bearer",
            revocation: false,
            ..ProviderRules::default()
        },
        server: ServerRules {
            host: "api.githubcopilot.com",
            path: "/mcp/",
            metadata: vec![ResourcePlace::Inserted, ResourcePlace::Path("/.well-known/oauth-protected-resource/mcp")],
            drops_slash: true,
            ..ServerRules::default()
        },
        one_origin: false,
    }
}

/// No registration. A refresh token only for `access_type=offline`; `offline_access` is `invalid_scope`
/// (punkpeye/mcp-remote#258, can1357/oh-my-pi#12438); refreshes do not rotate and leave the token out
/// (preset-io/agor#2576). `initialize` and lists are open, calls give 401 with metadata of a path of their own;
/// the metadata name the issuer with a slash at its end, the issuer itself has none (home-assistant/core#180546). No
/// public clients: the secret is asked for (anthropics/claude-code#91199). The token endpoint is at another host.
fn google() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "accounts.google.com",
            back_host: "oauth2.googleapis.com",
            metadata: vec![MetadataPlace::OpenIdAppended],
            registration: Registration::Absent,
            resource: ResourceRule::Unread,
            scopes: ScopeRule {
                required: true,
                known: &["openid", "email", "profile", "https://www.googleapis.com/auth/gmail.readonly"],
                ..ScopeRule::default()
            },
            refresh: RefreshRule {
                condition: RefreshCondition::OfflineParameter,
                rotation: Rotation::Unchanged,
                error: "invalid_grant",
            },
            lifetime: Some(3_599),
            edits: json!({"token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]}),
            ..ProviderRules::default()
        },
        server: ServerRules {
            host: "gmailmcp.googleapis.com",
            path: "/mcp/v1",
            metadata: vec![ResourcePlace::Path("/.well-known/oauth-protected-resource/whoami")],
            issuer: StatedIssuer::Slash,
            scopes_supported: &["https://www.googleapis.com/auth/gmail.readonly"],
            locked: LockedPart::Calls,
            ..ServerRules::default()
        },
        one_origin: false,
    }
}

/// No registration (slackapi/slack-skills-plugin#7). The provider's metadata lie at the server's host, and name first
/// `https://slack.com`, later `https://mcp.slack.com` as their issuer; authorization without scopes is refused
/// (bluedotimpact/bluedot#2278). The metadata of the path are a redirect (open-legal-products/mike#292). Errors with
/// status 200 and `"ok": false`, `token_type` is `user` (different-ai/openwork#3569), `scope` is empty
/// (UsefulSoftwareCo/executor#1643).
fn slack() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "mcp.slack.com",
            metadata: vec![MetadataPlace::OAuthInserted],
            registration: Registration::Absent,
            errors: ErrorForm::NotOk,
            resource: ResourceRule::Unread,
            scopes: ScopeRule { required: true, answer: ScopeAnswer::Empty, ..ScopeRule::default() },
            token_type: "user",
            lifetime: Some(43_200),
            ..ProviderRules::default()
        },
        server: ServerRules {
            host: "mcp.slack.com",
            metadata: vec![ResourcePlace::Root, ResourcePlace::Redirect],
            scopes_supported: &["search:read.public", "chat:write"],
            ..ServerRules::default()
        },
        one_origin: true,
    }
}

/// No registration. Any `resource` beside a scope is AADSTS9010010 (microsoft/powerbi-modeling-mcp#68,
/// punkpeye/mcp-remote#217), at the token endpoint too. Metadata by OpenID Connect Discovery behind the path, without
/// `code_challenge_methods_supported` although S256 is checked (vercel/ai#18674, zed-industries/zed#60358). Of loopback
/// redirects its form takes `localhost`, with any port later. A refresh token for `offline_access` only. `prompt=consent` asks for an administrator (AADSTS90094).
fn entra() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "login.microsoftonline.com",
            path: "/11111111-2222-3333-4444-555555555555/v2.0",
            metadata: vec![MetadataPlace::OpenIdAppended],
            pkce: PkceRule::Silent,
            registration: Registration::Absent,
            redirects: RedirectRule::AnyLoopbackPort,
            resource: ResourceRule::Refusal,
            scopes: ScopeRule {
                required: true,
                supported: &["openid", "profile", "email", "offline_access"],
                ..ScopeRule::default()
            },
            refresh: RefreshRule {
                condition: RefreshCondition::OfflineScope,
                rotation: Rotation::Grace(86_400),
                error: "invalid_grant",
            },
            refuses_forced_consent: true,
            revocation: false,
            ..ProviderRules::default()
        },
        server: ServerRules {
            host: "contoso.azurewebsites.net",
            scopes_supported: &["api://mcp/.default"],
            ..ServerRules::default()
        },
        one_origin: false,
    }
}

/// There is a registration endpoint, which asks for an administrator's token
/// (modelcontextprotocol/modelcontextprotocol#695, envoyproxy/ai-gateway#2074). Metadata of a custom authorization
/// server only behind its path (modelcontextprotocol/inspector#744). A refresh token for `offline_access` only.
fn okta() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "acme.okta.com",
            path: "/oauth2/aus1a2b3c4",
            metadata: vec![MetadataPlace::OAuthAppended, MetadataPlace::OpenIdAppended],
            registration: Registration::Refusal(Page {
                status: 403,
                media_type: "application/json",
                body: r#"{"errorCode": "E0000005", "errorSummary": "Invalid session", "errorCauses": []}"#,
            }),
            resource: ResourceRule::Unread,
            scopes: ScopeRule {
                required: true,
                known: &["mcp:tools", "openid", "offline_access"],
                supported: &["mcp:tools", "openid", "offline_access"],
                ..ScopeRule::default()
            },
            refresh: RefreshRule {
                condition: RefreshCondition::OfflineScope,
                rotation: Rotation::Grace(30),
                error: "invalid_grant",
            },
            ..ProviderRules::default()
        },
        server: ServerRules { host: "tools.acme.example", challenge_scope: "mcp:tools", ..ServerRules::default() },
        one_origin: false,
    }
}

/// No registration. Metadata by OpenID Connect Discovery without `code_challenge_methods_supported` (vercel/ai#18674);
/// no scopes in the challenge or the metadata of a server behind it (nicobailon/pi-mcp-adapter#173).
fn cognito() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "cognito-idp.us-east-1.amazonaws.com",
            path: "/us-east-1_AbCdEf",
            metadata: vec![MetadataPlace::OpenIdAppended],
            pkce: PkceRule::Silent,
            registration: Registration::Absent,
            resource: ResourceRule::Unread,
            refresh: RefreshRule { rotation: Rotation::Unchanged, ..RefreshRule::default() },
            ..ProviderRules::default()
        },
        server: ServerRules { host: "bedrock-agentcore.us-east-1.amazonaws.com", ..ServerRules::default() },
        one_origin: false,
    }
}

/// No registration; of loopback redirects only `localhost` can be entered (anthropics/claude-code#86233,
/// cognizant-ai-lab/nsflow#233). Answers do not say how long a token lives (danny-avila/LibreChat#13248).
fn salesforce() -> RemoteRules {
    RemoteRules {
        provider: ProviderRules {
            host: "acme.my.salesforce.com",
            registration: Registration::Absent,
            redirects: RedirectRule::LocalhostName,
            resource: ResourceRule::Unread,
            says_lifetime: false,
            lifetime: Some(7_200),
            refresh: RefreshRule { rotation: Rotation::Unchanged, ..RefreshRule::default() },
            ..ProviderRules::default()
        },
        server: ServerRules { host: "api.salesforce.com", path: "/platform/mcp/v1", ..ServerRules::default() },
        one_origin: false,
    }
}
