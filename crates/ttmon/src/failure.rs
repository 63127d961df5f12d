//! How a command ends when it does not end well.

use std::fmt;
use std::io::{self, Write};

use ttmon_print::text;
use ttmon_source::Error;

/// A message for people, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// `what failed: why; what to do`. Empty where the exit code says it all.
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl Failure {
    /// It could not be done.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// A usage error.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// There is no such device.
    pub(crate) fn no_device(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 3 }
    }

    /// It took too long.
    pub(crate) fn timed_out(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 4 }
    }
}

/// Prints a message to stderr in one line, with foreign text cleaned. A stderr that cannot be written to is no reason
/// to fail.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "ttmon: {}", text::clean(message, false));
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NoDevice | Error::DriverNotLoaded { .. } => Self::no_device(message),
            Error::Class(_) | Error::Reader(_) => Self::new(message),
        }
    }
}

impl From<io::Error> for Failure {
    /// Writing the output is the only I/O without a better message. A reader who has left has seen enough.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), code: 0 };
        }
        Self::new(format!("cannot write the output: {error}; check that there is room for it"))
    }
}
