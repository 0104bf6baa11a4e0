//! `toolbus completions`: so that the shell knows our commands, and the tools that there are.

use clap_complete::Shell;

use crate::failed::Failed;
use crate::{args, render};

/// Print the completion script for a shell
///
/// The script goes to standard output; put it where your shell looks for completions. In bash,
/// zsh and fish it also completes addresses, backs, tools and their arguments: a tool's peer is
/// asked for them, and has two seconds to answer.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus completions bash > ~/.local/share/bash-completion/completions/toolbus
  toolbus completions zsh > ~/.zfunc/_toolbus
  toolbus completions fish > ~/.config/fish/completions/toolbus.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to print it for
    pub(crate) shell: Shell,
}

const BASH: &str = r#"# Completions of toolbus for bash: the program itself says what may follow.
_toolbus() {
    local reply
    COMPREPLY=()
    while IFS= read -r reply; do
        COMPREPLY+=("$reply")
    done < <("${COMP_WORDS[0]}" complete bash "$COMP_LINE" "$COMP_POINT" "$COMP_WORDBREAKS" 2>/dev/null)
    # More follows behind these, so there is no blank.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:./] && ${COMPREPLY[0]} != builtin: ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o default -F _toolbus toolbus
"#;

const ZSH: &str = r#"#compdef toolbus
# Completions of toolbus for zsh: the program itself says what may follow.
_toolbus() {
    local -a whole open
    local line value help
    for line in "${(@f)$("${words[1]}" complete zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        [[ -z $line ]] && continue
        value="${line%%$'\t'*}" help=""
        [[ $line == *$'\t'* ]] && help="${line#*$'\t'}"
        value="${value//:/\\:}"
        # More follows behind some, so there is no blank.
        if [[ $value == *[=:./] && $value != 'builtin\:' ]]; then open+=("$value${help:+:$help}"); else whole+=("$value${help:+:$help}"); fi
    done
    if (( $#whole + $#open == 0 )); then _files; return; fi
    (( $#whole )) && _describe 'toolbus' whole
    (( $#open )) && _describe 'toolbus' open -S ''
    return 0
}
if [[ $funcstack[1] == _toolbus ]]; then _toolbus "$@"; else compdef _toolbus toolbus; fi
"#;

const FISH: &str = r#"# Completions of toolbus for fish: the program itself says what may follow.
complete -c toolbus -a '(toolbus complete fish (commandline -opc) (commandline -ct) 2>/dev/null)'
"#;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failed> {
    match args.shell {
        Shell::Bash => render::print_own(BASH),
        Shell::Zsh => render::print_own(ZSH),
        Shell::Fish => render::print_own(FISH),
        shell => {
            // Into memory first: the generator panics where a pipe would break.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "toolbus", &mut script);
            render::print_own(&String::from_utf8_lossy(&script))
        }
    }
}
