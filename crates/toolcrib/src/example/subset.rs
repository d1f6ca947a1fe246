//! An example server that offers some of its tools only, as a server does before an update or where it may do less.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};

use super::{ArgumentError, Arguments, Content, Example, ExampleInfo, ToolReply};

/// `server` with the tools of `names` only.
pub(crate) struct ToolSubset {
    server: Arc<dyn Example>,
    names: Vec<String>,
}

impl ToolSubset {
    /// Fails for a name that no tool of the server has.
    pub(crate) fn new(server: Arc<dyn Example>, names: Vec<String>) -> Result<Self, Problem> {
        let tools = server.tools();
        let known: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let message = format!("example server `{}` has no tool `{unknown}`", server.about().name);
            return Err(Problem::new(Kind::InvalidParams, message).hint(format!("it has {}", known.join(", "))));
        }
        Ok(Self { server, names })
    }
}

impl Example for ToolSubset {
    fn about(&self) -> &'static ExampleInfo {
        self.server.about()
    }

    fn tools(&self) -> Vec<Value> {
        let is_chosen = |tool: &Value| self.names.iter().any(|name| tool["name"] == name.as_str());
        self.server.tools().into_iter().filter(is_chosen).collect()
    }

    fn call(&self, name: &str, arguments: &Arguments) -> Option<Result<ToolReply, ArgumentError>> {
        if self.names.iter().any(|chosen| chosen == name) { self.server.call(name, arguments) } else { None }
    }

    fn content(&self) -> Option<&dyn Content> {
        self.server.content()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::named;

    #[test]
    fn only_the_chosen_tools_are_there() {
        let chosen = ToolSubset::new(named("basics").unwrap(), vec!["add".to_owned(), "echo".to_owned()]).unwrap();
        let names: Vec<Value> = chosen.tools().into_iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["echo", "add"]);
        assert!(chosen.call("count", &Arguments::default()).is_none());
        assert!(chosen.call("echo", &Arguments::default()).is_some());
        let problem = ToolSubset::new(named("basics").unwrap(), vec!["ad".to_owned()]).err().unwrap();
        assert_eq!(problem.message, "example server `basics` has no tool `ad`");
    }
}
