//! The web user interface of the real binary in a real browser: Chromium, driven by its own driver.

mod busy;
mod copies;
mod looks;
mod made;
mod outline;
mod pictures;
mod record;

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::prelude::*;
use thirtyfour::session::handle::SessionHandle;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolcrib_testkit::{eventually, eventually_finds, fake_server};

use crate::serving::GatewayFixture;
use crate::toolcrib::{run, run_with_stdin};

/// A browser, and the driver that it ends with.
pub(crate) struct Browser {
    driver: WebDriver,
    runs_scripts: bool,
    _program: Child,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        Self::start_with(true).await
    }

    /// One that runs no script of any page.
    pub(crate) async fn without_script() -> Self {
        Self::start_with(false).await
    }

    async fn start_with(runs_scripts: bool) -> Self {
        let (program, port) = eventually("the driver names its port", async {
            loop {
                // Another program may take the port that it chose before it listens there.
                if let Some(started) = start_driver().await {
                    return started;
                }
            }
        })
        .await;
        let mut wanted = DesiredCapabilities::chrome();
        for argument in
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        {
            wanted.add_arg(argument).unwrap();
        }
        if !runs_scripts {
            let settings = json!({ "profile.managed_default_content_settings.javascript": 2 });
            wanted.add_experimental_option("prefs", settings).unwrap();
        }
        wanted.set_logging_prefs("browser", thirtyfour::LoggingPrefsLogLevel::All).unwrap();
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wanted).await.expect("Chromium starts");
        Self { driver, runs_scripts, _program: program }
    }

    /// Opens the pages signed in, and does something there. The browser ends, whatever comes of it.
    pub(crate) async fn signed_in<F>(self, gateway: &GatewayFixture, visit: impl FnOnce(Pages) -> F)
    where
        F: Future<Output = ()>,
    {
        self.signed_in_at(gateway.home(), visit).await;
    }

    /// The same at the gateway that serves a home.
    pub(crate) async fn signed_in_at<F>(self, home: &Path, visit: impl FnOnce(Pages) -> F)
    where
        F: Future<Output = ()>,
    {
        self.at("", |mut pages| async move {
            pages.sign_in(home).await;
            visit(pages).await;
        })
        .await;
    }

    /// The same at an origin where no one is signed in.
    pub(crate) async fn at<F>(self, origin: &str, visit: impl FnOnce(Pages) -> F)
    where
        F: Future<Output = ()>,
    {
        let runs_scripts = self.runs_scripts;
        let visited = self.driver.run_and_quit(|driver| async move {
            let handle = Arc::clone(driver.handle());
            visit(Pages { driver: handle, cdp: driver.cdp(), origin: origin.to_owned(), runs_scripts }).await;
            Ok::<(), WebDriverError>(())
        });
        visited.await.expect("the browser does what it is asked");
    }
}

/// The browser's driver and its port; none if it ended before it had one.
async fn start_driver() -> Option<(Child, String)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut program = command.spawn().expect("`chromedriver` starts: `cargo xtask test` installs chromium-driver");
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(port) = line.strip_prefix("ChromeDriver was started successfully on port ") {
            // What it says further is read by no one.
            return Some((program, port.trim_end_matches('.').to_owned()));
        }
    }
    None
}

/// The pages in a browser.
pub(crate) struct Pages {
    pub(crate) driver: Arc<SessionHandle>,
    cdp: thirtyfour::cdp::Cdp,
    origin: String,
    runs_scripts: bool,
}

impl Pages {
    /// Signs in at the gateway of a home that runs now.
    pub(crate) async fn sign_in(&mut self, home: &Path) {
        let done = run(home, &["ui", "--print"], &[]).await;
        let url = done.stdout.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.contains(".localhost:"), "{} {}", done.stdout, done.stderr);
        self.origin = url.split("/ui/").next().unwrap().to_owned();
        if self.runs_scripts {
            self.driver.goto(&url).await.unwrap();
        } else {
            // The code stands in the fragment, which a script takes; the token needs none.
            self.go("/ui").await;
            let token = std::fs::read_to_string(home.join("state/token")).unwrap();
            self.types("#token", token.trim()).await;
            self.click("form:not([hidden]) button").await;
        }
        self.until("nav").await;
    }

    pub(crate) async fn go(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.origin)).await.unwrap();
    }

    /// Waits for an element, and gives it.
    pub(crate) async fn until(&self, css: &str) -> WebElement {
        eventually(css, async {
            loop {
                if let Ok(found) = self.driver.find(By::Css(css)).await {
                    return found;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Waits until the page holds a text.
    pub(crate) async fn reads(&self, text: &str) {
        eventually_finds(text, async || {
            let shown = self.text().await;
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        })
        .await;
    }

    /// Loads a page until it says this.
    pub(crate) async fn shows(&self, path: &str, part: &str) -> String {
        eventually_finds(part, async || {
            self.go(path).await;
            let text = self.text().await;
            if text.contains(part) { Ok(text) } else { Err(text) }
        })
        .await
    }

    /// Waits until the page holds what comes with time: by itself, or when it is loaded again where no script runs.
    pub(crate) async fn comes_to_read(&self, text: &str) {
        eventually_finds(text, async || {
            let shown = self.text().await;
            if shown.contains(text) {
                return Ok(());
            }
            if !self.runs_scripts {
                self.driver.refresh().await.unwrap();
            }
            Err(shown)
        })
        .await;
    }

    pub(crate) async fn text(&self) -> String {
        match self.driver.find(By::Tag("main")).await {
            Ok(main) => main.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    pub(crate) async fn eval(&self, script: &str) -> Value {
        self.driver.execute(script, Vec::new()).await.unwrap().json().clone()
    }

    /// Clicks an element, which what happens meanwhile may replace.
    pub(crate) async fn click(&self, css: &str) {
        eventually(css, async { while self.until(css).await.click().await.is_err() {} }).await;
    }

    /// Presses keys where the focus is.
    pub(crate) async fn press(&self, keys: impl Into<TypingData>) {
        self.driver.active_element().await.unwrap().send_keys(keys).await.unwrap();
    }

    pub(crate) async fn types(&self, css: &str, text: &str) {
        let field = self.until(css).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Makes the window so wide.
    pub(crate) async fn resize(&self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.cdp.send_raw("Emulation.setDeviceMetricsOverride", size).await.unwrap();
    }

    async fn look(&self, width: u32, theme: &str) {
        self.resize(width).await;
        self.media(&[("prefers-color-scheme", theme)]).await;
    }

    /// Sets what the page asks of the person's settings.
    async fn media(&self, features: &[(&str, &str)]) {
        let features: Vec<Value> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.cdp.send_raw("Emulation.setEmulatedMedia", json!({ "features": features })).await.unwrap();
    }

    /// What the console says, and what the policy of content refused.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.driver.browser_log().await.unwrap();
        log.into_iter().map(|line| line.message).collect()
    }
}

fn servers() -> Vec<(&'static str, String)> {
    let practice = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let broken = "name: broken\ncommand: ./no-such-program\nstart: eager\n".to_owned();
    vec![("try", practice), ("broken", broken)]
}

async fn gateway() -> GatewayFixture {
    let servers = servers();
    let servers: Vec<(&str, &str)> = servers.iter().map(|(name, text)| (*name, text.as_str())).collect();
    GatewayFixture::start(&servers).await
}

#[tokio::test]
async fn a_person_repairs_a_server_calls_a_tool_and_sees_what_happens_elsewhere() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            // What failed stands first, with its next step.
            pages.reads("no such program").await;
            pages.click(".needs a[href='/ui/servers/broken']").await;
            pages.reads("no-such-program").await;
            // A change shows what it would do before it is written.
            pages.go("/ui/operations/core_mcpserver_update?name=broken&return=/ui/servers/broken").await;
            let definition = json!({ "name": "broken", "command": fake_server(), "start": "eager" }).to_string();
            pages.types("[name='v:/definition']", &definition).await;
            pages.click("form[action='/ui/do/core_mcpserver_update'] button.danger").await;
            pages.reads("What would change").await;
            let file = home.join("servers/broken.yaml");
            assert!(std::fs::read_to_string(&file).unwrap().contains("no-such-program"), "nothing is written before");
            assert!(pages.text().await.contains("- ") && pages.text().await.contains("no-such-program"));
            pages.click("section form button").await;
            pages.reads("Done.").await;
            assert!(!std::fs::read_to_string(&file).unwrap().contains("no-such-program"));
            pages.reads("ready").await;
            // A tool is called with the form of its schema.
            pages.go("/ui/call/try%2Fecho").await;
            pages.types("[name='v:/text']", "zwölf <b>Dutzend</b>").await;
            pages.click("form[action^='/ui/call/'] button.primary").await;
            pages.reads("zwölf <b>Dutzend</b>").await;
            assert!(pages.text().await.contains("Result"));
            // A page shows what its operation answers, and no secret.
            let set =
                run_with_stdin(&home, &["secret", "set", "token-of-try", "--server", "try"], &[], "v4lue-unseen").await;
            assert_eq!(set.code, 0, "{}", set.stderr);
            pages.go("/ui/secrets").await;
            let secrets = pages.text().await;
            for part in ["token-of-try", "server try, every profile"] {
                assert!(secrets.contains(part), "{part}: {secrets}");
            }
            assert!(
                !pages.eval("return document.documentElement.outerHTML").await.to_string().contains("v4lue-unseen")
            );
            // What happens elsewhere shows without a reload.
            pages.go("/ui/halts").await;
            pages.reads("Nothing is halted").await;
            let halted = run(&home, &["halt", "add", "run", "r1", "--reason", "seen <i>live</i>"], &[]).await;
            assert_eq!(halted.code, 0, "{}", halted.stderr);
            pages.reads("seen <i>live</i>").await;
            pages.click("form[action='/ui/do/core_halt_lift'] button").await;
            pages.reads("Nothing is halted").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    let audit = run(gateway.home(), &["audit", "list", "--target", "core_mcpserver_update", "-o", "json"], &[]).await;
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    assert_eq!(audit["events"][0]["door"], "ui", "{audit}");
}

#[tokio::test]
async fn a_session_ends_with_its_button_and_a_gateway_that_goes_away_is_seen() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/halts").await;
            pages.reads("Nothing is halted").await;
            // The session of this browser ends elsewhere, and with it what the page is sent.
            let listed = run(&home, &["api", "browser_session_list"], &[]).await;
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            let name = listed["sessions"][0]["name"].as_str().unwrap();
            let ended = run(&home, &["api", "browser_session_end", &format!("name={name}")], &[]).await;
            assert_eq!(ended.code, 0, "{}", ended.stderr);
            pages.reads("session has ended").await;
            pages.go("/ui/servers").await;
            pages.reads("The gateway's token").await;
            // The token opens it again, and leads to where the person wanted to go.
            let token = std::fs::read_to_string(home.join("state/token")).unwrap();
            pages.types("#token", token.trim()).await;
            pages.click("form:not([hidden]) button").await;
            pages.reads("broken").await;
            pages.click("form[action='/ui/sign-out'] button").await;
            pages.reads("The gateway's token").await;
        })
        .await;
}
