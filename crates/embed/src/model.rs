//! A model: where its files are, what identifies them, and running it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

#[cfg(feature = "onnx")]
use crate::pieces::Pieces;

#[cfg(feature = "onnx")]
mod run;

/// How large a model and its tokenizer may be, in bytes.
const MODEL_BYTES: u64 = 1 << 30;
const TOKENIZER_BYTES: u64 = 64 << 20;
/// How many entries of a folder are looked at.
const ENTRIES: usize = 1000;

/// Why a model cannot be used.
#[derive(Debug, Error)]
pub enum ModelError {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder has no model, or several.
    #[error("`{}` holds {found} files that end with `.onnx`, not one, and no `model.onnx`", path.display())]
    Which {
        /// The folder.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// A file is larger than any model of use here.
    #[error("`{}` has more than {most} bytes", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// The bound.
        most: u64,
    },
    /// The tokenizer is of another kind.
    #[error("cannot use `tokenizer.json`: {0}")]
    Tokenizer(String),
    /// The model cannot be loaded or run.
    #[error("cannot run the model: {0}")]
    Run(String),
    /// This build has no code to run models.
    #[error("this build cannot run models")]
    NotBuilt,
}

/// The two files of a model, whole.
#[derive(Clone)]
pub struct Files {
    /// The content of `model.onnx`.
    pub model: Vec<u8>,
    /// The content of `tokenizer.json`.
    pub tokenizer: Vec<u8>,
}

/// The content of a model's files: vectors of one model say nothing to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// A model that is loaded. May be used from many threads; each embedding runs on one.
pub struct Model {
    #[cfg(feature = "onnx")]
    pieces: Pieces,
    fingerprint: Fingerprint,
    dimensions: usize,
    #[cfg(feature = "onnx")]
    network: run::Network,
}

// === impl Files ===

impl Files {
    /// Reads the files of a folder, or those beside a file that ends with `.onnx`.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let (folder, model) =
            if path.is_dir() { (path, find(path)?) } else { (path.parent().unwrap_or(Path::new("")), path.to_owned()) };
        Ok(Self {
            model: read(&model, MODEL_BYTES)?,
            tokenizer: read(&folder.join("tokenizer.json"), TOKENIZER_BYTES)?,
        })
    }

    /// What identifies the content.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update((self.model.len() as u64).to_le_bytes());
        hash.update(&self.model);
        hash.update(&self.tokenizer);
        Fingerprint(hash.finalize().into())
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("model", &self.model.len()).field("tokenizer", &self.tokenizer.len()).finish()
    }
}

/// `model.onnx`, or the only file that ends so.
fn find(folder: &Path) -> Result<PathBuf, ModelError> {
    let usual = folder.join("model.onnx");
    if usual.is_file() {
        return Ok(usual);
    }
    let entries =
        fs::read_dir(folder).map_err(|source| ModelError::Read { path: folder.to_owned(), source })?.take(ENTRIES);
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "onnx") && path.is_file()).collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (last, rest) => Err(ModelError::Which { path: folder.to_owned(), found: rest + usize::from(last.is_some()) }),
    }
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, ModelError> {
    let failed = |source| ModelError::Read { path: path.to_owned(), source };
    let mut content = Vec::new();
    fs::File::open(path).map_err(failed)?.take(most + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > most {
        return Err(ModelError::Large { path: path.to_owned(), most });
    }
    Ok(content)
}

// === impl Model ===

impl Model {
    /// Reads the model at a path and embeds one sentence, so that what is returned works.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        Self::load(Files::read(path)?)
    }

    /// The same from files that were read.
    #[cfg(feature = "onnx")]
    pub fn load(files: Files) -> Result<Self, ModelError> {
        let fingerprint = files.fingerprint();
        let pieces = Pieces::read(&files.tokenizer).map_err(ModelError::Tokenizer)?;
        let network = run::Network::load(files.model).map_err(ModelError::Run)?;
        let mut model = Self { pieces, fingerprint, dimensions: 0, network };
        model.dimensions = model.embed("find a file by its name")?.len();
        if model.dimensions == 0 || model.dimensions > toolcrib_search::VECTOR_DIMENSIONS {
            return Err(ModelError::Run(format!("its vectors have {} dimensions", model.dimensions)));
        }
        Ok(model)
    }

    /// The same from files that were read.
    #[cfg(not(feature = "onnx"))]
    pub fn load(files: Files) -> Result<Self, ModelError> {
        drop(files);
        Err(ModelError::NotBuilt)
    }

    /// A text's vector, of length 1. Only the first 256 tokens count. Takes some milliseconds of one core.
    pub fn embed(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        #[cfg(feature = "onnx")]
        return self.network.embed(&self.pieces.tokens(text)).map_err(ModelError::Run);
        #[cfg(not(feature = "onnx"))]
        {
            let _ = text;
            Err(ModelError::NotBuilt)
        }
    }

    /// How many numbers a vector has.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// What identifies the model.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("dimensions", &self.dimensions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_model_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let error = || Files::read(folder.path()).unwrap_err().to_string();
        assert!(error().contains("holds 0 files that end with `.onnx`"));
        fs::write(folder.path().join("small.onnx"), "x").unwrap();
        assert!(error().contains("tokenizer.json"));
        fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
        let files = Files::read(folder.path()).unwrap();
        assert_eq!(files.fingerprint(), Files::read(&folder.path().join("small.onnx")).unwrap().fingerprint());
        assert!(Model::load(files).is_err());
        fs::write(folder.path().join("other.onnx"), "y").unwrap();
        assert!(error().contains("holds 2 files"));
    }

    /// `TOOLCRIB_ACCEPTANCE` names the folder of acceptance data; the model lies beside it.
    #[test]
    fn a_real_model_knows_what_texts_mean() {
        let folder = std::env::var_os("TOOLCRIB_ACCEPTANCE").map(|it| Path::new(&it).join("../data/minilm-int8"));
        let Some(folder) = folder.filter(|folder| cfg!(feature = "onnx") && folder.is_dir()) else {
            eprintln!("SKIPPED: needs the feature `onnx` and a model at `$TOOLCRIB_ACCEPTANCE/../data/minilm-int8`");
            return;
        };
        let model = Model::open(&folder).unwrap();
        assert_eq!(model.dimensions(), 384);
        let vectors = ["remove the photo", "delete image", "convert currency"].map(|text| model.embed(text).unwrap());
        let cosine = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum::<f32>();
        assert!((cosine(0, 0) - 1.0).abs() < 1e-3);
        assert!(cosine(0, 1) > cosine(0, 2) + 0.2, "{} {}", cosine(0, 1), cosine(0, 2));
    }
}
