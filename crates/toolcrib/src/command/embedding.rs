//! `toolcrib embedding`: the local model that helps to find tools. Works on the home's own files, whether a gateway runs
//! or not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use toolcrib_base::{Kind, Problem};
use toolcrib_embed::{Files, Fingerprint, Model, ModelError};

use crate::home::{Environment, Home};
use crate::model;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR", global = true)]
    home: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Check a model and copy it into the home, replacing the current one
    Add {
        /// A folder with `model.onnx` and `tokenizer.json`, or the `.onnx` file next to `tokenizer.json`
        path: PathBuf,
    },
    /// Show the model
    List,
    /// Remove the model and its vectors
    #[command(alias = "rm")]
    Remove,
}

const RESTART: &str = "restart a running gateway to use the change";

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let home = Home::find(arguments.home.as_deref(), environment)?;
    let state = home.state();
    let output = Output { format: Format::Table, headers: true, quiet: false };
    match &arguments.action {
        Action::Add { path } => {
            let (files, dimensions) = checked(path)?;
            put(&state, &files)?;
            output.text(&format!("added a model of {dimensions} dimensions; {RESTART}"))?;
        }
        Action::List => match Files::read(&model::folder(&state)) {
            _ if !model::folder(&state).is_dir() => {
                output.text("no model; add one with `toolcrib embedding add PATH`")?;
            }
            Ok(files) => output.text(&format!("{}  {} bytes", shown(files.fingerprint()), files.model.len()))?,
            Err(error) => return Err(problem(&error).into()),
        },
        Action::Remove => {
            let was = remove(&model::folder(&state))?;
            drop_file(&model::vectors(&state))?;
            let text = if was { format!("removed the model; {RESTART}") } else { "there was no model".to_owned() };
            output.text(&text)?;
        }
    }
    Ok(())
}

/// The files of a model that was loaded and has read a sentence, and the length of its vectors.
fn checked(path: &Path) -> anyhow::Result<(Files, usize)> {
    let files = Files::read(path).map_err(|error| problem(&error))?;
    let model = Model::load(files.clone()).map_err(|error| problem(&error))?;
    Ok((files, model.dimensions()))
}

fn problem(error: &ModelError) -> Problem {
    let hint = match error {
        ModelError::NotBuilt => {
            "build with model support, Rust 1.89 or newer: `cargo build --release --features model`"
        }
        _ => "a model is a folder with `model.onnx` and `tokenizer.json`, of the BERT family, such as MiniLM",
    };
    Problem::new(Kind::InvalidParams, error.to_string()).hint(hint)
}

/// Writes beside, then exchanges: anyone who starts in the meantime finds the old model, the new one, or none.
fn put(state: &Path, files: &Files) -> anyhow::Result<()> {
    fs::create_dir_all(state).with_context(|| format!("create `{}`", state.display()))?;
    let next = tempfile::Builder::new().prefix("model.").tempdir_in(state).context("create a folder for the model")?;
    for (name, content) in [("model.onnx", &files.model), ("tokenizer.json", &files.tokenizer)] {
        let path = next.path().join(name);
        let written = fs::File::create(&path).and_then(|mut file| {
            io::Write::write_all(&mut file, content)?;
            file.sync_all()
        });
        written.with_context(|| format!("write `{}`", path.display()))?;
    }
    let folder = model::folder(state);
    remove(&folder)?;
    fs::rename(next.path(), &folder).with_context(|| format!("write `{}`", folder.display()))?;
    Ok(())
}

/// Removes a folder, taking it out of the way first; `false` if there was none.
fn remove(folder: &Path) -> anyhow::Result<bool> {
    let Some(state) = folder.parent().filter(|_| folder.exists()) else { return Ok(false) };
    let away = tempfile::Builder::new().prefix("model.").tempdir_in(state).context("create a folder")?;
    fs::rename(folder, away.path().join("old")).with_context(|| format!("remove `{}`", folder.display()))?;
    away.close().with_context(|| format!("remove `{}`", folder.display()))?;
    Ok(true)
}

fn drop_file(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// The beginning of a fingerprint: enough to tell two models apart.
fn shown(fingerprint: Fingerprint) -> String {
    fingerprint.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(model: &str) -> Files {
        Files { model: model.into(), tokenizer: "{}".into() }
    }

    #[test]
    fn a_model_takes_the_place_of_another_and_leaves_nothing_beside() {
        let state = tempfile::tempdir().unwrap();
        let folder = model::folder(state.path());
        for content in ["one", "two"] {
            put(state.path(), &files(content)).unwrap();
            assert_eq!(Files::read(&folder).unwrap().model, content.as_bytes());
            assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
        }
        assert!(remove(&folder).unwrap());
        assert!(!remove(&folder).unwrap());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_model_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.onnx"), "x").unwrap();
        fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
        let error = checked(folder.path()).unwrap_err().to_string();
        let expected = if cfg!(feature = "model") { "tokenizer.json" } else { "this build cannot run models" };
        assert!(error.contains(expected), "{error}");
    }
}
