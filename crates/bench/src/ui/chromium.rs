//! A real browser at the pages: Chromium, driven by its own driver.

use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use thirtyfour::cdp::Cdp;
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities as _;
use thirtyfour::prelude::*;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How often another driver is started: a port that one has chosen may be taken before it listens.
const STARTS: usize = 5;

/// The browser, signed in. Dropping it without [`quit`](Self::quit) leaves its windows to the end of the driver.
pub(super) struct Chromium {
    driver: WebDriver,
    cdp: Cdp,
    origin: String,
    _program: Child,
}

// === impl Chromium ===

impl Chromium {
    /// Starts it and opens the link of `toolcrib ui`.
    pub(super) async fn sign_in(link: &str) -> anyhow::Result<Self> {
        let (program, port) = start_driver().await?;
        let mut wanted = DesiredCapabilities::chrome();
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] {
            wanted.add_arg(argument)?;
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wanted).await.context("start Chromium")?;
        let origin = link.split("/ui/").next().unwrap_or_default().to_owned();
        driver.goto(link).await?;
        driver.query(By::Css("nav")).first().await.context("the pages do not open")?;
        Ok(Self { cdp: driver.cdp(), driver, origin, _program: program })
    }

    /// Opens a page.
    pub(super) async fn open(&self, path: &str) -> anyhow::Result<()> {
        Ok(self.driver.goto(format!("{}{path}", self.origin)).await?)
    }

    /// Leaves the pages.
    pub(super) async fn leave(&self) -> anyhow::Result<()> {
        Ok(self.driver.goto("about:blank").await?)
    }

    /// What a script in the page answers.
    pub(super) async fn eval(&self, script: &str) -> anyhow::Result<Value> {
        Ok(self.driver.execute(script, Vec::new()).await?.json().clone())
    }

    /// Presses a key in a field.
    pub(super) async fn press(&self, css: &str, key: &str) -> anyhow::Result<()> {
        Ok(self.driver.find(By::Css(css)).await?.send_keys(key).await?)
    }

    /// Bytes of the script's heap, without garbage.
    pub(super) async fn heap(&self) -> anyhow::Result<f64> {
        self.cdp.send_raw("HeapProfiler.collectGarbage", json!({})).await?;
        let usage = self.cdp.send_raw("Runtime.getHeapUsage", json!({})).await?;
        usage["usedSize"].as_f64().with_context(|| format!("no size of the heap in {usage}"))
    }

    pub(super) async fn quit(self) -> anyhow::Result<()> {
        Ok(self.driver.quit().await?)
    }
}

async fn start_driver() -> anyhow::Result<(Child, String)> {
    for _ in 0..STARTS {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut program = command.spawn().context("start `chromedriver`: `cargo xtask test` installs it")?;
        let mut lines = BufReader::new(program.stdout.take().context("no standard output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(port) = line.strip_prefix("ChromeDriver was started successfully on port ") {
                return Ok((program, port.trim_end_matches('.').to_owned()));
            }
        }
    }
    bail!("`chromedriver` ends before it listens")
}
