//! A simulated program's buffers: what it tells the client library, so that its ledger adds up to what the plan says.

use ttmon_model::{Kind, PerKind};

use crate::chip::Chip;

/// Buffers begin at multiples of this.
const ALIGNMENT: u64 = 32;
/// How TT-Metal numbers the kinds of buffers.
const BUFFER_TYPES: [(Kind, u8); 4] = [(Kind::Dram, 0), (Kind::L1, 1), (Kind::L1Small, 3), (Kind::Trace, 4)];

/// The live buffers of a process on one chip.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    live: PerKind<Vec<(u64, u64)>>,
    next: u64,
}

impl Buffers {
    /// Allocates and frees until the chip's memory is what the plan says; the first time in `pieces`.
    pub(crate) fn become_like(&mut self, chip: &Chip, used: &PerKind<u64>, pieces: u64) {
        let Ok(device) = i32::try_from(chip.id) else { return };
        for (kind, buffer_type) in BUFFER_TYPES {
            self.adjust(
                kind,
                used[kind],
                pieces,
                &|address, size| {
                    ttmon_client::report_allocation(device, size, buffer_type, address);
                },
                &|address, _| {
                    ttmon_client::report_deallocation(device, address);
                },
            );
        }
        self.adjust(
            Kind::Cb,
            used[Kind::Cb],
            pieces,
            &|address, size| {
                ttmon_client::report_cb_allocation(device, size, address);
            },
            &|address, size| {
                ttmon_client::report_cb_deallocation(device, size, address);
            },
        );
    }

    fn adjust(&mut self, kind: Kind, wanted: u64, pieces: u64, allocate: &dyn Fn(u64, u64), free: &dyn Fn(u64, u64)) {
        let is_first = self.live[kind].is_empty();
        let mut sum: u64 = self.live[kind].iter().map(|(_, size)| size).sum();
        // What goes is what came last, as activations do; weights stay.
        while sum > wanted {
            let Some((address, size)) = self.live[kind].pop() else { break };
            free(address, size);
            sum -= size;
        }
        let _tag = ttmon_client::tag(if is_first { "weights" } else { "activations" });
        let piece = if is_first { (wanted / pieces.max(1)).max(1 << 16) } else { u64::MAX };
        while sum < wanted {
            let size = piece.min(wanted - sum);
            allocate(self.next, size);
            self.live[kind].push((self.next, size));
            self.next += size.next_multiple_of(ALIGNMENT);
            sum += size;
        }
    }
}
