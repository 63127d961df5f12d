//! `ttmon mem --by`.

use clap::ValueEnum;
use ttmon_model::groups::GroupBy;

/// What buffers are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// By the Python line that asked for them.
    Line,
    /// By tag.
    Tag,
    /// By operation.
    Op,
}

impl By {
    pub(crate) fn meant(self) -> GroupBy {
        match self {
            Self::Line => GroupBy::Line,
            Self::Tag => GroupBy::Tag,
            Self::Op => GroupBy::Op,
        }
    }
}
