//! The budget of a scan, charged to one process.

use std::path::Path;

use crate::budget::{Budget, Grant, Resource};
use crate::process;

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
