//! Advice for a caller who finds a server unavailable. Advice for its administrator is in `gateway`.

use toolcrib_base::ServerName;
use toolcrib_upstream::{ServerUnavailable, State, Status};

/// What a caller can do who finds a server away.
pub fn for_caller_of(away: &ServerUnavailable) -> String {
    format!("{} Other servers are unaffected.", for_caller(&away.server, &away.status))
}

/// What a caller can do whom a server asks to log in.
pub fn for_login(name: &ServerName) -> String {
    format!("Log in with `toolcrib login {name}`, then repeat the call: it has not run.")
}

/// What someone can do about a server who does not administer it.
pub fn for_caller(name: &ServerName, status: &Status) -> String {
    match status.state {
        State::Stopped => format!("An admin can start it with `toolcrib server start {name}`."),
        State::Installing => "It is being downloaded: try again in a minute.".to_owned(),
        State::NeedsLogin => for_login(name),
        State::Failed if status.half_written.is_some() => {
            "An admin can repair it with `toolcrib doctor --fix`.".to_owned()
        }
        State::Failed => format!("It is retried automatically; for the next step, run `toolcrib doctor {name}`."),
        State::Idle | State::Starting | State::Ready => "Try again in a moment.".to_owned(),
    }
}
