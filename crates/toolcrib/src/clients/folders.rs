//! The other folders of muster: workflows, service classes and services are read here as they are, so their files are
//! copied. What is there already stays.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::Client;

use crate::home::Home;

/// The folders there and here.
const FOLDERS: [(&str, &str); 3] =
    [("workflows", "workflows"), ("serviceclasses", "service-classes"), ("services", "services")];
/// How many files of one folder are copied.
const FILES: usize = 1_000;
/// The largest file: larger ones are not read either.
const BYTES: u64 = 1024 * 1024;

/// The files to copy: from where, and to which path below the home folder.
#[derive(Debug, Default)]
pub(crate) struct Copies(Vec<(PathBuf, PathBuf)>);

impl Copies {
    /// What lies beside the servers that were read, and is not here yet.
    pub(crate) fn beside(files: &[(&'static Client, PathBuf, usize)], home: &Home) -> Self {
        let of_muster = files.iter().filter(|(client, ..)| client.name == "muster");
        let roots: BTreeSet<&Path> = of_muster.filter_map(|(_, file, _)| file.parent()?.parent()).collect();
        let mut copies = Self::default();
        for root in roots {
            for (theirs, ours) in FOLDERS {
                copies.add(&root.join(theirs), ours, home);
            }
        }
        copies
    }

    fn add(&mut self, folder: &Path, ours: &str, home: &Home) {
        let mut found: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name();
                let (stem, extension) = name.to_str()?.rsplit_once('.')?;
                let is_yaml = matches!(extension, "yaml" | "yml");
                let is_name = stem.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
                    && stem.starts_with(|c: char| c.is_ascii_alphanumeric());
                // A link may lead anywhere.
                (is_yaml && is_name && entry.file_type().ok()?.is_file()).then(|| entry.path())
            })
            .take(FILES)
            .collect();
        found.sort();
        for from in found {
            let Some(name) = from.file_name() else { continue };
            let to = Path::new(ours).join(name);
            let is_new = fs::symlink_metadata(home.path().join(&to)).is_err();
            if is_new && !self.0.iter().any(|(_, known)| *known == to) {
                self.0.push((from, to));
            }
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A line for each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(from, to)| format!("{} from {}", to.display(), crate::text::line(&from.to_string_lossy())))
    }

    /// Copies them.
    pub(crate) fn write(&self, home: &Home) -> Result<(), Problem> {
        for (from, to) in &self.0 {
            copy(from, &home.path().join(to)).map_err(|error| {
                let message = format!("cannot copy `{}` to `{}`: {error}", from.display(), to.display());
                Problem::new(Kind::Internal, message).hint("what was copied before stays; run the same again")
            })?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    fs::File::open(from)?.take(BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {BYTES} bytes")));
    }
    if let Some(folder) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Never over something that came meanwhile.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?.write_all(&text)
}
