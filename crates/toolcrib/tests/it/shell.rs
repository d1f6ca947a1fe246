//! Completion as shells ask for it, manual pages, the REPL from a pipe, `agent` and `standalone`.

use serde_json::{Value, json};

use crate::serving::{GatewayFixture, background, fake_server};
use crate::toolcrib::{run, run_with_stdin};

fn definition(name: &str) -> String {
    format!("name: {name}\ncommand: {}\nstart: eager\n", fake_server().display())
}

/// What is offered for the last word, as fish asks for it: a candidate on each line, its help behind a tab.
async fn offered(home: &std::path::Path, words: &[&str]) -> Vec<String> {
    let arguments = [&["--", "toolcrib"][..], words].concat();
    let ran = run(home, &arguments, &[("TOOLCRIB_COMPLETE", "fish")]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{words:?}");
    ran.stdout.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn shells_are_told_what_may_come_next() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let ran = run(home.path(), &["completion", shell], &[]).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("TOOLCRIB_COMPLETE"), "{shell}: {}", ran.stdout);
    }
    run(home.path(), &["completion", "tcsh"], &[]).await.fails(64, &["bash, zsh, fish, powershell"]);
    assert_eq!(offered(home.path(), &["li"]).await, ["list"]);
    // Nothing runs: no names, no words about it.
    assert!(offered(home.path(), &["get", "server", "t"]).await.is_empty());
    let serving = GatewayFixture::start(&[("try", &definition("try")), ("two", &definition("two"))]).await;
    let home = serving.home();
    assert_eq!(offered(home, &["get", "server", "t"]).await, ["try", "two"]);
    assert_eq!(offered(home, &["delete", "mcpservers", "tr"]).await, ["try"]);
    assert_eq!(offered(home, &["call", "try_ec"]).await, ["try_echo"]);
    assert_eq!(offered(home, &["call", "try_echo", ""]).await.first().map(String::as_str), Some("text="));
    assert_eq!(offered(home, &["prompt", "try_g"]).await, ["try_greet"]);
    let flow = home.join("flow.yaml");
    let args = "args: {mode: {type: string, enum: [loud, quiet]}, dry_run: {type: boolean}}";
    let step = "steps: [{id: a, tool: try/echo, args: {text: x}}]";
    std::fs::write(&flow, format!("kind: workflow\nname: say\n{args}\n{step}\n")).unwrap();
    assert_eq!(run(home, &["create", "-f", flow.to_str().unwrap()], &[]).await.code, 0);
    assert_eq!(offered(home, &["start", "workflow", "s"]).await, ["say"]);
    assert_eq!(offered(home, &["start", "workflow", "say", "mode="]).await, ["mode=loud", "mode=quiet"]);
    assert_eq!(offered(home, &["start", "wf/say", "dry_run=t"]).await, ["dry_run=true"]);
    for (line, expected) in [
        ("toolcrib call try_ec", "try_echo"),
        ("toolcrib call try_echo te", "text="),
        ("toolcrib start workflow say mode=", "loud quiet"),
        ("toolcrib start workflow say mode=q", "quiet"),
        ("toolcrib get resource fake:", "//binary //text"),
        ("toolcrib get resource fake://t", "//text"),
    ] {
        assert_eq!(in_bash(home, line).await, expected, "{line}");
    }
    run(home, &["context", "add", "far", "--endpoint", "http://127.0.0.1:1"], &[]).await;
    assert_eq!(offered(home, &["context", "use", ""]).await.first().map(String::as_str), Some("far"));
    assert!(offered(home, &["get", "server", "--context", "far", "t"]).await.is_empty());
    serving.stop().await;
}

/// What bash offers behind a line, with its own idea of where words end.
async fn in_bash(home: &std::path::Path, line: &str) -> String {
    const ASK: &str = r#"
        toolcrib() { "$TOOLCRIB" "$@"; }
        source <("$TOOLCRIB" completion bash)
        COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
        # As readline does: `=` and `:` are words of their own.
        read -ra COMP_WORDS <<< "$(sed 's/[=:]/ & /g' <<< "$1")"
        [[ "$1" == *[[:space:]] ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        piece="${COMP_WORDS[COMP_CWORD]}"
        [[ "$piece" == [=:] ]] && piece=""
        spec="$(complete -p toolcrib)"; spec="${spec% *}"; function="${spec##* }"
        "$function" toolcrib "$piece" "${COMP_WORDS[COMP_CWORD - 1]}" 2> /dev/null
        echo "${COMPREPLY[@]}"
    "#;
    // The variables of this process are not those of someone's shell.
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", ASK, "bash", line]).env("TOOLCRIB", env!("CARGO_BIN_EXE_toolcrib"));
    bash.env("TOOLCRIB_HOME", home).env_remove("TOOLCRIB_ENDPOINT").env_remove("TOOLCRIB_CONTEXT");
    let output = tokio::task::spawn_blocking(move || bash.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn manual_pages_are_made_of_the_help() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man/pages");
    let ran = run(home.path(), &["man", "--dir", folder.to_str().unwrap()], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for page in ["toolcrib.1", "toolcrib-list.1", "toolcrib-context-add.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH") && text.contains("toolcrib"), "{page}");
    }
    // troff warns of bytes that are not ASCII.
    let pages = std::fs::read_dir(&folder).unwrap().map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    let pages: Vec<String> = pages.collect();
    assert!(pages.len() > 50 && pages.iter().all(|text| text.is_ascii()));
    assert!(pages.iter().any(|text| text.contains("\\[u2026]")));
    assert!(std::fs::read_to_string(folder.join("toolcrib.1")).unwrap().contains("authentication is required"));
}

#[tokio::test]
async fn lines_of_a_pipe_are_commands() {
    let serving = GatewayFixture::start(&[("try", &definition("try"))]).await;
    let home = serving.home();
    let lines = "# a remark\n\ncall try_echo {\"text\": \"a  b\"}\ncall try_add a=1 b=2\nfilter tools try_ec*\n\
                 get fake://text\nprompt try_greet {\"who\": \"me\"}\nnotifications\ntoolcrib list servers -o name\nexit\ncall never\n";
    let ran = run_with_stdin(home, &["repl"], &[], lines).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    for part in ["a  b\n", "3\n", "try_echo   try", "embedded", "Greet me.", "notifications are off\n", "server/try\n"]
    {
        assert!(ran.stdout.contains(part), "no `{part}` in {}", ran.stdout);
    }
    // JSON may go on over lines; what is never closed is reported.
    let lines = "call try_echo {\n  \"text\":\n  \"over {\"\n}\nlist servers -o name\ncall try_echo {\n";
    let ran = run_with_stdin(home, &["repl"], &[], lines).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "over {\nserver/try\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`--json` cannot be sent"), "{}", ran.stderr);
    let ran =
        run_with_stdin(home, &["agent", "--repl"], &[], "serve\ncall none\nlist things\nlist servers -o name\n").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (64, "server/try\n"), "{}", ran.stderr);
    for part in ["`serve` does not work in the REPL", "tool not found", "invalid value 'things'"] {
        assert!(ran.stderr.contains(part), "no `{part}` in {}", ran.stderr);
    }
    let add = ["context", "add", "far", "--endpoint", "http://127.0.0.1:1/mcp"];
    assert_eq!(run(home, &add, &[]).await.code, 0);
    let ran = run_with_stdin(home, &["repl"], &[], "context use none\ncontext use far\nlist servers\n").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "Switched to context `far` (http://127.0.0.1:1/mcp)\n"));
    assert!(
        ran.stderr.contains("no context `none`") && ran.stderr.contains("cannot reach the gateway"),
        "{}",
        ran.stderr
    );
    // The file says the same as before.
    assert_eq!(run(home, &["context", "current"], &[]).await.code, 1);
    let ran = run(home, &["repl", "--endpoint", "http://127.0.0.1:1"], &[]).await;
    ran.fails(1, &["cannot reach the gateway"]);
    serving.stop().await;
}

#[tokio::test]
async fn an_agent_prints_what_changes() {
    let serving = GatewayFixture::start(&[("try", &definition("try"))]).await;
    let mut agent = serving.background(&["agent"]);
    agent.reads("Tools (15):").await;
    agent.reads("  try_echo - Returns the text").await;
    agent.reads("Prompts (").await;
    let two = serving.home().join("two.yaml");
    std::fs::write(&two, definition("two")).unwrap();
    serving.until(&mut agent, &["create", "server", "-f", two.to_str().unwrap()], "+ tool two_echo").await;
    serving.until(&mut agent, &["delete", "server", "two"], "- tool two_echo").await;
    let flow = serving.home().join("flow.yaml");
    std::fs::write(&flow, "kind: workflow\nname: say\nsteps: [{id: a, tool: try/echo, args: {text: x}}]\n").unwrap();
    serving.until(&mut agent, &["create", "-f", flow.to_str().unwrap()], "* workflow `say` was created").await;
    assert_eq!(agent.end().await, Some(130));
    let mut bridge = serving.background(&["agent", "--mcp-server"]);
    bridge.types(&initialize()).await;
    assert!(bridge.reads("\"id\":1").await.contains("serverInfo"));
    bridge.end().await;
    serving.stop().await;
}

fn initialize() -> String {
    let info = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
}

#[tokio::test]
async fn standalone_is_a_gateway_and_a_server_over_stdio() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("servers")).unwrap();
    std::fs::write(home.path().join("servers/try.yaml"), definition("try")).unwrap();
    let mut standalone = background(home.path(), &["standalone", "--listen", "127.0.0.1:0"]);
    standalone.types(&initialize()).await;
    // Nothing but MCP is on stdout.
    let first: Value = serde_json::from_str(&standalone.reads("").await).unwrap();
    assert_eq!(first["id"], 1, "{first}");
    let listed = run(home.path(), &["list", "tools", "--filter", "try_echo", "-o", "name"], &[]).await;
    listed.prints("tool/try_echo\n");
    let call = json!({ "name": "call_tool", "arguments": { "name": "try_echo", "arguments": { "text": "by stdio" } } });
    standalone.types(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
    standalone.types(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }).to_string()).await;
    assert!(standalone.reads("\"id\":2").await.contains("by stdio"));
    standalone.end().await;
    assert!(!home.path().join("state/serve.json").exists());
}

#[tokio::test]
async fn a_copy_tells_how_it_is_updated_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["self-update"], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in ["installed by: ", "update with:  ", "nothing was changed"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
}
