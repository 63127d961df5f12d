//! Errors of trusted certificates.

use std::fmt;
use std::path::PathBuf;

/// Why certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootsError {
    /// The system has no list of certificates.
    NoList,
    /// This build has no TLS.
    NotBuiltIn,
    /// A file has this error.
    File(PathBuf, String),
}

impl fmt::Display for RootsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoList => f.write_str("this system has no list of certificates to trust; give one with --ca FILE"),
            Self::NotBuiltIn => {
                f.write_str("this build of ttmon has no TLS; build it with --features tls, or use an SSH tunnel and http://localhost")
            }
            Self::File(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for RootsError {}
