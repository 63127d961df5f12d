//! Records what TT-Metal refuses a program: memory, or circular buffers that overlap an L1 buffer.

use ttmon_client::hooked;
use ttmon_ledger::layout::{Refused, failure};
use ttmon_ledger::writer::{Failure, Session};

use crate::geometry::Statistics;
use crate::operation;
use crate::stack::Requester;
use crate::tables::Allocator;

pub(crate) struct RefusedRequest<'a> {
    pub(crate) what: Refused,
    pub(crate) kind: u8,
    /// Requested bytes, in total and per bank; 0 if unknown.
    pub(crate) size: u64,
    pub(crate) per_bank: u64,
    /// The allocator's own statistics of the kind.
    pub(crate) statistics: Statistics,
    pub(crate) requester: Requester,
    /// The text of the exception.
    pub(crate) message: &'a [u8],
}

impl RefusedRequest<'_> {
    pub(crate) fn record(&self, session: &mut Session<'_>, known: &Allocator) {
        let mut words = [0; failure::MESSAGE_BYTES];
        let operation = operation::name_number(session, self.requester.name.as_ref());
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
            stack: self.requester.stack,
            message: words_of(self.message, &mut words),
        });
    }
}

/// Precedes the sentence in `TT_FATAL @ file:line: condition\ninfo:\nsentence\nbacktrace:\n...`.
const BEFORE: &[u8] = b"info:\n";

/// Returns the readable sentence of an exception of TT-Metal, without source location and backtrace, up to the first invalid byte or the
/// limit.
fn words_of<'a>(message: &[u8], into: &'a mut [u8]) -> &'a str {
    let start = message.windows(BEFORE.len()).position(|window| window == BEFORE).map_or(0, |at| at + BEFORE.len());
    let rest = message.get(start..).unwrap_or_default();
    let sentence = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut length = 0;
    for (to, from) in into.iter_mut().zip(sentence) {
        *to = *from;
        length += 1;
    }
    let bytes = into.get(..length).unwrap_or_default();
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &str) {
        assert_eq!(words_of(message.as_bytes(), &mut [0; 24]), expected);
    }

    #[test]
    fn the_sentence_stands_between_place_and_stack() {
        check("TT_FATAL @ a.cpp:7: false\ninfo:\nOut of Memory: no\nbacktrace:\n --- x", "Out of Memory: no");
        check("Out of Memory", "Out of Memory");
        check("info:\n", "");
        check("", "");
        check(&"x".repeat(99), &"x".repeat(24));
        check(&"\u{1F9E0}".repeat(9), &"\u{1F9E0}".repeat(6));
    }
}
