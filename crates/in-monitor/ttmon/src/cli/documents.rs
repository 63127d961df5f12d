//! The parser accepts every command line of the documents and of the help.

use std::ffi::OsString;

use crate::names;

#[test]
fn documented_commands_parse() {
    let commands = [ttmon_testing::documented_commands(), ttmon_testing::help_examples()].concat();
    assert!(commands.len() > 100, "{} commands found", commands.len());
    let wrong: Vec<String> = commands
        .iter()
        .filter_map(|command| {
            // The documents write PID for a process of the reader.
            let words = command.words.iter().map(|word| if word == "PID" { "4242" } else { word });
            let words = names::translate(words.map(OsString::from));
            let error = super::typed(&words, None).err().filter(clap::Error::use_stderr)?;
            Some(format!("{}: {}: {error}", command.place, command.words.join(" ")))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
