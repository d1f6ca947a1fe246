//! No token, code, state, ticket or verifier is printed: not by `Debug`, not in an error, not in the log at its most
//! talkative.

use std::io;
use std::sync::{Arc, Mutex};

use toolcrib_login::Begin;
use toolcrib_testkit::provider::{RemoteRules, SECRET_MARK};
use tracing_subscriber::fmt::MakeWriter;

use crate::world::{World, owner};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn nothing_secret_is_printed() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    tracing::info!("the log is read");
    let world = World::new(RemoteRules::default());
    let pending = world.logins.begin(&world.server, &owner(), None, Begin::New).await.unwrap();
    let mut printed = format!("{pending:?}");
    let url = world.open(&pending.ticket).await.unwrap();
    let answer = world.agree(&url);
    world.complete(&answer).await.unwrap();
    let token = world.token().await.unwrap().unwrap();
    world.advance(3_601);
    let renewed = world.token().await.unwrap().unwrap();
    world.remote.end_grants();
    world.rejected(Some(&renewed), None).await;
    printed += &format!("{:?} {:?}", world.logins, world.logins.status(&owner()).await);
    printed += &format!("{:?}", world.rows.credential(&world.server, &owner()));
    let headers = world.logins.headers(&world.server, &owner()).await;
    printed += &format!("{headers:?}");
    world.logins.logout(&world.server, &owner()).await.unwrap();
    let error = world.complete(&answer).await.unwrap_err();
    printed += &format!("{error} {error:?} {:?}", error.problem());
    printed += &String::from_utf8_lossy(&log.0.lock().unwrap());
    assert!(printed.contains("the log is read"));
    let part = |text: &str, name: &str| text.split(name).nth(1).unwrap().split('&').next().unwrap().to_owned();
    let verifier = world.remote.forms("token")[0].get("code_verifier").unwrap().to_owned();
    let secrets = [
        pending.ticket.expose().to_owned(),
        world.browser.expose().to_owned(),
        part(&url, "state="),
        part(&answer, "code="),
        token.trim_start_matches("Bearer ").to_owned(),
        renewed.trim_start_matches("Bearer ").to_owned(),
        verifier,
        SECRET_MARK.to_owned(),
    ];
    for secret in secrets {
        assert!(secret.len() >= 8 && !printed.contains(&secret), "{secret} is printed");
    }
}
