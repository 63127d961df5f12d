//! Errors of a request.

use std::fmt;
use std::io;

use ttmon_wire::ReadError;

/// Why there is no answer. The text is printed after the name of the service: «the service at … does not answer in time».
#[derive(Debug)]
pub enum Trouble {
    /// The service cannot be reached.
    Unreachable(io::Error),
    /// The service does not answer.
    Silent(io::Error),
    /// The service does not answer in time.
    Late,
    /// The answer exceeds the limit.
    Endless,
    /// The answer ended early.
    Half,
    /// The answer is not text.
    NotText,
    /// The service requires a token, or another one.
    Refused,
    /// The service answers with an error status.
    Status(u16),
    /// A message is answered with a redirect.
    Redirect(u16),
    /// A message is answered with an error status.
    NotAccepted(u16),
    /// The answer is unexpected.
    Strange(String),
    /// The certificate is not trusted, or TLS failed.
    Tls(String),
}

impl Trouble {
    pub(crate) fn silent(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::InvalidData => Self::Tls(error.to_string()),
            _ => Self::Silent(error),
        }
    }

    pub(crate) fn unreadable(error: &ReadError) -> Self {
        if *error == ReadError::Late { Self::Late } else { Self::Strange(error.to_string()) }
    }

    pub(crate) fn unreachable(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Unreachable(error),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "cannot be reached ({})", words(error)),
            Self::Silent(error) => write!(f, "does not answer ({})", words(error)),
            Self::Late => f.write_str("does not answer in time"),
            Self::Endless => f.write_str("answers without an end"),
            Self::Half => f.write_str("answers with half of an answer"),
            Self::NotText => f.write_str("answers with something that is not text"),
            Self::Refused => f.write_str("wants a token that it knows (--token-file)"),
            Self::Status(status) => write!(f, "has nothing to show ({status})"),
            Self::Redirect(status) => write!(f, "answers with a redirect ({status}), which is not followed; give the final address"),
            Self::NotAccepted(status) => write!(f, "answers with status {status}"),
            Self::Strange(why) => write!(f, "answers in another way than this ttmon knows ({why})"),
            Self::Tls(why) => write!(f, "cannot be trusted ({why})"),
        }
    }
}

impl std::error::Error for Trouble {}

/// Returns the kernel's message, without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
}
