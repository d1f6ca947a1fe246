//! The other side of what a server may ask: someone who accepts every form as it is and gives short answers.

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, Implementation, ListRootsResult, ProtocolVersion, Role, Root,
    SamplingMessage, SamplingMessageContentBlock,
};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) revision: ProtocolVersion,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_roots().enable_sampling().enable_elicitation().build();
        let name = Implementation::new("conformance-driver", "1.0.0");
        ClientConfig::new(capabilities, name).with_protocol_version(self.revision.clone())
    }

    /// Every field gets its default; what has none and must be there gets something of its type.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(request).map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        let content = super::arguments::filled(&request["requestedSchema"]);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let answer = SamplingMessageContentBlock::text("an answer");
        let message = SamplingMessage::new(Role::Assistant, answer);
        Ok(CreateMessageResult::new(message, "no-model".to_owned()).with_stop_reason("endTurn"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///nowhere").with_name("nowhere")]))
    }
}
