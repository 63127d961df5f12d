//! Events of a flight recorder: changes of a process's memory, and refused allocations.

use std::sync::Arc;

use crate::identity::DeviceId;
use crate::ledger::BufferKind;
use crate::room::{HeldByLine, SmallRegion, Verdict, Window};
use crate::stack::SourceLine;
use crate::units::{UnixTime, size};

/// One change of a process's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferEvent {
    /// Time of the event, if known.
    pub time: Option<UnixTime>,
    /// The process.
    pub pid: u32,
    /// Number of the event in the process's recorder. `None` if the event does not come from the recorder.
    pub number: Option<u64>,
    /// Type of the event.
    pub op: Op,
    /// Kind of memory, if the event concerns memory.
    pub kind: Option<BufferKind>,
    /// The allocator's id.
    pub allocator: Option<String>,
    /// The allocator's chips that are on a row.
    pub devices: Vec<DeviceId>,
    /// The ids of the allocator's other chips.
    pub unmapped: Vec<u64>,
    /// Address of the buffer.
    pub address: Option<u64>,
    /// Size of the buffer in bytes.
    pub size: Option<u64>,
    /// References after the event.
    pub refs: Option<u64>,
    /// The program that a circular buffer belongs to.
    pub program: Option<u64>,
    /// The tag that was active at the event.
    pub tag: Option<String>,
    /// Number of earlier events that were lost.
    pub overrun: Option<u64>,
    /// Details of the refusal. Only the most recent refusals have them.
    pub refusal: Option<Refusal>,
    /// The line that requested the buffer.
    pub line: Option<Arc<SourceLine>>,
}

crate::named! {
    /// Type of an event. Added and removed references have the same name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Op {
        /// A buffer was allocated, or a program got circular buffers.
        Alloc = "alloc",
        /// A buffer was freed, or a program released its circular buffers.
        Free = "free",
        /// A reference was added.
        Ref = "ref",
        /// A reference was removed.
        Unref = "ref",
        /// All buffers of a kind were freed.
        FreeAll = "free_all",
        /// An allocation failed: out of memory.
        OutOfMemory = "oom",
        /// Circular buffers would have overlapped L1 buffers.
        Clash = "clash",
        /// An allocator was opened.
        Open = "open",
        /// An allocator was closed.
        Close = "close",
        /// The program set a mark.
        Mark = "mark",
        /// The process ended.
        Exit = "exit",
        /// The process executed another program.
        Exec = "exec",
        /// Earlier events were lost.
        Overrun = "overrun",
    }
}

impl BufferEvent {
    /// Describes the devices of the event.
    pub fn place(&self) -> String {
        match (self.devices.as_slice(), self.unmapped.as_slice()) {
            _ if self.allocator.is_none() => "an unknown device".to_owned(),
            ([only], []) => format!("device {only}"),
            ([], [only]) => format!("chip {only} (on no device here)"),
            ([], _) => "chips on no device here".to_owned(),
            (devices, _) => format!("devices {}", devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

/// A refused request: its size, the free memory, and the buffers that prevented it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Type of the refusal.
    pub what: Refused,
    /// Kind of the memory.
    pub kind: BufferKind,
    /// Requested bytes.
    pub size: u64,
    /// Number of banks, or 0 if unknown.
    pub banks: u64,
    /// Requested bytes per bank, or 0 if unknown.
    pub per_bank: u64,
    /// Free bytes of a bank.
    pub free_per_bank: u64,
    /// The largest free block of a bank.
    pub largest_free_per_bank: u64,
    /// The largest live buffers of that kind, largest first.
    pub largest: Vec<Large>,
    /// The operation that made the request.
    pub operation: String,
    /// The error message that the program received.
    pub message: String,
    /// The line that made the request.
    pub line: Option<Arc<SourceLine>>,
    /// Bytes of a bank, or 0 if unknown.
    pub bank_bytes: u64,
    /// The smallest set of buffers to release to make room, if the live buffers are known. For a clash: the L1 buffers below the end of the
    /// circular buffers.
    pub window: Option<Window>,
    /// For a clash: the region for small buffers.
    pub l1_small: Option<SmallRegion>,
    /// Whether too many events followed, so that the buffers that were live at the refusal are unknown.
    pub is_overrun: bool,
}

/// Type of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Out of memory.
    OutOfMemory,
    /// Circular buffers would have overlapped L1 buffers.
    Clash,
}

/// A live buffer that took space at the refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large {
    /// The address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// The bytes per bank, or 0 if unknown.
    pub per_bank: u64,
    /// The tag.
    pub tag: String,
    /// The operation that created the buffer.
    pub operation: String,
    /// The line that requested the buffer.
    pub line: Option<Arc<SourceLine>>,
}

impl Refusal {
    /// Returns whether the free memory would have been enough in one block. Returns `None` if the request per bank is unknown.
    pub fn fits_without_fragmentation(&self) -> Option<bool> {
        (self.what == Refused::OutOfMemory && self.per_bank > 0).then_some(self.per_bank <= self.free_per_bank)
    }

    /// Returns why the request failed. Returns `None` if the request per bank is unknown, or if a block of that size was free.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.what != Refused::OutOfMemory || self.per_bank == 0 {
            return None;
        }
        match self.per_bank {
            asked if self.bank_bytes > 0 && asked > self.bank_bytes => Some(Verdict::NeverFits),
            asked if asked > self.free_per_bank => Some(Verdict::Full),
            asked if asked > self.largest_free_per_bank => Some(Verdict::Fragmented),
            _ => None,
        }
    }

    /// Returns the buffers to release: `; releasing 4.8MB per bank makes room: 3 buffers of models/vae.py:12 decode`, if known.
    fn in_the_way(&self) -> String {
        let Some(window) = &self.window else {
            return if self.is_overrun { "; what was live then is not known (ring overrun)".to_owned() } else { String::new() };
        };
        let (bytes, lines) = (size(window.bytes), HeldByLine::list(&window.lines));
        match self.what {
            Refused::OutOfMemory => format!("; releasing {bytes} per bank makes room: {lines}"),
            Refused::Clash => format!("; in the way: {lines} ({bytes} per core)"),
        }
    }

    /// Returns the remedies for a clash: release the L1 buffers in the way, or reduce `l1_small_size`, which moves L1 buffers up.
    fn levers(&self, over: u64) -> String {
        let mut text = self.in_the_way();
        if let Some(small) = self.l1_small.filter(|small| small.bytes.saturating_sub(small.used) >= over) {
            text += &format!(
                "; l1_small_size is {} with {} in use: reducing it by {} makes room",
                size(small.bytes),
                size(small.used),
                exact_size(over)
            );
        }
        text
    }

    /// Returns the bytes by which circular buffers overlap an L1 buffer, or exceed a core's memory.
    pub fn bytes_over(&self) -> Option<u64> {
        if self.what != Refused::Clash {
            return None;
        }
        clash_addresses(&self.message).or_else(|| clash_limit(&self.message)).map(|(first, end)| end - first)
    }

    /// Describes the refusal in one line. `place` names the devices.
    pub fn words(&self, place: &str) -> String {
        match self.what {
            Refused::OutOfMemory => self.out_of_memory(place),
            Refused::Clash => self.clash(place),
        }
    }

    /// Returns ` at models/decoder.py:42 Decoder.forward`, if known.
    fn at(&self) -> String {
        self.line.as_ref().map_or_else(String::new, |line| format!(" at {line}"))
    }

    fn out_of_memory(&self, place: &str) -> String {
        let kind = self.kind.name().to_uppercase();
        let mut text = format!("asked {} {kind} on {place}{}", size(self.size), self.at());
        if self.per_bank == 0 || self.banks == 0 {
            return text;
        }
        let banks = if self.banks == 1 { "in one bank".to_owned() } else { format!("in each of {} banks", self.banks) };
        text += &format!(
            " ({} {banks}): {} free per bank, largest block {}: ",
            size(self.per_bank),
            size(self.free_per_bank),
            size(self.largest_free_per_bank)
        );
        text += &match self.per_bank {
            asked if self.bank_bytes > 0 && asked > self.bank_bytes => format!("can never fit, a bank has {}", size(self.bank_bytes)),
            // The allocator's reason is unknown, so none is given.
            asked if asked <= self.largest_free_per_bank => "there is a block of that size".to_owned(),
            asked if asked <= self.free_per_bank => "would fit if not fragmented".to_owned(),
            asked => format!("{} per bank too little is free", size(asked - self.free_per_bank)),
        };
        text + &self.in_the_way()
    }

    /// Describes a clash from TT-Metal's message: `... clash with L1 buffers on core range [...]. L1 buffer allocated at 114688 and static
    /// circular buffer region ends at 118112`, or `... grow to 1600000 B which is beyond max L1 size of 1499136 B`.
    fn clash(&self, place: &str) -> String {
        let at = self.at();
        if let Some((buffer, end)) = clash_addresses(&self.message) {
            let over = end - buffer;
            let reach = exact_size(over);
            let levers = self.levers(over);
            return format!(
                "circular buffers of a program reach {reach} into the L1 buffer at {buffer:#x} on {place}{at}: they end at {end:#x}{levers}"
            );
        }
        if let Some((most, end)) = clash_limit(&self.message) {
            let (end, over) = (size(end), size(end - most));
            return format!("circular buffers of a program grow to {end} on {place}{at}, {over} beyond what a core has");
        }
        match first_line(&self.message) {
            "" => format!("circular buffers of a program clash with L1 on {place}{at}"),
            message => format!("circular buffers of a program clash with L1 on {place}{at}: {message}"),
        }
    }
}

/// Formats a size. Small sizes are exact, because a clash may be about 192 bytes.
fn exact_size(bytes: u64) -> String {
    if bytes < 10_000 { format!("{bytes} bytes") } else { size(bytes) }
}

/// Returns the first line of a message, or nothing if all are blank. TT-Metal's messages continue with a backtrace.
fn first_line(message: &str) -> &str {
    message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

fn number_after(message: &str, words: &str) -> Option<u64> {
    let message = first_line(message);
    let rest = &message[message.find(words)? + words.len()..];
    rest[..rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// Parses TT-Metal's message about a clash. Returns the start of the lowest L1 buffer, and the larger end of the circular buffers.
pub fn clash_addresses(message: &str) -> Option<(u64, u64)> {
    let found = (number_after(message, "allocated at ")?, number_after(message, "region ends at ")?);
    (found.1 > found.0).then_some(found)
}

/// Parses the other message about a clash. Returns the size of a core's L1, and the larger size of the circular buffers.
fn clash_limit(message: &str) -> Option<(u64, u64)> {
    let found = (number_after(message, "max L1 size of ")?, number_after(message, "grow to ")?);
    (found.1 > found.0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Kind;

    fn refusal(what: Refused) -> Refusal {
        Refusal {
            what,
            kind: BufferKind::Of(Kind::L1),
            size: 32 << 20,
            banks: 64,
            per_bank: 512 << 10,
            free_per_bank: 700 << 10,
            largest_free_per_bank: 410 << 10,
            largest: Vec::new(),
            operation: String::new(),
            message: "\n  Out of Memory: not enough space\nbacktrace:\n".to_owned(),
            line: None,
            bank_bytes: 0,
            window: None,
            l1_small: None,
            is_overrun: false,
        }
    }

    #[test]
    fn the_request_and_what_was_free() {
        let fragmented = refusal(Refused::OutOfMemory);
        assert_eq!(
            fragmented.words("device 0"),
            "asked 32.0MB L1 on device 0 (512.0KB in each of 64 banks): 700.0KB free per bank, largest block 410.0KB: \
             would fit if not fragmented"
        );
        assert_eq!(fragmented.fits_without_fragmentation(), Some(true));
        let full = Refusal { free_per_bank: 12 << 10, largest_free_per_bank: 12 << 10, ..refusal(Refused::OutOfMemory) };
        assert!(full.words("device 0").ends_with("12.0KB free per bank, largest block 12.0KB: 500.0KB per bank too little is free"));
        assert_eq!(full.fits_without_fragmentation(), Some(false));
        let unknown = Refusal { per_bank: 0, banks: 0, ..refusal(Refused::OutOfMemory) };
        assert_eq!(unknown.words("device 0"), "asked 32.0MB L1 on device 0");
        assert_eq!(unknown.fits_without_fragmentation(), None);
    }

    #[test]
    fn a_clash_has_its_figures() {
        let clash = |message: &str| Refusal { message: message.to_owned(), ..refusal(Refused::Clash) }.words("device 0");
        assert_eq!(
            clash(
                "Statically allocated circular buffers in program 0 clash with L1 buffers on core range [0-0 - 7-7]. \
                 L1 buffer allocated at 114688 and static circular buffer region ends at 118112\nbacktrace"
            ),
            "circular buffers of a program reach 3424 bytes into the L1 buffer at 0x1c000 on device 0: they end at 0x1cd60"
        );
        assert_eq!(
            clash("Statically allocated circular buffers on core range [0-0] grow to 1600000 B which is beyond max L1 size of 1499136 B"),
            "circular buffers of a program grow to 1.5MB on device 0, 98.5KB beyond what a core has"
        );
        // Unknown messages are printed unchanged.
        assert_eq!(
            clash("They clash: allocated at x"),
            "circular buffers of a program clash with L1 on device 0: They clash: allocated at x"
        );
        assert_eq!(clash(""), "circular buffers of a program clash with L1 on device 0");
        assert_eq!(refusal(Refused::Clash).fits_without_fragmentation(), None);
    }
}
