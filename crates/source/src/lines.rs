//! The lines behind the numbers of a ledger's stacks.

use std::collections::HashMap;
use std::sync::Arc;

use ttmon_ledger::reader::{Code, ReadError, Region, Stacks};
use ttmon_model::stack::{SourceLine, user_line};

/// The stacks of one ledger, with each line made once.
#[derive(Debug, Default)]
pub struct Lines {
    stacks: Vec<Vec<Arc<SourceLine>>>,
    lines: Vec<Option<Arc<SourceLine>>>,
}

impl Lines {
    /// Reads the stacks of a ledger. Of one without stacks that is a read of its header.
    pub fn read(region: &Region) -> Result<Self, ReadError> {
        Ok(Self::of(&region.stacks()?))
    }

    fn of(stacks: &Stacks) -> Self {
        let mut known: HashMap<(*const Code, u32), Arc<SourceLine>> = HashMap::new();
        let mut texts: HashMap<&str, Arc<str>> = HashMap::new();
        let mut found = Self::default();
        for number in 1..=stacks.len() {
            let frames = stacks.frames(number).map(|(code, line)| {
                let make = || {
                    let [file, function] =
                        [&code.file, &code.function].map(|text| texts.entry(text).or_insert_with(|| text.as_str().into()).clone());
                    Arc::new(SourceLine { file, line, function })
                };
                known.entry((std::ptr::from_ref(code), line)).or_insert_with(make).clone()
            });
            let frames: Vec<Arc<SourceLine>> = frames.collect();
            found.lines.push(user_line(frames.iter()).cloned());
            found.stacks.push(frames);
        }
        found
    }

    /// The frames of a stack, innermost first; none of a number that is not a stack's.
    pub fn frames(&self, number: u32) -> &[Arc<SourceLine>] {
        index(number).and_then(|at| self.stacks.get(at)).map_or(&[], Vec::as_slice)
    }

    /// The line of a stack that a user looks for.
    pub fn line(&self, number: u32) -> Option<&Arc<SourceLine>> {
        self.lines.get(index(number)?)?.as_ref()
    }

    /// How many stacks there are.
    pub fn len(&self) -> u32 {
        u32::try_from(self.stacks.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }
}

fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}
