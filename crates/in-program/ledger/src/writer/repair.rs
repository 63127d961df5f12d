//! Repairs the ledger after a thread died in the middle of an event: all figures are counted again from the entries.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{KINDS, Op, ROWS, entry, header, row, status};

use super::event::{Event, EventBody, creation_of, row_of};
use super::index;
use super::memory::low;
use super::state::WriterState;

/// Figures of a row that are computed from the entries.
pub(super) const COUNTED: [u64; 5] =
    [row::LIVE_BYTES, row::ALLOCATED_BYTES, row::UNLISTED_COUNT, row::UNLISTED_BYTES, row::UNLISTED_ALLOCATED];

impl WriterState {
    /// Whether an event is incomplete.
    #[inline]
    pub(super) fn is_half_done(&self) -> bool {
        self.region.header(header::SEQ).load(Relaxed) & 1 == 1
    }

    /// Completes the event of a thread that died. Called by the thread that gets the lock next, or by `Drop` during a panic.
    #[cold]
    pub(super) fn repair(&self, time: u64) {
        if self.is_half_done() {
            self.rebuild(time);
        }
    }

    /// Counts everything again, and rebuilds the writer's private data: index and free slots.
    pub(super) fn rebuild(&self, time: u64) {
        // An incomplete event keeps its number, because `begin` rounds down. If there is none, this is a new event.
        let event = self.begin(time);
        let rows = self.rows_ever_used();
        for number in 0..rows {
            let row = self.region.row(number);
            for field in COUNTED {
                row.set(field, 0);
            }
            self.counted(number).store(0, Relaxed);
        }
        self.index.clear();
        let entries = low(self.region.header(header::ENTRIES_USED).load(Relaxed)).min(self.region.capacity);
        let unlisted = self.overflow.used.load(Relaxed);
        self.overflow.clear_free();
        self.dead.store(0, Relaxed);
        for slot in (0..entries).rev() {
            self.recount_slot(slot);
        }
        for number in (0..unlisted).rev() {
            self.recount_slot(number + self.region.capacity);
        }
        self.recount_circulars();
        let (mut count, mut bytes) = (0, 0);
        for number in 0..rows {
            self.settle_row(event, number);
            self.raise_left(event, number);
            let row = self.region.row(number);
            count += row.count();
            bytes += row.get(row::LIVE_BYTES);
        }
        self.raise_all_shared(event);
        self.finish_mark(event);
        self.region.header(header::LIVE_ENTRIES).store(count, Relaxed);
        self.region.header(header::LIVE_BYTES).store(bytes, Relaxed);
        self.region.count(header::REPAIRS);
        self.mark_status(status::REPAIRED);
        self.end(event, Op::Repair, &EventBody::default());
    }

    fn rows_ever_used(&self) -> usize {
        let allocators = low(self.region.header(header::ALLOCATORS_USED).load(Relaxed));
        (allocators.saturating_add(1).saturating_mul(KINDS)).min(ROWS.records) as usize
    }

    fn recount_slot(&self, slot: u32) {
        let record = self.record_in(slot);
        if creation_of(record).is_none() {
            // WRITING is an allocation that was never completed.
            record.publish(entry::STATE, u64::from(entry::FREE));
            self.give_slot(slot);
            return;
        }
        if !self.is_live(record) {
            self.dead.store(self.dead.load(Relaxed) + 1, Relaxed);
            return;
        }
        let number = row_of(record);
        let size = record.get(entry::SIZE);
        let allocated = self.allocated(number, size, low(record.get(entry::PER_BANK)));
        let row = self.region.row(number);
        self.counted(number).fetch_add(1, Relaxed);
        row.add(row::LIVE_BYTES, size);
        row.add(row::ALLOCATED_BYTES, allocated);
        if !self.is_listed(slot) {
            row.add(row::UNLISTED_COUNT, 1);
            row.add(row::UNLISTED_BYTES, size);
            row.add(row::UNLISTED_ALLOCATED, allocated);
        }
        self.index.put(index::hash(number, record.get(entry::ADDRESS)), slot);
    }

    fn settle_row(&self, event: Event, number: usize) {
        let row = self.region.row(number);
        let count = self.counted(number).load(Relaxed);
        let allocs = row.get(row::ALLOCS).max(row.get(row::FREES).wrapping_add(count));
        row.set(row::ALLOCS, allocs);
        row.set(row::FREES, allocs.wrapping_sub(count));
        self.raise_peaks(event, row, row.get(row::LIVE_BYTES), row.get(row::ALLOCATED_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use std::{mem, ptr, thread};

    use crate::layout::{Lost, WriterKind, circular};

    use super::super::{AllocatorId, AllocatorSpec, Buffer, Circular, ClockChoice, Config, Key, KindGeometry, LiveBuffer, Writer};
    use super::*;

    fn writer() -> (Writer, AllocatorId) {
        let config = Config { kind: WriterKind::Client, version: "", clock: ClockChoice::Auto, machine: 1, on_created: None };
        let writer = Writer::beside_others(config, 1024);
        let spec = AllocatorSpec { given_id: 0, origin: 1, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips: &[] };
        let id = writer.session().expect("session").open_allocator(&spec).expect("allocator");
        for address in 0..10 {
            let buffer = Buffer { size: 100, ..Buffer::default() };
            writer.session().expect("session").insert(Key { allocator: id, kind: 0, address }, &buffer).expect("room");
        }
        (writer, id)
    }

    /// Leaves an incomplete allocation and wrong totals, like a thread that dies within an event.
    fn leave_half_done(state: &WriterState) {
        state.begin(1);
        let slot = state.take_slot().expect("slot");
        state.record_in(slot).withdraw(entry::STATE, u64::from(entry::WRITING));
        state.region.row(0).set(row::LIVE_BYTES, 77);
        state.region.row(0).add(row::ALLOCS, 1);
    }

    fn check_repaired(writer: &Writer, id: AllocatorId) {
        let mut session = writer.session().expect("session");
        let state = session.state;
        assert!(!state.is_half_done());
        let row = state.region.row(0);
        assert_eq!([row.get(row::LIVE_BYTES), row.count(), row.get(row::PEAK)], [1000, 10, 1000]);
        assert_eq!(state.region.header(header::REPAIRS).load(Relaxed), 1);
        assert_eq!(state.region.header(header::STATUS).load(Relaxed) & status::REPAIRED, status::REPAIRED);
        let done = state.region.header(header::SEQ).load(Relaxed) / 2;
        assert_eq!(state.region.event(done)[2].load(Relaxed) >> 56, Op::Repair as u64);
        assert_eq!(session.find(Key { allocator: id, kind: 0, address: 3 }), Some(LiveBuffer { size: 100, refs: 1 }));
        assert_eq!(session.remove(Key { allocator: id, kind: 0, address: 9 }), Some(100));
        assert_eq!(state.take_slot(), Some(9), "free slots are known again");
    }

    #[test]
    fn a_thread_that_ended_inside_an_event_is_repaired() {
        let (writer, id) = writer();
        thread::scope(|scope| {
            scope.spawn(|| {
                let session = writer.session().expect("session");
                leave_half_done(session.state);
                mem::forget(session);
            });
        });
        check_repaired(&writer, id);
    }

    #[test]
    fn a_panic_inside_an_event_is_repaired() {
        let (writer, id) = writer();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let session = writer.session().expect("session");
            leave_half_done(session.state);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        check_repaired(&writer, id);
    }

    /// An incomplete circular buffer, a partly removed program, and a mark that two of three rows have.
    #[test]
    fn incomplete_programs_and_marks_are_repaired() {
        let (writer, id) = writer();
        let circular = |program| Circular {
            allocator: id,
            chip: None,
            program,
            address: 0,
            size: 64,
            cores: [0; 4],
            is_dataflow: false,
            is_global: false,
        };
        let mut session = writer.session().expect("session");
        session.insert(Key { allocator: id, kind: 1, address: 1 }, &Buffer { size: 7, ..Buffer::default() }).expect("room");
        for program in 1..4 {
            session.add_circular(&circular(program)).expect("room");
        }
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let state = session.state;
            let event = state.begin(9);
            state.region.circular(1, circular::STATE).store(u64::from(entry::FREE), Relaxed);
            state.region.circular(3, circular::STATE).store(u64::from(entry::WRITING), Relaxed);
            state.region.header(header::CIRCULARS_USED).store(4, Relaxed);
            state.region.header(header::MARK_EVENT).store(event.n, Relaxed);
            state.region.row(0).set(row::MARK_BYTES, 1000);
            state.region.row(0).set(row::MARK_EVENT, event.n);
            drop(session);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        let mut session = writer.session().expect("session");
        let state = session.state;
        let states = |slot| state.region.circular(slot, circular::STATE).load(Relaxed).to_le_bytes()[0];
        assert_eq!([0, 1, 2, 3].map(states), [entry::LIVE, entry::FREE, entry::LIVE, entry::FREE]);
        let marked = |number: usize| [row::MARK_BYTES, row::MARK_COUNT].map(|field| state.region.row(number).get(field));
        assert_eq!((marked(0)[0], marked(1)), (1000, [7, 1]), "the second row got its mark");
        session.remove_program(3);
        assert_eq!([0, 2].map(states), [entry::LIVE, entry::FREE], "chains are made anew");
        session.add_circular(&circular(8)).expect("room");
        session.add_circular(&circular(9)).expect("room");
        assert_eq!(state.region.header(header::CIRCULARS_USED).load(Relaxed), 4, "free records are known again");
    }

    #[test]
    fn a_complete_event_needs_no_repair() {
        let (writer, _) = writer();
        thread::scope(|scope| {
            scope.spawn(|| mem::forget(writer.session().expect("session")));
        });
        let session = writer.session().expect("session");
        assert_eq!(session.state.region.header(header::REPAIRS).load(Relaxed), 0);
        assert_eq!(session.state.region.header(header::LOST + Lost::Reentry as u64 * 8).load(Relaxed), 0);
    }

    unsafe extern "C-unwind" {
        /// A cancellation point: the forced unwinding of a cancelled thread starts here.
        #[link_name = "pause"]
        fn wait_for_cancellation() -> libc::c_int;
    }

    extern "C-unwind" fn wait_inside(writer: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the test keeps the writer until this thread is joined.
        let session = unsafe { &*writer.cast::<Writer>() }.session().expect("session");
        leave_half_done(session.state);
        // SAFETY: no preconditions.
        unsafe { wait_for_cancellation() };
        drop(session);
        ptr::null_mut()
    }

    #[test]
    fn a_thread_cancelled_inside_an_event_is_repaired() {
        let (writer, id) = writer();
        let mut thread: libc::pthread_t = 0;
        // SAFETY: the function takes and returns a pointer. It may be unwound, which the C type does not express. The thread is joined
        // before the writer is dropped.
        unsafe {
            let start: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void =
                mem::transmute(wait_inside as extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void);
            let argument = ptr::from_ref(&writer).cast_mut().cast();
            assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), start, argument), 0);
            while !writer.state().is_some_and(WriterState::is_half_done) {
                thread::yield_now();
            }
            assert_eq!(libc::pthread_cancel(thread), 0);
            assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
        }
        check_repaired(&writer, id);
    }
}
