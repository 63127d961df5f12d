//! Problems that a user can cause in any number. The first few of each kind are listed, and the others are counted.

use std::collections::BTreeMap;

use crate::missing::Missing;
use crate::sample::Problem;

/// Maximum number of listed problems per user and kind.
const LISTED_MAX: u64 = 4;

/// The problems of a sample, in order.
#[derive(Debug, Default)]
pub struct Problems {
    /// The listed problems.
    pub list: Vec<Problem>,
    counts: BTreeMap<(Option<u32>, Missing, &'static str), u64>,
}

impl Problems {
    /// Creates a list with these problems.
    pub fn new(list: Vec<Problem>) -> Self {
        Self { list, counts: BTreeMap::new() }
    }

    /// Adds a problem that a user caused. `kind` is a description that fits all problems of this kind.
    pub fn push_of(&mut self, user: Option<u32>, kind: &'static str, problem: Problem) {
        let count = self.counts.entry((user, problem.reason, kind)).or_default();
        *count += 1;
        if *count <= LISTED_MAX {
            self.list.push(problem);
        }
    }

    /// Returns the problems. Those that were not listed are summarised in one line per user and kind.
    pub fn into_list(mut self) -> Vec<Problem> {
        for ((user, reason, kind), count) in self.counts {
            if count > LISTED_MAX {
                let part = user.map_or_else(|| "other users".to_owned(), |uid| format!("user {uid}"));
                self.list.push(Problem { part, reason, detail: format!("{} more: {kind}", count - LISTED_MAX) });
            }
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_a_kind_are_counted() {
        let problem = |number: u32| Problem { part: number.to_string(), reason: Missing::Unparsable, detail: "bad".to_owned() };
        let mut problems = Problems::new(vec![problem(0)]);
        (1..=300).for_each(|number| problems.push_of(Some(7), "bad files", problem(number)));
        (1..=4).for_each(|number| problems.push_of(Some(8), "bad files", problem(number)));
        let list = problems.into_list();
        assert_eq!(list.len(), 1 + 4 + 4 + 1);
        let last = list.last().unwrap();
        assert_eq!((last.part.as_str(), last.detail.as_str()), ("user 7", "296 more: bad files"));
    }
}
