//! Records what TT-Metal refuses a program: memory, or circular buffers that overlap an L1 buffer.

use ttmon_client::hooked;
use ttmon_ledger::layout::{Refused, failure};
use ttmon_ledger::writer::{Failure, Session};

use crate::geometry::Statistics;
use crate::message::words_of;
use crate::operation;
use crate::stack::Origin;
use crate::tables::Allocator;

pub(crate) struct RefusedRequest<'a> {
    pub(crate) what: Refused,
    pub(crate) kind: u8,
    /// Requested bytes, in total and per bank; 0 if unknown.
    pub(crate) size: u64,
    pub(crate) per_bank: u64,
    /// The allocator's own statistics of the kind.
    pub(crate) statistics: Statistics,
    pub(crate) origin: Origin,
    /// The text of the exception.
    pub(crate) message: &'a [u8],
}

impl RefusedRequest<'_> {
    pub(crate) fn record(&self, session: &mut Session<'_>, known: &Allocator) {
        let mut words = [0; failure::MESSAGE_BYTES];
        let operation = operation::number(session, self.origin.name.as_ref());
        session.failed(&Failure {
            what: self.what,
            allocator: known.id,
            kind: self.kind,
            size: self.size,
            per_bank: self.per_bank,
            banks: known.description.geometry.kinds.get(usize::from(self.kind)).map_or(0, |kind| kind.banks),
            free_per_bank: self.statistics.free,
            largest_free_per_bank: self.statistics.largest_free,
            tag: hooked::tag(session),
            operation,
            stack: self.origin.stack,
            message: words_of(self.message, &mut words),
        });
    }
}
