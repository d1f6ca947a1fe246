//! What the schemas say about each key, in the order in which people write them.

use crate::validate::DefinitionKind;

pub(super) fn title(kind: DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Entry => "Toolcrib: an entry of the registry (registry/<name>.yaml)",
        DefinitionKind::Server => "Toolcrib: the definition of a server (servers/<name>.yaml)",
        DefinitionKind::Profile => "Toolcrib: the definition of a profile (profiles/<name>.yaml)",
    }
}

/// What the key at `path` is for.
pub(super) fn of(kind: DefinitionKind, path: &str) -> Option<&'static str> {
    table(kind).iter().find(|(key, _)| *key == path).map(|(_, words)| *words)
}

pub(super) fn table(kind: DefinitionKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        DefinitionKind::Entry => ENTRY,
        DefinitionKind::Server => SERVER,
        DefinitionKind::Profile => PROFILE,
    }
}

const ENTRY: &[(&str, &str)] = &[
    ("name", "The entry's name, the same as the file's without its ending."),
    ("version", "The version of what is described."),
    ("title", "What people call it."),
    ("description", "What it is for, in a sentence; searched."),
    ("category", "The group that it is listed in."),
    ("source", "Who stands behind the entry. Without it the folder says so."),
    ("tags", "Words to find it by."),
    ("icon", "A word, a path or an address."),
    ("about", "Markdown for whoever considers it."),
    ("homepage", "Its page for people."),
    ("repository", "Where its source lies."),
    ("documentation", "Where it is explained."),
    ("authorization", "What the server wants to know before it runs."),
    ("authorization.type", "The kind of authorization."),
    ("authorization.description", "How to get what is needed."),
    ("authorization.help_url", "Where to get it."),
    ("authorization.variables", "Everything that the server must be told."),
    ("authorization.variables[].name", "The variable of the program's environment, and what `${NAME}` stands for."),
    ("authorization.variables[].title", "What people call it."),
    ("authorization.variables[].description", "What it is for."),
    ("authorization.variables[].help_url", "Where to get it."),
    ("authorization.variables[].pattern", "A regular expression that its values fit."),
    ("authorization.variables[].secret", "Whether it may only be given as a reference; true without the key."),
    ("authorization.variables[].required", "Whether nothing runs without it; true without the key."),
    ("authorization.variables[].default", "What it is when nobody says otherwise; never of a secret."),
    ("authorization.variables[].options", "The only values."),
    ("authorization.variables[].header", "For a server over HTTP: the header that carries it."),
    ("authorization.scopes", "What a token must allow."),
    ("authorization.authorization_url", "Where a login begins, if the server does not say so itself."),
    ("authorization.token_url", "Where a token is fetched, if the server does not say so itself."),
    ("runtime", "How the server runs. Without it nothing can be configured."),
    ("runtime.transport", "How the server is spoken to."),
    ("runtime.command", "The program to start."),
    ("runtime.args", "Its arguments; `${NAME}` stands for a variable that is no secret."),
    ("runtime.env", "Its environment; plain texts only."),
    ("runtime.cwd", "Its working folder."),
    ("runtime.url", "The server's address; `${NAME}` stands for a variable that is no secret."),
    ("runtime.headers", "Headers of every request; plain texts only."),
    ("runtime.timeouts", "How long the server may take."),
    ("runtime.timeouts.connect", "From starting or connecting to the end of the handshake."),
    ("runtime.timeouts.list", "For all pages of its lists."),
    ("runtime.timeouts.call", "For one call."),
    ("package", "The package that is run; for people."),
    ("package.type", "Where it comes from."),
    ("package.name", "Its name there."),
    ("package.version", "Its version."),
    ("tools", "What the server offered when it was looked at last, as `tools/list` gives it."),
    ("tools[].name", "The tool's name."),
    ("verified_at", "When that was."),
    ("metadata", "Anything else."),
];

const SERVER: &[(&str, &str)] = &[
    ("name", "The server's name, the same as the file's without its ending."),
    ("title", "What people call it."),
    ("description", "What it is for; searched."),
    ("transport", "How it is spoken to: a program over its standard streams, Streamable HTTP, or its older form."),
    ("command", "The program to start."),
    ("args", "Its arguments."),
    ("env", "Its environment: texts, or references such as `env:NAME` and `vault:NAME`."),
    ("cwd", "Its working folder; a relative one begins at the home folder."),
    ("url", "The server's address."),
    ("headers", "Headers of every request: texts, or references such as `env:NAME` and `vault:NAME`."),
    ("start", "When it is started."),
    ("session", "Whose calls share what it remembers."),
    ("declares", "What the connection that lists its tools says can be asked."),
    ("timeouts", "How long it may take."),
    ("timeouts.connect", "From starting or connecting to the end of the handshake."),
    ("timeouts.list", "For all pages of its lists."),
    ("timeouts.call", "For one call."),
    ("category", "The group that it is listed in."),
    ("tags", "Words to find it by."),
    ("keywords", "Words that searches should find its tools by."),
    ("icon", "A word, a path or an address."),
    ("homepage", "Its page for people."),
    ("labels", "Anything that you sort servers by."),
    ("prefix", "What stands before its tools' names instead of its own name."),
    ("tools", "Its tools as `tools/list` gives them: known until it was first listed."),
    ("tools[].name", "The tool's name."),
    ("verified_at", "When these tools were listed."),
    ("auth", "Kept for later work."),
    ("limits", "Kept for later work."),
];

const PROFILE: &[(&str, &str)] = &[
    ("name", "The profile's name, the same as the file's without its ending and the last part of its URL."),
    ("title", "What people call it."),
    ("description", "What it is for."),
    ("servers", "Patterns over names of servers."),
    ("tools", "Patterns over `server/tool`; `deny` wins."),
    ("tools.allow", "What may be seen and called."),
    ("tools.deny", "What may not, whatever `allow` says."),
    ("exposure", "How tools are shown."),
    ("pinned", "With `exposure: pinned`, patterns of the tools to list."),
    ("dialect", "The names and shapes of the meta-tools."),
    ("prefix", "What stands before a tool's name."),
    ("registry", "Patterns over entries of the registry that may be found and started."),
    ("groups", "Groups of meta-tools beside the three of the menu."),
    ("read_only", "Whether only tools that say they change nothing may be called."),
    ("require_load", "Whether a tool must be loaded before it is called."),
    ("active_set", "How long loaded tools stay loaded."),
    ("max_tokens", "The budget of an answer of `find_tools`."),
    ("env", "What the servers of this profile get beside their own environment."),
    ("ranking", "Kept for later work."),
    ("changed_tools", "Kept for later work."),
    ("quota", "Kept for later work."),
    ("keys", "Kept for later work."),
    ("limits", "Kept for later work."),
];
