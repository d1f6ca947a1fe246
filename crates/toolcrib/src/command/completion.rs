//! `toolcrib completion`: the lines with which a shell asks this program what may come next; names come from the
//! running gateway (see `names.rs`).

use clap_complete::env::Shells;
use toolcrib_base::{Kind, Problem};

use crate::output;

/// The variable by which a shell asks. Not the library's own name for it, which every program of that library would
/// obey.
pub(crate) const VARIABLE: &str = "TOOLCRIB_COMPLETE";

/// bash tells words apart at `=` and `:` too, so that `fake://text` and `mode=loud` come in pieces. This puts them
/// together before the library's function sees them, and gives back what belongs behind the piece that bash has.
const WHOLE_WORDS: &str = r#"
_toolcrib_whole_words() {
    local line="${COMP_LINE:0:COMP_POINT}" offer piece="$2"
    local -a whole
    read -ra whole <<< "$line"
    [[ "$line" == *[[:space:]] ]] && whole+=("")
    local current="${whole[-1]}"
    # Words in quotes are left to the shell.
    if [[ "$line" != *[\"\'\\]* && "$current" == *[=:]* ]]; then
        local -a COMP_WORDS=("${whole[@]}")
        local COMP_CWORD=$((${#whole[@]} - 1))
        _clap_complete_toolcrib "$1" "$current" "$3"
        [[ "$piece" == [=:] ]] && piece=""
        local before="${current%"$piece"}" index
        for index in "${!COMPREPLY[@]}"; do
            COMPREPLY[index]="${COMPREPLY[index]#"$before"}"
        done
    else
        _clap_complete_toolcrib "$@"
    fi
}
complete -o bashdefault -o nosort -o nospace -F _toolcrib_whole_words toolcrib
"#;

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
    if arguments.shell == "bash" {
        script.extend_from_slice(WHOLE_WORDS.as_bytes());
    }
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}
