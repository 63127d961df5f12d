//! Slots for recorder streams: a limited number in total. One user gets at most a quarter, so that some are left for other users.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::access::View;
use crate::lock;
use crate::problem::Problem;

#[derive(Debug)]
pub(crate) struct RecorderSlots {
    most: usize,
    /// Used slots by user. Users without a slot are removed.
    taken: Mutex<HashMap<View, usize>>,
}

/// A used slot. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    of: Arc<RecorderSlots>,
    view: View,
}

impl RecorderSlots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Returns a slot if there is one for this user.
    pub(crate) fn take(self: &Arc<Self>, view: View) -> Result<Permit, Problem> {
        let mut taken = lock(&self.taken);
        let own = taken.get(&view).copied().unwrap_or_default();
        if own >= self.most / 4 || taken.values().sum::<usize>() >= self.most {
            return Err(Problem::Streams);
        }
        taken.insert(view, own + 1);
        Ok(Permit { of: Arc::clone(self), view })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = lock(&self.of.taken);
        let left = taken.get(&self.view).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            taken.remove(&self.view);
        } else {
            taken.insert(self.view, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_some_to_the_others() {
        let places = RecorderSlots::new(8);
        let take = |view: View| -> Result<Vec<Permit>, Problem> { (0..2).map(|_| places.take(view)).collect() };
        let first = [View::User(7), View::User(8), View::User(9)].map(|view| take(view).expect("a quarter"));
        assert_eq!(places.take(View::User(7)).err(), Some(Problem::Streams));
        let last = take(View::Whole).expect("the last");
        assert_eq!(places.take(View::User(10)).err(), Some(Problem::Streams));
        drop(last);
        assert!(places.take(View::User(10)).is_ok());
        drop(first);
        assert!(take(View::Whole).is_ok() && lock(&places.taken).is_empty());
    }
}
