//! `toolcrib connect`: writes Toolcrib into the settings of a client, and nothing else.

use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::clients::{self as catalog, Client, Connected, SettingsFile, preview};

use crate::clients::record::{self, Record};
use crate::clients::{Flags, confirm, failed, named, replace, target, wrong};
use crate::home::{Environment, HOME_VARIABLE, Home};
use crate::{client, output, text};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The client, such as `cursor` or `claude-code`
    #[arg(value_parser = named)]
    client: &'static Client,
    /// The profile that it sees
    #[arg(long, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// The gateway's URL [default: the address in the settings]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Let the client start a gateway of its own, also if it can do HTTP
    #[arg(long, conflicts_with = "endpoint")]
    stdio: bool,
    /// Make the file and its folder where there is none
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    flags: Flags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let Arguments { client, flags, .. } = arguments;
    let home = Home::find(flags.home.as_deref(), environment)?;
    let (source, path) = target(client, flags, environment)?;
    let file = SettingsFile::read(&path).map_err(|error| failed(&error))?;
    if !file.exists() && !arguments.create && !path.parent().is_some_and(std::path::Path::is_dir) {
        let message =
            format!("{} has no settings here: the folder of `{}` does not exist", client.title, path.display());
        let hint = format!("start {} once, name its file with `--file PATH`, or say `--create`", client.title);
        return Err(Problem::new(Kind::NotFound, message).hint(hint).into());
    }
    let (entry, way) = entry(arguments, &home, environment)?;
    let earlier = record::read(&home, client, &path);
    let undo = earlier.as_ref().map(|record| (&record.splices, record.made_container));
    let before = file.text().map_err(|error| failed(&error))?;
    let connected = catalog::connect(client, source, before, &entry, undo).map_err(|error| wrong(&path, &error))?;
    let shown = path.display();
    let Connected::New { text, splices, made_container, replaces } = connected else {
        return Ok(output::print(&format!("{} is connected already, {way}\n", client.title))?);
    };
    let what = match (file.exists(), replaces) {
        (false, _) => "a new file",
        (true, true) => "replaces an entry `toolcrib` that says something else",
        (true, false) => "everything else stays",
    };
    output::print(&text::block(&format!("{shown} ({what}):\n{}", preview(before, &text))))?;
    if flags.preview {
        return Ok(output::print("Nothing was written.\n")?);
    }
    if !confirm(flags, "Write this?")? {
        return Ok(output::print("Nothing was written.\n")?);
    }
    if let Some(folder) = path.parent().filter(|_| !file.exists()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| Problem::new(Kind::Internal, format!("cannot make `{}`: {error}", folder.display())))?;
    }
    let copy = replace(&home, client, &file, Some(&text))?;
    let made_file = earlier.is_some_and(|record| record.made_file) || !file.exists();
    let kept = record::write(&home, client, &path, Some(&Record { splices, made_container, made_file }));
    let mut told = format!("{} is connected, {way}\n", client.title);
    if let Some(copy) = copy {
        told.push_str(&format!("The file as it was: {}\n", copy.display()));
    }
    if let Err(error) = kept {
        told.push_str(&format!(
            "What was changed could not be noted ({error}): `disconnect` will cut the entry out.\n"
        ));
    }
    told.push_str(&format!("So that {} sees it: {}.\n", client.title, client.reload));
    Ok(output::print(&text::block(&told))?)
}

/// Our entry, and what it leads to in words.
fn entry(
    arguments: &Arguments,
    home: &Home,
    environment: &Environment,
) -> Result<(serde_json::Value, String), Problem> {
    let client = arguments.client;
    let stdio = arguments.stdio || !client.speaks_http();
    let program = std::env::current_exe()
        .map_err(|error| Problem::new(Kind::Internal, format!("cannot tell where this program is: {error}")))?;
    let command = program.to_str().ok_or_else(|| {
        Problem::new(Kind::Internal, format!("the path of this program is not UTF-8: `{}`", program.display()))
    })?;
    let mut args = vec!["stdio".to_owned()];
    if let Some(profile) = &arguments.profile {
        args.extend(["--profile".to_owned(), profile.to_string()]);
    }
    // The client starts us without the variables of this shell.
    if arguments.flags.home.is_some() || environment.get(HOME_VARIABLE).is_some() {
        let folder = home.path().to_str().ok_or_else(|| {
            Problem::new(Kind::InvalidParams, format!("the home folder is not UTF-8: `{}`", home.path().display()))
        })?;
        args.extend(["--home".to_owned(), folder.to_owned()]);
    }
    let url = match stdio {
        true => String::new(),
        false => client::address(arguments.endpoint.as_deref(), arguments.profile.as_ref(), home, environment)?,
    };
    let entry = catalog::entry(client, &url, command, &args, stdio);
    let entry = entry.ok_or_else(|| Problem::new(Kind::InvalidParams, "the settings of this client are only read"))?;
    let way = if stdio { format!("by `{command} {}`", args.join(" ")) } else { format!("by {url}") };
    Ok((entry, way))
}
