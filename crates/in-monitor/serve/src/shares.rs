//! Shares of something limited: streams, waiting requests, memory. One user gets only a part, so that some is left for other users.

use std::collections::{HashMap, hash_map};
use std::sync::{Arc, Mutex};

use ttmon_os::lock;

use crate::access::Visibility;

#[derive(Debug)]
pub(crate) struct Shares {
    total_max: usize,
    user_max: usize,
    /// The amount of each user who has a share.
    used: Mutex<HashMap<Visibility, usize>>,
}

/// A share of a user. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    user: Visibility,
    amount: usize,
}

impl Shares {
    pub(crate) fn new(total_max: usize, user_max: usize) -> Arc<Self> {
        Arc::new(Self { total_max, user_max, used: Mutex::default() })
    }

    /// Returns a share if it is within both limits. A single share may be larger than a limit.
    pub(crate) fn take(self: &Arc<Self>, user: Visibility, amount: usize) -> Option<Share> {
        let mut used = lock(&self.used);
        let own = used.get(&user).copied().unwrap_or(0);
        let fits = |used: usize, max: usize| used == 0 || used.saturating_add(amount) <= max;
        if !fits(own, self.user_max) || !fits(used.values().sum(), self.total_max) {
            return None;
        }
        used.insert(user, own + amount);
        Some(Share { of: Arc::clone(self), user, amount })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let hash_map::Entry::Occupied(mut used) = lock(&self.of.used).entry(self.user) {
            *used.get_mut() -= self.amount;
            if *used.get() == 0 {
                used.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_some_to_the_others() {
        let streams = Shares::new(8, 2);
        let take = |user: Visibility| -> Option<Vec<Share>> { (0..2).map(|_| streams.take(user, 1)).collect() };
        let first = [7, 8, 9].map(|uid| take(Visibility::User(uid)).expect("a quarter"));
        assert!(streams.take(Visibility::User(7), 1).is_none());
        let last = take(Visibility::Whole).expect("the last");
        assert!(streams.take(Visibility::User(10), 1).is_none());
        drop(last);
        assert!(streams.take(Visibility::User(10), 1).is_some());
        drop(first);
        assert!(take(Visibility::Whole).is_some() && lock(&streams.used).is_empty());
    }

    #[test]
    fn a_share_larger_than_the_limits_is_given_alone() {
        let memory = Shares::new(100, 60);
        let large = memory.take(Visibility::User(7), 200).expect("nothing else is used");
        assert!(memory.take(Visibility::User(7), 1).is_none() && memory.take(Visibility::Whole, 1).is_none());
        drop(large);
        let small = memory.take(Visibility::User(7), 30);
        assert!(memory.take(Visibility::Whole, 200).is_none() && memory.take(Visibility::Whole, 70).is_some());
        drop(small);
    }
}
