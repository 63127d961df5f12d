//! The limits of one scan on resources that other users control.
//!
//! A user can start thousands of processes, open a million files and write any ledger. Reading all that would delay the scan and fill our
//! memory. So a scan has a limit for each resource, and each user has a share. Items over the limit are not read. They are counted and
//! reported.

use std::collections::BTreeMap;
use std::path::Path;

use ttmon_model::limits::{ANSWER_PARTS, SCAN_LIMITS, SCAN_SHARE, SCAN_UNNAMED};
use ttmon_model::sample::Problem;

use crate::process;

/// A resource that other users can make large. Each is a row of [`SCAN_LIMITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Processes,
    /// Open files listed during the search for a ledger.
    Descriptors,
    /// Bytes of `/proc/PID/maps`.
    MapBytes,
    /// Files of TT-Metal's statistics.
    Regions,
    /// Pids named in TT-Metal's statistics.
    RegionPids,
    Ledgers,
    Allocators,
    Buffers,
    Circulars,
    /// Bytes of names in the `/dev/shm` of containers.
    Names,
    Chips,
}

/// A granted amount. An unused part can be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    resource: Resource,
    amount: u64,
    uid: Option<u32>,
}

/// The resources that one scan has used.
#[derive(Debug)]
pub struct Budget {
    spent: [u64; SCAN_LIMITS.len()],
    users: BTreeMap<u32, [u64; SCAN_LIMITS.len()]>,
    /// Root and the user who runs ttmon. Only the totals limit them, not the shares.
    trusted: [u32; 2],
    /// The number of parts into which the share of each user is divided.
    parts: u64,
    cut: BTreeMap<(u32, Resource), u64>,
}

/// The budget of a scan by the user who runs this program.
impl Default for Budget {
    fn default() -> Self {
        Self::new(rustix::process::geteuid().as_raw())
    }
}

impl Budget {
    /// Creates the budget of a scan by the user `own`.
    pub fn new(own: u32) -> Self {
        Self { spent: Default::default(), users: BTreeMap::new(), trusted: [0, own], parts: 1, cut: BTreeMap::new() }
    }

    /// Creates the budget of one answer. A service may hold several answers at once, so each user gets only a part of the share.
    pub fn of_answer() -> Self {
        Self { parts: ANSWER_PARTS, ..Self::default() }
    }

    /// Takes an amount if the total and the user's share allow it. `uid` is called only when the part charged to no user is spent.
    pub(crate) fn take(&mut self, resource: Resource, amount: u64, uid: impl FnOnce() -> u32) -> Option<Grant> {
        let index = resource as usize;
        let total = SCAN_LIMITS[index].total;
        let spent = self.spent[index].saturating_add(amount);
        if spent <= total / (SCAN_UNNAMED * self.parts) {
            self.spent[index] = spent;
            return Some(Grant { resource, amount, uid: None });
        }
        let uid = uid();
        let is_trusted = self.trusted.contains(&uid);
        let share = total / (SCAN_SHARE * self.parts);
        let own = &mut self.users.entry(uid).or_default()[index];
        if spent > total || (!is_trusted && own.saturating_add(amount) > share) {
            return None;
        }
        *own += amount;
        self.spent[index] = spent;
        Some(Grant { resource, amount, uid: Some(uid) })
    }

    /// Takes an amount. If the limit does not allow that, counts one item of this user as not read.
    pub(crate) fn take_or_cut(&mut self, resource: Resource, amount: u64, uid: u32) -> bool {
        let is_granted = self.take(resource, amount, || uid).is_some();
        if !is_granted {
            self.cut(uid, resource, 1);
        }
        is_granted
    }

    /// Returns the unused part of a grant to the budget.
    pub(crate) fn give_back(&mut self, grant: Grant, unused: impl FnOnce(u64) -> u64) {
        let index = grant.resource as usize;
        let unused = unused(grant.amount).min(grant.amount);
        self.spent[index] -= unused;
        if let Some(own) = grant.uid.and_then(|uid| self.users.get_mut(&uid)) {
            own[index] -= unused;
        }
    }

    /// Counts items that were not read because of a limit.
    pub(crate) fn cut(&mut self, uid: u32, resource: Resource, count: u64) {
        // The process has ended, so the item belongs to no user.
        if uid == process::NOBODY {
            return;
        }
        *self.cut.entry((uid, resource)).or_default() += count;
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cut.values().sum()
    }

    /// Returns one problem for each user and resource with items that were not read.
    pub fn problems(&self, name_of: impl Fn(u32) -> Option<String>) -> Vec<Problem> {
        let problem = |((uid, resource), count): (&(u32, Resource), &u64)| {
            let (name, is_trusted) = (name_of(*uid), self.trusted.contains(uid));
            SCAN_LIMITS[*resource as usize].problem(Some((*uid, name.as_deref())), is_trusted, self.parts, *count)
        };
        self.cut.iter().map(problem).collect()
    }
}

/// Charges the user of a process. The user is determined once, and only if needed.
pub(crate) struct ProcessCharge<'b> {
    budget: &'b mut Budget,
    proc: &'b Path,
    pid: u32,
    uid: Option<u32>,
}

impl<'b> ProcessCharge<'b> {
    pub(crate) fn new(proc: &'b Path, pid: u32, budget: &'b mut Budget) -> Self {
        Self { budget, proc, pid, uid: None }
    }

    pub(crate) fn uid(&mut self) -> u32 {
        *self.uid.get_or_insert_with(|| process::uid_of(self.proc, self.pid))
    }

    pub(crate) fn take(&mut self, resource: Resource, amount: u64) -> Option<Grant> {
        let (proc, pid, uid) = (self.proc, self.pid, &mut self.uid);
        self.budget.take(resource, amount, || *uid.get_or_insert_with(|| process::uid_of(proc, pid)))
    }

    /// Takes an amount. If the limit does not allow that, counts one item of the process as not read.
    pub(crate) fn take_or_cut(&mut self, resource: Resource, amount: u64) -> bool {
        let is_granted = self.take(resource, amount).is_some();
        if !is_granted {
            let uid = self.uid();
            self.budget.cut(uid, resource, 1);
        }
        is_granted
    }
}

/// A budget with this amount of each resource left for this user.
#[cfg(test)]
pub(crate) fn exhausted(uid: u32, left: u64) -> Budget {
    let mut budget = Budget::new(0);
    for (index, limit) in SCAN_LIMITS.iter().enumerate() {
        budget.spent[index] = limit.total / SCAN_UNNAMED + (limit.total / SCAN_SHARE).saturating_sub(left);
        budget.users.entry(uid).or_default()[index] = (limit.total / SCAN_SHARE).saturating_sub(left);
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmon_model::limits::{DERIVE_LIMIT, grouped};

    const TOTAL: u64 = SCAN_LIMITS[Resource::Descriptors as usize].total;

    fn take_all(budget: &mut Budget, uid: u32, amount: u64) -> u64 {
        (0..).take_while(|_| budget.take(Resource::Descriptors, amount, || uid).is_some()).count() as u64 * amount
    }

    #[test]
    fn little_is_spent_without_a_name() {
        let mut budget = Budget::new(1000);
        let amount = TOTAL / SCAN_UNNAMED;
        assert!(budget.take(Resource::Descriptors, amount, || panic!("nobody has to know")).is_some());
        let mut is_asked = false;
        assert!(
            budget
                .take(Resource::Descriptors, 1, || {
                    is_asked = true;
                    7
                })
                .is_some()
        );
        assert!(is_asked);
    }

    #[test]
    fn several_users_leave_something_to_the_rest() {
        let mut budget = Budget::new(1000);
        let first = take_all(&mut budget, 1, 64);
        assert_eq!(first, TOTAL / SCAN_UNNAMED + TOTAL / SCAN_SHARE);
        assert_eq!(take_all(&mut budget, 2, 64), TOTAL / SCAN_SHARE);
        assert_eq!(take_all(&mut budget, 1, 1), 0);
        assert!(take_all(&mut budget, 3, 64) > 0);
        assert!(budget.take(Resource::MapBytes, 1, || 1).is_some(), "another resource");
    }

    #[test]
    fn root_and_the_own_user_have_the_total() {
        for uid in [0, 1000] {
            assert_eq!(take_all(&mut Budget::new(1000), uid, 64), TOTAL);
        }
    }

    #[test]
    fn an_answer_has_a_part_of_the_share() {
        let mut budget = Budget { parts: ANSWER_PARTS, ..Budget::new(1000) };
        assert_eq!(take_all(&mut budget, 1, 64), (TOTAL / SCAN_UNNAMED + TOTAL / SCAN_SHARE) / ANSWER_PARTS);
        assert!(take_all(&mut budget, 1000, 64) > TOTAL / 2);
    }

    #[test]
    fn a_returned_share_can_be_taken_again() {
        let mut budget = Budget::new(1000);
        take_all(&mut budget, 1, 64);
        let share = TOTAL / SCAN_SHARE;
        let grant = budget.take(Resource::Descriptors, share, || 2).expect("a share");
        assert!(budget.take(Resource::Descriptors, 1, || 2).is_none());
        budget.give_back(grant, |_| 10);
        assert!(budget.take(Resource::Descriptors, 10, || 2).is_some());
        assert!(budget.take(Resource::Descriptors, 1, || 2).is_none());
    }

    #[test]
    fn the_cut_user_is_named() {
        let mut budget = Budget::new(1000);
        budget.cut(1001, Resource::Descriptors, 139);
        budget.cut(1001, Resource::Descriptors, 1);
        budget.cut(1002, Resource::Circulars, 3);
        let problems = budget.problems(|uid| (uid == 1001).then(|| "ana".to_owned()));
        let lines: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.part, problem.detail)).collect();
        assert_eq!(lines[0], "user 1001 (ana): cut at 65,536 descriptors; 140 processes were not examined");
        assert!(lines[1].starts_with("user 1002: cut at "), "{lines:?}");
        assert_eq!(budget.cuts(), 143);
    }

    /// The table in the documentation has the same limits.
    #[test]
    fn limits_are_documented() {
        let page = include_str!("../../../../docs/security.md");
        for limit in SCAN_LIMITS.iter().chain([&DERIVE_LIMIT]) {
            let row = format!("| {} | {} | {} | {} |", limit.noun, grouped(limit.total), grouped(limit.total / SCAN_SHARE), limit.why);
            assert!(page.contains(&row), "docs/security.md lacks: {row}");
        }
    }
}
