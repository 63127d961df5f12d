//! Why a command or a stage ended early.

#[derive(Debug)]
pub(crate) enum Stop {
    /// A usage error: exit code 2, and the list of commands.
    Usage(String),
    /// The command failed, or a check found something: exit code 1.
    Failed(String),
    /// A failure that the command has already printed.
    AlreadyPrinted,
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<NotPassed> for Stop {
    fn from((NotPassed::Skipped(why) | NotPassed::Failed(why)): NotPassed) -> Self {
        Self::Failed(why)
    }
}

pub(crate) enum NotPassed {
    Skipped(String),
    Failed(String),
}

impl From<String> for NotPassed {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// For `map_err` where a tool is missing: skips the stage, and prints what was not tested.
pub(crate) fn untested(what: &str) -> impl Fn(String) -> NotPassed {
    move |why| NotPassed::Skipped(format!("{what}: {why}"))
}

/// Returns whether the only argument is this flag. A command accepts no other argument.
pub(crate) fn has_flag(command: &str, flag: &str, arguments: &[String]) -> Result<bool, Stop> {
    match arguments {
        [] => Ok(false),
        [only] if only == flag => Ok(true),
        _ => Err(Stop::Usage(format!("{command} takes {flag} or nothing, not {}", arguments.join(" ")))),
    }
}

pub(crate) fn no_arguments(arguments: &[String]) -> Result<(), Stop> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Stop::Usage(format!("unexpected argument {argument}"))),
    }
}
