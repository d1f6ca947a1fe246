//! Texts that stand for something else until they are filled in, as editors and other clients write them: a variable
//! of the environment, an input that they ask their person for, and what only they know. Not here: our own references to
//! secrets, see `secret`.

use crate::secret::is_variable;

/// What editors call what they fill in, up to a colon.
const EDITORS: [&str; 24] = [
    "/",
    "command",
    "config",
    "cwd",
    "defaultBuildTask",
    "env",
    "execPath",
    "extensionInstallFolder",
    "file",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileDirname",
    "fileExtname",
    "fileWorkspaceFolder",
    "lineNumber",
    "pathSeparator",
    "relativeFile",
    "relativeFileDirname",
    "selectedText",
    "userHome",
    "workspaceFolder",
    "workspaceFolderBasename",
    "workspaceRoot",
    "workspaceRootFolderName",
];

/// In longer texts no variables are looked for: every `$` may mean looking through the rest.
const PIECES_MAX: usize = 16 * 1024;

/// One piece of a text that may name variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// A variable of the environment, and what stands in where it is not set.
    Variable {
        name: String,
        default: Option<String>,
    },
    /// Something that the client asks its person for.
    Input(String),
    /// Something that only the client knows, such as `workspaceFolder`.
    Unknown(String),
}

/// A text in pieces: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${input:id}`, and `$NAME` where `dollar` says so.
pub(crate) fn pieces(text: &str, dollar: bool) -> Vec<Piece> {
    if text.len() > PIECES_MAX {
        return vec![Piece::Text(text.to_owned())];
    }
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let (piece, length) = match after.strip_prefix("${").and_then(|inner| inner.split_once('}')) {
            Some((inside, _)) => (Some(braced(inside)), inside.len() + 3),
            None if dollar && !after.starts_with("${") => bare(&after[1..]),
            None => (None, 1),
        };
        match piece {
            Some(piece) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(piece);
            }
            None => plain.push_str(&after[..length]),
        }
        rest = &after[length..];
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

fn braced(inside: &str) -> Piece {
    let variable = |text: &str| {
        let (name, default) = match text.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (text, None),
        };
        is_variable(name).then(|| Piece::Variable { name: name.to_owned(), default })
    };
    if let Some(id) = inside.strip_prefix("input:") {
        return Piece::Input(id.to_owned());
    }
    let known = match inside.strip_prefix("env:") {
        Some(name) => variable(name),
        // A name in mixed case is one of the client's own.
        None if inside.split(":-").next().unwrap_or_default().bytes().any(|byte| byte.is_ascii_lowercase()) => None,
        None => variable(inside),
    };
    known.unwrap_or_else(|| Piece::Unknown(inside.to_owned()))
}

fn bare(after: &str) -> (Option<Piece>, usize) {
    let length = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let name = &after[..length];
    let piece = is_variable(name).then(|| Piece::Variable { name: name.to_owned(), default: None });
    (piece, length + 1)
}

/// The first placeholder of a text that only an editor can fill in, such as `${workspaceFolder}`, `${input:id}` or
/// `${env:NAME}`: what is in its braces. Names of variables in capitals are those of shells and programs.
pub(crate) fn placeholder(text: &str) -> Option<String> {
    pieces(text, false).into_iter().find_map(|piece| match piece {
        Piece::Input(id) => Some(format!("input:{id}")),
        Piece::Variable { name, .. } if text.contains(&format!("${{env:{name}")) => Some(format!("env:{name}")),
        Piece::Unknown(name) if EDITORS.contains(&name.split(':').next().unwrap_or_default()) => Some(name),
        Piece::Text(_) | Piece::Variable { .. } | Piece::Unknown(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fall_into_pieces() {
        let variable = |name: &str| Piece::Variable { name: name.to_owned(), default: None };
        let text = |text: &str| Piece::Text(text.to_owned());
        for (written, expected) in [
            ("plain", vec![text("plain")]),
            ("", vec![text("")]),
            ("${A}", vec![variable("A")]),
            ("${env:a_b}", vec![variable("a_b")]),
            ("Bearer ${env:T}!", vec![text("Bearer "), variable("T"), text("!")]),
            ("${A:-x}", vec![Piece::Variable { name: "A".to_owned(), default: Some("x".to_owned()) }]),
            ("${input:key}", vec![Piece::Input("key".to_owned())]),
            ("${workspaceFolder}/x", vec![Piece::Unknown("workspaceFolder".to_owned()), text("/x")]),
            ("${A", vec![text("${A")]),
            ("$A $", vec![text("$A $")]),
            ("${}", vec![Piece::Unknown(String::new())]),
        ] {
            assert_eq!(pieces(written, false), expected, "{written}");
        }
        assert_eq!(pieces("$A-$ä$", true), vec![variable("A"), text("-$ä$")]);
        assert_eq!(pieces("${A", true), vec![text("${A")]);
        for (text, expected) in [
            ("${workspaceFolder}/x", Some("workspaceFolder")),
            ("a ${input:key}", Some("input:key")),
            ("${env:HOME}", Some("env:HOME")),
            ("${config:x.y}", Some("config:x.y")),
            ("${HOME} ${lower} $x ${", None),
        ] {
            assert_eq!(placeholder(text).as_deref(), expected, "{text}");
        }
    }
}
