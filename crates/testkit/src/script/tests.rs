//! The script answers over both doors, in both eras.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

fn post(server: &ScriptedServer, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server.http.address()).unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    stream.write_all((head + body).as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn echo(heard: &ReceivedMessage, say: &mut Say<'_>) {
    if heard.method == "tools/call" {
        say.notify("notifications/progress", r#"{"progress":1}"#);
        say.result(&heard.params);
    }
}

#[test]
fn a_script_answers_by_post_in_the_rules_of_its_era() {
    let server = ScriptedServer::start(Speaks::Legacy, echo);
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{ "x" : 1.0 }}"#;
    assert!(post(&server, "", call).starts_with("HTTP/1.1 400"), "no session");
    let opened = post(&server, "", r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    assert!(opened.contains("mcp-session-id: 1"), "{opened}");
    let answer = post(&server, "mcp-session-id: 1\r\n", call);
    assert!(answer.contains("notifications/progress"), "{answer}");
    assert!(answer.contains(r#""id":7,"result":{ "x" : 1.0 }"#), "{answer}");
    assert_eq!(server.heard_of("tools/call").len(), 2);
    server.restart(Speaks::Modern);
    assert!(post(&server, "", call).contains("-32602"));
    server.restart(Speaks::Legacy);
    assert!(post(&server, "mcp-session-id: 1\r\n", call).starts_with("HTTP/1.1 404"), "the session is forgotten");
}

#[test]
fn a_script_answers_line_by_line_and_a_restart_ends_its_processes() {
    let server = ScriptedServer::start(Speaks::Modern, echo);
    let mut stream = TcpStream::connect(server.relay()).unwrap();
    stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"server/discover\"}\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(r#""id":"a","result":{"supportedVersions":["2026-07-28"]"#));
    assert!(server.wait(|heard| heard.len() == 1));
    server.restart(Speaks::Legacy);
    assert!(lines.next().is_none());
}
