//! Forms without a terminal: what texts mean, what is asked, what is answered.

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "Who\u{1b}[31m are you" },
            "age": { "type": "integer", "default": 7 },
            "weight": { "type": "number" },
            "fine": { "type": "boolean", "title": "All well?" },
            "colour": { "type": "string", "enum": ["red", "blue"] },
            "size": { "type": "string", "oneOf": [{ "const": "s", "title": "Small" }, { "const": "l", "title": "Large" }] },
            "tags": { "type": "array", "items": { "type": "string", "enum": ["a", "b", "c"] } },
        },
        "required": ["name", "colour"],
    })
}

#[track_caller]
fn check(field: &str, text: &str, expected: Result<Value, &str>) {
    let schema = schema();
    let fields = fields(&schema);
    let field = fields.iter().find(|known| known.name == field).unwrap();
    let read = field.read(text).map(|value| value.unwrap_or(Value::Null));
    assert_eq!(read, expected.map_err(str::to_owned), "{} {text}", field.name);
}

#[test]
fn a_text_means_what_the_field_wants() {
    check("name", " Ann \n", Ok(json!("Ann")));
    check("name", "", Err("a value is required"));
    check("age", "", Ok(json!(7)));
    check("age", "40", Ok(json!(40)));
    check("age", "4.5", Err("`4.5` is not a whole number"));
    check("weight", "4.5", Ok(json!(4.5)));
    check("weight", "NaN", Err("`NaN` is not a number"));
    check("weight", "", Ok(Value::Null));
    check("fine", "Yes", Ok(json!(true)));
    check("fine", "maybe", Err("answer `y` or `n`"));
    check("colour", "blue", Ok(json!("blue")));
    check("colour", "green", Err("`green` is not one of red, blue"));
    check("size", "l", Ok(json!("l")));
    check("size", "Large", Err("`Large` is not one of s, l"));
    check("tags", "a, c", Ok(json!(["a", "c"])));
    check("tags", "a,d", Err("`d` is not one of a, b, c"));
}

#[test]
fn a_prompt_shows_what_may_be_answered_and_cannot_steer_the_terminal() {
    let schema = schema();
    let prompts: Vec<String> = fields(&schema).iter().map(Field::prompt).collect();
    assert!(!prompts[0].contains('\u{1b}') && prompts[0].starts_with("  name – Who"), "{}", prompts[0]);
    assert_eq!(
        prompts[1..],
        [
            "  age [integer; Enter: 7]: ",
            "  weight [number; optional]: ",
            "  All well? [y/n; optional]: ",
            "  colour [red | blue]: ",
            "  size [s | l; optional]: ",
            "  tags [any of a, b, c, separated by commas; optional]: ",
        ]
    );
}

async fn answered(given: &[&str], asked: InputRequest) -> Result<Value, Problem> {
    let given: Vec<_> = given.iter().map(|pair| pair.split_once('=').unwrap()).collect();
    let given = given.into_iter().map(|(field, value)| (field.to_owned(), value.to_owned())).collect();
    let person = Person { given, is_there: false };
    person.answer(&asked).await.map(|answer| answer.to_value())
}

fn asked(params: &Value) -> InputRequest {
    InputRequest { method: "elicitation/create".to_owned(), params: Raw::from_value(params) }
}

#[tokio::test]
async fn answers_of_the_command_line_fill_the_form() {
    let form = || asked(&json!({ "message": "m", "requestedSchema": schema() }));
    let answer = answered(&["name=Ann", "colour=red", "weight=2", "more=x"], form()).await.unwrap();
    let expected = json!({ "name": "Ann", "age": 7, "weight": 2.0, "colour": "red" });
    assert_eq!(answer, json!({ "action": "accept", "content": expected }));
    let problem = answered(&["name=Ann"], form()).await.unwrap_err();
    assert_eq!(problem.message, "the tool requires `colour`, which was not given");
    let problem = answered(&["name=Ann", "colour=green"], form()).await.unwrap_err();
    assert_eq!(problem.message, "`--answer colour`: `green` is not one of red, blue");
    let page = asked(&json!({ "mode": "url", "url": "https://example.com", "message": "m" }));
    assert!(answered(&["x=y"], page).await.is_err(), "a script cannot open a page");
}
