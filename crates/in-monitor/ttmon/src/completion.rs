//! Values that a shell can complete for `--sim`, `--fields`, `-d` and others.
//!
//! The shell asks the program. A generated script would know the flags alone, and could not complete the second word of a list.

use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use ttmon_collect::Root;
use ttmon_model::fields::DeviceField;

pub(crate) fn sims() -> ArgValueCompleter {
    completer(|| ttmon_sim::words().map(|(word, help)| (word, help.to_owned())).collect())
}

pub(crate) fn fields() -> ArgValueCompleter {
    completer(|| DeviceField::all().map(|field| (field.name(), field.help.to_owned())).collect())
}

pub(crate) fn gpu_fields() -> ArgValueCompleter {
    completer(|| ttmon_print::GPU.names().map(|name| (name.to_owned(), String::new())).collect())
}

pub(crate) fn app_fields() -> ArgValueCompleter {
    completer(|| ttmon_print::APPS.names().map(|name| (name.to_owned(), String::new())).collect())
}

/// Completes a list of devices with those that the driver lists now. No device is opened.
pub(crate) fn devices() -> ArgValueCompleter {
    completer(|| Root::real().device_ids().into_iter().map(|id| (id.to_string(), format!("/dev/tenstorrent/{id}"))).collect())
}

/// Completes the command of `help`.
pub(crate) fn commands() -> ArgValueCompleter {
    completer(|| {
        let program = crate::cli::command();
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let help = |command: &clap::Command| command.get_about().map_or_else(String::new, ToString::to_string);
        shown.map(|command| (command.get_name().to_owned(), help(command))).collect()
    })
}

pub(crate) fn rules() -> ArgValueCompleter {
    completer(|| ttmon_alerts::builtin().into_iter().map(|rule| (rule.name.clone(), rule.when.to_string())).collect())
}

/// Completes a list of these words, each with its help.
fn completer(words: fn() -> Vec<(String, String)>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| in_list(typed, words()))
}

/// Returns the words that begin with the last item of a typed list. Items before the last comma are kept and are not offered again.
fn in_list(typed: &OsStr, words: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let (before, begun) = typed.rsplit_once(',').map_or(("", typed.as_ref()), |(_, begun)| (&typed[..typed.len() - begun.len()], begun));
    let candidate = |(word, help): (String, String)| {
        let is_new = word.starts_with(begun) && !before.split(',').any(|earlier| earlier == word);
        is_new.then(|| CompletionCandidate::new(format!("{before}{word}")).help((!help.is_empty()).then(|| help.into())))
    };
    words.into_iter().filter_map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(typed: &str) -> Vec<String> {
        let words = ["id", "power", "power_limit"].map(|word| (word.to_owned(), String::new()));
        in_list(OsStr::new(typed), words.into()).iter().map(|found| found.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn lists_are_completed_word_by_word() {
        assert_eq!(completed(""), ["id", "power", "power_limit"]);
        assert_eq!(completed("po"), ["power", "power_limit"]);
        assert_eq!(completed("id,po"), ["id,power", "id,power_limit"]);
        assert_eq!(completed("power,"), ["power,id", "power,power_limit"]);
        assert_eq!(completed("x"), [""; 0]);
    }
}
