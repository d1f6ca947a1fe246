//! What `connect` changed in which file, so that `disconnect` can give back the very bytes from before.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use toolcrib_catalog::clients::{Client, MovedServer, Splice, Splices, Undo};

use crate::home::Home;
use crate::token;

/// Larger files are not ours.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// One file's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// From the text without our entry to the text with it.
    pub(crate) splices: Splices,
    /// Whether the map of servers came with our entry.
    pub(crate) made_container: bool,
    /// Whether the file itself did.
    pub(crate) made_file: bool,
    /// The servers that were taken out, as they were: the file is for its owner only, as theirs was.
    pub(crate) moved: Vec<MovedServer>,
    /// The digest of the whole text that was written; an older record has none.
    pub(crate) after: Option<String>,
}

// === impl Record ===

impl Record {
    pub(crate) fn undo(&self) -> Undo<'_> {
        Undo { splices: &self.splices, made_container: self.made_container, moved: &self.moved }
    }
}

/// The record of a file. What cannot be read is not a record: our entry is then cut out.
pub(crate) fn read(home: &Home, client: &Client, file: &Path) -> Option<Record> {
    let records = all(home, client);
    let value = records.get(&*file.to_string_lossy())?;
    let splices = value["splices"].as_array()?.iter().map(splice).collect::<Option<Vec<_>>>()?;
    Some(Record {
        splices: Splices::new(splices),
        made_container: value["made_container"] == true,
        made_file: value["made_file"] == true,
        moved: value["moved"].as_array().into_iter().flatten().filter_map(read_moved_server).collect(),
        after: value["after"].as_str().map(str::to_owned),
    })
}

/// Keeps a record, or takes it away.
pub(crate) fn write(home: &Home, client: &Client, file: &Path, record: Option<&Record>) -> io::Result<()> {
    let mut records = all(home, client);
    let name = file.to_string_lossy().into_owned();
    match record {
        Some(record) => {
            let splice = |splice: &Splice| json!({ "at": splice.at, "out": splice.out, "into": splice.into });
            let splices: Vec<Value> = record.splices.as_slice().iter().map(splice).collect();
            let value = json!({
                "splices": splices, "made_container": record.made_container, "made_file": record.made_file,
                "after": record.after,
                "moved": record.moved.iter().map(|(key, entry)| json!({ "key": key, "entry": entry })).collect::<Vec<_>>(),
            });
            records.insert(name, value);
        }
        None => {
            records.remove(&name);
        }
    }
    let path = path(home, client);
    if records.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    token::write_private(&path, format!("{:#}\n", Value::Object(records)).as_bytes())
}

/// The files of a client that there are records of.
pub(crate) fn files(home: &Home, client: &Client) -> Vec<PathBuf> {
    all(home, client).keys().map(PathBuf::from).collect()
}

fn path(home: &Home, client: &Client) -> PathBuf {
    home.state().join("connected").join(format!("{}.json", client.name))
}

fn all(home: &Home, client: &Client) -> Map<String, Value> {
    let mut text = String::new();
    let read = fs::File::open(path(home, client)).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text));
    match read.ok().and_then(|_| serde_json::from_str(&text).ok()) {
        Some(Value::Object(records)) => records,
        _ => Map::new(),
    }
}

fn read_moved_server(value: &Value) -> Option<MovedServer> {
    Some((value["key"].as_str()?.to_owned(), value.get("entry")?.clone()))
}

fn splice(value: &Value) -> Option<Splice> {
    Some(Splice {
        at: usize::try_from(value["at"].as_u64()?).ok()?,
        out: value["out"].as_str()?.to_owned(),
        into: value["into"].as_str()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use toolcrib_catalog::clients::client;

    use super::*;
    use crate::home::Environment;

    #[test]
    fn records_are_kept_for_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let environment: Environment =
            [("TOOLCRIB_HOME".to_owned(), OsString::from(folder.path()))].into_iter().collect();
        let home = Home::find(None, &environment).unwrap();
        let client = client("cursor").unwrap();
        let splice = Splice { at: 3, out: String::new(), into: "ä\r\n".to_owned() };
        let record = Record {
            splices: Splices::new(vec![splice]),
            made_container: true,
            made_file: false,
            moved: vec![("a".to_owned(), json!({ "command": "x" }))],
            after: Some("5f".to_owned()),
        };
        assert_eq!(read(&home, client, Path::new("/a")), None);
        write(&home, client, Path::new("/a"), Some(&record)).unwrap();
        write(&home, client, Path::new("/b"), Some(&Record { made_file: true, ..record.clone() })).unwrap();
        assert_eq!(read(&home, client, Path::new("/a")), Some(record));
        write(&home, client, Path::new("/a"), None).unwrap();
        assert_eq!(read(&home, client, Path::new("/a")), None);
        assert!(read(&home, client, Path::new("/b")).unwrap().made_file);
        write(&home, client, Path::new("/b"), None).unwrap();
        write(&home, client, Path::new("/b"), None).unwrap();
        assert!(!path(&home, client).exists());
        token::write_private(&path(&home, client), b"[1]").unwrap();
        assert_eq!(read(&home, client, Path::new("/b")), None);
    }
}
