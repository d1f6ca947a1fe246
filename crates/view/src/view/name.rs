//! Exposed names: what many clients accept, stable when other tools come and go.

use sha2::{Digest, Sha256};
use toolcrib_base::{ServerName, ToolId};
use toolcrib_catalog::{Dialect, Prefix, ProfileDefinition};

/// The longest exposed name; several clients refuse longer ones.
pub(super) const NAME_MAX: usize = 64;
/// How many hexadecimal digits of a digest end a name that was cut or had to give way.
const DIGEST: usize = 8;

/// Whose tool is to be named.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub name: &'a ServerName,
    /// What its definition says that its tools' names begin with.
    pub prefix: Option<&'a str>,
    /// A source's tools have one name in every dialect.
    pub is_source: bool,
}

/// The name that a tool asks for in a profile.
pub(super) fn wanted(profile: &ProfileDefinition, owner: Owner<'_>, tool: &str) -> String {
    let prefix = owner.prefix();
    match (profile.dialect, profile.prefix) {
        _ if owner.is_source => prefixed(owner, tool),
        (Dialect::Muster, _) => {
            // A tool that begins with its server's prefix does not get it twice.
            let doubled = tool.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_'));
            if doubled { fit(&format!("x_{tool}")) } else { fit(&format!("x_{prefix}_{tool}")) }
        }
        (Dialect::Scooter, _) | (_, Prefix::None) => fit(tool),
        (Dialect::Native | Dialect::GoEnt, Prefix::Server) => prefixed(owner, tool),
    }
}

/// The name of a tool that the servers of a family have alike.
pub(super) fn of_family(family: &str, tool: &str) -> String {
    let doubled = tool.strip_prefix(family).is_some_and(|rest| rest.starts_with('_'));
    if doubled { fit(&format!("x_{tool}")) } else { fit(&format!("x_{family}_{tool}")) }
}

/// The name with the server before it: what a newcomer gets whose name is taken.
pub(super) fn prefixed(owner: Owner<'_>, tool: &str) -> String {
    fit(&format!("{}_{tool}", owner.prefix()))
}

/// A name that no one else can ask for: it ends in a digest of the id.
pub(super) fn unique(id: &ToolId) -> String {
    let text = id.to_string();
    cut(&replaced(&format!("{}_{}", id.server, id.tool)), &text)
}

/// Whether a name cannot collide: no server has an underscore in its name, so the first one splits it.
pub(super) fn is_own(profile: &ProfileDefinition, owner: Owner<'_>, tool: &str, name: &str) -> bool {
    let plain = matches!(profile.dialect, Dialect::Native | Dialect::GoEnt) && profile.prefix == Prefix::Server;
    (plain || owner.is_source)
        && owner.prefix.is_none()
        && name.len() == owner.name.as_str().len() + 1 + tool.len()
        && name.ends_with(tool)
}

impl Owner<'_> {
    fn prefix(&self) -> &str {
        self.prefix.unwrap_or(self.name.as_str())
    }
}

fn fit(text: &str) -> String {
    let name = replaced(text);
    if name.len() <= NAME_MAX { name } else { cut(&name, text) }
}

/// What a name in full is exposed as; `None` where it can be exposed as it is.
pub(super) fn fitted(name: &str) -> Option<String> {
    let fitted = fit(name);
    (fitted != name).then_some(fitted)
}

fn replaced(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

fn cut(name: &str, of: &str) -> String {
    let digest: String = Sha256::digest(of.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = name.len().min(NAME_MAX - DIGEST - 1);
    // Only ASCII is left in `name`.
    format!("{}_{}", &name[..kept], &digest[..DIGEST])
}

#[cfg(test)]
mod tests {
    use toolcrib_catalog::{ProfileDefinition, ServerDefinition};

    use super::*;

    fn server(name: &str, prefix: Option<&str>) -> ServerDefinition {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        let prefix = prefix.map(|prefix| format!("prefix: {prefix}\n")).unwrap_or_default();
        let text = format!("name: {name}\ncommand: x\n{prefix}");
        std::fs::write(home.path().join(format!("servers/{name}.yaml")), text).unwrap();
        let loaded = toolcrib_catalog::load(home.path());
        (**loaded.servers.values().next().unwrap()).clone()
    }

    fn of(server: &ServerDefinition) -> Owner<'_> {
        Owner { name: &server.name, prefix: server.prefix.as_deref(), is_source: false }
    }

    #[test]
    fn names_fit_what_clients_accept() {
        let profile = ProfileDefinition::built_in();
        let files = server("files", None);
        assert_eq!(wanted(&profile, of(&files), "read"), "files_read");
        assert_eq!(wanted(&profile, of(&files), "read file/ä"), "files_read_file__");
        let long = wanted(&profile, of(&files), &"x".repeat(100));
        assert_eq!(long.len(), NAME_MAX);
        assert_ne!(long, wanted(&profile, of(&files), &"x".repeat(101)));
        assert!(is_own(&profile, of(&files), "read", "files_read"));
        assert!(!is_own(&profile, of(&files), "read a", "files_read_a"));
    }

    #[test]
    fn each_dialect_has_its_own_form() {
        let mut profile = ProfileDefinition::built_in();
        let github = server("my-github", Some("github"));
        profile.dialect = Dialect::Muster;
        assert_eq!(wanted(&profile, of(&github), "list_prs"), "x_github_list_prs");
        assert_eq!(wanted(&profile, of(&github), "github_list_prs"), "x_github_list_prs");
        profile.dialect = Dialect::Scooter;
        assert_eq!(wanted(&profile, of(&github), "list_prs"), "list_prs");
        profile.dialect = Dialect::GoEnt;
        assert_eq!(wanted(&profile, of(&github), "list_prs"), "github_list_prs");
        profile.prefix = Prefix::None;
        assert_eq!(wanted(&profile, of(&github), "list_prs"), "list_prs");
        assert_eq!(unique(&ToolId::parse("a/b").unwrap()).len(), "a_b_".len() + DIGEST);
    }
}
