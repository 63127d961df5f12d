//! Why a command ended early, by exit code.

#[derive(Debug)]
pub(crate) enum Stop {
    /// A usage error: exit code 2, and the list of commands.
    Usage(String),
    /// The command failed, or a check found something: exit code 1.
    Failed(String),
    /// A failure that the command has already printed.
    Told,
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Checks that there are no arguments.
pub(crate) fn no_arguments(arguments: &[String]) -> Result<(), Stop> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Stop::Usage(format!("unexpected argument {argument}"))),
    }
}
