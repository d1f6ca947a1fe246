//! `toolcrib ui`: opens the pages of the web user interface, signed in.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use http::Method;
use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;

use super::with_rest;
use crate::browser::{self, PageUrl};
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::{Environment, Home};
use crate::output::{Output, print};
use crate::token::write_private;

/// The file that leads a browser on, in the state folder.
const FILE: &str = "ui.html";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the link in place of opening a browser; it counts once, for a minute
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    client: ClientFlags,
}

pub(crate) fn start(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let home = Home::find(arguments.client.home(), environment)?;
    with_rest(&arguments.client, environment, async |rest, output| {
        run(arguments, &home, environment, rest, output).await
    })
}

async fn run(
    arguments: &Arguments,
    home: &Home,
    environment: &Environment,
    rest: &Rest,
    output: Output,
) -> anyhow::Result<()> {
    let answer = rest.ask(Method::POST, "/ui/codes", Some(&Raw::from_value(&json!({})))).await?;
    let url = PageUrl::parse(&answer.text("url").unwrap_or_default())?;
    if !arguments.print {
        // Lists of processes show arguments to everyone on this machine: the browser gets a file that others cannot read.
        match open(&url, &home.state(), environment).await {
            Ok(()) => return Ok(output.shown(&answer, |_| print("opened in the browser\n"))?),
            Err(why) => output.note(&format!("no browser was opened: {why}")),
        }
    }
    Ok(output.shown(&answer, |_| print(&format!("open this within a minute: {}\n", url.as_str())))?)
}

/// Opens a browser on a file that leads on to the page.
async fn open(url: &PageUrl, state: &Path, environment: &Environment) -> Result<(), String> {
    let file = state.join(FILE);
    // What a URL of ours holds needs no escape in HTML.
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Toolcrib</title>\n\
         <meta http-equiv=\"refresh\" content=\"0;url={0}\">\n<p><a href=\"{0}\">Open Toolcrib</a></p>\n",
        url.as_str()
    );
    write_private(&file, page.as_bytes()).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    let url = file_url(&file).map_err(|problem| problem.message)?;
    browser::open(&url, environment).await
}

fn file_url(file: &Path) -> Result<PageUrl, Problem> {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let text = String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
    let parts: Vec<String> = text.split('/').map(encoded).collect();
    Ok(PageUrl::of_file(&parts.join("/")))
}
