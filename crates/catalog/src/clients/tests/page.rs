//! The pages of `docs/clients/`, compared with the table: one for each client that is connected, with its facts.

use std::path::Path;

use super::*;

fn pages() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clients");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_client_that_is_connected_has_a_page_and_no_other_does() {
    let connected = CLIENTS.iter().filter(|client| client.is_written());
    let mut names: Vec<&str> = connected.map(|client| client.name).collect();
    names.sort_unstable();
    assert_eq!(pages().keys().collect::<Vec<_>>(), names);
}

#[test]
fn a_page_has_the_facts_of_the_table() {
    for (name, page) in pages() {
        let client = client(&name).unwrap();
        let has = |fact: &str| assert!(page.contains(fact), "the page of `{name}` does not say `{fact}`");
        has(&format!("# {}\n", client.title));
        has(&format!("| name on the command line | `{name}` |"));
        has(&format!("]({})", client.documentation));
        has(&format!("| after a change | {} |", client.reload));
        for source in client.sources {
            for place in source.places {
                has(if source.is_written { place.path } else { place.path.rsplit('/').next().unwrap() });
                if let Root::Variable(variable) = place.root {
                    has(&format!("`${variable}`"));
                }
            }
        }
        let keys = client.sources.iter().filter(|source| source.is_written).flat_map(|source| source.servers[0]);
        keys.for_each(|key| has(key));
        match client.transports {
            Transports::Http { url, kind, stdio_kind } => {
                has("| how it is connected | by HTTP |");
                has(&if client.format == Format::Toml { format!("{url} = ") } else { format!("\"{url}\": ") });
                for kind in [kind, stdio_kind].into_iter().flatten() {
                    has(&format!("\"type\": \"{kind}\""));
                }
            }
            Transports::StdioOnly => has("| how it is connected | by [the bridge]"),
            Transports::ImportOnly => panic!("`{name}` is not connected"),
        }
    }
}
