//! The command line's own client in the hands of the scenario runner.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_base::ProfileName;
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Listing;
use toolcrib_scenario::{CallFailure, CallReply, Drive, Place, Session, Speaker};

use crate::client::{CallObservation, Client, ClientFlags, Declares};
use crate::home::Environment;

/// Sessions over HTTP.
#[derive(Debug)]
pub(super) struct HttpDriver;

struct ClientSession(Client);

impl Drive for HttpDriver {
    fn open(&self, place: Place) -> BoxFuture<'_, Result<Box<dyn Session>, String>> {
        Box::pin(async move {
            let profile =
                place.profile.as_deref().map(ProfileName::new).transpose().map_err(|error| error.to_string())?;
            let flags = ClientFlags::of_gateway(&place.url, place.token_file, place.home).through(profile);
            let declares = match place.speaker {
                Speaker::Legacy => None,
                Speaker::Modern => Some(Declares::Nothing),
                Speaker::ModernTasks => Some(Declares::Tasks),
            };
            // Nothing of the person's environment may lead elsewhere.
            let client = Client::open_as(&flags, &Environment::default(), declares).await;
            client
                .map(|client| Box::new(ClientSession(client)) as Box<dyn Session>)
                .map_err(|error| format!("{error:#}"))
        })
    }
}

impl Session for ClientSession {
    fn call<'a>(&'a self, tool: &'a str, arguments: Value, deadline: Duration) -> BoxFuture<'a, CallReply> {
        Box::pin(async move { told(self.0.call_plain(tool, &Raw::from_value(&arguments), deadline).await) })
    }

    fn call_direct<'a>(&'a self, tool: &'a str, arguments: Value, deadline: Duration) -> BoxFuture<'a, CallReply> {
        Box::pin(async move { told(self.0.call_direct(tool, &Raw::from_value(&arguments), deadline).await) })
    }

    fn send<'a>(&'a self, method: &'a str, params: Value, deadline: Duration) -> BoxFuture<'a, CallReply> {
        Box::pin(async move { told(self.0.send(method, Raw::from_value(&params), deadline).await) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        Box::pin(async move {
            let entries = self.0.list(Listing::Tools).await.map_err(|problem| problem.message)?;
            Ok(entries.iter().map(Raw::to_value).collect())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.0.close().await })
    }
}

/// An error's text with its hint: that is what a person reads, too.
fn told(seen: CallObservation) -> CallReply {
    let error = seen.error.map(|error| {
        let mut value = json!({ "code": error.code, "message": error.message });
        if let Some(data) = error.data {
            value["data"] = data.to_value();
        }
        value
    });
    let outcome = seen.outcome.map(|result| result.0.to_value()).map_err(|problem| {
        let text = match problem.hint {
            Some(hint) => format!("{} ({hint})", problem.message),
            None => problem.message,
        };
        CallFailure { text, error }
    });
    CallReply { outcome, status: seen.status }
}
