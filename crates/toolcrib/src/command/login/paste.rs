//! What a person types for a login: the address that the provider's page ended at, where the browser is elsewhere, and
//! the values that a server wants from its user.
//!
//! The gateway binds such a login to a secret of this command instead of a cookie. The secret is kept in the home, for
//! its owner only, until the login is complete, so that another command can complete it.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem, Secret, ServerName, random};

use crate::client::ClientFlags;
use crate::home::{Environment, Home};
use crate::terminal::ask_hidden;
use crate::{text, token};

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

/// Asks for the values that a server wants from its user, without showing them; without a terminal each is a line of
/// stdin.
pub(super) async fn values(server: &ServerName, names: &[String]) -> anyhow::Result<Value> {
    let mut values = Map::new();
    for name in names {
        let question = format!("{server} needs your value of `{}`: ", text::line(name));
        let given =
            if io::stdin().is_terminal() { hidden(question).await? } else { line(question).await?.map(Secret::new) };
        let given = given.filter(|value| !value.expose().is_empty());
        let value = given.ok_or_else(|| no_value(server, std::slice::from_ref(name)))?;
        values.insert(name.clone(), value.expose().into());
    }
    Ok(values.into())
}

/// A value is missing that only a person has.
pub(super) fn no_value(server: &ServerName, names: &[String]) -> Problem {
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Problem::new(Kind::Unauthenticated, format!("no value was given for {names} of `{server}`"))
        .hint(format!("run `toolcrib login {server}` at a terminal, or pass each value as a line of stdin"))
}

/// As [`line()`], at a terminal that shows nothing meanwhile.
async fn hidden(question: String) -> anyhow::Result<Option<Secret>> {
    let read = tokio::task::spawn_blocking(move || ask_hidden(&mut io::stdin().lock(), &question));
    read.await.context("ask for a value")?.context("ask for a value")
}
