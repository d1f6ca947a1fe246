//! `cargo xtask picture`: draws `docs/terminal.svg`, the terminal at the top of the README, from a block of the README
//! that the tests run. `tidy` holds the two against each other, so the picture shows what the program prints. With
//! `--record` it is a recording in place of a picture.

pub mod recording;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Where the picture lies, from the root.
pub const PATH: &str = "docs/terminal.svg";
/// The document that shows it and holds its text.
pub const SOURCE: &str = "README.md";
/// The section whose first `console` block is drawn.
const SECTION: &str = "## Find, describe, call from the shell";

/// Sizes in pixels: a line, a letter of the monospaced font at this size, what is left free around the text.
const LINE: usize = 21;
const LETTER: usize = 9;
const MARGIN: usize = 20;
/// The bar at the top with its three buttons.
const BAR: usize = 34;

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    match arguments {
        [] => {}
        [flag, program] if flag == "--record" => return recording::command(workspace, Path::new(program)),
        [argument, ..] => bail!("`{argument}` is no option of `picture`, which knows --record PROGRAM"),
    }
    let text = fs::read_to_string(workspace.root.join(SOURCE)).with_context(|| format!("failed to read `{SOURCE}`"))?;
    let picture = draw(&text).with_context(|| format!("`{SOURCE}` has no console block below `{SECTION}`"))?;
    fs::write(workspace.root.join(PATH), picture).with_context(|| format!("failed to write `{PATH}`"))?;
    println!("wrote {PATH}");
    Ok(true)
}

/// The block of commands and answers that is shown.
fn block(document: &str) -> Option<&str> {
    let (_, section) = document.split_once(SECTION)?;
    let (_, block) = section.split_once("```console\n")?;
    Some(block.split_once("```")?.0)
}

/// The picture of the block in `document`; `None` where it has none.
pub fn draw(document: &str) -> Option<String> {
    let lines: Vec<&str> = block(document)?.lines().collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let (width, height) = (columns * LETTER + 2 * MARGIN, lines.len() * LINE + BAR + 2 * MARGIN);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"15\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#1b1f27\"/>\n"
    );
    for (index, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
        let x = MARGIN + index * 20;
        let _ = writeln!(picture, "<circle cx=\"{x}\" cy=\"{}\" r=\"6\" fill=\"{colour}\"/>", BAR / 2);
    }
    for (index, line) in lines.iter().enumerate() {
        let y = BAR + MARGIN + index * LINE;
        let colour = if line.starts_with("$ ") { "#7ee787" } else { "#d7dce5" };
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(
            picture,
            "<text x=\"{MARGIN}\" y=\"{y}\" textLength=\"{}\" xml:space=\"preserve\" fill=\"{colour}\">{text}</text>",
            line.chars().count() * LETTER,
        );
    }
    picture.push_str("</svg>\n");
    Some(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_are_drawn_and_nothing_else() {
        let document =
            format!("# A\n```console\n$ other\n```\n{SECTION}\n\nwords\n```console\n$ a <b>\nc & d\n```\nmore\n");
        let picture = draw(&document).unwrap();
        assert!(picture.contains(">$ a &lt;b&gt;</text>") && picture.contains(">c &amp; d</text>"), "{picture}");
        assert!(!picture.contains("other") && !picture.contains("more"), "{picture}");
        assert_eq!(draw("# A\n"), None);
    }
}
