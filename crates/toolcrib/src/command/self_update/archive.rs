//! The program of a release's archive. Of a `.tar.gz` only the file `toolcrib` in its one folder is read; an archive with
//! links, devices or paths that lead elsewhere is refused as a whole.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};
use toolcrib_base::{Kind, Problem};

/// How much an archive may unpack to, in bytes.
const UNPACKED_BYTES: u64 = 1024 * 1024 * 1024;
/// How many files an archive may have.
const ENTRIES: usize = 10_000;
/// The program's name in it.
const PROGRAM: &str = "toolcrib";

/// Why there is no program.
#[derive(Debug)]
pub(super) enum UnpackError {
    /// The archive is not one, or not one of ours.
    Archive(String),
    /// The program cannot be written.
    Write(io::Error),
}

// === impl UnpackError ===

impl UnpackError {
    pub(super) fn problem(&self, name: &str) -> Option<Problem> {
        let Self::Archive(why) = self else { return None };
        let hint = "nothing was changed; tell the publisher, whose signature the archive has";
        Some(Problem::new(Kind::BadServer, format!("the archive `{name}` is refused: {why}")).hint(hint))
    }
}

/// Writes the program of an archive into a file.
pub(super) fn unpack(archive: &File, program: &mut File) -> Result<(), UnpackError> {
    let broken = |error: io::Error| UnpackError::Archive(format!("it cannot be read: {error}"));
    let refused = |why: String| UnpackError::Archive(why);
    let mut archive = Archive::new(GzDecoder::new(archive).take(UNPACKED_BYTES));
    let mut is_found = false;
    for (number, entry) in archive.entries().map_err(broken)?.enumerate() {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        if number >= ENTRIES {
            return Err(refused(format!("it has more than {ENTRIES} files")));
        }
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(refused(format!("`{}` leads out of its folder", path.display())));
        }
        match entry.header().entry_type() {
            EntryType::Directory => continue,
            EntryType::Regular => {}
            other => return Err(refused(format!("`{}` is no file ({other:?})", path.display()))),
        }
        if !is_program(&path) {
            continue;
        }
        if std::mem::replace(&mut is_found, true) {
            return Err(refused(format!("it has `{PROGRAM}` twice")));
        }
        copy(&mut entry, program)?;
    }
    if is_found { Ok(()) } else { Err(refused(format!("there is no `{PROGRAM}` in it"))) }
}

/// Whether this is the program: `toolcrib`, in one folder.
fn is_program(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == PROGRAM) && path.components().count() == 2
}

/// What cannot be read is the archive's fault, what cannot be written is not.
fn copy(entry: &mut impl Read, program: &mut File) -> Result<(), UnpackError> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match entry.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => program.write_all(&buffer[..read]).map_err(UnpackError::Write)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(UnpackError::Archive(format!("it cannot be read: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    /// One entry: its path, its kind and what is in it.
    type Entry<'a> = (&'a str, EntryType, &'a [u8]);

    fn packed(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, kind, content) in entries {
            let mut header = Header::new_ustar();
            // As it is: the library's own setter refuses what leads elsewhere.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn unpacked(archive: &[u8]) -> Result<Vec<u8>, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(archive).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut program = tempfile::tempfile().unwrap();
        unpack(&file, &mut program).map_err(|error| error.problem("x").unwrap().message)?;
        program.seek(SeekFrom::Start(0)).unwrap();
        let mut bytes = Vec::new();
        program.read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    #[test]
    fn only_the_program_of_the_archive_is_unpacked() {
        let folder = ("t-1", EntryType::Directory, b"".as_slice());
        let archive = packed(&[
            folder,
            ("t-1/LICENSE", EntryType::Regular, b"licence"),
            ("t-1/toolcrib", EntryType::Regular, b"program"),
            ("t-1/completions/toolcrib", EntryType::Regular, b"for a shell"),
        ]);
        assert_eq!(unpacked(&archive).unwrap(), b"program");
    }

    #[test]
    fn an_archive_with_anything_but_files_in_its_folder_is_refused() {
        let program = ("t-1/toolcrib", EntryType::Regular, b"program".as_slice());
        let check = |entries: &[Entry<'_>], why: &str| {
            let error = unpacked(&packed(entries)).unwrap_err();
            assert!(error.contains(why), "{entries:?}: {error}");
        };
        check(&[], "there is no `toolcrib`");
        check(&[("toolcrib", EntryType::Regular, b"x")], "there is no `toolcrib`");
        check(&[program, program], "`toolcrib` twice");
        for path in ["../toolcrib", "t-1/../../toolcrib", "/usr/bin/toolcrib"] {
            check(&[program, (path, EntryType::Regular, b"x")], "leads out of its folder");
        }
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Fifo] {
            check(&[program, ("t-1/x", kind, b"")], "is no file");
            check(&[("t-1/toolcrib", kind, b"")], "is no file");
        }
    }

    #[test]
    fn an_archive_that_is_cut_or_none_is_refused() {
        let noise: Vec<u8> = (0..40_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let whole = packed(&[("t-1/toolcrib", EntryType::Regular, &noise)]);
        assert_eq!(unpacked(&whole).unwrap(), noise);
        for cut in [b"".as_slice(), b"hello", &whole[..10], &whole[..whole.len() / 2]] {
            let error = unpacked(cut).unwrap_err();
            assert!(error.contains("it cannot be read") || error.contains("there is no"), "{error}");
        }
    }
}
