//! Credentials in large numbers: what they cost in memory and at the start of a gateway, and their renewal all at once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::json;
use tempfile::TempDir;
use toolcrib_auth::{KeyPreference, Vault};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, ManualClock, Secret, ServerName, SystemClock, Timestamp};
use toolcrib_login::{
    Begin, Config, CredentialRow, LoginRows, LoginSettings, LoginTarget, Logins, OpenOutcome, OpenRequest, Owner,
    PossessionKeys, Quirks, StoredRows, SystemResolver,
};
use toolcrib_store::Store;
use toolcrib_transport::http::client::HttpClient;

use super::provider::{LIFE, Provider};
use super::{Findings, IdentityBench};
use crate::child::Role;
use crate::gateway::{Gateway, Home};
use crate::process::{Process, Sizes};
use crate::report::{median, number};

/// How long a provider takes for a renewal in the test of many.
const RENEWAL: Duration = Duration::from_millis(100);
const CLOSE_GRACE: Duration = Duration::from_secs(1);
const BROWSER: &str = "a-secret-of-at-least-thirty-two-characters";
/// A folder in memory: the disk of the machine that measures is no part of what is measured.
const IN_MEMORY: &str = "/dev/shm";

/// Logins of one gateway, whose servers are all the provider itself.
struct Bed {
    provider: Provider,
    rows: Arc<dyn LoginRows>,
    clock: Arc<dyn Clock>,
    scope: Scope,
}

impl Bed {
    fn logins(&self, servers: usize) -> anyhow::Result<Logins> {
        let logins = Logins::new(Config {
            rows: Arc::clone(&self.rows),
            http: HttpClient::new()?,
            resolver: Arc::new(SystemResolver),
            clock: Arc::clone(&self.clock),
            keys: PossessionKeys::new(Arc::clone(&self.clock)),
            quirks: Quirks::built_in(),
            redirect_uri: "http://127.0.0.1:8700/oauth/callback".to_owned(),
            client_document: None,
            scope: self.scope.clone(),
            audit: None,
        });
        for number in 0..servers {
            let url = format!("{}/mcp", self.provider.url());
            logins.set_target(LoginTarget::new(server(number)?, &url, LoginSettings::default())?);
        }
        Ok(logins)
    }

    /// The row of a real login, to be written for others as well.
    async fn log_in(&self, logins: &Logins) -> anyhow::Result<CredentialRow> {
        let (server, owner, browser) = (server(0)?, Owner::installation(), Secret::new(BROWSER));
        let pending = logins.begin(&server, &owner, None, Begin::New).await?;
        let open = OpenRequest { ticket: pending.ticket.expose(), opener: &owner, browser: &browser, origin: None };
        let OpenOutcome::Provider(url) = logins.open(open).await? else { bail!("the login begins elsewhere") };
        let state = url.as_str().split(['?', '&']).find_map(|pair| pair.strip_prefix("state="));
        let answer = format!("code=c&state={}", state.context("the page has no state")?);
        logins.complete(&answer, &browser).await?;
        self.rows.credential(&server, &owner)?.context("the login left no credential")
    }
}

fn server(number: usize) -> anyhow::Result<ServerName> {
    ServerName::new(&format!("remote-{number}")).map_err(|error| anyhow!("{error}"))
}

fn owner(number: usize) -> Owner {
    Owner::of(Some(&format!("user:acme/someone-{number}")))
}

/// A home folder, in memory where the system has such a place.
fn folder() -> anyhow::Result<TempDir> {
    let place = Path::new(IN_MEMORY);
    let place = if place.is_dir() { place.to_owned() } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix("toolcrib-bench-").tempdir_in(place)?)
}

/// So many credentials whose tokens are over are needed at one moment.
pub(super) async fn expire_at_once(bench: &IdentityBench, findings: &mut Findings) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..bench.rounds {
        let scope = Scope::new();
        let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
        let provider = Provider::start(json!({"keys": []}), RENEWAL, &scope).await?;
        let folder = folder()?;
        let store = Store::open(folder.path(), toolcrib_store::Config::default())?;
        let rows = Arc::new(StoredRows::new(&store, Vault::new(folder.path(), None), KeyPreference::File));
        let bed = Bed { provider, rows, clock: Arc::clone(&clock) as Arc<dyn Clock>, scope };
        let logins = bed.logins(1)?;
        let row = bed.log_in(&logins).await?;
        for number in 0..bench.expiring {
            bed.rows.put_credential(&CredentialRow { owner: owner(number), ..row.clone() })?;
        }
        clock.advance(LIFE * 1_000 + 1);
        let started = Instant::now();
        let tasks: Vec<_> = (0..bench.expiring)
            .map(|number| {
                let (logins, server) = (logins.clone(), row.server.clone());
                bed.scope.spawn(async move { logins.headers(&server, &owner(number)).await })
            })
            .collect();
        for task in tasks {
            let headers = task.await.context("a renewal ended early")??;
            ensure!(headers.is_some(), "a credential was not renewed");
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
        let renewals = bed.provider.renewals();
        ensure!(renewals == bench.expiring, "{renewals} refreshes for {} credentials", bench.expiring);
        bed.scope.close(CLOSE_GRACE).await;
        drop(logins);
        store.close_blocking()?;
    }
    let measure = format!("{} credentials expire at once: until all are renewed, ms", bench.expiring);
    let serial = RENEWAL.as_secs_f64() * 1e3 * count(bench.expiring);
    let beside = format!(
        "{} refreshes; the provider takes {} ms for each, one after the other they take {} ms",
        bench.expiring,
        RENEWAL.as_millis(),
        number(serial)
    );
    findings.add(&measure, None, median(&times).context("no rounds")?, &beside);
    Ok(())
}

/// Principals with a credential at each server: their memory in use, and the start of a gateway that has them.
pub(super) async fn many(bench: &IdentityBench, program: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    let backend = Role::start(&["backend-http"]).await?;
    let (empty, full) = (Home::new()?, Home::new()?);
    for home in [&empty, &full] {
        for number in 0..bench.servers {
            home.http_server(&format!("remote-{number}"), &backend.url)?;
        }
    }
    let used = fill(bench, &full.path().join("state")).await?;
    let (mut before, mut after, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        before.push(start(program, &empty).await?.0);
        let (listening, sizes) = start(program, &full).await?;
        after.push(listening);
        resident.push(sizes.resident_mib());
    }
    let idle = median(&resident).context("no rounds")?;
    let (principals, servers) = (bench.principals, bench.servers);
    let beside = format!(
        "an idle gateway with them {} MiB, and {} MiB more once all were in use: what is above the bound of the cache is \
         read again",
        number(idle),
        number(used),
    );
    let measure = format!("memory, {principals} principals with a credential at each of {servers} servers, MiB");
    findings.add(&measure, Some(120.0), idle + used, &beside);
    let [before, after] = [median(&before), median(&after)].map(Option::unwrap_or_default);
    let measure = format!("start with the {} credentials, more than without, ms", principals * servers);
    let beside = format!("{} ms with them, {} ms without; medians", number(after), number(before));
    findings.add(&measure, Some(500.0), (after - before).max(0.0), &beside);
    Ok(())
}

/// Writes the credentials into a state folder, and uses each once. Gives what they take in memory then, in MiB.
async fn fill(bench: &IdentityBench, state: &Path) -> anyhow::Result<f64> {
    let scope = Scope::new();
    let provider = Provider::start(json!({"keys": []}), Duration::ZERO, &scope).await?;
    let store = Store::open(state, toolcrib_store::Config::default())?;
    let rows = Arc::new(StoredRows::new(&store, Vault::new(state, None), KeyPreference::File));
    let bed = Bed { provider, rows, clock: Arc::new(SystemClock), scope };
    let logins = bed.logins(bench.servers)?;
    let row = bed.log_in(&logins).await?;
    let (rows, principals, servers) = (Arc::clone(&bed.rows), bench.principals, bench.servers);
    let writing = tokio::task::spawn_blocking(move || {
        for number in 0..principals {
            for at in 0..servers {
                rows.put_credential(&CredentialRow { owner: owner(number), server: server(at)?, ..row.clone() })?;
            }
        }
        anyhow::Ok(())
    });
    writing.await??;
    let own = Process(std::process::id());
    let before = own.sizes().context("this is not Linux")?;
    for number in 0..principals {
        for at in 0..servers {
            let headers = logins.headers(&server(at)?, &owner(number)).await?;
            ensure!(headers.is_some(), "a credential is missing");
        }
    }
    let after = own.sizes().context("this is not Linux")?;
    bed.scope.close(CLOSE_GRACE).await;
    drop(logins);
    store.close_blocking()?;
    Ok(after.own_mib() - before.own_mib())
}

/// Starts a gateway: until it listens, in milliseconds, and its memory when it is ready.
async fn start(program: &Path, home: &Home) -> anyhow::Result<(f64, Sizes)> {
    let gateway = Gateway::start(program, home).await?;
    let found = (gateway.times.listening, gateway.process.sizes().context("the gateway is gone")?);
    gateway.stop().await?;
    Ok(found)
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}
