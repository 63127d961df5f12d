//! The result of one check.

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// No problem.
    Ok,
    /// Something works less well, or less is shown.
    Warning,
    /// Something does not work.
    Problem,
}

impl Verdict {
    /// Returns the printed name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What was checked: `driver`, `hugepages` ...
    pub(crate) topic: &'static str,
    /// Severity.
    pub(crate) verdict: Verdict,
    /// One sentence.
    pub(crate) message: String,
    /// What to do, as a command if possible. `None` only if the verdict is ok.
    pub(crate) remedy: Option<String>,
}
