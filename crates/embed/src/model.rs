//! A model: where its files are, what identifies them, and running it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

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
    #[cfg_attr(not(feature = "onnx"), expect(dead_code, reason = "only a build that runs models reads it"))]
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
