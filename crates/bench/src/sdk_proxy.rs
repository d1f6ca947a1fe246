//! The second yardstick: a proxy on the official SDK, in the set-up that costs it least. Its HTTP client pools
//! connections (the SDK's default does not), and its server answers without sessions in plain JSON unless told
//! otherwise.

use std::sync::Arc;

use anyhow::Context;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, TokioChildProcess};
use rmcp::{ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt};

use crate::serve::{Listen, serve};

/// As many calls at a time as the largest measurement has clients; the SDK's default of 16 would queue them.
const CALLS_AT_A_TIME: usize = 64;

/// What the proxy stands in front of, and how it answers.
#[derive(Debug, Clone, clap::Args)]
// The command's own group has this name already.
#[group(skip)]
pub(crate) struct SdkProxy {
    /// URL of a backend over HTTP; without it, this program's own backend is started over stdio
    #[arg(long)]
    pub(crate) backend: Option<String>,
    /// Answer with sessions and event streams, the SDK's default, instead of plain JSON
    #[arg(long)]
    pub(crate) sessions: bool,
    /// How many tools the backend over stdio lists
    #[arg(long, default_value_t = 25)]
    pub(crate) tools: usize,
}

#[derive(Clone)]
struct Proxy {
    backend: Peer<RoleClient>,
}

/// Runs until the parent goes.
pub(crate) async fn run(listen: &Listen, proxy: &SdkProxy) -> anyhow::Result<()> {
    let client = connect(proxy).await?;
    let backend = client.peer().clone();
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = proxy.sessions;
    config.json_response = !proxy.sessions;
    let service = StreamableHttpService::new(
        move || Ok(Proxy { backend: backend.clone() }),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    serve(listen, TowerToHyperService::new(service)).await
}

async fn connect(proxy: &SdkProxy) -> anyhow::Result<RunningService<RoleClient, ()>> {
    if let Some(url) = &proxy.backend {
        let http = reqwest::Client::builder().tcp_nodelay(true).build()?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.clone());
        config.max_concurrent_requests = CALLS_AT_A_TIME;
        config.channel_buffer_capacity = CALLS_AT_A_TIME;
        let transport = StreamableHttpClientTransport::with_client(http, config);
        return ().serve(transport).await.with_context(|| format!("connect to the backend `{url}`"));
    }
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("backend-stdio").args(["--tools", &proxy.tools.to_string()]);
    let transport = TokioChildProcess::new(command).context("start the backend")?;
    ().serve(transport).await.context("connect to the backend over stdio")
}

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.backend.call_tool_once(request).await.map_err(backend_error)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.backend.list_tools(request).await.map_err(backend_error)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that `map_err` asks for")]
fn backend_error(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        error => ErrorData::internal_error(error.to_string(), None),
    }
}
