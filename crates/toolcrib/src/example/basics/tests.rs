//! The example server `basics`: what its tools, its prompt and its resources answer.

use super::*;

fn call(server: &BasicsServer, name: &str, arguments: Value) -> Result<ToolReply, ArgumentError> {
    server.call(name, &Arguments::new(arguments).unwrap()).unwrap()
}

#[test]
fn each_tool_does_what_it_says() {
    let server = BasicsServer::default();
    assert_eq!(call(&server, "echo", json!({"text": "a b"})).unwrap(), ToolReply::text("a b"));
    assert_eq!(call(&server, "add", json!({"a": 2, "b": 3})).unwrap(), ToolReply::new("5", json!({"sum": 5.0})));
    assert_eq!(call(&server, "add", json!({"a": 0.5, "b": -1})).unwrap().text, "-0.5");
    assert!(call(&server, "add", json!({"a": 1e308, "b": 1e308})).unwrap_err().0.contains("too large"));
    assert_eq!(call(&server, "count", json!({})).unwrap().text, "1");
    assert_eq!(call(&server, "count", json!({})).unwrap().structured, json!({"count": 2}));
    assert_eq!(call(&server, "env", json!({"name": "TOOLCRIB_NO_SUCH_VARIABLE"})).unwrap().text, "(unset)");
    assert_eq!(call(&server, "fail", json!({"message": "no paper"})).unwrap_err().0, "no paper");
    assert_eq!(call(&server, "picture", json!({})).unwrap().picture, Some(PICTURE));
    assert!(call(&server, "echo", json!({"txt": "a"})).unwrap_err().0.contains("unknown argument `txt`"));
}

#[test]
fn the_prompt_and_the_resources_can_be_read() {
    let server = BasicsServer::default();
    for resource in server.resources() {
        let read = server.read(resource["uri"].as_str().unwrap()).unwrap();
        assert_eq!((&read["uri"], &read["mimeType"]), (&resource["uri"], &resource["mimeType"]));
    }
    assert_eq!(server.read("basics:///other"), None);
    let prompt = |arguments: Value| server.prompt("greet", &Arguments::new(arguments).unwrap()).unwrap();
    let greeting = prompt(json!({"who": "Ada"})).unwrap();
    assert_eq!(greeting["messages"][0]["content"]["text"], "Greet Ada in one friendly sentence.");
    assert_eq!(prompt(json!({})).unwrap_err().0, "`who` is missing");
    assert!(server.prompt("other", &Arguments::default()).is_none());
}
