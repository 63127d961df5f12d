//! Errors of a request.

use std::io;
use std::path::PathBuf;

use ttmon_json::ReadError;

/// Why there is no answer. The text is printed after the name of the service: «the service at … does not answer in time».
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum RequestError {
    #[error("cannot be reached ({})", words(.0))]
    Unreachable(io::Error),
    #[error("does not answer ({})", words(.0))]
    Silent(io::Error),
    #[error("does not answer in time")]
    Late,
    /// The answer exceeds the limit.
    #[error("answers without an end")]
    Endless,
    /// The answer ended early.
    #[error("answers with half of an answer")]
    Half,
    #[error("answers with something that is not text")]
    NotText,
    #[error("wants a token that it knows (--token-file)")]
    Refused,
    #[error("has nothing to show ({0})")]
    Status(u16),
    #[error("answers with a redirect ({0}), which is not followed; give the final address")]
    Redirect(u16),
    /// A message is answered with an error status.
    #[error("answers with status {0}")]
    NotAccepted(u16),
    #[error("answers in another way than this ttmon knows ({0})")]
    Strange(String),
    #[error("cannot be trusted ({0})")]
    Tls(String),
}

/// Why there are no certificates to trust.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum RootsError {
    #[error("this build of ttmon has no TLS; build it with --features tls, or use an SSH tunnel and http://localhost")]
    NotBuiltIn,
    #[error("this system has no list of certificates to trust; give one with --ca FILE")]
    NoList,
    #[error("{0}: {1}")]
    File(PathBuf, String),
}

impl RequestError {
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

/// Returns the kernel's message, without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
}
