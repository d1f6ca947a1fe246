//! A package from its installation to its purge, in a root where systemd runs: as a person uses it, as a machine shares
//! a gateway, and with clients whose sessions go on through an upgrade.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Packages;
use crate::dist::Dist;
use crate::dist::root::{Root, RootUser, Suite};
use crate::dist::session::ClientSession;
use crate::dist::trial::Trials;

/// The person who uses Toolcrib in the root.
const PERSON: &str = "ada";
/// Where that person's own gateway listens; the shared one has the usual address.
const OWN: &str = "127.0.0.1:8701";
const SHARED: &str = "http://127.0.0.1:8700/mcp";
/// From the installation to the first useful call through a client, in seconds: printed, for machines differ.
const AIM: u64 = 20;

/// The settings of two clients, each with a server of its own.
const CURSOR: &str = r#"{ "mcpServers": { "units": { "command": "toolcrib", "args": ["example", "units"] } } }"#;
const CLAUDE_CODE: &str = r#"{ "mcpServers": { "notes": { "command": "toolcrib", "args": ["example", "notes"] } } }"#;

/// What a purge leaves, by its policy, and what the system's own programs write down.
const LEFT: [&str; 12] = [
    // The number of the user of the service is given to no one else.
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/subuid",
    "/etc/subgid",
    // What people have of their own.
    "/people/",
    // What dpkg, apt and systemd keep of everything that they do.
    "/var/lib/dpkg/",
    "/var/lib/apt/",
    "/var/cache/",
    "/var/log/",
    "/var/lib/systemd/",
];

/// The trials of one root.
struct Life {
    root: Root,
    suite: Suite,
    /// What was in the root before.
    before: Vec<String>,
}

pub fn run(dist: &Dist<'_>, suite: Suite, packages: Packages<'_>, trials: &mut Trials) -> Result<()> {
    let started = Root::start(dist, suite, suite.name).and_then(|root| root.booted().map(|()| root));
    let root = match started {
        Ok(root) => root,
        Err(error) => {
            trials.skipped(&format!("Debian {} with systemd", suite.name), &format!("{error:#}"));
            return Ok(());
        }
    };
    root.add_person(PERSON)?;
    root.put(packages.now, "/srv/now.deb")?;
    root.put(packages.later, "/srv/later.deb")?;
    let life = Life { before: root.files()?, root, suite };
    life.begin(trials);
    life.share(trials);
    life.upgrade(trials);
    life.end(trials);
    Ok(())
}

// === impl Life ===

impl Life {
    fn name(&self, what: &str) -> String {
        format!("Debian {}: {what}", self.suite.name)
    }

    fn root(&self, script: &str) -> Result<String> {
        self.root.run(RootUser::Administrator, script)
    }

    fn person(&self, script: &str) -> Result<String> {
        self.root.run(RootUser::Person(PERSON), script)
    }

    /// From nothing to the first call.
    fn begin(&self, trials: &mut Trials) {
        let begun = Instant::now();
        trials.run(&self.name("apt installs it without a network, and starts nothing"), || {
            self.root("apt-get install --yes /srv/now.deb")?;
            ensure!(self.root.has("/etc/toolcrib/config.toml"), "no settings");
            self.is_stopped()?;
            let enabled = self.root("systemctl is-enabled toolcrib || true")?;
            ensure!(enabled.trim() == "disabled", "it is {enabled}");
            Ok(())
        });
        trials.run(&self.name("`init` takes over the settings of two clients"), || {
            let own = format!("listen = \"{OWN}\"\n");
            for (file, text) in
                [(".cursor/mcp.json", CURSOR), (".claude.json", CLAUDE_CODE), (".config/toolcrib/config.toml", &own)]
            {
                self.root.write(&format!("/people/{PERSON}/{file}"), text)?;
            }
            self.root(&format!("chown -R {PERSON}: /people/{PERSON}"))?;
            let said = self.person("toolcrib init --yes")?;
            for part in ["Found 2 clients", "Imported 2 servers", "Cursor is connected", "Claude Code is connected"] {
                ensure!(said.contains(part), "no `{part}` in:\n{said}");
            }
            for file in [".cursor/mcp.json", ".claude.json"] {
                let text = fs::read_to_string(self.root.folder.join(format!("people/{PERSON}/{file}")))?;
                ensure!(text.contains("\"toolcrib\""), "`{file}` does not name the gateway:\n{text}");
            }
            Ok(())
        });
        trials.run(&self.name("a client's first call is answered"), || {
            let mut client = ClientSession::open(&self.root, PERSON, "toolcrib bridge")?;
            let answer = client.call_in_the_end("units/convert_length", &mile())?;
            ensure!(answer.contains("42.16"), "it was answered with `{answer}`");
            println!("             {:.1} s since `apt-get install`; the aim is {AIM} s", begun.elapsed().as_secs_f64());
            Ok(())
        });
        trials.run(&self.name("the demo gives its answer"), || {
            let said = self.person("toolcrib demo --once")?;
            ensure!(said.contains("26.2 mile = 42.16"), "it said:\n{said}");
            Ok(())
        });
    }

    /// The shared gateway, as the unit says.
    fn share(&self, trials: &mut Trials) {
        trials.run(&self.name("the shared gateway starts as its own user and answers others"), || {
            let server = "name: units\ncommand: toolcrib\nargs: [example, units]\n";
            self.root.write("/var/lib/toolcrib/servers/units.yaml", server)?;
            self.root("systemctl enable --now toolcrib")?;
            let pid = self.pid()?;
            let owner = self.root(&format!("stat -c %U /proc/{pid}"))?;
            ensure!(owner.trim() == "toolcrib", "it runs as {owner}");
            let mode = self.root("stat -c '%U %a' /var/lib/toolcrib /var/lib/toolcrib/state/token")?;
            ensure!(mode.lines().eq(["toolcrib 750", "toolcrib 600"]), "its files are:\n{mode}");
            let mut client = self.client()?;
            let answer = client.call_in_the_end("units/convert_length", &mile())?;
            ensure!(answer.contains("42.16"), "it was answered with `{answer}`");
            let status = self.root("runuser -u toolcrib -- env TOOLCRIB_HOME=/var/lib/toolcrib toolcrib status")?;
            ensure!(status.contains("units"), "its status says:\n{status}");
            Ok(())
        });
        let servers = self.name("servers of node and python work in the hardened unit, and cannot change the system");
        if self.root.has("/usr/bin/node") {
            trials.run(&servers, || {
                self.root.write("/var/lib/toolcrib/worker.js", include_str!("server.js"))?;
                let server = "name: worker\ncommand: node\nargs: [/var/lib/toolcrib/worker.js]\n";
                self.root.write("/var/lib/toolcrib/servers/worker.yaml", server)?;
                let answer = self.client()?.call_in_the_end("worker/work", &json!({}))?;
                for part in ["node works", "python works", "the system: EROFS"] {
                    ensure!(answer.contains(part), "no `{part}` in `{answer}`");
                }
                Ok(())
            });
        } else {
            trials.skipped(&servers, "this root has no node");
        }
        trials.run(&self.name("its unit gives it little exposure when systemd itself looks"), || {
            let said = self.root("systemd-analyze security toolcrib.service --threshold=30 --no-pager | tail -n 1")?;
            println!("             {}", said.trim());
            Ok(())
        });
        trials.run(&self.name("the gateway of a person runs by the unit of the package"), || {
            // Her session's manager; a login would start it.
            self.root("systemctl start user@1000.service")?;
            let order = |order: &str| {
                self.person(&format!("XDG_RUNTIME_DIR=/run/user/1000 systemctl --user {order} toolcrib.service"))
            };
            // Hers was started by her client; the unit takes its place.
            self.person("kill $(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/' .config/toolcrib/state/serve.json)")?;
            self.person("while [ -e .config/toolcrib/state/serve.json ]; do sleep 0.1; done")?;
            order("enable --now")?;
            let answered = self.person(&format!(
                "for attempt in $(seq 600); do toolcrib call units/convert_length value=1 from=mile to=kilometre \
                 --endpoint http://{OWN}/mcp && exit; sleep 0.1; done; exit 1"
            ))?;
            ensure!(answered.contains("1.609"), "it answered:\n{answered}");
            ensure!(order("is-active")?.trim() == "active", "it does not run");
            let said = self.person("XDG_RUNTIME_DIR=/run/user/1000 toolcrib service install")?;
            ensure!(said.contains("Wrote ") && said.contains("running"), "`toolcrib service install` says:\n{said}");
            let file = order("show --property=FragmentPath --value")?;
            ensure!(file.trim().ends_with(".config/systemd/user/toolcrib.service"), "the unit is `{file}`");
            Ok(())
        });
    }

    /// The next version over the running one.
    fn upgrade(&self, trials: &mut Trials) {
        trials.run(&self.name("an upgrade restarts what runs and keeps settings, definitions and sessions"), || {
            self.root("echo 'log = \"debug\"' >> /etc/toolcrib/config.toml")?;
            let (mut shared, mut own) = (self.client()?, ClientSession::open(&self.root, PERSON, "toolcrib bridge")?);
            shared.call("units/convert_length", &mile())?;
            own.call("units/convert_length", &mile())?;
            let (pid, own_pid) = (self.pid()?, self.own_pid()?);
            let token = self.root("cat /var/lib/toolcrib/state/token")?;
            let said = self.root("apt-get install --yes /srv/later.deb")?;
            ensure!(!said.contains("Configuration file"), "it asks about unchanged settings:\n{said}");
            ensure!(self.pid()? != pid, "the shared gateway was not restarted");
            ensure!(self.own_pid()? == own_pid, "the gateway of a person was restarted");
            let settings = self.root("cat /etc/toolcrib/config.toml")?;
            ensure!(settings.contains("log = \"debug\""), "the settings are:\n{settings}");
            ensure!(self.root("cat /var/lib/toolcrib/state/token")? == token, "the token is another one");
            for (who, client) in [("shared", &mut shared), ("own", &mut own)] {
                let answer = client.call_in_the_end("units/convert_length", &mile());
                let answer = answer.with_context(|| format!("the session at the {who} gateway is lost"))?;
                ensure!(answer.contains("42.16"), "it was answered with `{answer}`");
            }
            // Its program's file is gone; it starts servers with what it has.
            let late = "name: late\ncommand: toolcrib\nargs: [example, notes]\n";
            self.root.write(&format!("/people/{PERSON}/.config/toolcrib/servers/late.yaml"), late)?;
            let listed = own.call_in_the_end("late/list_notes", &json!({}));
            listed.context("a gateway of before the upgrade starts no server")?;
            Ok(())
        });
        trials.run(&self.name("what does not run is not started by an upgrade, nor back"), || {
            self.root("systemctl stop toolcrib")?;
            self.root("apt-get install --yes --allow-downgrades /srv/now.deb")?;
            self.is_stopped()?;
            self.root("apt-get install --yes /srv/later.deb")?;
            self.is_stopped()?;
            self.root("systemctl start toolcrib")?;
            self.client()?.call_in_the_end("units/convert_length", &mile()).map(drop)
        });
    }

    /// Removed, installed again, and purged.
    fn end(&self, trials: &mut Trials) {
        trials.run(&self.name("a removal stops it and keeps settings and data"), || {
            let pid = self.pid()?;
            self.root("apt-get remove --yes toolcrib")?;
            ensure!(!self.root.has(&format!("/proc/{pid}")), "the gateway still runs");
            ensure!(!self.root.has("/usr/bin/toolcrib"), "the program is still there");
            for kept in ["/etc/toolcrib/config.toml", "/var/lib/toolcrib/servers/units.yaml"] {
                ensure!(self.root.has(kept), "`{kept}` is gone");
            }
            self.root("ls /var/lib/toolcrib/state/toolcrib.db").map(drop)
        });
        trials.run(&self.name("installed again it goes on with what was kept"), || {
            self.root("apt-get install --yes /srv/later.deb && systemctl start toolcrib")?;
            let settings = self.root("cat /etc/toolcrib/config.toml")?;
            ensure!(settings.contains("log = \"debug\""), "the settings are:\n{settings}");
            self.client()?.call_in_the_end("units/convert_length", &mile()).map(drop)
        });
        trials.run(&self.name("a purge leaves nothing but what its policy says"), || {
            self.root("apt-get purge --yes toolcrib")?;
            let allowed = |file: &str| LEFT.iter().any(|left| file.starts_with(left));
            let after = self.root.files()?;
            let more: Vec<&String> =
                after.iter().filter(|file| self.before.binary_search(file).is_err() && !allowed(file)).collect();
            ensure!(more.is_empty(), "it left {more:?}");
            let fewer: Vec<&String> =
                self.before.iter().filter(|file| after.binary_search(file).is_err() && !allowed(file)).collect();
            ensure!(fewer.is_empty(), "it took away {fewer:?}");
            let own = format!("/people/{PERSON}/.config/toolcrib/servers/units.yaml");
            ensure!(self.root.has(&own), "a person's definitions are gone");
            Ok(())
        });
    }

    /// A client of the shared gateway, as another user of the machine.
    fn client(&self) -> Result<ClientSession> {
        ClientSession::open(&self.root, PERSON, &format!("toolcrib bridge {SHARED} --no-token"))
    }

    /// The process of the shared gateway.
    fn pid(&self) -> Result<String> {
        let pid = self.root("systemctl show --property=MainPID --value toolcrib")?.trim().to_owned();
        ensure!(pid != "0", "the shared gateway does not run");
        Ok(pid)
    }

    fn own_pid(&self) -> Result<String> {
        self.person("cat .config/toolcrib/state/serve.json")
    }

    fn is_stopped(&self) -> Result<()> {
        let state = self.root("systemctl is-active toolcrib || true")?;
        ensure!(state.trim() == "inactive", "it is {state}");
        Ok(())
    }
}

/// What the server of units is asked.
fn mile() -> serde_json::Value {
    json!({ "value": 26.2, "from": "mile", "to": "kilometre" })
}
