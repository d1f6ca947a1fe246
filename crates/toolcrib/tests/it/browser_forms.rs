//! Forms of schemas of every kind in a real browser: a person fills them, changes their shape, calls, and what the server
//! got is compared byte by byte. The inputs of each call are then filled into its form again, and sent once more.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;

const CALL: &str = "form[action^='/ui/call/'] .as button";

/// A tool, what a person does with its form, and the arguments that the server gets.
struct Case {
    tool: &'static str,
    schema: &'static str,
    steps: &'static [Step],
    sent: &'static str,
}

/// What a person does. Controls are named as in the form; elements are CSS.
enum Step {
    Type(&'static str, &'static str),
    Choose(&'static str, &'static str),
    /// A button of this name, and an element that is there then.
    Press(&'static str, &'static str),
    /// An alternative, and an element of its fields.
    Pick(&'static str, &'static str, &'static str),
    /// The page says this.
    Reads(&'static str),
    /// A control holds this.
    Holds(&'static str, &'static str),
    /// It is sent, and refused with these words.
    Refused(&'static str),
}

use Step::{Choose, Holds, Pick, Press, Reads, Refused, Type};

const CASES: &[Case] = &[
    Case {
        tool: "references",
        schema: r##"{"type":"object","properties":{"sender":{"$ref":"#/$defs/address"},"receiver":{"allOf":[{"$ref":"#/$defs/address"},
            {"properties":{"floor":{"type":"integer"}},"required":["floor"]}]}},"required":["sender"],"$defs":{"address":
            {"type":"object","properties":{"street":{"type":"string","maxLength":20},"country":{"enum":["CH","AT"]}},
            "required":["street"]}}}"##,
        steps: &[
            Type("v:/sender/street", "Gasse 1 “ü”"),
            Choose("v:/sender/country", "\"AT\""),
            Type("v:/receiver/street", "x"),
            Refused("is required: enter a number"),
            Type("v:/receiver/floor", "-3"),
        ],
        sent: r#"{"sender":{"street":"Gasse 1 “ü”","country":"AT"},"receiver":{"street":"x","floor":-3}}"#,
    },
    Case {
        tool: "alternatives",
        schema: r##"{"type":"object","properties":{"shape":{"oneOf":[{"$ref":"#/$defs/circle"},{"$ref":"#/$defs/box"}]},
            "id":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}},"$defs":{
            "circle":{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
            "box":{"type":"object","properties":{"kind":{"const":"box"},"w":{"type":"number"}},"required":["kind","w"]}}}"##,
        steps: &[
            Pick("pick:/shape", "1", "[name='v:/shape/~|1/w']"),
            Type("v:/shape/~|1/w", "1.50"),
            Pick("pick:/id", "1", "[name='v:/id/~|1']"),
            Type("v:/id/~|1", "9007199254740993"),
        ],
        sent: r#"{"shape":{"kind":"box","w":1.50},"id":9007199254740993}"#,
    },
    Case {
        tool: "choices",
        schema: r#"{"type":"object","properties":{"e":{"enum":["a",1,"1",1.0,null,{"x":2},""]},"on":{"type":"boolean"},
            "k":{"const":"v"},"level":{"oneOf":[{"const":1,"title":"low"},{"const":2,"title":"high"}]}},"required":["k"]}"#,
        steps: &[Choose("v:/e", "1.0"), Choose("v:/on", "false"), Choose("v:/level", "2")],
        sent: r#"{"e":1.0,"on":false,"k":"v","level":2}"#,
    },
    Case {
        tool: "lists",
        schema: r#"{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","maxLength":9}},
            "points":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}}}},
            "pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}}}"#,
        steps: &[
            Press("add:/tags", "[name='v:/tags/0']"),
            Type("v:/tags/0", "a"),
            Press("add:/tags", "[name='v:/tags/1']"),
            Type("v:/tags/1", "b"),
            Press("add:/tags", "[name='v:/tags/2']"),
            Type("v:/tags/2", "c"),
            Press("remove:/tags/0", "form:has([name='v:/tags/1']):not(:has([name='v:/tags/2']))"),
            Press("add:/points", "[name='v:/points/0/y']"),
            Type("v:/points/0/x", "0.10"),
            Type("v:/points/0/y", "-1e3"),
            Press("add:/pair", "[name='v:/pair/0']"),
            Type("v:/pair/0", "p"),
            Press("add:/pair", "[name='v:/pair/1']"),
            Type("v:/pair/1", "7"),
        ],
        sent: r#"{"tags":["b","c"],"points":[{"x":0.10,"y":-1e3}],"pair":["p",7]}"#,
    },
    Case {
        tool: "maps",
        schema: r#"{"type":"object","properties":{"env":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
        steps: &[
            Press("add:/env", "[name='key:/env/~+0']"),
            Type("key:/env/~+0", "A"),
            Type("v:/env/~+0", "1"),
            Press("add:/env", "[name='key:/env/~+1']"),
            Type("key:/env/~+1", "A"),
            Type("v:/env/~+1", "2"),
            Refused("the key `A` is there twice"),
            Type("key:/env/~+1", "__proto__"),
        ],
        sent: r#"{"env":{"A":"1","__proto__":"2"}}"#,
    },
    Case {
        tool: "absences",
        schema: r#"{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":["string","null"]},
            "c":{"type":["string","null"]},"d":{"type":["string","null"]},"l":{"type":"array"},
            "o":{"type":"object","properties":{"x":{"type":"integer"}}}}}"#,
        steps: &[
            Choose("set:/b", "empty"),
            Choose("set:/c", "null"),
            Type("v:/d", " null "),
            Choose("set:/l", "empty"),
            Choose("set:/o", "empty"),
        ],
        sent: r#"{"b":"","c":null,"d":" null ","l":[],"o":{}}"#,
    },
    Case {
        tool: "bounds",
        schema: r#"{"type":"object","properties":{"n":{"type":"integer","minimum":10,"maximum":18446744073709551617,"default":12},
            "s":{"type":"string","minLength":2,"maxLength":5}},"required":["n"]}"#,
        steps: &[
            Reads("Default if not set: 12"),
            Type("v:/n", "9"),
            Refused("must be at least 10"),
            Holds("v:/n", "9"),
            Type("v:/n", "18446744073709551618"),
            Type("v:/s", "x"),
            Refused("must be at most 18446744073709551617"),
            Reads("must have at least 2 characters, not 1"),
            Type("v:/n", "18446744073709551617"),
            Type("v:/s", "漢字"),
        ],
        sent: r#"{"n":18446744073709551617,"s":"漢字"}"#,
    },
    Case {
        tool: "digits",
        schema: r#"{"type":"object","properties":{"whole":{"type":"integer"},"large":{"type":"integer"},"small":{"type":"number"},
            "exact":{"type":"number"}}}"#,
        steps: &[
            Type("v:/whole", "-9223372036854775808"),
            Type("v:/large", "12345678901234567890123"),
            Type("v:/small", "1.0E-7"),
            Type("v:/exact", "0.10"),
        ],
        sent: r#"{"whole":-9223372036854775808,"large":12345678901234567890123,"small":1.0E-7,"exact":0.10}"#,
    },
    Case {
        tool: "parts",
        schema: r#"{"type":"object","properties":{"name":{"type":"string"},"free":{"description":"Whatever you like"}}}"#,
        steps: &[
            Type("v:/name", "x"),
            Type("v:/free", "{\"a\": [1, 2.50]"),
            Refused("is not JSON"),
            Holds("v:/name", "x"),
            Type("v:/free", "{\"a\": [1, 2.50], \"b\": null}"),
        ],
        sent: r#"{"name":"x","free":{"a":[1,2.50],"b":null}}"#,
    },
    Case {
        tool: "views",
        schema: r#"{"type":"object","properties":{"s":{"type":"string","maxLength":9},"n":{"type":"integer"},
            "l":{"type":"array","items":{"type":"integer"}}}}"#,
        steps: &[
            Type("v:/s", "x"),
            Press("switch:", "textarea[name='v:']"),
            Holds("v:", "{\n  \"s\": \"x\"\n}"),
            Type("v:", "{\"s\": \"y\", \"n\": 1.0, \"l\": [1, 2]"),
            Press("switch:", ".wrong"),
            Type("v:", "{\"s\": \"y\", \"n\": 5, \"l\": [1, 2], \"more\": {}}"),
            Press("switch:", "[name='v:/l/1']"),
            Holds("v:/s", "y"),
            Holds("v:/l/1", "2"),
            Type("v:/n", "6"),
        ],
        sent: r#"{"s":"y","n":6,"l":[1,2],"more":{}}"#,
    },
    Case {
        tool: "tree",
        schema: r##"{"type":"object","$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},
            "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name"]}}}"##,
        steps: &[
            Type("v:/name", "a"),
            Press("add:/children", "[name='v:/children/0/name']"),
            Type("v:/children/0/name", "b"),
            Press("add:/children/0/children", "[name='v:/children/0/children/0/name']"),
            Type("v:/children/0/children/0/name", "c"),
        ],
        sent: r#"{"name":"a","children":[{"name":"b","children":[{"name":"c"}]}]}"#,
    },
];

/// A server with a tool for each case.
fn server() -> ScriptedServer {
    ScriptedServer::start(Speaks::Modern, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let tool = |case: &Case| format!(r#"{{"name":"{}","inputSchema":{}}}"#, case.tool, case.schema);
            let tools: Vec<String> = CASES.iter().map(tool).collect();
            say.result(&format!(
                r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{}]}}"#,
                tools.join(",")
            ));
        }
        "tools/call" => {
            say.result(r#"{"resultType":"complete","content":[{"type":"text","text":"got it"}]}"#);
        }
        _ => {}
    })
}

/// The arguments of the last call, as they were written.
fn last_arguments(server: &ScriptedServer) -> String {
    let last = server.heard_of("tools/call").pop().expect("a call");
    let params: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&last.params).unwrap();
    params["arguments"].get().to_owned()
}

fn control(name: &str) -> String {
    format!("[name='{name}']:is(input, textarea, select):not([type=hidden])")
}

async fn act(pages: &Pages, step: &Step) {
    match step {
        Type(name, text) => pages.types(&control(name), text).await,
        Choose(name, value) => pages.click(&format!("select[name='{name}'] option[value='{value}']")).await,
        Press(name, then) => {
            pages.click(&format!("button[name='{name}']")).await;
            pages.until(then).await;
        }
        Pick(name, value, then) => {
            pages.click(&format!("select[name='{name}'] option[value='{value}']")).await;
            pages.until(then).await;
        }
        Reads(text) => pages.reads(text).await,
        Holds(name, value) => {
            let held = pages.until(&control(name)).await.prop("value").await.unwrap();
            assert_eq!(held.as_deref(), Some(*value), "{name}");
        }
        Refused(words) => {
            pages.click(CALL).await;
            pages.reads(words).await;
        }
    }
}

/// Sends the form, and waits for the call with this number.
async fn call(pages: &Pages, server: &ScriptedServer, number: usize, case: &Case) {
    pages.click(CALL).await;
    eventually("the result", async {
        while pages.driver.find(thirtyfour::By::Css("#result")).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let calls = server.heard_of("tools/call").len();
    assert_eq!((last_arguments(server).as_str(), calls), (case.sent, number), "{}", case.tool);
}

#[tokio::test]
async fn what_a_person_enters_is_what_the_server_gets_digit_by_digit() {
    let server = server();
    let definition = format!("name: corpus\ntransport: http\nurl: {}\nstart: eager\n", server.url());
    let gateway = GatewayFixture::start(&[("corpus", &definition)]).await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            for (index, case) in CASES.iter().enumerate() {
                pages.go(&format!("/ui/call/corpus%2F{}", case.tool)).await;
                for step in case.steps {
                    act(&pages, step).await;
                }
                call(&pages, &server, 2 * index + 1, case).await;
                // The inputs are filled into the form again: nothing of them is lost on that way.
                pages.click(".head a.button").await;
                pages.until(CALL).await;
                call(&pages, &server, 2 * index + 2, case).await;
            }
            // A form that is refused is an answer that browsers note.
            let noted = pages.complaints().await;
            assert!(noted.iter().all(|line| line.contains("responded with a status of 4")), "{noted:?}");
        })
        .await;
}
