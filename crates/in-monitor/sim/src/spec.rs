//! Parses the specification of a machine: `t3k,p150x2,procs=5,fault=hot:2@10`.
//!
//! This module checks the grammar. [`crate::Machine::new`] checks whether the machine can be built: the number of devices, and the device
//! of each fault.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ttmon_model::limits::DEVICES_MAX;
use ttmon_model::units::Version;

use crate::board::{BOARDS, Board};

/// Maximum number of processes. Each one is a real process, and more would show nothing new.
pub(crate) const PROCESSES_MAX: usize = 200;
/// Maximum number of buffers per process, which is the number that a ledger lists.
pub(crate) const BUFFERS_MAX: u64 = 1 << 20;
const BUFFERS_DEFAULT: u64 = 64;
/// A tick is 250 ms.
pub(crate) const TICKS_PER_SECOND: u64 = 4;

/// A parsed specification of a simulated machine.
#[derive(Clone, Debug)]
pub struct Spec {
    pub(crate) text: String,
    pub(crate) boards: Vec<(&'static Board, u64)>,
    /// Number of processes, or `None` for a number that suits the boards.
    pub(crate) processes: Option<usize>,
    pub(crate) buffers: u64,
    pub(crate) faults: Vec<Fault>,
    /// The driver, or `None` for the newest driver that the boards need.
    pub(crate) driver: Option<Version>,
}

/// Returns the words that a spec may contain, with a description of each.
pub fn words() -> impl Iterator<Item = (String, &'static str)> {
    let boards = BOARDS.iter().map(|board| (board.name.to_owned(), "board, xN for several"));
    let faults = FaultKind::ALL.into_iter().map(|(_, name)| (format!("fault={name}:"), "a fault of a device"));
    let options = [
        ("idle", "no processes"),
        ("procs=", "number of processes"),
        ("buffers=", "buffers of each process"),
        ("driver=", "version of the driver"),
    ];
    boards.chain(options.map(|(word, help)| (word.to_owned(), help))).chain(faults)
}

/// The drivers that can be selected, with their names.
const DRIVERS: [(&str, Version); 4] =
    [("2.5", Version::new(2, 5, 0)), ("2.7", Version::new(2, 7, 0)), ("2.9", Version::new(2, 9, 0)), ("2.10", Version::new(2, 10, 0))];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) device: u32,
    pub(crate) from_tick: u64,
    pub(crate) until_tick: u64,
}

impl Fault {
    pub(crate) fn is_active(&self, tick: u64) -> bool {
        (self.from_tick..self.until_tick).contains(&tick)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Reads of the telemetry never return.
    Hang,
    /// The device is unbound from the driver, and its entries vanish.
    Gone,
    /// The device left the bus, and its PCI device vanishes too.
    Unplug,
    /// The driver is unloaded. The entries of all devices, the class and the module vanish.
    Unload,
    /// The device is being reset. Reads fail with `ENODATA`. Up to driver 2.8 they return all ones.
    Reset,
    /// The firmware is not ready: there are no `tt_*` files and no sensors.
    Starting,
    /// Reads of the telemetry fail with `EACCES`.
    Eacces,
    /// Reads of the telemetry fail with `EIO`.
    Eio,
    /// The telemetry is all ones, as from a dead bus.
    Garbage,
    /// The device is at its temperature limit.
    Hot,
    /// The device is near its temperature limit and reduces its clock.
    Throttle,
    /// The maximum speed of the PCIe link is unknown.
    Link,
    /// A process died and left its slot in TT-Metal's statistics of this chip.
    Stale,
}

impl FaultKind {
    /// All kinds with their names in a spec, in the order of messages.
    const ALL: [(Self, &str); 13] = [
        (Self::Hang, "hang"),
        (Self::Gone, "gone"),
        (Self::Reset, "reset"),
        (Self::Eacces, "eacces"),
        (Self::Eio, "eio"),
        (Self::Garbage, "garbage"),
        (Self::Hot, "hot"),
        (Self::Throttle, "throttle"),
        (Self::Stale, "stale"),
        (Self::Unplug, "unplug"),
        (Self::Unload, "unload"),
        (Self::Starting, "starting"),
        (Self::Link, "link"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl Spec {
    /// Parses `BOARD[xN][,BOARD[xN]...][,OPTION...]`.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut spec =
            Self { text: text.to_owned(), boards: Vec::new(), processes: None, buffers: BUFFERS_DEFAULT, faults: Vec::new(), driver: None };
        let mut options_seen = Vec::new();
        for item in text.split(',').map(str::trim) {
            let (name, value) = item.split_once('=').map_or((item, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                ("idle", None) => spec.processes = Some(0),
                ("procs", Some(value)) => spec.processes = Some(number(item, value, 0..=PROCESSES_MAX)?),
                ("buffers", Some(value)) => spec.buffers = number(item, value, 1..=BUFFERS_MAX)?,
                ("driver", Some(value)) => spec.driver = Some(driver(item, value)?),
                ("fault", Some(value)) => spec.faults.push(fault(item, value)?),
                _ => spec.boards.push(boards(item)?),
            }
            // `idle` is another name for `procs=0`.
            let option = if name == "idle" { "procs" } else { name };
            if matches!(option, "procs" | "buffers" | "driver") {
                if options_seen.contains(&option) {
                    let why = "give one of idle and procs=N, one buffers=N, and one driver=V";
                    return Err(SpecError(format!("{item:?} is given again; {why}")));
                }
                options_seen.push(option);
            }
        }
        if spec.boards.is_empty() {
            return Err(SpecError(format!("no board to simulate; name at least one of {}", board_names())));
        }
        Ok(spec)
    }
}

/// Parses a board item: `n300` or `n300x4`.
fn boards(item: &str) -> Result<(&'static Board, u64), SpecError> {
    let item = item.to_ascii_lowercase();
    let named = |name: &str| {
        let name = if name == "t3000" { "t3k" } else { name };
        BOARDS.iter().find(|board| board.name == name || board.card_type == name)
    };
    let counted = item.rsplit_once('x').and_then(|(name, count)| Some((named(name)?, count)));
    match (named(&item), counted) {
        (Some(board), _) => Ok((board, 1)),
        (None, Some((board, count))) => Ok((board, number(&item, count, 1..=DEVICES_MAX as u64)?)),
        (None, None) => Err(SpecError(format!(
            "unknown board or option {item:?}; boards: {} (xN for several); \
             options: idle, procs=N, buffers=N, driver=2.5|2.7|2.9|2.10, fault=KIND:DEVICE[@SECONDS[-SECONDS]]",
            board_names()
        ))),
    }
}

fn board_names() -> String {
    BOARDS.each_ref().map(|board| board.name).join(", ")
}

fn driver(item: &str, value: &str) -> Result<Version, SpecError> {
    let known = DRIVERS.iter().find(|(word, _)| *word == value);
    known.map(|(_, version)| *version).ok_or_else(|| SpecError(format!("no such driver {item:?}; it is driver=2.5, 2.7, 2.9 or 2.10")))
}

/// Parses `KIND:DEVICE[@SECONDS[-SECONDS]]`.
fn fault(item: &str, value: &str) -> Result<Fault, SpecError> {
    let bad = || {
        let kinds = FaultKind::ALL.map(|(_, name)| name).join(", ");
        SpecError(format!("bad fault {item:?}; it is fault=KIND:DEVICE[@SECONDS[-SECONDS]] with KIND one of {kinds}"))
    };
    let (kind, place) = value.split_once(':').ok_or_else(bad)?;
    let (kind, _) = FaultKind::ALL.into_iter().find(|(_, name)| *name == kind).ok_or_else(bad)?;
    let (device, time) = place.split_once('@').unwrap_or((place, "0"));
    let (from, until) = time.split_once('-').map_or((time, None), |(from, until)| (from, Some(until)));
    let device = number(item, device, 0..=u32::MAX)?;
    let tick = |seconds| number(item, seconds, 0..=u32::MAX).map(|seconds| u64::from(seconds) * TICKS_PER_SECOND);
    let (from_tick, until_tick) = (tick(from)?, until.map_or(Ok(u64::MAX), tick)?);
    if until_tick <= from_tick {
        return Err(SpecError(format!("{item:?} ends before it begins; it is fault=KIND:DEVICE@FROM-TO, in seconds")));
    }
    Ok(Fault { kind, device, from_tick, until_tick })
}

fn number<T: FromStr + PartialOrd + Display>(item: &str, digits: &str, range: RangeInclusive<T>) -> Result<T, SpecError> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| is_number && range.contains(number));
    number.ok_or_else(|| SpecError(format!("bad number in {item:?}; it may be {} to {}", range.start(), range.end())))
}

/// Why a spec is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub(crate) String);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use proptest::prelude::*;

    fn check(text: &str, boards: &[(&str, u64)], processes: Option<usize>, buffers: u64) {
        let spec = Spec::parse(text).unwrap();
        let found: Vec<(&str, u64)> = spec.boards.iter().map(|(board, count)| (board.name, *count)).collect();
        assert_eq!((found.as_slice(), spec.processes, spec.buffers), (boards, processes, buffers), "{text}");
    }

    #[test]
    fn good_specs_are_read() {
        check("n300", &[("n300", 1)], None, 64);
        check("t3k", &[("t3k", 1)], None, 64);
        check("galaxy", &[("galaxy", 1)], None, 64);
        check("T3K", &[("t3k", 1)], None, 64);
        check("t3000,N150x2", &[("t3k", 1), ("n150", 2)], None, 64);
        check("galaxyx2", &[("galaxy", 2)], None, 64);
        check("galaxy-bhx8,idle", &[("galaxy-bh", 8)], Some(0), 64);
        check("n150x2, p150x3 ,p300,procs=5,buffers=9", &[("n150", 2), ("p150", 3), ("p300", 1)], Some(5), 9);
        check("p100a,p150a,p300c,procs=200", &[("p100a", 1), ("p150", 1), ("p300", 1)], Some(200), 64);
        let spec = Spec::parse("n300,fault=hot:0@10,fault=stale:1").unwrap();
        let fault = |kind, device, from_tick, until_tick| Fault { kind, device, from_tick, until_tick };
        assert_eq!(spec.faults, [fault(FaultKind::Hot, 0, 40, u64::MAX), fault(FaultKind::Stale, 1, 0, u64::MAX)]);
        let spec = Spec::parse("n300,driver=2.5,fault=gone:0@2-4").unwrap();
        assert_eq!((spec.faults[0], spec.driver), (fault(FaultKind::Gone, 0, 8, 16), Some(Version::new(2, 5, 0))));
    }

    #[test]
    fn bad_specs_say_what_is_allowed() {
        for (text, part) in [
            ("", "unknown board or option \"\"; boards: n150, n300, t3k, galaxy, galaxy-bh, p100a, p150, p300 (xN"),
            ("idle", "no board"),
            ("n301", "unknown board"),
            ("n300,,n150", "unknown board"),
            ("n300x0", "bad number in \"n300x0\"; it may be 1 to 256"),
            ("n300x-1", "bad number"),
            ("n300x+1", "bad number"),
            ("n300x99999999999999999999", "bad number"),
            ("n300,procs=201", "it may be 0 to 200"),
            ("n300,procs=", "bad number"),
            ("n300,procs", "unknown board or option"),
            ("n300,idle=1", "unknown board or option"),
            ("n300,buffers=0", "it may be 1 to 1048576"),
            ("n300,idle,procs=1", "again"),
            ("n300,buffers=1,buffers=1", "again"),
            ("n300,fault=hot", "KIND one of hang, gone, reset, eacces, eio, garbage, hot, throttle, stale"),
            ("n300,fault=cold:0", "bad fault"),
            ("n300,driver=2.6", "driver=2.5, 2.7, 2.9 or 2.10"),
            ("n300,driver=2.9,driver=2.9", "again"),
            ("n300,fault=gone:0@1-x", "bad number"),
            ("n300,fault=gone:0@5-3", "ends before it begins"),
            ("n300,fault=gone:0@5-5", "ends before it begins"),
            ("n300,fault=hot:x", "bad number"),
            ("n300,fault=hot:0@", "bad number"),
            ("n300\n,procs=5\n6", "bad number in \"procs=5\\n6\""),
        ] {
            let message = Spec::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(text in "(\\PC{0,8}|n300|galaxy|x|,|=|fault=|procs|hot:|@|[0-9]{1,3}|\n){0,8}") {
            if let Err(error) = Spec::parse(&text).and_then(|spec| Machine::new(&spec, 1)) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
