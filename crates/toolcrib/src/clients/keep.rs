//! Where the secrets of imported servers go, and how definitions refer to them. Everything that knows the place is here.

use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_catalog::{LocalSecrets, ResolveSecret, SecretRef, SecretUser};

use crate::home::Home;
use crate::token;

/// Below the home folder.
const FOLDER: &str = "state/secrets";

/// How a definition refers to a secret of this name.
pub(crate) fn reference(name: &str) -> String {
    format!("file:{FOLDER}/{name}")
}

/// The secret that is kept under a name.
pub(crate) fn stored(home: &Home, name: &str) -> Option<Secret> {
    let reference = SecretRef::File(Path::new(FOLDER).join(name));
    // Files are the same for every server.
    let anyone = ServerName::new("import").expect("`import` is a name");
    LocalSecrets::new(home.path()).resolve(&reference, &SecretUser { server: &anyone, profile: None }).ok()
}

/// Keeps a secret in a file that only its owner reads.
pub(crate) fn keep(home: &Home, name: &str, value: &Secret) -> Result<(), Problem> {
    let path = place(home, name);
    // A reader takes one line end away, so that a secret that ends in one keeps it.
    let text = format!("{}\n", value.expose());
    token::write_private(&path, text.as_bytes()).map_err(|error| {
        Problem::new(Kind::Internal, format!("cannot keep the secret `{name}` in `{}`: {error}", path.display()))
    })
}

/// What to do for a secret that the client's settings do not hold.
pub(crate) fn how_to_give(home: &Home, name: &str) -> String {
    format!("write it to `{}`, for your eyes only (mode 600)", place(home, name).display())
}

fn place(home: &Home, name: &str) -> PathBuf {
    home.path().join(FOLDER).join(name)
}
