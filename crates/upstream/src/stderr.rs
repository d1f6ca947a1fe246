//! Reads a program's stderr for the reason of its failure: the lines that name an error, and the text that carries
//! them.

/// How many of a program's last lines are reported.
const LAST_LINES: usize = 3;
/// How many of its last lines are looked at for one that says what failed.
pub(crate) const SEARCHED: usize = 200;
/// What is before these lines, and between them.
const STDERR: &str = "; stderr ends with: ";
const BETWEEN: &str = " / ";

/// What failed, with the lines of the program's stderr that say why: the last one that names an error, else its end.
pub(crate) fn with_stderr<L: AsRef<str>>(what: String, lines: &[L]) -> String {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).filter(|line| !is_noise(line)).collect();
    let told = match lines.iter().copied().filter(|line| rank(line) > 0).max_by_key(|line| rank(line)) {
        // Of equal ones the last.
        Some(error) => error.trim().to_owned(),
        None => lines[lines.len().saturating_sub(LAST_LINES)..].join(BETWEEN),
    };
    if told.is_empty() { what } else { what + STDERR + &told }
}

/// What failed, and the last lines of the program's stderr, of an error that a server's status tells.
pub fn stderr_apart(error: &str) -> (&str, Vec<&str>) {
    match error.split_once(STDERR) {
        Some((what, lines)) => (what, lines.split(BETWEEN).collect()),
        None => (error, Vec::new()),
    }
}

/// The last line that says something.
pub(crate) fn latest(lines: &[String]) -> Option<&str> {
    lines.iter().map(|line| line.trim()).rfind(|line| !is_noise(line))
}

/// The text of a line without what npm puts before each.
fn bare(line: &str) -> &str {
    let line = line.trim();
    ["npm error", "npm ERR!", "npm warn", "npm WARN"].iter().find_map(|it| line.strip_prefix(it)).unwrap_or(line).trim()
}

/// Whether a line says nothing about what failed: places in programs, closing brackets, versions, where a log is.
fn is_noise(line: &str) -> bool {
    const BEGINS: [&str; 14] = [
        "at ",
        "node:",
        "Node.js v",
        "File \"",
        "code ",
        "code:",
        "syscall ",
        "syscall:",
        "errno ",
        "errno:",
        "path ",
        "A complete log of this run",
        "This is related to npm not being able",
        "Bun v",
    ];
    let is_notice = line.trim_start().starts_with("npm notice");
    let line = bare(line);
    let has_words = line.chars().any(char::is_alphanumeric);
    !has_words || is_notice || BEGINS.iter().any(|begin| line.starts_with(begin))
}

/// How surely a line says what failed; 0 for one that does not.
fn rank(line: &str) -> u8 {
    const NAMES: [&str; 3] = ["panicked at", "fatal:", "FATAL"];
    const WORDS: [&str; 12] = [
        "error",
        "fail",
        "cannot",
        "can't",
        "could not",
        "unable to",
        "not found",
        "denied",
        "refused",
        "no such",
        "invalid",
        "missing",
    ];
    let line = bare(line);
    if line.starts_with("Traceback") {
        return 0;
    }
    // `Error [CODE]: text`, `TypeError: text`, `json.decoder.JSONDecodeError: text`.
    let first = line.split([':', ' ']).next().unwrap_or_default();
    let names = first.ends_with("Error") || first.ends_with("Exception");
    if (names && line.contains(": ")) || NAMES.iter().any(|name| line.contains(name)) {
        return 2;
    }
    let lower = line.to_ascii_lowercase();
    u8::from(WORDS.iter().any(|word| lower.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stderr: &str, expected: &str) {
        let lines: Vec<&str> = stderr.lines().collect();
        let text = with_stderr("it ended".to_owned(), &lines);
        assert_eq!(stderr_apart(&text), ("it ended", if expected.is_empty() { vec![] } else { vec![expected] }));
    }

    #[test]
    fn the_line_that_says_what_failed_is_reported() {
        check(
            "node:internal/modules/esm/resolve:873\n  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);\n        ^\n\nError [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/y.js\n    at packageResolve (node:internal/x:873:9)\n    at async y {\n  code: 'ERR_MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2\n",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/y.js",
        );
        check(
            "Traceback (most recent call last):\n  File \"/x/bin/a\", line 4, in <module>\n    from a import main\nModuleNotFoundError: No module named 'mcp.types'\n",
            "ModuleNotFoundError: No module named 'mcp.types'",
        );
        check(
            "npm warn exec The following package was not found and will be installed: x@1\nnpm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/x - Not found\nnpm error A complete log of this run can be found in: /users/me/.npm/_logs/x.log\n",
            "npm error 404 Not Found - GET https://registry.npmjs.org/x - Not found",
        );
        check("thread 'main' panicked at src/main.rs:3:5:\nno key\n", "thread 'main' panicked at src/main.rs:3:5:");
        check("starting\nfake-server: cannot start: no license\n", "fake-server: cannot start: no license");
        check("Node.js v20.20.2\n}\n", "");
    }

    #[test]
    fn without_an_error_the_end_is_reported() {
        let text = with_stderr("it ended".to_owned(), &["one", "two", "", "three", "four"]);
        assert_eq!(stderr_apart(&text), ("it ended", vec!["two", "three", "four"]));
        assert_eq!(latest(&["one".to_owned(), "two ".to_owned(), "}".to_owned()]), Some("two"));
        assert_eq!(latest(&[]), None);
    }
}
