//! `toolcrib completion`: the lines with which a shell asks this program what may come next; names come from the running
//! gateway (see `names.rs`).

use clap_complete::env::Shells;
use toolcrib_base::{Kind, Problem};

use crate::output;

/// The variable by which a shell asks. Not the library's own name for it, which every program of that library would obey.
pub(crate) const VARIABLE: &str = "TOOLCRIB_COMPLETE";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
bash:        echo 'source <(toolcrib completion bash)' >> ~/.bashrc
zsh:         echo 'source <(toolcrib completion zsh)' >> ~/.zshrc
fish:        toolcrib completion fish > ~/.config/fish/completions/toolcrib.fish
powershell:  toolcrib completion powershell >> $PROFILE")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish"])]
    shell: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(&arguments.shell)
        .ok_or_else(|| Problem::new(Kind::InvalidParams, format!("no completion for `{}`", arguments.shell)))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "toolcrib", "toolcrib", "toolcrib", &mut script)?;
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}
