//! Generates completions, manual and help from the definition of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap_complete::Shell;
use clap_complete::env::Shells;

use ttmon_print::Style;

use crate::cli::{self, sections};
use crate::failure::Failure;
use crate::output::Output;
use crate::show::VERSION;
use crate::terminal::Terminal;

/// Prints the help of the fields of a query.
pub(crate) fn field_list(terminal: Terminal, print: impl FnOnce(&Style<'_>, &mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut text = Vec::new();
    print(&Style { width: terminal.columns, ascii: terminal.ascii, ..Style::plain(VERSION) }, &mut text)?;
    Output::Stdout.write(&text)
}

/// Returns a shell's completion script. The script gets completions from this program, so that values are completed too.
pub(crate) fn completions(shell: Shell) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).ok_or_else(|| Failure::usage(format!("completions: no shell {name:?}")))?;
    completer.write_registration("COMPLETE", "ttmon", "ttmon", "ttmon", &mut text)?;
    if shell == Shell::Bash {
        text.extend_from_slice(BASH_WORDS.as_bytes());
    }
    Ok(text)
}

/// Bash splits words at `:` and `=`, which occur in `--sim` and PCI addresses. This script joins the parts to one word. It offers only the
/// part after the last separator, because bash replaces only that part.
const BASH_WORDS: &str = r#"
_ttmon() {
    local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^:=]/} prefix=
    local -a COMP_WORDS
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *[[:space:]] ]] && COMP_WORDS+=("")
    local COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    local current=${COMP_WORDS[COMP_CWORD]}
    _clap_complete_ttmon "$1" "$current" "$3"
    [[ -n $breaks ]] && prefix=${current%"${current##*[$breaks]}"}
    [[ -n $prefix ]] && COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    return 0
}
complete -o nospace -o bashdefault -F _ttmon ttmon
"#;

/// Returns the summary, all options of the program (`all`), or the help of the command that these words name.
pub(crate) fn help(words: &[String]) -> Result<String, Failure> {
    let mut program = cli::command();
    match words {
        [] => return Ok(sections::SUMMARY.to_owned()),
        [all] if all == "all" => return Ok(program.render_long_help().to_string()),
        _ => {}
    }
    let mut page = &mut program;
    for word in words {
        let parent = page.get_bin_name().unwrap_or("ttmon").to_owned();
        let unknown = Failure::usage(format!("help: no command {word:?}; see {parent} --help"));
        page = page.find_subcommand_mut(word).filter(|command| !command.is_hide_set()).ok_or(unknown)?;
    }
    Ok(page.render_long_help().to_string())
}

/// Returns the manual page of the program or of a command.
pub(crate) fn man(command: Option<&str>) -> Result<Vec<u8>, Failure> {
    let program = cli::command();
    let page = match command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).filter(|command| !command.is_hide_set());
            let named = found.ok_or_else(|| Failure::usage(format!("man: no command {name:?}; see ttmon --help")))?.clone();
            named.display_name(format!("ttmon-{name}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page.after_long_help(None::<&str>)).render(&mut text)?;
    text.extend(sections::Sections::of(command.unwrap_or_default()).map(sections::Sections::roff).unwrap_or_default().into_bytes());
    Ok(text)
}

/// Writes all manual pages: `ttmon.1`, and `ttmon-COMMAND.1` of each command.
pub(crate) fn write_manual(folder: &Path) -> Result<(), Failure> {
    let program = cli::command();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| Some(command.get_name()));
    for command in std::iter::once(None).chain(commands) {
        let name = command.map_or("ttmon.1".to_owned(), |command| format!("ttmon-{command}.1"));
        let path = folder.join(name);
        std::fs::write(&path, man(command)?).map_err(|error| Failure::new(format!("man: {}: {error}", path.display())))?;
    }
    Ok(())
}
