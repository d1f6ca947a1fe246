//! `exposure: auto`: every tool is listed where they are few, else the pinned ones. What is decided depends on the
//! catalogue alone, so that the list of a modern client never depends on who connected; legacy clients that are known
//! to search long lists themselves have the whole list.

use std::sync::Arc;

use toolcrib_catalog::{Exposure, ProfileDefinition};
use toolcrib_session::Session;

use super::Tool;

/// The exposure that a profile has with these tools. Only few tools are counted.
pub(super) fn settled(profile: &ProfileDefinition, tools: &[Arc<Tool>]) -> Exposure {
    if profile.exposure != Exposure::Auto {
        return profile.exposure;
    }
    let fits = |most: u32, count: usize| count <= most as usize;
    let tokens = || tools.iter().map(|tool| tool.tokens()).sum();
    match fits(profile.auto.tools, tools.len()) && fits(profile.auto.tokens, tokens()) {
        true => Exposure::Direct,
        false => Exposure::Pinned,
    }
}

/// Whether the client of a session searches long lists itself.
pub(super) fn defers(profile: &ProfileDefinition, session: &Session) -> bool {
    let name = session.client_info.as_ref().and_then(|info| info.text("name"));
    name.is_some_and(|name| profile.auto.deferring.contains(&name))
}
