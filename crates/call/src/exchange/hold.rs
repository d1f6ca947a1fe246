//! `changed_tools: hold` at the moment of a call: what is called is held against what was approved as the server offers it
//! now. The view may be older than that, and the server may have told a moment ago that its lists changed.

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::ChangedTools;
use toolcrib_catalog::pin::{Item, Part};
use toolcrib_protocol::inventory::Listing;
use toolcrib_upstream::Server;

use crate::client;
use crate::context::RequestContext;

impl RequestContext<'_> {
    /// Whether the profile holds back what is called, as its server offers it by now.
    ///
    /// # Errors
    /// The server has announced a change that cannot be read in time.
    pub(crate) async fn is_held_now(&self, server: &Server, part: Part, name: &str) -> Result<bool, Problem> {
        if self.view().profile.changed_tools != ChangedTools::Hold {
            return Ok(false);
        }
        // Boxed: few profiles hold, and the future of each call is moved.
        if !Box::pin(server.caught_up()).await {
            let message = format!("the lists of server `{}` changed and cannot be read", server.config().name);
            return Err(
                Problem::new(Kind::Unavailable, message).hint("Try again later; other servers are not affected.")
            );
        }
        // What this caller is shown by now, not when its view was made.
        let sight = server.seen_by(client::principal_at_servers(self.caller));
        let inventory = server.as_seen(&sight).inventory();
        let entries = inventory.list(if part == Part::Prompt { Listing::Prompts } else { Listing::Tools });
        let table = self.path.servers.table();
        let Some(running) = table.get(&server.config().name) else { return Ok(true) };
        let pin = self.path.pins.of(&running.definition);
        let entry = entries.iter().find(|entry| entry.key == name);
        Ok(!entry.zip(pin).is_some_and(|(entry, pin)| pin.approves(&Item::new(part, name), &entry.raw)))
    }
}
