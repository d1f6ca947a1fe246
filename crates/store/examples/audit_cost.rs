//! Measures what an audit event costs in CPU time, on the caller's thread and on the writer's (Linux only).
//! `cargo run --release -p toolcrib-store --example audit_cost -- [events] [events at a time]`, in the folder to write
//! to.

use std::fs;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolcrib_base::{Clock, CredentialName, Identity, PrincipalId, ProfileName, Proof, Role, SystemClock};
use toolcrib_store::{AuditEvent, AuditLog, Config, Custody, Decision, Door, SealKey, Store};

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let events = arguments.next().transpose()?.unwrap_or(300_000);
    let burst = arguments.next().transpose()?.unwrap_or(64).max(1);
    let folder = tempfile::tempdir_in(".")?;
    let store = Store::open(folder.path(), Config::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (began, before) = (Instant::now(), cpu_by_thread()?);
    runtime.block_on(record(store.audit(), events, burst))?;
    let (took, after) = (began.elapsed(), cpu_by_thread()?);
    let mut out = io::stdout().lock();
    for (thread, (before, after)) in ["caller", "writer"].iter().zip(before.into_iter().zip(after)) {
        let micros = Duration::from_nanos(after - before).as_secs_f64() * 1e6;
        writeln!(out, "{thread}: {:.2} µs CPU per event", micros / events as f64)?;
    }
    let bytes: u64 = fs::read_dir(folder.path())?.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum();
    writeln!(out, "{:.0} events per second, {} bytes per event", events as f64 / took.as_secs_f64(), bytes / events)?;
    store.audit().sign_with(Arc::new(OpenVault)).map_err(|error| error.to_string())?;
    let began = Instant::now();
    store.audit().sign().map_err(|error| error.to_string())?;
    let micros = began.elapsed().as_secs_f64() * 1e6;
    writeln!(out, "{events} events signed for the first time: {:.2} µs per event", micros / events as f64)?;
    runtime.block_on(record(store.audit(), MINUTE, burst))?;
    let (began, before) = (Instant::now(), cpu_by_thread()?);
    store.audit().sign().map_err(|error| error.to_string())?;
    let (took, after) = (began.elapsed(), cpu_by_thread()?);
    let spent = Duration::from_nanos(after[0] - before[0]);
    writeln!(out, "checkpoint of {MINUTE} events: {spent:.2?} CPU, {took:.2?} with the disk")?;
    let (began, arguments) = (Instant::now(), vec![b'x'; 200]);
    for _ in 0..100_000 {
        std::hint::black_box(store.audit().hash_arguments(std::hint::black_box(&arguments)));
    }
    writeln!(out, "hash of 200 bytes: {:.2} µs", began.elapsed().as_secs_f64() * 1e6 / 1e5)?;
    runtime.block_on(store.close())?;
    let began = Instant::now();
    let verified = store.audit().verify(None)?;
    writeln!(out, "verified in {:.2} s: {verified:?}", began.elapsed().as_secs_f64())?;
    Ok(())
}

/// A busy minute of one person.
const MINUTE: u64 = 600;

/// A vault that seals nothing: what is measured is the signature.
#[derive(Debug)]
struct OpenVault;

impl SealKey for OpenVault {
    fn seal(&self, key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String> {
        Ok(sealed.to_vec())
    }
}

async fn record(audit: &AuditLog, events: u64, burst: u64) -> Result<(), AnyError> {
    let (principal, profile) = (PrincipalId::new("local"), ProfileName::new("default")?);
    let clock = SystemClock;
    let identity = Identity {
        issuer: Some("acme".into()),
        client: Some("desktop".into()),
        credential: Some(CredentialName::of_hash(&[7; 32])),
        ..Identity::by(Proof::AccessToken)
    };
    let custody = Custody {
        identity: Some(Arc::new(identity)),
        role: Some(Role::Member),
        client: Some(Arc::from("desktop 1.2.3")),
        bridge: None,
    };
    let mut slots = Vec::new();
    for number in 0..events {
        if number % burst == 0 {
            for _ in 0..burst {
                slots.push(audit.reserve().await?);
            }
        }
        let Some(slot) = slots.pop() else { continue };
        let target = Arc::from("everything/echo");
        slot.record(AuditEvent {
            profile: Some(profile.clone()),
            args_hash: Some(audit.hash_arguments(br#"{"message":"hello from the other side"}"#)),
            decision: Decision::Permit("profile".into()),
            duration: Duration::from_micros(1_234),
            request_id: number.to_string(),
            session: Some(Arc::from("0123456789abcdef0123456789abcdef")),
            address: Some(std::net::IpAddr::from([192, 0, 2, 7])),
            custody: custody.clone(),
            ..AuditEvent::new(clock.now(), principal.clone(), Door::MCP, "tools/call".into(), target)
        });
    }
    audit.flush().await?;
    Ok(())
}

/// CPU nanoseconds of all threads but the writer's, and of the writer's.
fn cpu_by_thread() -> Result<[u64; 2], AnyError> {
    let mut nanos = [0; 2];
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let spent = fs::read_to_string(task.join("schedstat"))?;
        let spent: u64 = spent.split(' ').next().unwrap_or_default().parse()?;
        let writer = fs::read_to_string(task.join("comm"))?.trim() == "audit";
        nanos[usize::from(writer)] += spent;
    }
    Ok(nanos)
}
