//! Why a command ended early, in the ways that matter to the exit code.

#[derive(Debug)]
pub(crate) enum Stop {
    /// The command line made no sense: exit code 2, and the list of commands.
    Usage(String),
    /// It was tried and did not work, or a check found something: exit code 1.
    Failed(String),
    /// A failure that the command has already printed.
    Told,
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// For commands that take nothing.
pub(crate) fn no_arguments(arguments: &[String]) -> Result<(), Stop> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Stop::Usage(format!("unexpected argument {argument}"))),
    }
}
