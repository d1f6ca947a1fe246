//! Operations by another door than MCP. What concerns the whole gateway is decided by who asks alone: no profile, and no
//! bad file of one, can lock the administrator out.

use std::sync::Arc;

use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_policy::{Rules, Settings};
use toolcrib_protocol::{Id, Raw, Request, method};
use toolcrib_session::Caller;
use toolcrib_store::Outcome;
use toolcrib_view::Operation;

use crate::front;
use crate::gateway::Gateway;
use crate::operation::{self, Asking};
use crate::passage::{Asked, Desk, Passage, Refused};
use crate::request::closing_problem;

impl Gateway {
    /// Does an operation: decides, does it, records it. Its answer is a JSON object; of a call the tool's own result.
    pub async fn operate(
        self: &Arc<Self>,
        operation: &'static Operation,
        caller: &Caller,
        arguments: Raw,
    ) -> Result<Raw, Problem> {
        if operation.is_call() {
            return self.call_for(operation, caller, &arguments).await;
        }
        let view = self.view(caller.profile.as_str());
        let rules = match (operation.is_in_profile(), &view) {
            (false, _) => None,
            (_, Some(view)) => Some(view.rules.clone()),
            (_, None) => return Err(front::no_profile(self, &caller.profile)),
        };
        let rules = rules.unwrap_or_else(|| house_rules(caller));
        let desk = Desk {
            log: self.store.audit(),
            clock: &*self.clock,
            rules: &rules,
            caller,
            keep_arguments: self.keep_arguments,
            events: &self.events,
        };
        let asked = Asked {
            method: method::TOOLS_CALL,
            target: operation.tool.into(),
            arguments: operation.recorded(Some(&arguments)).map(|arguments| &arguments.bytes()[..]),
            request_id: String::new(),
        };
        let passage = match Passage::open(desk, &operation.act(), asked).await {
            Ok(passage) => passage,
            Err(Refused::Closing) => return Err(closing_problem()),
            Err(Refused::Denied(denial)) => {
                let mut problem = Problem::new(Kind::Forbidden, denial.to_string());
                problem.hint = denial.hint().map(str::to_owned);
                return Err(problem);
            }
        };
        let done =
            operation::run(operation, self, Asking { view: view.as_deref(), caller, depth: 0 }, &arguments).await;
        passage.finish(done.as_ref().map_or_else(|problem| Outcome::Error(problem.kind), |_| Outcome::Ok));
        done.map(|value| Raw::from_value(&value))
    }

    /// The call that an operation stands for, by the path that every call takes.
    async fn call_for(
        self: &Arc<Self>,
        operation: &'static Operation,
        caller: &Caller,
        arguments: &Raw,
    ) -> Result<Raw, Problem> {
        // The same check is made where the name is resolved; here it keeps its kind and its hint.
        operation.check(arguments)?;
        let Some(view) = self.view(caller.profile.as_str()) else {
            return Err(front::no_profile(self, &caller.profile));
        };
        let name = arguments.text("name").unwrap_or_default();
        let is_known = view.tool(&name).is_some();
        let params = serde_json::json!({ "name": operation.tool });
        let arguments = toolcrib_protocol::raw::Edit::Set(arguments.as_str());
        let request = Request {
            id: Id::from_number(0),
            method: method::TOOLS_CALL.to_owned(),
            params: Raw::from_value(&params).edit(&[("arguments", arguments)]),
        };
        let answer = self.called(caller, &request).await;
        let answer = answer.map_err(|error| Problem::new(Kind::BadServer, error.message))?;
        if !is_known {
            return Err(crate::resolve::unknown_tool(&view, &name));
        }
        // What the gateway itself says of the call is a problem; what the tool says is its result.
        match answer.problem {
            Some(problem) if operation.problems.contains(&problem.kind) => Err(*problem),
            _ => Ok(answer.result),
        }
    }
}

/// The rules where no profile has a say.
fn house_rules(caller: &Caller) -> Rules {
    Rules::new(Settings {
        profile: caller.profile.clone(),
        servers: Vec::new(),
        registry: Vec::new(),
        allow: Vec::<Glob>::new(),
        deny: Vec::new(),
        read_only: false,
        held: Arc::default(),
    })
}
