//! Generates completions, manual and reference from the definition of the command line.

use std::path::Path;

use clap_complete::Shell;
use clap_complete::env::Shells;

use ttmon_print::Style;

use crate::cli::{self, sections};
use crate::failure::Failure;
use crate::invocation::{FieldList, PageRequest};
use crate::output::Output;
use crate::show::VERSION;
use crate::terminal::Terminal;

/// Prints a page, or writes the files of the manual.
pub(crate) fn run(request: &PageRequest) -> Result<(), Failure> {
    let text = match request {
        PageRequest::Completions(shell) => completions(*shell)?,
        PageRequest::Help(command) => help(command)?.into_bytes(),
        PageRequest::Manual(command) => man(command.as_deref())?,
        PageRequest::ManualFiles(folder) => return write_manual(folder),
        PageRequest::CliReference => markdown().into_bytes(),
        PageRequest::Metrics => ttmon_serve::metrics_markdown().into_bytes(),
        PageRequest::Openapi => ttmon_serve::openapi().into_bytes(),
        PageRequest::Deploy(file) => deploy(file.as_deref())?.into_bytes(),
    };
    Output::Stdout.write(&text)
}

/// Returns the help of the fields of a query.
pub(crate) fn field_list(terminal: Terminal, list: &FieldList) -> Result<Vec<u8>, Failure> {
    let print = match list {
        FieldList::Device => ttmon_print::help_fields,
        FieldList::Gpu => ttmon_print::help_query_gpu,
        FieldList::ComputeApps => ttmon_print::help_query_compute_apps,
    };
    let mut text = Vec::new();
    print(&Style { width: terminal.columns, ascii: terminal.ascii, ..Style::plain(VERSION) }, &mut text)?;
    Ok(text)
}

/// Returns a shell's completion script. The script gets completions from this program, so that values are completed too.
fn completions(shell: Shell) -> Result<Vec<u8>, Failure> {
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
fn help(words: &[String]) -> Result<String, Failure> {
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
fn man(command: Option<&str>) -> Result<Vec<u8>, Failure> {
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
fn write_manual(folder: &Path) -> Result<(), Failure> {
    let program = cli::command();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| Some(command.get_name()));
    for command in std::iter::once(None).chain(commands) {
        let name = command.map_or("ttmon.1".to_owned(), |command| format!("ttmon-{command}.1"));
        let path = folder.join(name);
        std::fs::write(&path, man(command)?).map_err(|error| Failure::new(format!("man: {}: {error}", path.display())))?;
    }
    Ok(())
}

/// Returns the reference of all commands, docs/cli.md.
fn markdown() -> String {
    let program = cli::command().term_width(100);
    let mut text = "# Commands\n\nGenerated by `cargo xtask docs`; do not edit.\n".to_owned();
    section(&mut text, &mut program.clone());
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        section(&mut text, &mut command.clone().term_width(100));
    }
    text.push_str(&format!("\n## Keys of ttmon top\n\n{}", ttmon_top::keys_markdown()));
    text.push_str(&format!("{SETTINGS}{}", ttmon_top::settings_markdown()));
    text.push_str(EXIT_CODES);
    text
}

fn section(text: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("ttmon").to_owned();
    text.push_str(&format!("\n## {name}\n\n```\n{}\n```\n", command.render_long_help().to_string().trim_end()));
}

/// The text before the table of settings.
const SETTINGS: &str = "
## Settings of ttmon top

Settings are in TOML files: `/etc/ttmon/config.toml` for all users, then the user's `$XDG_CONFIG_HOME/ttmon/config.toml`, which
overrides it (below `~/.config` if `XDG_CONFIG_HOME` is not set). `--config FILE`, or `TTMON_CONFIG`, replaces both files.
Command-line flags override all settings. `F2` changes most settings. `F12` saves them to the user's file, or to the file of
`--config`. Settings that ttmon does not understand are reported on the screen and ignored.

";

/// The exit codes. Scripts rely on them.
const EXIT_CODES: &str = "
## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed |
| 2 | usage error |
| 3 | no such device |
| 4 | `wait`: timeout |
| 123 | `run`: the command succeeded, but a check failed or could not be evaluated |
| 125 | `run`: ttmon failed before the command was started |
| 0, 1, 2, 3 | `check`: ok, warning, critical, unknown (also a usage error, or no device) |
| 0, 1, 2, 64 | `doctor`: fine, a problem, warnings only, usage error |
| 126, 127 | `run`: the command cannot be executed, or was not found |

## Environment

| variable | stands for |
| --- | --- |
| `TTMON_SIM`, `TTMON_ROOT` | `--sim`, `--root` |
| `TTMON_API` | the service to ask: a socket, or a URL |
| `TTMON_TOKEN_FILE`, `TTMON_TOKEN` | `--token-file`, or the token itself |
| `TTMON_CONFIG` | `--config` of `top` |
| `TTMON_SOCKET`, `TTMON_STATE_DIR` | `--socket` and `--state-dir` of `serve` |
| `TTMON_LIB` | the folder of the libraries that `run` and `env` preload |
| `TTMON_STACKS` | 1: tracked Python programs record the line that allocated each buffer; `run` and `env` set it unless it is set or `--no-stacks` is given |
| `TTMON_TRACKING`, `TT_ALLOC_TRACKING_ENABLED` | 1: programs with the client library or the hook track their memory; `run` and `env` set `TTMON_TRACKING` |

`NO_COLOR`, `COLUMNS`, `TERM` and the locale have their usual meaning. If the locale is not UTF-8, ttmon prints only ASCII.
";

/// Returns the generated file with this path below deploy/.
fn deploy(file: Option<&str>) -> Result<String, Failure> {
    let dashboard = |name: &str| ttmon_fleet::DASHBOARDS.iter().find(|dashboard| dashboard.name == name);
    match file.unwrap_or_default() {
        "rules/ttmon-alerts.yml" => Ok(ttmon_alerts::alert_rules()),
        "rules/ttmon-alerts-test.yml" => Ok(ttmon_alerts::alert_rule_tests()),
        "rules/ttmon-records.yml" => Ok(ttmon_fleet::recording_rules()),
        // The queries of templates and dashboards, one per line. A test runs them on both query engines.
        "queries" => Ok(queries()),
        file => {
            let name = file.strip_prefix("grafana/").and_then(|name| name.strip_suffix(".json"));
            let found = name.and_then(dashboard).ok_or_else(|| Failure::usage(format!("no file {file} below deploy/ is generated")));
            Ok(found?.document())
        }
    }
}

fn queries() -> String {
    let templates =
        ttmon_fleet::TEMPLATES.iter().flat_map(|row| [row.record, row.expression].map(|query| ("template", row.record, query.to_owned())));
    let find = ttmon_fleet::FindRequest { chips: 1, board: None, free_dram: 1 };
    let own = [true, false].map(|has_rules| ("template", "find", find.query(has_rules)));
    let all = templates.chain(own).chain(ttmon_fleet::dashboard_queries());
    all.map(|(file, name, query)| format!("{file}\t{name}\t{query}\n")).collect()
}
