//! What a shell or a wrapper runs: `sh -c "npx …"`, `env X=Y npx`, `timeout 30 npx`. Good enough to recognise a program;
//! nothing is run by what is read here.

/// One command line below a wrapper.
pub(super) struct Inner {
    pub(super) words: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
}

/// Wrappers that run the rest of their line, and their options that take the next word with them.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("nice", &["-n", "--adjustment"]),
    ("ionice", &["-c", "--class", "-n", "--classdata"]),
    ("timeout", &["-s", "--signal", "-k", "--kill-after"]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("time", &["-f", "-o"]),
    ("exec", &["-a"]),
    ("command", &[]),
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-D"]),
    ("doas", &["-u", "-C"]),
    ("xvfb-run", &["-n", "-s", "-e", "-f"]),
    ("caffeinate", &["-t", "-w"]),
];

/// Tools of which the program to run stands after `--`.
const AFTER_DASHES: [&str; 6] = ["mise", "dotenvx", "op", "doppler", "infisical", "direnv"];

const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "dash", "ash", "fish", "ksh"];
const POWERSHELLS: [&str; 2] = ["powershell", "pwsh"];

/// The name of a program without its folder and without what Windows appends.
pub(super) fn program_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let stem = [".cmd", ".exe", ".bat", ".ps1"].iter().find_map(|ending| lower.strip_suffix(ending));
    // Without such an ending capital letters count.
    match stem {
        Some(stem) => stem.to_owned(),
        None => name.to_owned(),
    }
}

/// What `program` runs, where it is a shell or a wrapper.
pub(super) fn inner(program: &str, args: &[String]) -> Option<Vec<Inner>> {
    if SHELLS.contains(&program) {
        return script_of_shell(args).map(commands);
    }
    if program.eq_ignore_ascii_case("cmd") {
        let at = args.iter().position(|arg| arg.eq_ignore_ascii_case("/c") || arg.eq_ignore_ascii_case("/k"))?;
        return Some(line(&args[at + 1..]));
    }
    if POWERSHELLS.contains(&program) {
        let is_command = |arg: &&String| ["-c", "-command"].contains(&arg.to_ascii_lowercase().as_str());
        let at = args.iter().position(|arg| is_command(&arg))?;
        return Some(line(&args[at + 1..]));
    }
    if AFTER_DASHES.contains(&program) {
        let at = args.iter().position(|arg| arg == "--")?;
        return Some(vec![Inner { words: args[at + 1..].to_vec(), variables: Vec::new() }]);
    }
    let (_, valued) = WRAPPERS.iter().find(|(name, _)| *name == program)?;
    wrapped(program, valued, args)
}

/// The text after `-c`, or after options that end in `c`, such as `-lc`.
fn script_of_shell(args: &[String]) -> Option<&str> {
    let at = args.iter().position(|arg| !arg.starts_with("--") && arg.starts_with('-') && arg.ends_with('c'))?;
    // A script's file before it: what follows are the script's own arguments.
    let has_file = args[..at].iter().any(|arg| !arg.starts_with('-'));
    args.get(at + 1).filter(|_| !has_file).map(String::as_str)
}

/// Words that are already apart, or one word that holds them all.
fn line(args: &[String]) -> Vec<Inner> {
    match args {
        [script] => commands(script),
        words => vec![Inner { words: words.to_vec(), variables: Vec::new() }],
    }
}

fn wrapped(program: &str, valued: &[&str], mut args: &[String]) -> Option<Vec<Inner>> {
    let mut variables = Vec::new();
    loop {
        let (word, rest) = args.split_first()?;
        if program == "env" && (word == "-S" || word == "--split-string") {
            return Some(commands(rest.first()?));
        }
        if word.starts_with('-') && word.len() > 1 {
            args = if valued.contains(&word.as_str()) { rest.get(1..)? } else { rest };
        } else if let Some(variable) = assignment(word).filter(|_| matches!(program, "env" | "sudo")) {
            variables.push(variable);
            args = rest;
        } else {
            break;
        }
    }
    // The first word of `timeout` is how long.
    let words = if program == "timeout" { args.get(1..)? } else { args };
    Some(vec![Inner { words: words.to_vec(), variables }])
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (is_name && !name.starts_with(|c: char| c.is_ascii_digit())).then(|| (name.to_owned(), value.to_owned()))
}

/// The simple commands of a script, in order. Quotes and backslashes are understood, expansions are left as they stand.
fn commands(script: &str) -> Vec<Inner> {
    let (mut all, mut words): (Vec<Vec<String>>, Vec<String>) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|c| *c != '\''));
            }
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    let escaped = c == '\\' && chars.peek().is_some_and(|next| matches!(next, '"' | '\\' | '$' | '`'));
                    word.extend(if escaped { chars.next() } else { Some(c) });
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '#' if word.is_none() => while chars.next().is_some_and(|c| c != '\n') {},
            ';' | '&' | '|' | '\n' | '(' | ')' | '{' | '}' if c != '{' && c != '}' || word.is_none() => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    all.into_iter().filter(|words| !words.is_empty()).map(|words| simple(&words)).collect()
}

/// A command with the variables that stand before it.
fn simple(words: &[String]) -> Inner {
    let variables: Vec<_> = words.iter().map_while(|word| assignment(word)).collect();
    Inner { words: words[variables.len()..].to_vec(), variables }
}
