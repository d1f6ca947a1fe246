//! Principals with lists of their own at servers, which show all of them the same: what a call costs, what they take in
//! memory, and how much later a gateway starts that remembers them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Map, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock as _, ServerName, SystemClock};
use toolcrib_store::{OwnSnapshot, Store};

use super::provider::Provider;
use super::{Findings, IdentityBench};
use crate::child::Role;
use crate::client::{Client, Manner, Request, quoted};
use crate::gateway::{Gateway, Home};
use crate::histogram::Histogram;
use crate::load::{choose_name, list};
use crate::report::{median, micros, number};

const ORIGIN: &str = "https://tools.example.com";
/// What servers must find in a token that is forwarded to them.
const AUDIENCE: &str = "remotes";
const PROFILE: &str = "direct";
/// Calls of a round, and of its beginning that do not count.
const CALLS: usize = 3_000;
const WARM_UP: usize = 300;
/// How many principals are listed at a time, and how long one may wait for its lists.
const AT_ONCE: usize = 16;
const LISTED_DEADLINE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// An issuer, servers that want its tokens, and a home that knows both.
struct Bed {
    key: SigningKey,
    provider: Provider,
    home: Home,
    servers: Vec<ServerName>,
    _backend: Role,
}

impl Bed {
    async fn new(servers: usize, scope: &Scope) -> anyhow::Result<Self> {
        let key = SigningKey::read(&SigningKey::generate())?;
        let provider = Provider::start(json!({"keys": [key.public_jwk()]}), Duration::ZERO, scope).await?;
        let (backend, home) = (Role::start(&["backend-http"]).await?, Home::new()?);
        home.settings(&format!(
            "[identity]\nurl = '{ORIGIN}'\n[[identity.issuer]]\nname = 'acme'\nissuer = '{}'\n\
             grants = [{{group = 'dev', role = 'member', profiles = ['{PROFILE}']}}]\n",
            provider.url()
        ))?;
        let names = (0..servers).map(|number| ServerName::new(&format!("remote-{number}")));
        let servers = names.collect::<Result<Vec<_>, _>>().map_err(|error| anyhow!("{error}"))?;
        for server in &servers {
            let url = &backend.url;
            let auth = format!("auth: {{forwardToken: true, requiredAudiences: [{AUDIENCE}]}}");
            home.server(
                server.as_str(),
                &format!("transport: http\nurl: {url}\nstart: eager\nsession: shared\n{auth}\n"),
            )?;
        }
        Ok(Self { key, provider, home, servers, _backend: backend })
    }

    fn token(&self, number: usize) -> String {
        let now = SystemClock.now().0 / 1_000;
        let claims = json!({
            "iss": self.provider.url(), "sub": format!("someone-{number}"), "client_id": "bench", "groups": ["dev"],
            "aud": [ORIGIN, AUDIENCE], "iat": now, "exp": now + 3_600, "jti": format!("{number:032x}"),
        });
        self.key.sign("at+jwt", claims.as_object().unwrap_or(&Map::new()))
    }

    /// The token of the owner.
    fn owner(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.home.path().join("state/token"))?.trim().to_owned())
    }

    /// What so many principals were shown, as after a day: the rows of those who were there, for others as well.
    fn remember(&self, principals: usize) -> anyhow::Result<()> {
        let store = Store::open(&self.home.path().join("state"), toolcrib_store::Config::default())?;
        let kept = store.own_snapshots();
        for server in &self.servers {
            let Some(first) = kept.of_server(server)?.into_iter().next() else {
                bail!("nothing is kept of `{server}`");
            };
            for number in 0..principals {
                kept.put(&OwnSnapshot { principal: format!("user:acme/someone-{number}"), ..first.clone() })?;
            }
        }
        store.close_blocking()?;
        Ok(())
    }
}

/// Waits until whoever comes with this token sees the tools of a server.
async fn listed(url: String, token: String, server: ServerName) -> anyhow::Result<()> {
    let mut client = Client::open_as(&url, Manner::Modern, Some(&token)).await?;
    let started = Instant::now();
    while choose_name(&list(&mut client).await?, "echo", server.as_str()).is_none_or(|it| !it.contains(server.as_str()))
    {
        ensure!(started.elapsed() < LISTED_DEADLINE, "a principal is not shown what its servers list");
        tokio::time::sleep(LOOK).await;
    }
    client.close().await;
    Ok(())
}

pub(super) async fn measure(bench: &IdentityBench, program: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    let scope = Scope::new();
    let measured = in_scope(bench, program, findings, &scope).await;
    scope.close(CLOSE_GRACE).await;
    measured
}

async fn in_scope(bench: &IdentityBench, program: &Path, findings: &mut Findings, scope: &Scope) -> anyhow::Result<()> {
    let bed = Bed::new(bench.servers, scope).await?;
    let gateway = Gateway::start(program, &bed.home).await?;
    let url = gateway.profile(PROFILE);
    let tokens: Vec<String> = (0..bench.viewers).map(|number| bed.token(number)).collect();
    let (first, rest) = tokens.split_first().context("no one looks")?;
    let last = bed.servers.last().context("no server")?;
    listed(url.clone(), first.clone(), last.clone()).await?;
    calls(bench, &bed, &url, findings).await?;
    let before = gateway.process.sizes().context("the gateway is gone")?;
    for some in rest.chunks(AT_ONCE) {
        let lists: Vec<_> =
            some.iter().map(|token| scope.spawn(listed(url.clone(), token.clone(), last.clone()))).collect();
        for list in lists {
            list.await.context("a client ended early")??;
        }
    }
    let after = gateway.process.sizes().context("the gateway is gone")?;
    let (viewers, servers) = (bench.viewers, bench.servers);
    let each = (after.own_mib() - before.own_mib()) * 1_024.0 / count(rest.len().max(1));
    let beside =
        format!("{viewers} principals: {} MiB, {} MiB with one", number(after.own_mib()), number(before.own_mib()));
    findings.add(&format!("memory of a principal who lists {servers} servers, KiB"), None, each, &beside);
    gateway.stop().await?;
    start(bench, program, &bed, findings).await
}

/// A call of someone with lists of its own beside one of the owner.
async fn calls(bench: &IdentityBench, bed: &Bed, url: &str, findings: &mut Findings) -> anyhow::Result<()> {
    let (owner, principal) = (bed.owner()?, bed.token(0));
    let mut client = Client::open_as(url, Manner::Legacy, Some(&owner)).await?;
    let server = bed.servers.first().context("no server")?;
    let tool = choose_name(&list(&mut client).await?, "echo", server.as_str()).context("the owner sees no `echo`")?;
    client.close().await;
    let message = "a message of the bench ".repeat(5);
    let request = Request::call(&tool, &format!("{{\"message\":{}}}", quoted(&message)));
    let (mut owners, mut principals) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        for (token, found) in [(&owner, &mut owners), (&principal, &mut principals)] {
            let mut client = Client::open_as(url, Manner::Legacy, Some(token)).await?;
            let mut times = Histogram::default();
            for number in 0..WARM_UP + CALLS {
                let started = Instant::now();
                let (_, answer) = client.call(&request).await?;
                let took = started.elapsed();
                let is_right = memchr::memmem::find(answer, message.as_bytes()).is_some();
                ensure!(is_right, "a wrong answer: {}", String::from_utf8_lossy(answer));
                if number >= WARM_UP {
                    times.record(took);
                }
            }
            client.close().await;
            found.extend(times.quantile(0.5).map(micros));
        }
    }
    let [owners, principals] = [median(&owners), median(&principals)].map(Option::unwrap_or_default);
    let beside = format!("p50 {} µs, {} µs of the owner; one client", number(principals), number(owners));
    findings.add(
        "a call of a principal with lists of its own, more than of the owner, µs",
        None,
        principals - owners,
        &beside,
    );
    Ok(())
}

/// The start of a gateway that remembers what many principals were shown, and its memory.
async fn start(bench: &IdentityBench, program: &Path, bed: &Bed, findings: &mut Findings) -> anyhow::Result<()> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let gateway = Gateway::start(program, &bed.home).await?;
        before.push(gateway.times.listening);
        few.push(gateway.process.sizes().context("the gateway is gone")?.own_mib());
        gateway.stop().await?;
    }
    bed.remember(bench.principals)?;
    for _ in 0..bench.rounds {
        let gateway = Gateway::start(program, &bed.home).await?;
        after.push(gateway.times.listening);
        many.push(gateway.process.sizes().context("the gateway is gone")?.own_mib());
        gateway.stop().await?;
    }
    let medians = [&before, &after, &few, &many].map(|values| median(values).unwrap_or_default());
    let [before, after, few, many] = medians;
    let (principals, servers, viewers) = (bench.principals, bench.servers, bench.viewers);
    let measure =
        format!("start with what {principals} principals were shown by {servers} servers, more than of {viewers}, ms");
    let beside = format!("{} ms, {} ms of {viewers}; medians", number(after), number(before));
    findings.add(&measure, Some(500.0), (after - before).max(0.0), &beside);
    let measure = format!("memory of what {principals} principals were shown, more than of {viewers}, MiB");
    let beside = format!("an idle gateway {} MiB, {} MiB with {viewers}", number(many), number(few));
    findings.add(&measure, None, (many - few).max(0.0), &beside);
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}
