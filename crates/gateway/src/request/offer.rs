//! What is offered beside calls: lists, resources, prompts, completion, discovery, and methods nobody here knows.

use std::collections::BTreeSet;

use http::HeaderMap;
use serde_json::json;
use toolcrib_base::{Kind, Problem, ToolId};
use toolcrib_catalog::Exposure;
use toolcrib_policy::Act;
use toolcrib_protocol::error::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};
use toolcrib_protocol::level::Level;
use toolcrib_protocol::raw::{self, Edit};
use toolcrib_protocol::{Era, Raw, Revision, RpcError, downgrade, method};
use toolcrib_view::view::{Listed, Stamp, View};

use crate::exchange::Wanted;
use crate::gateway::Gateway;
use crate::request::{Passing, required_text, unknown_method};
use crate::resolve;

/// What the gateway can do, as clients of both eras read it.
pub(crate) fn capabilities() -> serde_json::Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
    })
}

impl Gateway {
    /// The answer to `initialize`.
    pub fn initialize_result(&self, view: &View, revision: Revision) -> Raw {
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities(),
            "serverInfo": self.server_info.to_value(),
        });
        if let Some(instructions) = instructions(view) {
            result["instructions"] = instructions.into();
        }
        view.offered.add_to(&Raw::from_value(&result), revision.era())
    }
}

/// What a model should know of the profile: how to use it, and which servers stand behind.
fn instructions(view: &View) -> Option<String> {
    let profile = &view.profile;
    let mut text = profile.description.clone().unwrap_or_default();
    if profile.exposure != Exposure::Direct {
        let find = toolcrib_view::dialect::name_of(toolcrib_view::dialect::Act::Find, profile.dialect);
        let call = toolcrib_view::dialect::name_of(toolcrib_view::dialect::Act::Call, profile.dialect);
        let names: Vec<_> = view.servers.iter().take(50).map(|(server, _)| server.name.as_str()).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("Search tools with {find} and call them with {call}. Servers: {}.", names.join(", ")));
    }
    (!text.is_empty()).then_some(text)
}

impl Passing<'_> {
    pub(super) fn discover(&self) -> Raw {
        let mut result = json!({
            "supportedVersions": [Revision::LATEST.as_str()],
            "capabilities": capabilities(),
        });
        if let Some(instructions) = instructions(self.view) {
            result["instructions"] = instructions.into();
        }
        self.view.offered.add_to(&Raw::from_value(&result), Era::Modern)
    }

    /// From which level on a legacy client hears log messages.
    pub(super) fn set_level(&self, params: &Raw) -> Result<Raw, RpcError> {
        let level = Level::of_message(params).ok_or_else(|| {
            let names = Level::ALL.map(Level::as_str).join(", ");
            RpcError::from(&Problem::new(Kind::InvalidParams, format!("`params.level` must be one of {names}")))
        })?;
        if let Some(session) = &self.caller.session {
            session.set_level(level);
        }
        Ok(Raw::empty_object())
    }

    /// A page of a list.
    pub(super) fn listed(&self, params: &Raw, list: &Listed) -> Result<Raw, RpcError> {
        let stamp = Stamp { sealer: &self.gateway.sealer, server_info: &self.gateway.server_info };
        list.page(self.caller.revision, stamp, params.get("cursor").as_ref())
    }

    pub(super) fn tools_list(&self, params: &Raw) -> Result<Raw, RpcError> {
        let fixed = self.listed(params, self.view.listed_for(self.caller.session.as_deref()))?;
        let revision = self.caller.revision;
        if self.view.profile.exposure != Exposure::Dynamic || revision.era() != Era::Legacy {
            return Ok(fixed);
        }
        // What a legacy client has loaded is listed for it; a modern client's list never changes by what it does.
        let loaded: BTreeSet<ToolId> = self.gateway.active.of(self.caller, self.view.profile.active_set);
        if loaded.is_empty() {
            return Ok(fixed);
        }
        // The menu and the largest quota of loaded tools fit one page.
        let tools = loaded.iter().filter_map(|id| self.view.tool_by_id(id)).map(|tool| tool.exposed());
        let all: Vec<Raw> = self.view.menu.iter().cloned().chain(tools).collect();
        let all = downgrade::tools_for(revision, &all);
        let list = raw::array(all.iter().map(Raw::as_str));
        Ok(fixed.edit(&[("tools", Edit::Set(list.as_str()))]))
    }

    pub(super) async fn resources_read(&self, params: &Raw) -> Result<Raw, RpcError> {
        let uri = required_text(params, "uri")?;
        if self.is_own_resource(&uri) {
            return self.own_resource().await;
        }
        let not_found = || self.resource_not_found(&uri);
        let place = self.view.resources.place(&uri).ok_or_else(not_found)?;
        let act = Act::ReadResource { server: place.name.clone(), uri: place.uri.as_str().into() };
        let exact = Raw::from_value(&place.uri);
        let wanted = Wanted {
            server: &place.server,
            method: method::RESOURCES_READ,
            params: params.edit(&[("uri", Edit::Set(exact.as_str()))]),
            headers: HeaderMap::new(),
        };
        let target = format!("{}/{}", place.name, place.uri);
        let asked = self.asked(method::RESOURCES_READ, &target, None);
        let unknown = || Problem::new(Kind::NotFound, format!("resource not found: `{uri}`"));
        let mut read = self.through(&act, asked, wanted, unknown).await;
        if let Err(error) = &mut read
            && error.code == RESOURCE_NOT_FOUND
        {
            // The server's own words, with the code of the client's era.
            error.code = self.not_found_code();
        }
        if let Err(error) = &mut read
            && place.uri != uri
            && let Some(data) = error.data.as_mut().filter(|data| data.text("uri").as_deref() == Some(&place.uri))
        {
            *data = data.edit(&[("uri", Edit::Set(Raw::from_value(&uri).as_str()))]);
        }
        read
    }

    /// The answer for a resource that this profile does not show, or that does not exist: nobody can tell which.
    pub(crate) fn resource_not_found(&self, uri: &str) -> RpcError {
        let shown: String = uri.chars().take(500).collect();
        RpcError::new(self.not_found_code(), format!("resource not found: `{shown}`"))
            .with_data(&json!({ "uri": shown }))
    }

    fn not_found_code(&self) -> i64 {
        match self.caller.revision.era() {
            Era::Modern => INVALID_PARAMS,
            Era::Legacy => RESOURCE_NOT_FOUND,
        }
    }

    pub(super) async fn prompts_get(&self, params: &Raw) -> Result<Raw, RpcError> {
        let name = required_text(params, "name")?;
        let unknown = || resolve::unknown_prompt(self.view, &name);
        let prompt = self.view.prompt(&name).ok_or_else(|| RpcError::from(&unknown()))?;
        let act = Act::GetPrompt { server: prompt.server.clone(), name: prompt.entry.key.as_str().into() };
        let exact = Raw::from_value(&prompt.entry.key);
        let wanted = Wanted {
            server: &prompt.handle,
            method: method::PROMPTS_GET,
            params: params.edit(&[("name", Edit::Set(exact.as_str()))]),
            headers: HeaderMap::new(),
        };
        let arguments = params.get("arguments");
        let target = format!("{}/{}", prompt.server, prompt.entry.key);
        let asked = self.asked(method::PROMPTS_GET, &target, arguments.as_ref());
        self.through(&act, asked, wanted, unknown).await
    }

    pub(super) async fn complete(&self, params: &Raw) -> Result<Raw, RpcError> {
        let reference = params.get("ref").unwrap_or_else(Raw::empty_object);
        let unknown = || Problem::new(Kind::InvalidParams, "`params.ref` names nothing that is offered here");
        let (name, server, edited, key) = if let Some(uri) = reference.text("uri") {
            let place = self.view.resources.template(&uri).or_else(|| self.view.resources.place(&uri));
            let place = place.ok_or_else(|| RpcError::from(&unknown()))?;
            let exact = Raw::from_value(&place.uri);
            let edited = reference.edit(&[("uri", Edit::Set(exact.as_str()))]);
            (place.name, place.server, edited, place.uri)
        } else {
            let name = required_text(&reference, "name")?;
            let prompt = self.view.prompt(&name).ok_or_else(|| RpcError::from(&unknown()))?;
            let exact = Raw::from_value(&prompt.entry.key);
            let edited = reference.edit(&[("name", Edit::Set(exact.as_str()))]);
            (prompt.server.clone(), prompt.handle.clone(), edited, prompt.entry.key.clone())
        };
        let nothing = || Raw::from_value(&json!({ "completion": { "values": [], "hasMore": false } }));
        if !server.inventory().has_capability("completions") {
            return Ok(nothing());
        }
        let act = Act::Complete { server: name.clone(), reference: key.as_str().into() };
        let wanted = Wanted {
            server: &server,
            method: method::COMPLETE,
            params: params.edit(&[("ref", Edit::Set(edited.as_str()))]),
            headers: HeaderMap::new(),
        };
        let asked = self.asked(method::COMPLETE, &format!("{name}/{key}"), None);
        match self.through(&act, asked, wanted, unknown).await {
            // Whether a server of the first revision completes, only asking tells.
            Err(error) if error.code == METHOD_NOT_FOUND => Ok(nothing()),
            outcome => outcome,
        }
    }

    /// A method that nobody here knows goes to the profile's server, where it has just one to ask.
    pub(super) async fn forward(&self, name: &str, params: &Raw) -> Result<Raw, RpcError> {
        // Whatever belongs to a family that the rules decide about goes through its own methods or not at all.
        let families = ["notifications/", "tools/", "resources/", "prompts/", "completion/", "tasks/"];
        let ours = families.iter().any(|family| name.starts_with(family)) || is_session_method(name);
        let [(definition, server)] = &self.view.servers[..] else { return Err(unknown_method(name)) };
        if ours {
            return Err(unknown_method(name));
        }
        let act = Act::Forward { server: definition.name.clone(), method: name.into() };
        let wanted = Wanted { server, method: name, params: params.clone(), headers: HeaderMap::new() };
        let asked = self.asked(name, definition.name.as_str(), Some(params));
        self.through(&act, asked, wanted, || Problem::new(Kind::UnknownMethod, format!("unknown method `{name}`")))
            .await
    }
}

/// Methods that belong to one hop and are never passed on.
fn is_session_method(name: &str) -> bool {
    matches!(
        name,
        method::INITIALIZE
            | method::PING
            | method::SET_LEVEL
            | method::DISCOVER
            | method::LISTEN
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
    )
}
