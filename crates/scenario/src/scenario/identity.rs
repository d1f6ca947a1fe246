//! Which scenarios need users who log in to the gateway, or a mock provider, neither of which exists yet: decided by what
//! the file asks for, not by its name.

use toolcrib_catalog::yaml::Node;

use super::{Scenario, Step};
use crate::harness;

/// Why the scenario cannot be run without identity; `None` when it can.
pub(super) fn needed(root: &Node, scenario: &Scenario) -> Option<String> {
    let setup = root.get("pre_configuration");
    let servers = setup.and_then(|setup| setup.get("mcp_servers")).map(Node::items).unwrap_or_default();
    let main = setup.and_then(|setup| setup.get("main_config")?.get("config")?.get("aggregator"));
    let providers = setup.and_then(|setup| setup.get("mock_oauth_servers")).map_or(0, |list| list.items().len());
    let what = if providers > 0 {
        "`mock_oauth_servers`".to_owned()
    } else if setup.is_some_and(|setup| setup.get("muster_broker").is_some()) {
        "`muster_broker`".to_owned()
    } else if servers.iter().any(|server| server.get("config").is_some_and(|config| config.get("oauth").is_some())) {
        "a server with `oauth`".to_owned()
    } else if main.is_some_and(|main| main.get("oauth").is_some() || main.get("oauthServer").is_some()) {
        "`main_config` with `oauth`".to_owned()
    } else if scenario.all_steps().any(|step| step.user.is_some()) {
        "`as_user`".to_owned()
    } else {
        let tool = scenario
            .all_steps()
            .filter_map(Step::tool)
            .find(|tool| tool.starts_with("test_") && harness::find(tool).is_none());
        format!("`{}`", tool?)
    };
    Some(format!("needs identity, which does not exist yet: {what}"))
}
