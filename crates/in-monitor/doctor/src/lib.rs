//! Checks whether a machine is ready for Tenstorrent devices: `ttmon doctor`.
//!
//! [`Facts`] are read once, from the machine's files and by the program itself. [`examine`] is pure: it applies one rule per topic and
//! returns findings, each with one sentence and a remedy.

pub mod bundle;
mod facts;
mod rules;

pub use facts::{Facts, Node, PciDevice, Python, Service, Space};
pub use rules::examine;

/// Severity of a finding.
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
    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked: `driver`, `hugepages` ...
    pub topic: &'static str,
    /// Severity.
    pub verdict: Verdict,
    /// One sentence.
    pub message: String,
    /// What to do, as a command if possible. `None` only if the verdict is ok.
    pub remedy: Option<String>,
}
