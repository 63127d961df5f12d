//! Examines whether a machine is fit for Tenstorrent devices: `ttmon doctor`.
//!
//! [`Facts`] are read once, from the machine's files and from what the program found out by itself. [`examine`] is pure:
//! it applies one rule per topic and returns findings, each with one sentence and a remedy.

pub mod bundle;
mod facts;
mod rules;

pub use facts::{Facts, LibraryError, Node, PciDevice, Python, Service, Space};
pub use rules::examine;

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No problem.
    Ok,
    /// Something works less well, or less is shown.
    Warning,
    /// Something does not work.
    Problem,
}

impl Verdict {
    /// The word that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One line of the examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was examined: `driver`, `hugepages` ...
    pub topic: &'static str,
    /// How severe it is.
    pub verdict: Verdict,
    /// One sentence.
    pub message: String,
    /// What to do, as a command where one does it. `None` only if the verdict is ok.
    pub remedy: Option<String>,
}
