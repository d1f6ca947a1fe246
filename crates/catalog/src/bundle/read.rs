//! Reading a bundle, which someone else may have written: every definition goes through its own reader, and what the
//! bundle may not carry is reported with its place.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;
use toolcrib_base::{ProfileName, ServerName};

use super::{BUNDLE_BYTES, Bundle, FORM, MOST, Need, NeedPlace, needs_of};
use crate::define::Definition;
use crate::definition_id::DefinitionId;
use crate::entry::RegistryEntry;
use crate::problem::{DefinitionProblem, Sink};
use crate::profile::ProfileDefinition;
use crate::reader::Cursor;
use crate::server::ServerDefinition;
use crate::yaml;

pub(super) fn bundle(file: &Path, text: &str) -> Result<Bundle, Vec<DefinitionProblem>> {
    if text.len() > BUNDLE_BYTES {
        let message = format!("expected a bundle of at most {BUNDLE_BYTES} bytes, got a larger one");
        return Err(vec![DefinitionProblem::of_file(file, message)]);
    }
    let sink = Sink::new(file);
    let bundle = yaml::parse_into(text, &sink).and_then(|root| read(Cursor::root(&root, &sink)));
    let problems = sink.finish();
    match bundle {
        Some(bundle) if problems.is_empty() => Ok(bundle),
        _ if problems.is_empty() => Err(vec![DefinitionProblem::of_file(file, "expected a bundle")]),
        _ => Err(problems),
    }
}

fn read(root: Cursor<'_>) -> Option<Bundle> {
    let fields = root.fields()?;
    let form = fields.require("bundle", "the form of the bundle", format!("add a line `bundle: {FORM}`"));
    let form = form.and_then(|cursor| cursor.number(FORM, FORM));
    let profile = fields.require("profile", "the profile", "add `profile` with its `name`".to_owned());
    let profile = profile.and_then(|cursor| definition::<ProfileDefinition>(&cursor));
    let servers = fields.get("servers").map(|cursor| list::<ServerDefinition>(&cursor)).unwrap_or_default();
    let registry = fields.get("registry").map(|cursor| list::<RegistryEntry>(&cursor)).unwrap_or_default();
    let told = fields.get("needs").map(|cursor| cursor.list(need)).unwrap_or_default();
    fields.finish();
    let (profile, own, _) = profile?;
    let name: ProfileName = profile.name.clone();
    let is_shown = |server: &ServerName| profile.servers.iter().any(|glob| glob.matches(server.as_str()));
    for (server, _, cursor) in &servers {
        if !is_shown(&server.name) {
            let hint = "remove it, or name it in `profile.servers`".to_owned();
            cursor.problem(format!("expected a server that the profile shows, got `{}`", server.name), Some(hint));
        }
    }
    for (entry, _, cursor) in &registry {
        let is_found = profile.registry.iter().any(|glob| glob.matches(entry.name.as_str()));
        if !is_found && !servers.iter().any(|(server, ..)| server.name == entry.name) {
            let hint = "remove it, or name it in `profile.registry`".to_owned();
            cursor.problem(format!("expected an entry that the profile finds, got `{}`", entry.name), Some(hint));
        }
    }
    let mut needs = needs_of(&DefinitionId::Profile(name.clone()), &own);
    for (server, value, _) in &servers {
        needs.extend(needs_of(&DefinitionId::Server(server.name.clone()), value));
    }
    for (told, cursor) in told {
        let is_it =
            |need: &&mut Need| (&need.server, &need.variable, need.place) == (&told.server, &told.variable, told.place);
        match needs.iter_mut().find(is_it) {
            // What counts is what the definition says; here it is only explained.
            Some(need) => (need.title, need.help_url) = (told.title, told.help_url),
            None => {
                let hint = "remove it: requirements come from the references in the definitions".to_owned();
                cursor.problem(format!("expected a need of a definition above, got `{}`", told.id()), Some(hint));
            }
        }
    }
    form?;
    Some(Bundle {
        profile: (name, own),
        servers: servers.into_iter().map(|(server, value, _)| (server.name, value)).collect(),
        registry: registry.into_iter().map(|(entry, value, _)| (entry.name, value)).collect(),
        needs,
    })
}

/// The definitions of a list, each once.
fn list<'a, D: Definition>(cursor: &Cursor<'a>) -> Vec<(D, Value, Cursor<'a>)> {
    let (mut names, mut count) = (HashSet::new(), 0);
    cursor.list(|item| {
        count += 1;
        if count > MOST {
            if count == MOST + 1 {
                item.problem(format!("expected at most {MOST} of them, got more"), None);
            }
            return None;
        }
        let read = definition::<D>(&item)?;
        if !names.insert(format!("{:?}", read.0.name())) {
            item.problem("expected each name once, got it again", Some("remove one of the two".to_owned()));
        }
        Some(read)
    })
}

/// One definition by its own reader, and as a value.
fn definition<'a, D: Definition>(cursor: &Cursor<'a>) -> Option<(D, Value, Cursor<'a>)> {
    let fields = cursor.clone().fields()?;
    for key in D::KIND.row().local {
        fields.misplaced(key, "belongs to one installation and is in no bundle");
    }
    // The name is checked by the reader; here it only stands for that of the file.
    let stem = fields.get("name").and_then(|name| name.text_or_nothing()).unwrap_or_default();
    let read = D::read(stem, cursor.clone())?;
    Some((read, cursor.value(), cursor.clone()))
}

fn need(item: Cursor<'_>) -> Option<(Need, Cursor<'_>)> {
    let fields = item.clone().fields()?;
    let server = fields.get("server").map(|cursor| {
        let server = cursor.text().and_then(|name| ServerName::new(name).ok());
        if server.is_none() {
            cursor.expected("the name of a server");
        }
        server
    });
    let what = "the variable or header that holds the secret, or `url`";
    let variable = fields.require("variable", what, "add its `variable`".to_owned());
    let variable = variable.and_then(|cursor| cursor.word(what));
    let place = fields.get("kind").map_or(NeedPlace::Variable, |cursor| {
        let kind = cursor.text().unwrap_or_default();
        NeedPlace::ALL.into_iter().find(|place| place.as_str() == kind).unwrap_or_else(|| {
            cursor.expected("`variable`, `header` or `url`");
            NeedPlace::Variable
        })
    });
    let reference = fields.get("reference").and_then(|cursor| {
        let reference = cursor.text().and_then(super::reference);
        if reference.is_none() {
            cursor.problem("expected a reference such as `env:API_KEY`", None);
        }
        reference
    });
    let title = fields.text("title");
    let help_url = fields.get("help_url").and_then(|cursor| crate::entry::link(&cursor));
    fields.finish();
    let need = Need {
        server: match server {
            Some(server) => Some(server?),
            None => None,
        },
        variable: variable?,
        place,
        reference: reference.unwrap_or_else(|| crate::secret::SecretRef::Env(String::new())),
        title,
        help_url,
    };
    Some((need, item))
}
