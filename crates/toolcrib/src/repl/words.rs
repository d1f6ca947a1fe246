//! What a line means: words of muster's REPL become commands of the command line, everything else is one already.

use toolcrib_base::{Kind, Problem};

use crate::kind::{self, Verb};

pub(super) const HELP: &str = "\
list KIND                        tools, servers, resources, prompts, workflows, services, …; also core-tools
describe tool|resource|prompt N  all details of one object
filter tools [GLOB] [key=value]  pattern, description, query, limit, offset; also `find`, `search`
find WORDS                       search tools, best match first
call TOOL {json} | key=value     call a tool
get URI                          read a resource; `get KIND NAME` shows any object
prompt NAME {json} | key=value   the messages of a prompt
workflow NAME {json} | key=value run a workflow
context list | use NAME          contexts; `use` applies to this session
notifications on | off           print changes of the lists
help, exit

Every other line is a command of `toolcrib`, such as `status` or `start server NAME`; see `COMMAND --help`.
";

/// Commands that serve or sit themselves.
const ELSEWHERE: [&str; 7] = ["serve", "stdio", "standalone", "bridge", "repl", "agent", "demo"];
/// Commands that take the flags that name a gateway behind their own name.
const TAKE_FLAGS: [&str; 24] = [
    "list", "get", "create", "update", "delete", "start", "stop", "restart", "check", "events", "prompt", "status",
    "find", "describe", "call", "verify", "approve", "reject", "explain", "doctor", "tokens", "api", "version", "test",
];

/// What is to be done about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Exit,
    Help,
    /// Switch notifications on or off, or show whether they are on.
    Notifications(Option<bool>),
    UseContext(String),
    /// A command without the program's name.
    Run(Vec<String>),
}

/// Reads a line.
pub(super) fn act(line: &str) -> Result<Act, Problem> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Act::Nothing);
    }
    let (words, json) = split(line)?;
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.first() == Some(&"toolcrib") {
        words.remove(0);
    }
    let run = |words: &[&str]| Act::Run(with_json(words, json.as_deref()));
    Ok(match &words[..] {
        [] => Act::Nothing,
        ["exit" | "quit", ..] => Act::Exit,
        ["help" | "?"] => Act::Help,
        ["help", command, ..] => Act::Run(vec![(*command).to_owned(), "--help".to_owned()]),
        ["notifications"] => Act::Notifications(None),
        ["notifications", "on"] => Act::Notifications(Some(true)),
        ["notifications", "off"] => Act::Notifications(Some(false)),
        ["notifications", ..] => return Err(wrong("write `notifications on` or `notifications off`")),
        ["context", "use" | "switch", name] => Act::UseContext((*name).to_owned()),
        ["list", "core-tools" | "core_tools"] => run(&["api"]),
        ["filter" | "find" | "search", "tools", rest @ ..] => Act::Run(filter(rest)?),
        ["filter", ..] => return Err(wrong("write `filter tools [GLOB] [key=value]`")),
        ["search", rest @ ..] => run(&[&["find"], rest].concat()),
        // A single word that is no kind is a resource's URI.
        ["get", uri] if kind::named(uri.split('/').next().unwrap_or_default()).is_none() => {
            run(&["get", "resource", uri])
        }
        ["workflow", rest @ ..] if !rest.is_empty() => run(&[&["start", "workflow"], rest].concat()),
        [command, ..] if ELSEWHERE.contains(command) => {
            return Err(wrong(&format!("`{command}` does not work in the REPL")).hint("run it in a shell"));
        }
        all => run(all),
    })
}

/// The command with the flags that name the gateway of this sitting, where it takes them.
pub(super) fn with_flags(mut words: Vec<String>, flags: &[String]) -> Vec<String> {
    let takes = words.first().is_some_and(|word| TAKE_FLAGS.contains(&word.as_str()));
    // Someone who names a gateway in the line means that one.
    let names = |flag: &str| words.iter().any(|word| word.split('=').next() == Some(flag));
    if takes && !names("--endpoint") && !names("--context") {
        let flags: Vec<String> =
            flags.iter().filter(|flag| !names(flag.split('=').next().unwrap_or_default())).cloned().collect();
        words.splice(1..1, flags);
    }
    words
}

fn with_json(words: &[&str], json: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    if let Some(json) = json {
        words.push(format!("--json={json}"));
    }
    words
}

/// `filter tools …` as a list or, with a query, as a search.
fn filter(rest: &[&str]) -> Result<Vec<String>, Problem> {
    let mut pattern = None;
    let (mut query, mut flags) = (None, Vec::new());
    for word in rest {
        match word.split_once('=') {
            Some(("pattern", value)) => pattern = Some(value),
            Some(("query", value)) => query = Some(value),
            Some(("description" | "description_filter", value)) => flags.push(format!("--description={value}")),
            Some((key @ ("limit" | "offset"), value)) => flags.push(format!("--{key}={value}")),
            // Globs of ours are never case-sensitive halves, and details are columns.
            Some(("case_sensitive" | "detailed", "false")) => {}
            Some(("detailed", _)) => flags.push("--output=wide".to_owned()),
            Some((key, _)) => {
                return Err(wrong(&format!("unknown filter `{key}` of `filter tools`"))
                    .hint("known filters: pattern, description, query, limit, offset, detailed"));
            }
            None if pattern.is_none() => pattern = Some(word),
            None => return Err(wrong(&format!("unexpected word `{word}`"))),
        }
    }
    if let Some(query) = query {
        flags.retain(|flag| flag.starts_with("--limit") || flag.starts_with("--output"));
        return Ok([vec!["find".to_owned(), query.to_owned()], flags].concat());
    }
    let pattern = pattern.map(|pattern| format!("--filter={pattern}"));
    Ok([vec!["list".to_owned(), "tools".to_owned()], pattern.into_iter().collect(), flags].concat())
}

/// The words of a line as a shell tells them apart, and JSON at its end, which needs no quotes.
pub(super) fn split(line: &str) -> Result<(Vec<String>, Option<String>), Problem> {
    let mut words = Vec::new();
    let mut chars = line.char_indices().peekable();
    while let Some(&(at, c)) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
            continue;
        }
        if c == '{' && words.len() >= 2 {
            return Ok((words, Some(line[at..].trim().to_owned())));
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(&(_, c)) = chars.peek() {
            match (quote, c) {
                (None, c) if c.is_whitespace() => break,
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), c) if c == open => quote = None,
                (None | Some('"'), '\\') => {
                    chars.next();
                    match chars.peek() {
                        Some(&(_, next)) if quote.is_none() || matches!(next, '"' | '\\') => word.push(next),
                        Some(&(_, next)) => word.extend(['\\', next]),
                        None => return Err(wrong("the line ends with `\\`")),
                    }
                }
                (_, c) => word.push(c),
            }
            chars.next();
        }
        if let Some(open) = quote {
            return Err(wrong(&format!("the quote {open} is not closed")));
        }
        words.push(word);
    }
    Ok((words, None))
}

/// Whether JSON at the end of a line goes on in the next one.
pub(super) fn is_open(line: &str) -> bool {
    let Ok((_, Some(json))) = split(line.trim()) else { return false };
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for c in json.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            '{' | '[' if !is_text => depth += 1,
            '}' | ']' if !is_text => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    // What comes behind the end is wrong, whatever follows.
                    return false;
                }
            }
            _ => {}
        }
    }
    depth > 0
}

/// The words that may begin a line beside the commands.
pub(super) const OWN: [&str; 6] = ["exit", "filter", "help", "notifications", "quit", "workflow"];

/// The kinds that a verb fits, as they are typed.
pub(super) fn kinds(verb: Verb) -> Vec<&'static str> {
    let fitting = kind::TABLE.iter().filter(|row| row.takes(verb));
    fitting.map(|row| if verb == Verb::List { row.many } else { row.one }).collect()
}

fn wrong(message: &str) -> Problem {
    Problem::new(Kind::InvalidParams, message).hint("type `help` for commands")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let expected = Act::Run(expected.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(act(line).unwrap(), expected, "{line}");
    }

    #[test]
    fn lines_become_commands() {
        check("list tools", &["list", "tools"]);
        check("toolcrib list tools -o wide", &["list", "tools", "-o", "wide"]);
        check("list core-tools", &["api"]);
        check("describe tool files_read", &["describe", "tool", "files_read"]);
        check(r#"call t {"a": "b c", "n": 1}"#, &["call", "t", r#"--json={"a": "b c", "n": 1}"#]);
        check("call t a='b c' n=1", &["call", "t", "a=b c", "n=1"]);
        check(r#"call t a="x \"y\" \n" b=\ z"#, &["call", "t", r#"a=x "y" \n"#, "b= z"]);
        check("get file:///tmp/x", &["get", "resource", "file:///tmp/x"]);
        check("get server files", &["get", "server", "files"]);
        check("get server/files", &["get", "server/files"]);
        check("workflow w x=1", &["start", "workflow", "w", "x=1"]);
        check("prompt greet {\"who\": \"me\"}", &["prompt", "greet", "--json={\"who\": \"me\"}"]);
        check(
            "filter tools files* limit=3 description=read",
            &["list", "tools", "--filter=files*", "--limit=3", "--description=read"],
        );
        check("search tools query='read a file' limit=3", &["find", "read a file", "--limit=3"]);
        check("find read a file", &["find", "read", "a", "file"]);
        check("help list", &["list", "--help"]);
        check("context list", &["context", "list"]);
    }

    #[test]
    fn json_goes_on_over_lines_until_it_is_closed() {
        for line in
            ["call t {", "call t {\"a\": [1,", "call t {\"a\": \"}\"", "call t {\"a\": \"\\\"}", "workflow w {\n\"a\":"]
        {
            assert!(is_open(line), "{line}");
        }
        for line in
            ["", "call t", "call t {}", "call t {\"a\": {\"b\": []}}", "call t {} {", "call 't", "filter tools {a"]
        {
            assert_eq!(is_open(line), line == "filter tools {a", "{line}");
        }
        check("call t {\n  \"a\": 1\n}", &["call", "t", "--json={\n  \"a\": 1\n}"]);
    }

    #[test]
    fn some_lines_are_for_the_sitting_itself() {
        for (line, expected) in [
            ("", Act::Nothing),
            ("  # a remark", Act::Nothing),
            ("quit", Act::Exit),
            ("help", Act::Help),
            ("notifications on", Act::Notifications(Some(true))),
            ("notifications off", Act::Notifications(Some(false))),
            ("context use work", Act::UseContext("work".into())),
        ] {
            assert_eq!(act(line).unwrap(), expected, "{line}");
        }
        for line in [
            "serve",
            "toolcrib stdio",
            "notifications maybe",
            "filter",
            "filter tools a b",
            "filter tools x=1",
            "call 't",
            "call \\",
        ] {
            assert!(act(line).unwrap_err().hint.is_some(), "{line}");
        }
    }

    #[test]
    fn the_gateway_of_the_sitting_is_meant_unless_the_line_names_one() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let flags = ["--context=work".to_owned(), "--home=/h".to_owned()];
        assert_eq!(with_flags(words("list tools"), &flags), words("list --context=work --home=/h tools"));
        assert_eq!(with_flags(words("list tools --home /x"), &flags), words("list --context=work tools --home /x"));
        assert_eq!(with_flags(words("call t --endpoint=x"), &flags), words("call t --endpoint=x"));
        assert_eq!(with_flags(words("registry list"), &flags), words("registry list"));
    }
}
