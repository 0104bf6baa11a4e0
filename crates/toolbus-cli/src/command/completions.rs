//! `toolbus completions`: so that the shell knows our commands, and the tools that there are.

use clap_complete::Shell;

use crate::failed::Failed;
use crate::{args, render};

/// Print the completion script for a shell
///
/// The script goes to standard output; put it where your shell looks for completions. In bash,
/// zsh and fish it also completes addresses, backs, tools and their arguments. A peer is asked for
/// its tools, and has two seconds to list them; one that takes longer has listed them for the next
/// time, since lists are kept in `~/.cache/toolbus` and asked for anew once they are used.
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
    local reply replies
    COMPREPLY=()
    if ! replies=$("${COMP_WORDS[0]}" complete bash "$COMP_LINE" "$COMP_POINT" "$COMP_WORDBREAKS" 2>/dev/null); then
        # The names of files, as bash has them.
        compopt -o default 2>/dev/null
        return 0
    fi
    while IFS= read -r reply; do
        [[ -n $reply ]] && COMPREPLY+=("$reply")
    done <<<"$replies"
    # More follows behind these, so there is no blank.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:./] && ${COMPREPLY[0]} != builtin: ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -F _toolbus toolbus
"#;

const ZSH: &str = r#"#compdef toolbus
# Completions of toolbus for zsh: the program itself says what may follow.
_toolbus() {
    local -a whole open
    local replies line value help
    if ! replies=$("${words[1]}" complete zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null); then
        # The names of files, also as the value of an argument.
        compset -P '*=@' || compset -P '*=' || compset -P '@' || compset -P '*:'
        _files
        return
    fi
    for line in "${(@f)replies}"; do
        [[ -z $line ]] && continue
        value="${line%%$'\t'*}" help=""
        [[ $line == *$'\t'* ]] && help="${line#*$'\t'}"
        value="${value//:/\\:}"
        # More follows behind some, so there is no blank.
        if [[ $value == *[=:./] && $value != 'builtin\:' ]]; then open+=("$value${help:+:$help}"); else whole+=("$value${help:+:$help}"); fi
    done
    (( $#whole + $#open )) || return 1
    (( $#whole )) && _describe -V 'toolbus' whole
    (( $#open )) && _describe -V 'toolbus' open -S ''
    return 0
}
if [[ $funcstack[1] == _toolbus ]]; then _toolbus "$@"; else compdef _toolbus toolbus; fi
"#;

const FISH: &str = r#"# Completions of toolbus for fish: the program itself says what may follow.
function __toolbus_complete
    set -l word (commandline -ct)
    if set -l replies (toolbus complete fish (commandline -opc) "$word" 2>/dev/null)
        test (count $replies) -gt 0; and printf '%s\n' $replies
        return
    end
    # The names of files, also as the value of an argument.
    set -l before (string match -r '^(?:[^=]*=@|[^=]*=|@|[^/]*:)' -- $word)
    set -l typed (string sub -s (math (string length -- "$before") + 1) -- "$word")
    for path in (__fish_complete_path "$typed")
        echo "$before$path"
    end
end
complete -c toolbus -f -k -a '(__toolbus_complete)'
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
