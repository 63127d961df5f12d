//! Slots for recorder streams: a limited number in total. One user gets at most a quarter, so that some are left for other users.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::access::Visibility;
use crate::lock;
use crate::problem::Problem;

#[derive(Debug)]
pub(crate) struct RecorderSlots {
    most: usize,
    /// Used slots by user. Users without a slot are removed.
    taken: Mutex<HashMap<Visibility, usize>>,
}

/// A used slot. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    of: Arc<RecorderSlots>,
    visibility: Visibility,
}

impl RecorderSlots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Returns a slot if there is one for this user.
    pub(crate) fn take(self: &Arc<Self>, visibility: Visibility) -> Result<Permit, Problem> {
        let mut taken = lock(&self.taken);
        let own = taken.get(&visibility).copied().unwrap_or_default();
        if own >= self.most / 4 || taken.values().sum::<usize>() >= self.most {
            return Err(Problem::Streams);
        }
        taken.insert(visibility, own + 1);
        Ok(Permit { of: Arc::clone(self), visibility })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = lock(&self.of.taken);
        let left = taken.get(&self.visibility).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            taken.remove(&self.visibility);
        } else {
            taken.insert(self.visibility, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_gets_at_most_a_quarter_of_the_streams() {
        let places = RecorderSlots::new(8);
        let take = |visibility: Visibility| -> Result<Vec<Permit>, Problem> { (0..2).map(|_| places.take(visibility)).collect() };
        let first = [Visibility::User(7), Visibility::User(8), Visibility::User(9)].map(|visibility| take(visibility).expect("a quarter"));
        assert_eq!(places.take(Visibility::User(7)).err(), Some(Problem::Streams));
        let last = take(Visibility::Whole).expect("the last");
        assert_eq!(places.take(Visibility::User(10)).err(), Some(Problem::Streams));
        drop(last);
        assert!(places.take(Visibility::User(10)).is_ok());
        drop(first);
        assert!(take(Visibility::Whole).is_ok() && lock(&places.taken).is_empty());
    }
}
