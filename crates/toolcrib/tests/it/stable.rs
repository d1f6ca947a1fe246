//! What `docs/guides/releases.md` says is stable, compared with the program: every command and every route is in one of
//! its lists, and nothing else is. Its metrics and its tools are compared in `toolcrib-view`, which has them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::serving::GatewayFixture;
use crate::toolcrib::run;

/// The names in backticks in the second column of the table below a heading of the page.
fn listed(heading: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/releases.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once(&format!("### {heading}\n")).unwrap();
    let rows = section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(2));
    let names: Vec<String> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect();
    let set: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "a name stands twice below {heading}: {names:?}");
    set
}

#[tokio::test]
async fn every_command_has_a_stability_and_no_other_is_named() {
    let home = tempfile::tempdir().unwrap();
    let help = run(home.path(), &["help", "--all"], &[]).await.stdout;
    let (commands, _) = help.split_once("\nOptions:").unwrap();
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let there: BTreeSet<String> = names.map(str::to_owned).collect();
    assert!(there.len() > 50, "{help}");
    assert_eq!(listed("Commands"), there);
}

#[tokio::test]
async fn exit_codes_are_those_of_the_page() {
    let home = tempfile::tempdir().unwrap();
    let help = run(home.path(), &["--help"], &[]).await.stdout;
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/releases.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, said) = page.split_once("\nExit codes: ").unwrap();
    let said: Vec<&str> =
        said.split('.').next().unwrap().split(',').map(|part| part.split_whitespace().next().unwrap()).collect();
    let there: Vec<&str> = codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(there.len() > 4, "{help}");
    assert_eq!(said, there);
}

#[tokio::test]
async fn every_route_has_a_stability_and_no_other_is_named() {
    let gateway = GatewayFixture::start(&[]).await;
    let document = gateway.document().await;
    let paths = document["paths"].as_object().unwrap().keys();
    let there: BTreeSet<String> = paths.map(|path| path.split('/').nth(1).unwrap().to_owned()).collect();
    assert!(there.len() > 30, "{there:?}");
    assert_eq!(listed("REST"), there);
}
