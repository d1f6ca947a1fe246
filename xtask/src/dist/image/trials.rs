//! The images, made of what the archive has: what is in them, how large they are, and that they work without rights and
//! without a place to write but their volume; then the gateway, server and client of the compose file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::containers::{Containers, STRICT, debian};
use super::{file, name};
use crate::dist::launch::Launcher;
use crate::dist::tools::{self, must};
use crate::dist::trial::Trials;
use crate::dist::{Dist, archive, size_text};
use crate::need;

const IMAGE: &str = "localhost/toolcrib:latest";
const WITH_RUNTIMES: &str = "localhost/toolcrib:runtimes";
/// What the image may have at most, as a registry sends it.
const COMPRESSED: u64 = 45 << 20;
/// Who runs in the images.
const USER: &str = "65532:65532";
const COMPOSE: [&str; 1] = ["podman-compose==1.6.0"];

/// The bases, in place of those of a registry: their names here, and what is in them.
const BASE: (&str, &[&str]) = ("localhost/base", &["ca-certificates", "tzdata"]);
const BASE_WITH_RUNTIMES: (&str, &[&str]) =
    ("localhost/base:runtimes", &["ca-certificates", "nodejs", "npm", "python3-venv", "tzdata"]);

/// A server of one tool.
const NODE: &str = r#"
const answers = {
  'initialize': {protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: 'script', version: '1'}},
  'tools/list': {tools: [{name: 'greet', inputSchema: {type: 'object'}}]},
  'tools/call': {content: [{type: 'text', text: 'hello'}]},
};
require('readline').createInterface({input: process.stdin}).on('line', (line) => {
  const {id, method} = JSON.parse(line);
  if (id === undefined) return;
  const result = answers[method];
  const answer = result ? {result} : {error: {code: -32601, message: 'unknown method'}};
  console.log(JSON.stringify({jsonrpc: '2.0', id, ...answer}));
});
"#;

/// The same in Python.
const PYTHON: &str = r#"
import json, sys
info = {'name': 'snake', 'version': '1'}
answers = {
    'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': info},
    'tools/list': {'tools': [{'name': 'greet', 'inputSchema': {'type': 'object'}}]},
    'tools/call': {'content': [{'type': 'text', 'text': 'hello'}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if 'id' in request:
        answer = {'jsonrpc': '2.0', 'id': request['id']}
        if request['method'] in answers:
            answer['result'] = answers[request['method']]
        else:
            answer['error'] = {'code': -32601, 'message': 'unknown method'}
        print(json.dumps(answer), flush=True)
"#;

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    if let Err(error) = need::containers() {
        trials.skipped("images", &format!("{error:#}"));
        return Ok(());
    }
    let folder = stage(dist)?;
    let context = folder.join(name(dist));
    archive::unpack(&file(dist), &folder)?;
    let containers = Containers::new(&folder)?;
    trials.run("buildah makes the image", || {
        containers.import(&debian(dist, "base", BASE.1)?, BASE.0)?;
        containers.build(&context, "Containerfile", BASE.0, IMAGE)
    });
    trials.run("it has no shell and no other program", || content(&containers));
    size(dist, &containers, &folder, trials)?;
    if let Some(why) = containers.obstacle(IMAGE) {
        trials.skipped("what runs in a container", &why);
        return Ok(());
    }
    alone(&containers, &folder, dist, trials);
    trials.run("compose: the client calls a tool of the server through the gateway", || {
        compose(dist, &containers, &context)
    });
    trials.run("buildah makes the image with Node and Python", || {
        let tar = debian(dist, "base-runtimes", BASE_WITH_RUNTIMES.1)?;
        containers.import(&tar, BASE_WITH_RUNTIMES.0)?;
        containers.build(&context, "Containerfile.runtimes", BASE_WITH_RUNTIMES.0, WITH_RUNTIMES)
    });
    trials.run("with Node and Python: their programs start, as an ordinary user", || {
        for program in ["node", "npx", "python3", "uvx", "toolcrib"] {
            let output = containers.run(&["--entrypoint", program], WITH_RUNTIMES, &["--version"])?;
            ensure!(output.status.success(), "`{program}` fails: {}", String::from_utf8_lossy(&output.stderr));
        }
        runs_as(&containers, WITH_RUNTIMES)
    });
    trials.run("with Node and Python: servers in both answer through the gateway", || servers(&containers, &folder));
    Ok(())
}

/// An empty folder. What `podman` left in it of an earlier run may be mounted still.
fn stage(dist: &Dist<'_>) -> Result<PathBuf> {
    let left = dist.work.join("image-test");
    if left.join("storage.conf").is_file() {
        Containers::new(&left)?.must("podman", &["system", "reset", "--force"])?;
    }
    dist.stage("image-test")
}

fn content(containers: &Containers) -> Result<()> {
    let root = containers.answer(&["image", "mount", IMAGE])?;
    let output = Command::new("find").arg(&root).args(["-type", "f", "-perm", "/111", "-printf", "%P\n"]).output()?;
    containers.answer(&["image", "unmount", IMAGE])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut programs: Vec<&str> = text.lines().filter(|path| !path.contains(".so")).collect();
    programs.sort_unstable();
    ensure!(programs == ["usr/bin/toolcrib"], "it has the programs {programs:?}");
    Ok(())
}

fn size(dist: &Dist<'_>, containers: &Containers, folder: &Path, trials: &mut Trials) -> Result<()> {
    let size = containers.compressed_size(IMAGE, &folder.join("oci"))?;
    println!("    figure   the image has {} compressed", size_text(size));
    let name = format!("it has at most {} compressed", size_text(COMPRESSED));
    if size > COMPRESSED && !dist.is_built_here() {
        trials.skipped(&name, "the given program is none of a release");
        return Ok(());
    }
    trials.run(&name, || {
        ensure!(size <= COMPRESSED, "it has {}", size_text(size));
        Ok(())
    });
    Ok(())
}

/// The image by itself.
fn alone(containers: &Containers, folder: &Path, dist: &Dist<'_>, trials: &mut Trials) {
    trials.run("it does not run as root, and its volume is its user's", || runs_as(containers, IMAGE));
    trials.run("where no gateway runs, the health check fails", || {
        let output = containers.run(&[], IMAGE, &["status"])?;
        ensure!(output.status.code() == Some(1), "it ended with {}", output.status);
        Ok(())
    });
    trials.run("with nothing to write but its volume it serves, is healthy, and ends well", || served(containers));
    trials.run("MCP over stdin and stdout of the container, which ends with stdin", || {
        let podman = containers.command("podman", &[]);
        let variables =
            podman.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())));
        let words = ["podman", "run", "--interactive", "--network=none"].map(str::to_owned);
        let first = variables.chain(words).chain(STRICT.map(str::to_owned)).chain([IMAGE.to_owned()]);
        let home = folder.join("home");
        fs::create_dir_all(&home)?;
        let launcher = Launcher {
            label: "container".to_owned(),
            program: "env".into(),
            first: first.map(PathBuf::from).collect(),
            path: std::env::var_os("PATH").unwrap_or_default(),
            folder: home,
            direct: &dist.binary,
        };
        launcher.speaks()
    });
}

fn runs_as(containers: &Containers, image: &str) -> Result<()> {
    let config = containers.answer(&["image", "inspect", image])?;
    let config: Value = serde_json::from_str(&config).context("podman said no JSON")?;
    let user = &config[0]["Config"]["User"];
    ensure!(user == USER, "it runs as {user}");
    let health = config[0]["Healthcheck"]["Test"].to_string();
    ensure!(health.contains("\"toolcrib\",\"status\""), "its health check is {health}");
    let output = containers.run(&["--volume=owned:/data"], image, &["--version"])?;
    ensure!(output.status.success(), "it fails: {}", String::from_utf8_lossy(&output.stderr));
    let place = containers.answer(&["volume", "inspect", "owned", "--format", "{{.Mountpoint}}"])?;
    let owner = Command::new("stat").args(["--format=%u:%g %a", &place]).output()?;
    containers.answer(&["volume", "rm", "owned"])?;
    let owner = String::from_utf8_lossy(&owner.stdout).trim().to_owned();
    ensure!(owner == format!("{USER} 700"), "the volume is of {owner}");
    Ok(())
}

fn served(containers: &Containers) -> Result<()> {
    with_gateway(containers, &[IMAGE], || {
        containers.eventually(&["healthcheck", "run", "gateway"])?;
        let status = containers.answer(&["exec", "gateway", "toolcrib", "status"])?;
        ensure!(status.contains("audit log: recording"), "it says: {status}");
        containers.answer(&["stop", "--time=60", "gateway"])?;
        let code = containers.answer(&["inspect", "gateway", "--format={{.State.ExitCode}}"])?;
        ensure!(code == "0", "it ended with {code}: {}", containers.answer(&["logs", "gateway"])?);
        Ok(())
    })
}

/// Starts a gateway in a container, which is gone afterwards.
fn with_gateway(containers: &Containers, image: &[&str], trial: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut run = containers.command("podman", &["run", "--detach", "--name=gateway", "--network=none"]);
    must(run.args(STRICT.iter().filter(|flag| **flag != "--rm")).args(image), "podman run")?;
    let outcome = trial();
    containers.answer(&["rm", "--force", "--volumes", "gateway"])?;
    outcome
}

/// The gateway with a server in JavaScript and one in Python, each of which has one tool.
fn servers(containers: &Containers, folder: &Path) -> Result<()> {
    let definitions = folder.join("servers");
    fs::create_dir_all(&definitions)?;
    for (name, command, flag, script) in [("script", "node", "-e", NODE), ("snake", "python3", "-c", PYTHON)] {
        let definition = json!({ "name": name, "command": command, "args": [flag, script], "start": "eager" });
        fs::write(definitions.join(format!("{name}.yaml")), definition.to_string())?;
    }
    let volume = format!("{}:/data/servers:ro", definitions.display());
    with_gateway(containers, &["--volume", &volume, WITH_RUNTIMES], || {
        for tool in ["script/greet", "snake/greet"] {
            containers.eventually(&["exec", "gateway", "toolcrib", "describe", tool])?;
            let said = containers.answer(&["exec", "gateway", "toolcrib", "call", tool])?;
            ensure!(said.contains("hello"), "`{tool}` said `{said}`");
        }
        Ok(())
    })
}

fn compose(dist: &Dist<'_>, containers: &Containers, context: &Path) -> Result<()> {
    let program = tools::python(dist.workspace, "compose", &COMPOSE)?.join("podman-compose");
    let compose = |words: &[&str]| {
        let file = context.join("compose.yaml").to_string_lossy().into_owned();
        let mut command = containers.command(&program, &["--project-name=trial", "--profile=client", "--file", &file]);
        let output = command.args(words).output().context("failed to start `podman-compose`")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "`podman-compose {}` failed: {said}", words.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let outcome = (|| {
        compose(&["up", "--detach", "gateway", "server"])?;
        containers.eventually(&["healthcheck", "run", "trial_gateway_1"])?;
        // Until the server answers the gateway, its tools are not there.
        containers.eventually(&["exec", "trial_gateway_1", "toolcrib", "describe", "units/convert_length"])?;
        let said = compose(&["run", "--rm", "-T", "client"])?;
        ensure!(said.contains("26.2 mile = 42.1648128 kilometre"), "it said: {said}");
        Ok(())
    })();
    let ended = compose(&["down", "--volumes"]);
    outcome.and(ended.map(drop))
}
