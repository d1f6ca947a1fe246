//! What muster has beside servers: workflows, service classes and services are read here as they are, so each becomes a
//! own file. Existing files are kept.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::objects::Object;

use crate::home::Home;

/// What definitions are called.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The definitions to write.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    new: Vec<Copy>,
    /// The paths of those that are there already.
    present: Vec<PathBuf>,
}

#[derive(Debug)]
struct Copy {
    /// Where it comes from, for people.
    from: String,
    /// The path below the home folder.
    to: PathBuf,
    text: String,
}

impl Copies {
    /// What becomes of objects that need no translation.
    pub(crate) fn of(objects: &[Object], home: &Home) -> Self {
        let mut copies = Self::default();
        for object in objects {
            let folder = object.kind.folder();
            let there = EXTENSIONS.iter().map(|end| Path::new(folder).join(format!("{}.{end}", object.name)));
            let there = there.into_iter().find(|path| fs::symlink_metadata(home.path().join(path)).is_ok());
            if let Some(path) = there {
                copies.present.push(path);
                continue;
            }
            let to = Path::new(folder).join(format!("{}.yaml", object.name));
            copies.new.push(Copy { from: object.place.to_string(), to, text: text_of(object) });
        }
        copies
    }

    /// How many are new.
    pub(crate) fn len(&self) -> usize {
        self.new.len()
    }

    /// A line for each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let new = self.new.iter().map(|copy| format!("{} from {}", copy.to.display(), crate::text::line(&copy.from)));
        new.chain(self.present.iter().map(|path| format!("{} already exists", path.display())))
    }

    /// Writes them.
    pub(crate) fn write(&self, home: &Home) -> Result<(), Problem> {
        self.new.iter().try_for_each(|copy| {
            write(&home.path().join(&copy.to), &copy.text).map_err(|error| {
                let message = format!("cannot write `{}`: {error}", copy.to.display());
                Problem::new(Kind::Internal, message).hint("files written so far are kept; run the command again")
            })
        })
    }
}

/// The text of a definition: its own where it can stand alone.
fn text_of(object: &Object) -> String {
    if let Some(text) = &object.text {
        return text.clone();
    }
    let mut named = serde_json::Map::new();
    named.insert("name".to_owned(), object.name.as_str().into());
    named.extend(object.value.clone());
    toolcrib_catalog::to_yaml(&Value::Object(named))
}

fn write(to: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Never over something that came in the meantime.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?.write_all(text.as_bytes())
}
