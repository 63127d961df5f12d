//! The meaning of the numbers in a ledger.

use ttmon_ledger::layout::{KINDS, WriterKind, kind, origin};
use ttmon_model::Kind;
use ttmon_model::ledger::{BufferKind, LedgerWriter};

use super::bytes::position;

/// Returns the kind for a number in the ledger.
#[inline]
pub fn buffer_kind(number: u8) -> BufferKind {
    match number {
        kind::DRAM => BufferKind::Of(Kind::Dram),
        kind::L1 => BufferKind::Of(Kind::L1),
        kind::L1_SMALL => BufferKind::Of(Kind::L1Small),
        kind::TRACE => BufferKind::Of(Kind::Trace),
        kind::CB => BufferKind::Of(Kind::Cb),
        kind::KERNEL => BufferKind::Of(Kind::Kernel),
        kind::HOST => BufferKind::Host,
        _ => BufferKind::Other,
    }
}

/// Returns the number of a kind in the ledger.
pub(super) fn kind_number(kind: BufferKind) -> u8 {
    match kind {
        BufferKind::Of(Kind::Dram) => kind::DRAM,
        BufferKind::Of(Kind::L1) => kind::L1,
        BufferKind::Of(Kind::L1Small) => kind::L1_SMALL,
        BufferKind::Of(Kind::Trace) => kind::TRACE,
        BufferKind::Of(Kind::Cb) => kind::CB,
        BufferKind::Of(Kind::Kernel) => kind::KERNEL,
        BufferKind::Host => kind::HOST,
        BufferKind::Other => kind::OTHER,
    }
}

/// Returns the allocator and the kind of a row.
#[inline]
pub(super) fn place_of(row: u16) -> (u16, u8) {
    const _: () = assert!(KINDS == 8);
    (row / 8, row.to_le_bytes()[0] % 8)
}

/// Returns the number of a row.
#[inline]
pub(super) fn row_index(allocator: u16, kind: u8) -> usize {
    position(u64::from(allocator) * u64::from(KINDS) + u64::from(kind))
}

/// Returns the writer that reports an allocator.
pub(super) fn origin_writer(number: u32) -> LedgerWriter {
    match number {
        origin::CLIENT => LedgerWriter::Client,
        origin::HOOK => LedgerWriter::Hook,
        origin::SOCKET => LedgerWriter::Service,
        _ => LedgerWriter::Unknown,
    }
}

/// Returns the writer of a ledger.
pub(super) fn ledger_writer(kind: Option<WriterKind>) -> LedgerWriter {
    match kind {
        Some(WriterKind::Client) => LedgerWriter::Client,
        Some(WriterKind::Hook) => LedgerWriter::Hook,
        Some(WriterKind::Service) => LedgerWriter::Service,
        None => LedgerWriter::Unknown,
    }
}
