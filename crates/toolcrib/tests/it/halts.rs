//! Halts and canaries of the real binary, by its commands.

use serde_json::{Value, json};
use toolcrib_testkit::{eventually_finds, fake_server};

use crate::serving::GatewayFixture;
use crate::toolcrib::{run, toolcrib};

fn definition() -> String {
    format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display())
}

async fn ran(gateway: &GatewayFixture, arguments: &[&str]) -> Result<Value, String> {
    let arguments = [arguments, &["-o", "json"]].concat();
    let done = run(gateway.home(), &arguments, &[]).await;
    match done.code {
        0 => Ok(serde_json::from_str(&done.stdout).unwrap()),
        _ => Err(done.stderr),
    }
}

#[tokio::test]
async fn admin_is_halted_and_freed_by_who_reads_the_token_file() {
    let gateway = GatewayFixture::start(&[("try", &definition())]).await;
    let added = ran(&gateway, &["halt", "add", "principal", "admin", "--reason", "its token was seen"]).await.unwrap();
    let id = added["id"].as_str().unwrap();
    for refused in [&["list", "servers"][..], &["halt", "add", "profile", "x", "--reason", "y"], &["audit", "list"]] {
        let error = ran(&gateway, refused).await.unwrap_err();
        assert!(error.contains("this principal is halted") && error.contains(id), "{refused:?}: {error}");
    }
    let listed = ran(&gateway, &["halt", "list"]).await.unwrap();
    assert_eq!(listed["halts"][0]["reason"], "its token was seen");
    ran(&gateway, &["halt", "lift", id]).await.unwrap();
    ran(&gateway, &["list", "servers"]).await.unwrap();
}

#[tokio::test]
async fn a_canary_is_sealed_by_the_vault_of_the_home_and_halts_who_calls_with_it() {
    let gateway = GatewayFixture::start(&[("try", &definition())]).await;
    let minted = ran(&gateway, &["canary", "mint", "--kind", "email"]).await.unwrap();
    let (id, token) = (minted["id"].as_str().unwrap(), minted["token"].as_str().unwrap());
    let listed = ran(&gateway, &["canary", "list"]).await.unwrap();
    assert_eq!(listed["canaries"][0]["lookedFor"], true);
    assert!(!listed.to_string().contains(token));
    let called = run(gateway.home(), &["call", "try/echo", &format!("text={token}")], &[]).await;
    let said = format!("{} {}", called.stdout, called.stderr);
    assert!(called.code != 0 && said.contains("is halted") && !said.contains(id), "{said}");
    let halts = ran(&gateway, &["halt", "list"]).await.unwrap();
    assert_eq!((&halts["halts"][0]["canary"], &halts["halts"][0]["subject"]), (&minted["id"], &"admin".into()));
    ran(&gateway, &["halt", "lift", halts["halts"][0]["id"].as_str().unwrap()]).await.unwrap();
    ran(&gateway, &["canary", "remove", id]).await.unwrap();
    // Neither the database nor a log of the home has it.
    let core = token.trim_start_matches("svc-").split('@').next().unwrap();
    let mut folders = vec![gateway.home().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                let has = bytes.windows(core.len()).any(|window| window == core.as_bytes());
                assert!(!has, "{}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn a_halt_holds_in_a_gateway_over_stdio_beside_and_its_end_too() {
    let gateway = GatewayFixture::start(&[("try", &definition())]).await;
    let mut beside = toolcrib(gateway.home(), &["stdio"]).start();
    let mut number = 0;
    let mut call = async || {
        number += 1;
        let params = json!({
            "name": "try_echo",
            "arguments": {"text": "hello"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        });
        let request = json!({"jsonrpc": "2.0", "id": format!("n{number}"), "method": "tools/call", "params": params});
        beside.types(&format!("{request}\n")).await;
        beside.reads(&format!("\"n{number}\"")).await
    };
    eventually_finds("a call that is answered", async || {
        Some(call().await).filter(|it| it.contains("hello")).ok_or("no")
    })
    .await;
    let added = ran(&gateway, &["halt", "add", "principal", "local", "--reason", "lost"]).await.unwrap();
    let id = added["id"].as_str().unwrap();
    eventually_finds("the halt over stdio", async || Some(call().await).filter(|it| it.contains(id)).ok_or("no")).await;
    ran(&gateway, &["halt", "lift", id]).await.unwrap();
    eventually_finds("its end", async || Some(call().await).filter(|it| it.contains("hello")).ok_or("no")).await;
}
