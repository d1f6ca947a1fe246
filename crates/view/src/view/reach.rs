//! Names of tools that do not depend on a profile: what a workflow says is understood in every dialect.

use toolcrib_base::ToolId;
use toolcrib_catalog::ServerDefinition;

/// The ids of what a family's tool of this name may stand for.
pub(super) fn ids_of_family<'n>(
    tool: &'n str,
    servers: impl Iterator<Item = &'n ServerDefinition>,
) -> impl Iterator<Item = ToolId> {
    let bare = tool.strip_prefix("x_");
    servers.flat_map(move |server| {
        let rest =
            server.family.as_ref().and_then(|family| bare?.strip_prefix(family.name.as_str())?.strip_prefix('_'));
        let whole = bare.filter(|_| rest.is_some());
        rest.into_iter().chain(whole).map(|tool| ToolId::new(server.name.clone(), tool))
    })
}

/// The ids that a name may stand for: `server/tool`, `server_tool`, `prefix_tool`, and both with muster's `x_` before
/// it, where a tool does not get its server's prefix twice.
pub(super) fn ids<'n>(
    name: &'n str,
    servers: impl Iterator<Item = &'n ServerDefinition>,
) -> impl Iterator<Item = ToolId> {
    let bare = name.strip_prefix("x_");
    servers.flat_map(move |server| {
        let starts = [server.prefix.as_deref(), Some(server.name.as_str())];
        let rest = move |text: &'n str, start: &str| text.strip_prefix(start)?.strip_prefix('_');
        let plain = starts.into_iter().flatten().find_map(move |start| rest(bare.unwrap_or(name), start));
        // `x_files_read` may be the tool `files_read` of the server `files`.
        let whole = bare.filter(|_| plain.is_some());
        plain.into_iter().chain(whole).map(|tool| ToolId::new(server.name.clone(), tool))
    })
}
