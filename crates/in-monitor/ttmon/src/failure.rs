//! The error of a command, with its exit code.

use std::fmt;
use std::io::{self, Write};

use ttmon_collect::Error;
use ttmon_print::text::{self, Cut};

const MESSAGE_COLUMNS_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Failure {
    /// `what failed: why; what to do`. Empty if the exit code is enough.
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl Failure {
    /// The command failed: exit code 1.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// A usage error: exit code 2.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// A device does not exist: exit code 3.
    pub(crate) fn no_device(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 3 }
    }

    /// A timeout: exit code 4.
    pub(crate) fn timed_out(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 4 }
    }
}

/// Prints a message to stderr in one line, without control characters. A long message, which repeats text of a file, is cut in the middle.
/// Errors of stderr are ignored.
pub(crate) fn print_error(message: &str) {
    let message = text::cut(&text::clean(message, false), MESSAGE_COLUMNS_MAX, Cut::Middle, "…");
    let _ = writeln!(io::stderr(), "ttmon: {message}");
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NoDevice | Error::DriverNotLoaded { .. } => Self::no_device(message),
            Error::Class(_) | Error::Unreadable { .. } | Error::Reader(_) => Self::new(message),
        }
    }
}

impl From<io::Error> for Failure {
    /// An error while writing the output. A closed pipe is a success: the reader has read enough.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), code: 0 };
        }
        Self::new(format!("cannot write the output: {error}; check that there is room for it"))
    }
}
