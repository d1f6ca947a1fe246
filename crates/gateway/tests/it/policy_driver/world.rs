//! What a random world is made of: its files, its policies, who asks, and what the policies say by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::task::Scope;
use toolcrib_base::{Glob, Identity, PrincipalId, Proof, Role, ServerName, Timestamp, ToolId};
use toolcrib_call::{Logins, Source};
use toolcrib_flow::workflow::Workflows;
use toolcrib_policy::{
    Act, Annotations, Caller, Class, LabelTable, Moment, Policies, PolicyText, PolicyVerdict, Request, Subject,
};
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server, server_with};

use crate::logins::{LockedServer, NoCredentials, NoLogins};

/// How many sets of policies are tried if no one says another number.
const WORLDS: usize = 4;

pub(super) const LABELS: &str =
    "labels: {env: prod}\ntool_labels: {image: {risk: destructive_actions}, \"c*\": {env: dev, team: web}}\n";
pub(super) const PROFILES: [(&str, &str); 5] = [
    ("default", "exposure: direct\ngroups: [load, resources, prompts]"),
    ("reads", "exposure: direct\ngroups: [load, resources, prompts]\nread_only: true"),
    ("quiet", "exposure: direct\ngroups: [load, resources, prompts]\ntools: {deny: [\"alpha/echo\", \"beta/c*\"]}"),
    ("alone", "exposure: direct\ngroups: [load, resources, prompts]\nservers: [alpha]"),
    ("held", "exposure: direct\ngroups: [load, resources, prompts]\nchanged_tools: hold"),
];
/// Profiles that speak otherwise, with what their names say.
pub(super) const DIALECTS: [(&str, &str); 3] =
    [("muster", "dialect: muster"), ("go-ent", "dialect: go-ent"), ("scooter", "dialect: scooter")];
pub(super) const TOOLS: [&str; 6] =
    ["alpha/pid", "alpha/echo", "alpha/counter", "beta/image", "beta/counter", "beta/env"];
/// A tool whose server wants a login first, as that of everyone has lapsed.
pub(super) const LAPSED: &str = "gamma/search";
/// Workflows.
pub(super) const WORKFLOWS: [Flow; 2] = [
    Flow { name: "single", steps: &[Step { tool: "alpha/echo", arguments: r#"{"text":"x"}"# }], label: "env=dev" },
    Flow {
        name: "double",
        steps: &[Step { tool: "alpha/pid", arguments: "{}" }, Step { tool: "beta/counter", arguments: "{}" }],
        label: "env=prod",
    },
];

/// A workflow.
pub(super) struct Flow {
    pub(super) name: &'static str,
    pub(super) steps: &'static [Step],
    label: &'static str,
}

/// A step of a workflow.
pub(super) struct Step {
    pub(super) tool: &'static str,
    pub(super) arguments: &'static str,
}

// === impl Flow ===

impl Flow {
    fn file(&self) -> File {
        let (key, value) = self.label.split_once('=').unwrap();
        let steps = self.steps.iter().enumerate();
        let steps = steps.map(|(at, it)| format!("- {{id: s{at}, tool: {}, args: {}}}\n", it.tool, it.arguments));
        let text = format!("name: {}\nlabels: {{{key}: {value}}}\nsteps:\n{}", self.name, steps.collect::<String>());
        (format!("workflows/{}.yaml", self.name), text)
    }
}

/// A gateway in which everything is that policies may be about.
pub(super) struct World {
    pub(super) house: TestGateway,
    _scope: Scope,
    _locked: LockedServer,
}

// === impl World ===

impl World {
    pub(super) async fn open() -> Self {
        let locked = LockedServer::start();
        let gamma = format!("name: gamma\ntransport: http\nurl: {}\nstart: eager\n", locked.server.url());
        let mut files: Vec<File> =
            vec![server("alpha", &[]), server_with("beta", &[], LABELS), ("servers/gamma.yaml".to_owned(), gamma)];
        files.extend(PROFILES.iter().chain(&DIALECTS).map(|(name, lines)| profile(name, lines)));
        files.extend(WORKFLOWS.iter().map(Flow::file));
        let (scope, setup) = (Scope::new(), Setup::default());
        let workflows = Workflows::new(setup.store.runs(), &scope);
        let house = TestGateway::open(
            &files,
            Setup {
                sources: Arc::new([Arc::clone(&workflows) as Arc<dyn Source>]),
                credentials: Some(Arc::new(NoCredentials)),
                logins: Some(Arc::<NoLogins>::default() as Arc<dyn Logins>),
                ..setup
            },
        );
        workflows.enter(&house.gateway);
        house.settle().await;
        let admin = house.modern("default").admin();
        for (name, tools) in [("alpha", ["pid", "echo"]), ("beta", ["counter", "env"])] {
            admin.operate("core_mcpserver_approve", &serde_json::json!({"name": name, "tools": tools})).await.unwrap();
        }
        Self { house, _scope: scope, _locked: locked }
    }
}

/// A sequence that is the same for the same seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    pub(super) fn policies(&mut self) -> String {
        let count = 1 + self.below(4);
        (0..count).map(|number| self.policy(number)).collect()
    }

    fn policy(&mut self, number: usize) -> String {
        let principal = self.pick(&[
            "principal",
            "principal",
            "principal in Group::\"acme/dev\"",
            "principal == User::\"acme/ann\"",
            "principal in Profile::\"default\"",
            "principal is Key",
        ]);
        let (action, resources): (_, &[&str]) = match self.below(6) {
            5 => (
                "action == Action::\"run\"",
                &["resource", "resource == Workflow::\"single\"", "resource in Label::\"env=prod\""],
            ),
            0 => ("action", &["resource", "resource in Server::\"beta\"", "resource in Label::\"env=prod\""]),
            1 => (
                "action in [Action::\"read\", Action::\"get\", Action::\"complete\"]",
                &["resource in Server::\"alpha\""],
            ),
            2 => ("action == Action::\"get\"", &["resource == Prompt::\"alpha/plain\"", "resource"]),
            _ => (
                "action == Action::\"call\"",
                &[
                    "resource",
                    "resource in Server::\"alpha\"",
                    "resource in Label::\"env=prod\"",
                    "resource in Label::\"team=web\"",
                    "resource == Tool::\"alpha/echo\"",
                    "resource == Tool::\"beta/counter\"",
                    "resource in Server::\"gamma\"",
                ],
            ),
        };
        let resource = self.pick(resources);
        let condition = match (action.contains("call"), self.below(9)) {
            (_, 0 | 1) => "",
            (true, 2) => " unless { resource.readOnly }",
            (true, 3) => " when { resource.destructive }",
            (true, 4) => " when { resource.name like \"*e*\" }",
            (true, 5) => " when { context.arguments has text && context.arguments.text == \"x\" }",
            (true, 6) => " when { resource.labels.contains(\"env=dev\") }",
            (_, 7) => " when { context.door == \"mcp\" }",
            (_, 8) => " unless { principal in Role::\"admin\" }",
            _ => " when { context.time.toTime() >= duration(\"0h\") }",
        };
        let annotation =
            self.pick(&["", "", "", "@deny(\"said\") ", "@mode(\"record\") ", "@approve(\"ops\") ", "@confirm(\"\") "]);
        format!("@id(\"p{number}\") {annotation}forbid ({principal}, {action}, {resource}){condition};\n")
    }

    pub(super) fn principal(&mut self) -> Principal {
        let id = self.pick(&["user:acme/ann", "user:acme/bob", "key:default/ci"]);
        let mut identity = Identity::by(if id.starts_with("key") { Proof::Key } else { Proof::AccessToken });
        identity.issuer = Some("acme".into());
        identity.groups = ["dev", "ops"].into_iter().filter(|_| self.below(2) == 0).map(Into::into).collect();
        Principal::new(PrincipalId::new(id), [Role::Viewer, Role::Member, Role::Admin][self.below(3)], identity)
    }
}

/// What policies say by themselves.
pub(super) struct Oracle<'a> {
    pub(super) house: &'a TestGateway,
    policies: Policies,
    pub(super) labels: LabelTable,
}

impl Oracle<'_> {
    pub(super) fn new<'a>(house: &'a TestGateway, text: &str) -> Oracle<'a> {
        let operations = house
            .gateway
            .operations
            .iter()
            .map(|it| it.tool.trim_start_matches("core_").to_owned())
            .collect::<Vec<_>>();
        let file = PolicyText { file: "team.cedar".to_owned(), text: text.to_owned() };
        let policies = Policies::compile(&[file], &operations).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let pairs = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
            of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let of_tools = vec![
            (Glob::new("image").unwrap(), pairs(&[("risk", "destructive_actions")])),
            (Glob::new("c*").unwrap(), pairs(&[("env", "dev"), ("team", "web")])),
        ];
        let beta = ServerName::new("beta").unwrap();
        let mut labels = LabelTable::new().server(&beta, &pairs(&[("env", "prod")]), of_tools);
        for flow in &WORKFLOWS {
            labels = labels.workflow(flow.name, &pairs(&[flow.label.split_once('=').unwrap()]));
        }
        Oracle { house, policies, labels }
    }

    pub(super) fn class(&self, client: &Client, door: Door) -> Arc<Class> {
        let Principal { id, role, identity } = &client.caller.principal;
        let profile = &client.caller.profile;
        self.policies.class(&Subject { principal: id, role: *role, identity, profile, door: door.as_str() })
    }

    pub(super) fn tool(&self, id: &str) -> Act {
        let tool = ToolId::parse(id).unwrap();
        let inventory = self.house.server(tool.server.as_str()).inventory();
        let entry = inventory.tools.iter().find(|it| *it.key == *tool.tool).unwrap();
        Act::CallTool { annotations: toolcrib_view::view::annotations(entry), tool }
    }

    /// A workflow claims of itself what all its steps do.
    pub(super) fn flow(&self, flow: &Flow) -> Act {
        let of_step = |step: &Step| match self.tool(step.tool) {
            Act::CallTool { annotations, .. } => annotations,
            other => unreachable!("{other} is no call"),
        };
        let steps: Vec<Annotations> = flow.steps.iter().map(of_step).collect();
        let reads = steps.iter().all(|it| it.read_only == Some(true));
        let is_harmless = |it: &Annotations| it.read_only == Some(true) || it.destructive == Some(false);
        let annotations = Annotations {
            read_only: Some(reads),
            destructive: Some(!steps.iter().all(is_harmless)),
            idempotent: Some(reads),
            ..Annotations::default()
        };
        Act::CallTool { tool: ToolId::parse(&format!("workflow/{}", flow.name)).unwrap(), annotations }
    }

    /// Whether a client may do an operation.
    pub(super) fn operates(&self, client: &Client, tool: &str, door: Door) -> bool {
        let act = self.house.gateway.operations.by_tool(tool).unwrap().act();
        self.decide(client, &act, &serde_json::json!({}), door) == "permit"
    }

    /// `hidden`, `deny`, `ask` or `permit`: the profile first, then the policies.
    pub(super) fn decide(&self, client: &Client, act: &Act, arguments: &Value, door: Door) -> &'static str {
        let view = self.house.gateway.view(client.caller.profile.as_str()).unwrap();
        let Principal { id, role, .. } = &client.caller.principal;
        let moment_of = arguments.to_string();
        let moment = Moment { arguments: Some(moment_of.as_bytes()), ..Moment::at(Timestamp(1_795_608_000_000)) };
        let request = Request { caller: Caller { principal: id, role: *role }, act };
        if let Err(denial) = view.rules.decide(&request, &moment)
            && denial.hidden
        {
            return "hidden";
        }
        let is_floor = view.rules.decide(&request, &moment).is_ok();
        match self.class(client, door).decide(act, &self.labels, &moment) {
            PolicyVerdict::Deny { hidden: true, .. } => "hidden",
            _ if !is_floor => "deny",
            PolicyVerdict::Deny { .. } => "deny",
            PolicyVerdict::Ask { .. } => "ask",
            PolicyVerdict::Permit(_) => "permit",
        }
    }
}

pub(super) fn worlds() -> usize {
    std::env::var("TOOLCRIB_POLICY_WORLDS").ok().and_then(|it| it.parse().ok()).unwrap_or(WORLDS)
}
