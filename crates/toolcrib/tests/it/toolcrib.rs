//! Runs the binary.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a run left.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `toolcrib` with nothing in its environment but what is given here.
pub(crate) async fn run(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    run_with_stdin(home, arguments, variables, "").await
}

/// The same with something on stdin.
pub(crate) async fn run_with_stdin(home: &Path, arguments: &[&str], variables: &[(&str, &str)], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolcrib"))
        .args(arguments)
        .env_clear()
        .env("TOOLCRIB_HOME", home)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // A command that does not read leaves a closed pipe.
    let _ = pipe.write_all(stdin.as_bytes()).await;
    drop(pipe);
    let output = child.wait_with_output().await.unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// The run went well and printed this.
    #[track_caller]
    pub(crate) fn prints(&self, expected: &str) {
        assert_eq!((self.code, self.stdout.as_str(), self.stderr.as_str()), (0, expected, ""));
    }

    /// The run failed with this code and said these things on stderr, and nothing on stdout.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in:\n{}", self.stderr);
        }
    }
}

/// A command that speaks MCP over its stdin and stdout.
pub(crate) struct Talk {
    _child: tokio::process::Child,
    stdin: tokio::process::ChildStdin,
    stdout: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStdout>>,
}

impl Talk {
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolcrib"))
            .args(arguments)
            .env_clear()
            .env("TOOLCRIB_HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let stdout = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stdout));
        Self { _child: child, stdin, stdout }
    }

    /// One message, and the line that comes back.
    pub(crate) async fn ask(&mut self, line: &str) -> serde_json::Value {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let answer = self.stdout.next_line().await.unwrap().expect("an answer");
        serde_json::from_str(&answer).unwrap()
    }
}
