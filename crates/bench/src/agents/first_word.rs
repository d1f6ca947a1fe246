//! How much later the first word of a model arrives by an agent's stream than straight from the model.

use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::model::WORDS;
use super::{AgentBench, Stage};
use crate::report::median;
use crate::run::sheet::{Sheet, millis};
use crate::wire::split_url;

const SAMPLES: usize = 300;
/// Milliseconds more than direct.
const AIM: f64 = 2.0;

pub(super) async fn measure(bench: &AgentBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    let stage = Stage::new(bench).await?;
    let gateway = stage.gateway().await?;
    let straight = format!("{}/chat/completions", stage.model.url);
    let asked = r#"{"model":"words","messages":[{"role":"user","content":"go on"}],"stream":true}"#;
    let by_agent = format!("{}/api/v1/agents/{WORDS}/stream", gateway.url.trim_end_matches("/mcp"));
    let (mut direct, mut agent) = (Vec::new(), Vec::new());
    for sample in 0..SAMPLES / stage.share {
        let straight = first_word(&straight, asked).await?;
        let by_agent = first_word(&by_agent, r#"{"content":"go on"}"#).await?;
        // The first ones open connections.
        if sample > 2 {
            direct.push(straight);
            agent.push(by_agent);
        }
    }
    gateway.stop().await?;
    let (direct, agent) = (median(&direct).context("no samples")?, median(&agent).context("no samples")?);
    sheet.aim(
        "first word by an agent's stream, ms later than straight from the model",
        Some(AIM),
        Some(agent - direct),
    );
    sheet.aim("straight from the model, ms", None, Some(direct));
    Ok(())
}

/// Milliseconds from the request to the first word, on a connection of its own.
async fn first_word(url: &str, body: &str) -> anyhow::Result<f64> {
    let (authority, path) = split_url(url)?;
    let mut stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let begun = Instant::now();
    stream.write_all(request.as_bytes()).await?;
    let (mut received, mut word) = (Vec::with_capacity(8 * 1024), None);
    loop {
        let is_open = stream.read_buf(&mut received).await? > 0;
        ensure!(!received.starts_with(b"HTTP/1.1 4"), "`{url}`: {}", String::from_utf8_lossy(&received));
        if word.is_none() && memmem::find(&received, b"\"content\":\"one").is_some() {
            word = Some(millis(begun));
        }
        match word {
            Some(word) if !is_open => return Ok(word),
            None if !is_open => bail!("`{url}`: no word in {}", String::from_utf8_lossy(&received)),
            _ => {}
        }
    }
}
