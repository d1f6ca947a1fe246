//! The variables that kinds of programs expect of the environment: handed on by name where the program is of such a kind.
//! Names only, and none whose value is a secret: those are handed on where a definition says so in `env`.
//!
//! To add a kind, add a row to [`KINDS`] and to the table in `docs/guides/servers.md`; a test compares the two.

use crate::private::is_secret_name;
use crate::secret::is_variable;

/// What one kind of programs expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramKind {
    /// What people call it.
    pub name: &'static str,
    /// The words in a program's name, or in that of the package that is run, that tell it.
    words: &'static [&'static str],
    /// What it gets where it is set.
    pub variables: &'static [&'static str],
    /// One of these must be set, or it does not work. Nothing where it finds its way without.
    needs: &'static [&'static str],
    /// What it may need and gets only where its definition says so: their values are secrets.
    secrets: &'static [&'static str],
}

/// Every kind that is known.
pub const KINDS: &[ProgramKind] = &[
    ProgramKind {
        name: "Kubernetes",
        words: &["kubernetes", "k8s", "kubectl", "kube", "helm", "kustomize", "flux", "argocd", "istio"],
        variables: &[
            "KUBECONFIG",
            "KUBE_CONTEXT",
            "KUBERNETES_SERVICE_HOST",
            "KUBERNETES_SERVICE_PORT",
            "HELM_CONFIG_HOME",
        ],
        needs: &[],
        secrets: &[],
    },
    ProgramKind {
        name: "browsers and the desktop",
        words: &[
            "playwright",
            "puppeteer",
            "chrome",
            "chromium",
            "firefox",
            "browser",
            "browsers",
            "selenium",
            "webdriver",
            "desktop",
            "clipboard",
            "screenshot",
            "xdotool",
            "electron",
        ],
        variables: &[
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "XAUTHORITY",
            "XDG_RUNTIME_DIR",
            "XDG_SESSION_TYPE",
            "XDG_CURRENT_DESKTOP",
            "DBUS_SESSION_BUS_ADDRESS",
            "PLAYWRIGHT_BROWSERS_PATH",
            "PUPPETEER_EXECUTABLE_PATH",
            "CHROME_PATH",
        ],
        needs: &["DISPLAY", "WAYLAND_DISPLAY"],
        secrets: &[],
    },
    ProgramKind {
        name: "ssh",
        words: &["ssh", "sftp", "scp", "rsync", "ansible"],
        variables: &["SSH_AUTH_SOCK", "SSH_AGENT_PID", "ANSIBLE_CONFIG"],
        needs: &["SSH_AUTH_SOCK"],
        secrets: &[],
    },
    ProgramKind {
        name: "git",
        words: &["git", "jj"],
        variables: &["SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "GNUPGHOME", "GPG_TTY"],
        needs: &[],
        secrets: &[],
    },
    ProgramKind {
        name: "AWS",
        words: &["aws", "awslabs", "s3", "bedrock", "cloudwatch", "dynamodb", "cdk"],
        variables: &[
            "AWS_PROFILE",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_CONFIG_FILE",
            "AWS_SHARED_CREDENTIALS_FILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_ROLE_ARN",
            "AWS_CA_BUNDLE",
        ],
        needs: &[],
        secrets: &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
    },
    ProgramKind {
        name: "Google Cloud",
        words: &["gcloud", "gcp", "bigquery", "vertex", "vertexai", "gke", "firebase"],
        variables: &[
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_LOCATION",
            "CLOUDSDK_CONFIG",
            "CLOUDSDK_ACTIVE_CONFIG_NAME",
            "CLOUDSDK_CORE_PROJECT",
        ],
        needs: &[],
        secrets: &[],
    },
    ProgramKind {
        name: "Azure",
        words: &["azure", "az", "aks"],
        variables: &["AZURE_CONFIG_DIR", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_SUBSCRIPTION_ID"],
        needs: &[],
        secrets: &["AZURE_CLIENT_SECRET"],
    },
    ProgramKind {
        name: "containers",
        words: &["docker", "podman", "nerdctl", "compose", "testcontainers"],
        variables: &[
            "DOCKER_HOST",
            "DOCKER_CONTEXT",
            "DOCKER_CONFIG",
            "DOCKER_CERT_PATH",
            "DOCKER_TLS_VERIFY",
            "CONTAINER_HOST",
            "XDG_RUNTIME_DIR",
        ],
        needs: &[],
        secrets: &[],
    },
    ProgramKind {
        name: "Terraform",
        words: &["terraform", "tofu", "opentofu", "terragrunt"],
        variables: &["TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_WORKSPACE", "TF_PLUGIN_CACHE_DIR"],
        needs: &[],
        secrets: &[],
    },
    ProgramKind {
        name: "Node.js",
        words: &["node", "npm", "npx", "pnpm", "yarn", "bun", "bunx", "deno"],
        variables: &["NVM_DIR", "VOLTA_HOME", "FNM_DIR", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "COREPACK_HOME"],
        needs: &[],
        secrets: &[],
    },
    ProgramKind {
        name: "compilers and build tools",
        words: &[
            "java", "maven", "mvn", "gradle", "jdtls", "go", "gopls", "cargo", "rust", "dotnet", "nuget", "android",
            "adb",
        ],
        variables: &[
            "JAVA_HOME",
            "GOPATH",
            "GOROOT",
            "GOCACHE",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "DOTNET_ROOT",
            "ANDROID_HOME",
            "ANDROID_SDK_ROOT",
        ],
        needs: &[],
        secrets: &[],
    },
];

/// How many arguments are looked at for the package that is run.
const ARGUMENTS: usize = 24;

/// The kinds that a program is of, as its name and that of the package that it runs tell.
pub fn kinds_of(command: &str, args: &[String]) -> Vec<&'static ProgramKind> {
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let names = args.iter().take(ARGUMENTS).filter(|argument| is_name(argument));
    let texts: Vec<String> = std::iter::once(program).chain(names.map(String::as_str)).map(str::to_lowercase).collect();
    let words: Vec<&str> = texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric())).collect();
    KINDS.iter().filter(|kind| kind.words.iter().any(|word| words.contains(word))).collect()
}

/// The variables beside the usual ones that a program gets: those of its kinds, then those that its definition names.
pub fn expected_variables(command: &str, args: &[String], inherit_env: &[String]) -> Vec<String> {
    let of_kinds = kinds_of(command, args).into_iter().flat_map(|kind| kind.variables).map(|name| (*name).to_owned());
    let mut names: Vec<String> = Vec::new();
    for name in of_kinds.chain(inherit_env.iter().cloned()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a program of these kinds will miss, in words that end with what to do. `is_given` tells of its definition's own
/// variables, `is_set` of those of the environment that the gateway runs in.
pub fn missing(
    command: &str,
    args: &[String],
    is_given: &dyn Fn(&str) -> bool,
    is_set: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut told = Vec::new();
    let is_headless = args.iter().any(|argument| argument.contains("headless"));
    let listed = |names: &[&str], word: &str| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(&format!(" {word} "))
    };
    for kind in kinds_of(command, args) {
        let has_none = !kind.needs.iter().any(|name| is_given(name) || is_set(name));
        let is_of_desktop = kind.needs.contains(&"DISPLAY");
        // On other systems windows need no variable.
        if !kind.needs.is_empty() && has_none && !(is_of_desktop && (is_headless || !cfg!(target_os = "linux"))) {
            let without = if is_of_desktop { ", or run it headless" } else { "" };
            told.push(format!(
                "programs for {} need {}, which is not set here: start the gateway where it is, or set it in `env`{without}",
                kind.name,
                listed(kind.needs, "or"),
            ));
        }
        let kept: Vec<&str> = kind.secrets.iter().copied().filter(|name| is_set(name) && !is_given(name)).collect();
        if let Some(first) = kept.first() {
            told.push(format!(
                "{} is set here and not handed on, because it is a secret: if the program needs it, write `env: {{{first}: \"env:{first}\"}}`",
                listed(&kept, "and"),
            ));
        }
    }
    told
}

/// Why a name may not stand in `inherit_env`, with the next step.
pub(crate) fn fault(name: &str) -> Option<(String, String)> {
    if !is_variable(name) {
        let hint = "patterns are not supported: list each name, so that no secret is passed by accident".to_owned();
        return Some(("expected a variable's name of A-Z, a-z, 0-9 and `_`, the first not a digit".to_owned(), hint));
    }
    let is_known = KINDS.iter().any(|kind| kind.variables.contains(&name));
    let is_place = ["_FILE", "_DIR", "_PATH", "_SOCK", "_HOME"].iter().any(|end| name.ends_with(end));
    let is_secret = is_secret_name(name) && !is_known && !is_place;
    let is_ours = name.starts_with("TOOLCRIB_");
    (is_secret || is_ours).then(|| {
        let message = "expected the name of a variable that is not a secret".to_owned();
        let hint = format!("write `env: {{{name}: \"env:{name}\"}}`, so that its value is kept out of logs");
        (message, if is_ours { "variables of Toolcrib's own are not handed on".to_owned() } else { hint })
    })
}

/// Whether an argument names something to run: no flag, no path, no assignment, no address.
fn is_name(argument: &str) -> bool {
    let is_path = argument.starts_with(['/', '.', '~', '-']) || argument.contains("://") || argument.contains('=');
    !is_path && argument.len() <= 200 && !argument.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> (String, Vec<String>) {
        let mut words = text.split(' ').map(str::to_owned);
        (words.next().unwrap(), words.collect())
    }

    #[test]
    fn kinds_are_recognised_by_the_names_of_what_is_run() {
        for (line, expected) in [
            ("npx -y mcp-server-kubernetes", &["Kubernetes", "Node.js"][..]),
            ("npx @playwright/mcp@latest", &["browsers and the desktop", "Node.js"]),
            ("uvx mcp-server-git --repository /src/aws", &["git"]),
            ("uvx awslabs.aws-documentation-mcp-server@latest", &["AWS"]),
            ("docker run -i --rm -e K=v ghcr.io/github/github-mcp-server", &["containers"]),
            ("/opt/bin/kubectl mcp", &["Kubernetes"]),
            ("/kubernetes/bin/thing https://k8s.example", &[]),
            ("npx -y @modelcontextprotocol/server-filesystem /data/docker", &["Node.js"]),
            ("python -m mcp_server_ssh", &["ssh"]),
        ] {
            let (command, args) = words(line);
            let names: Vec<&str> = kinds_of(&command, &args).iter().map(|kind| kind.name).collect();
            let mut expected = expected.to_vec();
            expected.sort_by_key(|name| KINDS.iter().position(|kind| kind.name == *name));
            assert_eq!(names, expected, "{line}");
        }
    }

    #[test]
    fn the_guide_lists_every_kind() {
        let guide =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/servers.md")).unwrap();
        for kind in KINDS {
            let variables: Vec<String> = kind.variables.iter().map(|name| format!("`{name}`")).collect();
            let row = format!("| {} | {} | {} |", kind.name, kind.words.join(", "), variables.join(", "));
            assert!(guide.contains(&row), "no row `{row}`");
        }
    }

    #[test]
    fn no_kind_hands_on_a_secret() {
        for kind in KINDS {
            for name in kind.variables {
                assert!(fault(name).is_none() && !kind.secrets.contains(name), "{name}");
            }
            assert!(kind.secrets.iter().all(|name| fault(name).is_some()), "{}", kind.name);
        }
        for name in ["GITHUB_TOKEN", "AWS_*", "*", "", "1A", "TOOLCRIB_TOKEN", "DB_PASSWORD", "A=B"] {
            assert!(fault(name).is_some(), "{name}");
        }
        for name in ["KUBECONFIG", "SSH_AUTH_SOCK", "MY_KEY_FILE", "EDITOR"] {
            assert!(fault(name).is_none(), "{name}");
        }
    }

    #[test]
    fn what_is_missing_is_reported_with_what_to_do() {
        let told = |line: &str, set: &[&str], given: &[&str]| {
            let (command, args) = words(line);
            missing(&command, &args, &|name| given.contains(&name), &|name| set.contains(&name))
        };
        assert!(told("uvx mcp-server-ssh", &[], &[])[0].contains("`SSH_AUTH_SOCK`"));
        assert!(told("uvx mcp-server-ssh", &["SSH_AUTH_SOCK"], &[]).is_empty());
        assert!(told("uvx mcp-server-ssh", &[], &["SSH_AUTH_SOCK"]).is_empty());
        assert!(told("npx @playwright/mcp --headless", &[], &[]).is_empty());
        let aws = told("uvx mcp-server-aws", &["AWS_SECRET_ACCESS_KEY"], &[]);
        assert!(aws[0].contains("\"env:AWS_SECRET_ACCESS_KEY\""), "{aws:?}");
        assert!(told("uvx mcp-server-aws", &["AWS_SECRET_ACCESS_KEY"], &["AWS_SECRET_ACCESS_KEY"]).is_empty());
    }
}
