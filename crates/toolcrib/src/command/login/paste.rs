//! A login whose browser is elsewhere: the provider's page is printed, and the address that it ends at is pasted here.
//!
//! The gateway binds such a login to a secret of this command instead of a cookie. The secret is kept in the home, for
//! its owner only, until the login is complete, so that another command can complete it.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use toolcrib_base::{Kind, Problem, Secret, ServerName, random};

use crate::client::ClientFlags;
use crate::home::{Environment, Home};
use crate::token;

/// The longest line that is read, in bytes: more than any address that a gateway takes.
const LINE_BYTES: u64 = 32 * 1024;

/// Where the secret of a login lies.
#[derive(Debug)]
pub(super) struct BrowserSecret(PathBuf);

// === impl BrowserSecret ===

impl BrowserSecret {
    /// That of a server's login in the home that the flags name.
    pub(super) fn of(server: &ServerName, flags: &ClientFlags, environment: &Environment) -> Result<Self, Problem> {
        let home = Home::find(flags.home(), environment)?;
        Ok(Self(home.state().join("logins").join(server.as_str())))
    }

    /// Makes one in place of that of an earlier login.
    pub(super) fn make(&self) -> Result<Secret, Problem> {
        let secret = random::token();
        let failed = |error: io::Error| {
            let message = format!("cannot keep the secret of the login in `{}`: {error}", self.0.display());
            Problem::new(Kind::Internal, message).hint("check who owns the home folder, and free space on its disk")
        };
        token::write_private(&self.0, secret.expose().as_bytes()).map_err(failed)?;
        Ok(secret)
    }

    /// That of the login that waits.
    pub(super) fn read(&self, server: &ServerName) -> Result<Secret, Problem> {
        if !self.0.exists() {
            return Err(Problem::new(Kind::NotFound, format!("no login of `{server}` waits for an address"))
                .hint(format!("begin one with `toolcrib login {server} --no-browser`")));
        }
        token::read(&self.0).map_err(|problem| Problem { kind: Kind::Internal, ..problem })
    }

    /// Forgets it.
    pub(super) fn remove(&self) {
        // Left behind it opens nothing: a login is completed once.
        let _ = fs::remove_file(&self.0);
    }
}

/// Asks on stderr and reads a line of stdin; `None` at its end. The thread that reads is left alone when nobody waits any
/// more.
pub(super) async fn line(question: String) -> anyhow::Result<Option<String>> {
    let read = tokio::task::spawn_blocking(move || {
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question}")?;
        stderr.flush()?;
        drop(stderr);
        let mut line = String::new();
        let length = io::stdin().lock().take(LINE_BYTES).read_line(&mut line)?;
        io::Result::Ok((length > 0).then_some(line))
    });
    Ok(read.await.context("read a line")?.context("read a line from stdin")?.map(|line| line.trim().to_owned()))
}
