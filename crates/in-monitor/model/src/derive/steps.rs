//! The limit on the work of one derivation, in total and per user.
//!
//! The scan limits how much is read of each user. Some computations cost more than the number of their inputs: comparing buffers, adding up
//! circular buffers core by core, and matching slots with processes. Their cost is charged to the user who caused it.

use std::collections::{BTreeMap, HashMap};

use crate::limits::{DERIVE_LIMIT, SCAN_SHARE, SCAN_UNNAMED};
use crate::sample::{Problem, Sample};

/// The steps of one derivation so far.
#[derive(Debug, Default)]
pub(super) struct Steps {
    spent: u64,
    users: HashMap<Option<u32>, u64>,
    cut: BTreeMap<Option<u32>, u64>,
}

impl Steps {
    /// Charges the steps to a user. If the limit does not allow that, counts one refused computation. Only the total limits root. The first
    /// part of the total is charged to no user.
    pub(super) fn take(&mut self, user: Option<u32>, steps: u64) -> bool {
        let spent = self.spent.saturating_add(steps);
        if spent <= DERIVE_LIMIT.total / SCAN_UNNAMED {
            self.spent = spent;
            return true;
        }
        let own = self.users.entry(user).or_default();
        let most = if user == Some(0) { DERIVE_LIMIT.total } else { DERIVE_LIMIT.total / SCAN_SHARE };
        let is_granted = spent <= DERIVE_LIMIT.total && own.saturating_add(steps) <= most;
        if is_granted {
            *own += steps;
            self.spent = spent;
        } else {
            *self.cut.entry(user).or_default() += 1;
        }
        is_granted
    }

    /// Returns the number of results that were not computed.
    pub(super) fn cuts(&self) -> u64 {
        self.cut.values().sum()
    }

    /// Returns one problem for each user who reached the limit.
    pub(super) fn problems(&self, sample: &Sample) -> Vec<Problem> {
        // Without the name of a user, the problem has the number.
        let facts = || sample.processes.iter().filter_map(|process| process.facts.as_ref().ok());
        let name_of = |uid: u32| facts().find(|facts| facts.uid == uid).and_then(|facts| facts.user.as_deref());
        let problem =
            |(user, count): (&Option<u32>, &u64)| DERIVE_LIMIT.problem(user.map(|uid| (uid, name_of(uid))), *user == Some(0), 1, *count);
        self.cut.iter().map(problem).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_share_and_root_the_total() {
        let (share, unnamed) = (DERIVE_LIMIT.total / SCAN_SHARE, DERIVE_LIMIT.total / SCAN_UNNAMED);
        let mut steps = Steps::default();
        assert!(steps.take(Some(1), unnamed) && steps.take(Some(1), share));
        assert!(!steps.take(Some(1), 1));
        assert!(steps.take(Some(2), share) && steps.take(None, 7), "others have theirs");
        assert!(!steps.take(Some(2), u64::MAX));
        assert!(!steps.take(None, share));
        assert_eq!(steps.cuts(), 3);
        let mut of_root = Steps::default();
        assert!(of_root.take(Some(0), DERIVE_LIMIT.total));
        assert!(!of_root.take(Some(0), 1));
    }
}
