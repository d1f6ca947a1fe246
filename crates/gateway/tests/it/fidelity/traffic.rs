//! Generated messages: JSON in every odd spelling that the grammar allows, where nobody expects it.

use proptest::prelude::*;

/// An object by its members; keys without quotes, values as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Object(pub(crate) Vec<(String, String)>);

// === impl Object ===

impl Object {
    pub(crate) fn text(&self) -> String {
        let members: Vec<String> = self.0.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Replaces a value in its place, or adds the member at the end.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some(member) => member.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    pub(crate) fn add(&mut self, key: &str, value: &str) {
        if self.get(key).is_none() {
            self.0.push((key.to_owned(), value.to_owned()));
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| known != key);
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1.10",
    "1e400",
    "-1E-400",
    "9007199254740993",
    "123456789012345678901234567890",
    "0.10",
    "1E+2",
    "-0.0e0",
];
const TEXTS: &[&str] = &[
    r#""""#,
    r#""\ud800""#,
    r#""\udc00\ud800x""#,
    r#""\u00fc\ud83d\ude00""#,
    r#""\/\b\f\n\r\t\\\"""#,
    r#""\u0000""#,
    r#""ü€😀""#,
    r#""\u2028""#,
    r#""=?base64?eA==?=""#,
    r#""resultType""#,
    r#""input_required""#,
    r#""\"isError\":true""#,
];

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(NUMBERS).prop_map(str::to_owned),
        prop::sample::select(TEXTS).prop_map(str::to_owned),
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i128>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        (0_usize..80).prop_map(|length| format!("\"{}\"", "x".repeat(length))),
    ]
}

/// Any value, with blanks where they may stand.
pub(crate) fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        let blank = || prop::sample::select(&["", " ", "\t", "  "][..]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), blank())
                .prop_map(|(items, blank)| format!("[{blank}{}{blank}]", items.join(&format!("{blank},{blank}")))),
            (prop::collection::vec(inner, 0..4), blank()).prop_map(|(values, blank)| {
                let members: Vec<String> = values
                    .iter()
                    .enumerate()
                    .map(|(index, value)| {
                        format!("{blank}\"{}{index}\"{blank}:{blank}{value}", KEYS[index % KEYS.len()])
                    })
                    .collect();
                format!("{{{}{blank}}}", members.join(","))
            }),
        ]
    })
}

/// Keys in odd spellings; a number follows that tells them apart.
const KEYS: &[&str] = &["x-", r"\u0078y", "ключ ", r#"a\"b"#, r"\ud800", "", "__proto__", "$ref"];

/// Unknown members.
pub(crate) fn members(most: usize) -> impl Strategy<Value = Object> {
    let keys = prop::sample::subsequence(KEYS, 0..=most.min(KEYS.len())).prop_shuffle();
    (keys, prop::collection::vec(value(), most)).prop_map(|(keys, values)| {
        Object(keys.into_iter().zip(values).map(|(key, value)| (format!("{key}u"), value)).collect())
    })
}

/// An object with some of the given members among unknown ones, in any order.
pub(crate) fn object(known: Vec<(&'static str, BoxedStrategy<String>)>) -> impl Strategy<Value = Object> {
    let known: Vec<_> = known
        .into_iter()
        .map(|(key, value)| prop::option::of(value.prop_map(move |value| (key.to_owned(), value))))
        .collect();
    (known, members(3))
        .prop_map(|(known, unknown)| known.into_iter().flatten().chain(unknown.0).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(Object)
}

/// One of these texts.
pub(crate) fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(texts).prop_map(str::to_owned).boxed()
}

/// `_meta` as somebody in the middle of a trace sends it, with keys that are none of his business.
pub(crate) fn meta() -> impl Strategy<Value = Object> {
    object(vec![
        ("traceparent", one_of(&[r#""00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#])),
        ("tracestate", one_of(&[r#""a=1,b=2""#, r#""""#])),
        ("baggage", one_of(&[r#""k=v;p""#, "null"])),
        ("example.com/k", value().boxed()),
        ("io.modelcontextprotocol/unheard-of", value().boxed()),
        ("progressToken", one_of(&["7", r#""t""#, "null", "{}", "1.5"])),
    ])
}

/// A block of content, of a kind that is known or not.
fn block() -> impl Strategy<Value = String> {
    let kinds =
        one_of(&[r#""text""#, r#""image""#, r#""audio""#, r#""resource_link""#, r#""resource""#, r#""hologram""#]);
    object(vec![
        ("type", kinds),
        ("text", scalar().boxed()),
        ("data", one_of(&[r#""AAAA""#, r#""""#])),
        ("uri", one_of(&[r#""a:b""#, r#""script:\u002f""#])),
        ("resource", one_of(&[r#"{"uri":"a:b","text":"","_meta":{}}"#, r#"{ "uri" : "a:b" , "blob" : "AA==" }"#])),
        ("annotations", one_of(&[r#"{"priority":1.0,"audience":[]}"#, r#"{"priority":"high"}"#, "null", "7"])),
        ("_meta", meta().prop_map(|meta| meta.text()).boxed()),
    ])
    .prop_map(|block| block.text())
}

/// What a tool may answer.
pub(crate) fn tool_result() -> impl Strategy<Value = Object> {
    let blocks = prop::collection::vec(block(), 0..4).prop_map(|blocks| format!("[{}]", blocks.join(" , ")));
    object(vec![
        ("content", blocks.boxed()),
        ("structuredContent", members(3).prop_map(|it| it.text()).boxed()),
        ("isError", one_of(&["true", "false", "null", "\"no\""])),
    ])
}

/// What any other request may be answered with.
pub(crate) fn result() -> impl Strategy<Value = Object> {
    let messages = prop::collection::vec(block(), 0..3).prop_map(|blocks| {
        let messages: Vec<String> =
            blocks.iter().map(|block| format!(r#"{{"role":"user","x":1.0,"content":{block}}}"#)).collect();
        format!("[{}]", messages.join(","))
    });
    object(vec![
        ("messages", messages.boxed()),
        ("contents", one_of(&[r#"[{"uri":"a:b","text":"\ud800"}]"#, "[]", "[ null ]"])),
        ("completion", one_of(&[r#"{"values":["a"],"total":1e1}"#])),
        ("description", scalar().boxed()),
    ])
}

/// `_meta` of a result.
pub(crate) fn result_meta() -> impl Strategy<Value = Object> {
    object(vec![
        ("traceparent", one_of(&[r#""00-1""#])),
        ("example.com/k", value().boxed()),
        ("io.modelcontextprotocol/unheard-of", value().boxed()),
        ("io.modelcontextprotocol/serverInfo", one_of(&[r#"{"name":"forged"}"#])),
        ("ui", one_of(&[r#"{"resourceUri":"ui://\u0061","visibility":["app"]}"#])),
    ])
}

/// The same without keys that are half a surrogate pair: nobody can say whether two such keys are the same, so they are
/// refused from clients.
pub(crate) fn decodable(text: &str) -> String {
    let endings = ('0'..='9').chain(['u']);
    endings.fold(text.to_owned(), |text, end| text.replace(&format!(r"\ud800{end}"), &format!("half{end}")))
}
