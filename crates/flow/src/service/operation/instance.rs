//! Operations on services. Servers and the gateway itself are services that are always there: they are started and
//! stopped by the gateway's own machinery, and never made or deleted here.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{DefinitionId, ObjectName};
use toolcrib_gateway::ServerOrder;
use toolcrib_view::ObjectKind;
use toolcrib_view::Visibility;

use super::call::{OperationCall, said};
use super::kind;
use crate::service::arguments;
use crate::service::class::Class;
use crate::service::life::{Life, State};
use crate::service::shown::{self, AGGREGATOR};
use crate::service::subject::Subject;
use crate::service::table::{Entry, unknown};
use crate::service::task::{Order, OrderOutcome};

/// The object that a name refers to.
enum Target {
    Instance(Entry),
    /// A server, as the list of servers shows it.
    Server(Value),
    Gateway,
}

fn named(asking: &OperationCall) -> Result<(String, Target), Problem> {
    let name = asking.given.text("name")?;
    let visibility = asking.invocation.visibility();
    if let Some(entry) = asking.table.entry(name).filter(|_| visibility.has_object(ObjectKind::ServiceInstance, name)) {
        return Ok((name.to_owned(), Target::Instance(entry)));
    }
    if name == AGGREGATOR {
        return Ok((name.to_owned(), Target::Gateway));
    }
    match asking.gateway.server_condition(&visibility, name) {
        Some(server) => Ok((name.to_owned(), Target::Server(server))),
        None => Err(unknown(name)),
    }
}

/// A service as a caller with this visibility may read it.
fn to(visibility: &Visibility, service: Value) -> Value {
    if visibility.is_everything() { service } else { shown::of_a_non_admin(service) }
}

pub(super) fn list(asking: &OperationCall) -> Value {
    let classes = asking.table.classes();
    let visibility = asking.invocation.visibility();
    let servers = asking.gateway.server_conditions(&visibility);
    let mut entries = asking.table.entries();
    entries.retain(|name, _| visibility.has_object(ObjectKind::ServiceInstance, name.as_str()));
    let services: Vec<Value> = [shown::aggregator()]
        .into_iter()
        .chain(servers.iter().map(shown::server))
        .chain(entries.values().map(|entry| to(&visibility, shown::status(entry, &classes))))
        .collect();
    json!({ "total": services.len(), "services": services })
}

pub(super) fn get(asking: &OperationCall) -> Result<Value, Problem> {
    Ok(match named(asking)?.1 {
        Target::Instance(entry) => {
            to(&asking.invocation.visibility(), shown::instance(&entry, &asking.table.classes()))
        }
        Target::Server(server) => shown::static_instance(&shown::server(&server)),
        Target::Gateway => shown::static_instance(&shown::aggregator()),
    })
}

pub(super) async fn status(asking: &OperationCall) -> Result<Value, Problem> {
    Ok(match named(asking)? {
        (name, Target::Instance(entry)) => {
            let visibility = asking.invocation.visibility();
            // How it was when its status tool was last asked is reported where the tool cannot be asked now, and to
            // anyone who only reads: asking changes how the service is for everyone.
            let has_status =
                asking.table.around.class(entry.subject().class.as_str()).is_ok_and(|it| it.tool("status").is_some());
            if visibility.is_everything() && has_status && entry.life().state != State::Stopped {
                entry.order(Order::Examine, asking.hands(&name)).await?;
            }
            to(&visibility, shown::status(&entry, &asking.table.classes()))
        }
        (_, Target::Server(server)) => shown::server(&server),
        (_, Target::Gateway) => shown::aggregator(),
    })
}

pub(super) async fn start(asking: &OperationCall) -> Result<Value, Problem> {
    let (name, named) = named(asking)?;
    match named {
        Target::Instance(entry) => {
            let name = entry.subject().name.clone();
            let done = asking.table.start(&name, asking.hands(name.as_str()), asking, Vec::new()).await;
            let done = done.map_err(|problem| failing("start", name.as_str(), problem))?;
            Ok(outcome_of(asking, &entry, done, "started", "already running"))
        }
        Target::Server(server) if server["state"] == "ready" => Ok(already(&name, &server, "already running")),
        Target::Server(_) => order_server(asking, &name, ServerOrder::Start, "started").await,
        Target::Gateway => Ok(said(&name, format!("service '{name}' is already running"), Some(&shown::aggregator()))),
    }
}

pub(super) async fn stop(asking: &OperationCall) -> Result<Value, Problem> {
    let (name, named) = named(asking)?;
    match named {
        Target::Instance(entry) => {
            asking.table.check_unneeded(&name, "stopped")?;
            let done = entry.order(Order::Stop, asking.hands(&name)).await;
            let done = done.map_err(|problem| failing("stop", &name, problem))?;
            Ok(outcome_of(asking, &entry, done, "stopped", "already stopped"))
        }
        Target::Server(server) if server["state"] == "stopped" => Ok(already(&name, &server, "already stopped")),
        Target::Server(_) => {
            asking.table.check_unneeded(&name, "stopped")?;
            order_server(asking, &name, ServerOrder::Stop, "stopped").await
        }
        Target::Gateway => Err(not_by_itself("stopped")),
    }
}

pub(super) async fn restart(asking: &OperationCall) -> Result<Value, Problem> {
    let (name, named) = named(asking)?;
    match named {
        Target::Instance(entry) if entry.life().state == State::Stopped => {
            let started = asking.table.start(&entry.subject().name, asking.hands(&name), asking, Vec::new()).await;
            let done = started.map_err(|problem| failing("restart", &name, problem))?;
            Ok(outcome_of(asking, &entry, done, "restarted", "already running"))
        }
        Target::Instance(entry) => {
            let done = entry.order(Order::Restart, asking.hands(&name)).await;
            let done = done.map_err(|problem| failing("restart", &name, problem))?;
            Ok(outcome_of(asking, &entry, done, "restarted", "already running"))
        }
        Target::Server(_) => order_server(asking, &name, ServerOrder::Restart, "restarted").await,
        Target::Gateway => Err(not_by_itself("restarted")),
    }
}

/// What the service is that is to be made, if it can be made of its class.
fn checked(asking: &OperationCall) -> Result<(Subject, Arc<Class>), Problem> {
    let name = asking.new_name()?;
    let class = asking.table.around.class(asking.given.text("serviceClassName")?);
    let class = match (class, asking.given.get("serviceClass")) {
        (Err(problem), Some(planned)) if problem.kind == Kind::NotFound => kind::planned(asking, planned)?,
        (class, _) => class?,
    };
    let args = arguments::complete(&class.definition.args, &asking.given.object("args"))?;
    if asking.table.entry(name.as_str()).is_some() || asking.table.is_static(name.as_str()) {
        return Err(Problem::new(Kind::Conflict, format!("service `{name}` already exists"))
            .hint("Choose another name, or delete it first."));
    }
    let subject = Subject {
        name,
        class: class.definition.name.clone(),
        description: asking.given.get("description").and_then(Value::as_str).map(str::to_owned),
        args,
        auto_start: asking.given.flag("autoStart"),
        dependencies: Vec::new(),
        persists: asking.given.flag("persist"),
        owner: asking.owner(),
        created: asking.table.around.clock.now(),
    };
    Ok((subject, class))
}

pub(super) fn validate(asking: &OperationCall) -> Result<Value, Problem> {
    let (subject, class) = checked(asking)?;
    let mut message = format!("Validation successful for service {}", subject.name);
    // Servers come and go: what is missing now makes nothing wrong of what was asked.
    if let Err(problem) = asking.usable(&class) {
        message += &format!("; it cannot be created now: {}", problem.message);
    }
    Ok(said(subject.name.as_str(), message, None))
}

pub(super) async fn create(asking: &OperationCall) -> Result<Value, Problem> {
    let failed = |problem: Problem| Problem {
        message: format!("Failed to create ServiceClass instance: {}", problem.message),
        ..problem
    };
    let (subject, class) = checked(asking).map_err(failed)?;
    asking.usable(&class).map_err(failed)?;
    let (name, persists, definition) = (subject.name.clone(), subject.persists, subject.definition());
    let which = DefinitionId::Service(name.clone());
    let text = which.text_of(&definition.to_value());
    let shown = (which.clone(), text.clone());
    let rehearsed = asking.gateway.end_rehearsal(move |files| match persists {
        true => files.create(&shown.0, &shown.1).map(drop),
        false => Ok(()),
    });
    rehearsed.await?;
    let entry = asking.table.add(subject, Life::new(asking.table.around.clock.now())).map_err(failed)?;
    if persists {
        // Written before its start, so that a crash in between leaves a file to find it by.
        let written = asking.gateway.change_files(move |files| files.create(&which, &text)).await;
        if let Err(problem) = written {
            asking.table.forget(&entry);
            return Err(failed(problem));
        }
    }
    asking.table.emit_service(name.as_str(), "Created", format!("service `{name}` created"), false);
    match asking.table.start(&name, asking.hands(name.as_str()), asking, Vec::new()).await {
        Ok(_) => Ok(shown::instance(&entry, &asking.table.classes())),
        Err(problem) => {
            asking.table.forget(&entry);
            if persists {
                remove_file(asking, &name).await?;
            }
            Err(failed(problem))
        }
    }
}

pub(super) async fn delete(asking: &OperationCall) -> Result<Value, Problem> {
    let (name, named) = named(asking)?;
    let entry = match named {
        Target::Instance(entry) => entry,
        Target::Server(_) | Target::Gateway => {
            let message = format!("service `{name}` cannot be deleted: it is not an instance of a service class");
            return Err(Problem::new(Kind::Conflict, message).hint("To delete a server, use core_mcpserver_delete."));
        }
    };
    asking.table.check_unneeded(&name, "deleted")?;
    let (which, persists) = (DefinitionId::Service(entry.subject().name.clone()), entry.subject().persists);
    let rehearsed = asking.gateway.end_rehearsal(move |files| match persists {
        true => files.remove(&which, None).map(drop),
        false => Ok(()),
    });
    rehearsed.await?;
    let ended = entry.place(Order::End, asking.hands(&name))?.await;
    if !asking.table.forget(&entry) {
        // Someone else was faster.
        return Err(unknown(&name));
    }
    if entry.subject().persists {
        remove_file(asking, &entry.subject().name).await?;
    }
    let is_left = ended.is_err();
    let message = match ended {
        Ok(_) => format!("successfully deleted service '{name}'"),
        Err(problem) => {
            format!("successfully deleted service '{name}', but it was not stopped: {}", problem.message)
        }
    };
    asking.table.emit_service(&name, "Deleted", message.clone(), is_left);
    Ok(said(&name, message, None))
}

/// Its file, and what was written down of it. A file that is gone already is not a fault.
async fn remove_file(asking: &OperationCall, name: &ObjectName) -> Result<(), Problem> {
    let which = DefinitionId::Service(name.clone());
    let removed = asking.gateway.change_files(move |files| files.remove(&which, None)).await;
    let records = asking.table.around.records.clone();
    let of = name.to_string();
    if let Some(records) = records {
        let forgotten = tokio::task::spawn_blocking(move || records.remove(&of)).await;
        if let Ok(Err(error)) = forgotten {
            tracing::warn!(service = %name, %error, "failed to delete its saved state");
        }
    }
    match removed {
        Err(problem) if problem.kind != Kind::NotFound => Err(problem),
        _ => Ok(()),
    }
}

async fn order_server(asking: &OperationCall, name: &str, order: ServerOrder, done: &str) -> Result<Value, Problem> {
    let server = asking.gateway.order_server(name, order).await?;
    let status = shown::server(&server);
    if order != ServerOrder::Stop && status["health"] != "healthy" {
        let error = server["lastError"].as_str().unwrap_or("it is not ready");
        return Err(failing(
            if order == ServerOrder::Start { "start" } else { "restart" },
            name,
            Problem::new(Kind::Unavailable, error),
        ));
    }
    Ok(said(name, format!("successfully {done} service '{name}'"), Some(&status)))
}

fn already(name: &str, server: &Value, what: &str) -> Value {
    said(name, format!("service '{name}' is {what}"), Some(&shown::server(server)))
}

fn outcome_of(asking: &OperationCall, entry: &Entry, done: OrderOutcome, what: &str, otherwise: &str) -> Value {
    let name = entry.subject().name.to_string();
    let status = shown::status(entry, &asking.table.classes());
    let message = match done {
        OrderOutcome::Carried => format!("successfully {what} service '{name}'"),
        OrderOutcome::Already => format!("service '{name}' is {otherwise}"),
    };
    said(&name, message, Some(&status))
}

fn failing(what: &str, name: &str, problem: Problem) -> Problem {
    Problem { message: format!("failed to {what} service '{name}': {}", problem.message), ..problem }
}

fn not_by_itself(what: &str) -> Problem {
    Problem::new(Kind::Conflict, format!("service `{AGGREGATOR}` is the gateway itself and cannot be {what} by a tool"))
        .hint("Stop or start the gateway process.")
}
