//! The plan of a machine: its chips, its processes, and their state at any tick. It has no clock. `tree` writes it to files.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use ttmon_model::PerKind;
use ttmon_model::limits::DEVICES_MAX;
use ttmon_model::region::Slot;
use ttmon_model::units::{UnixTime, Version};

use crate::chip::{Chip, Layout, Location};
use crate::clock;
use crate::faults::Active;
use crate::load::{Activity, Rhythm};
use crate::memory::Share;
use crate::process::{self, Job, Process};
use crate::random::{Purpose, Random};
use crate::region;
use crate::spec::{Fault, FaultKind, Spec, SpecError};
use crate::tree::Tree;

/// A planned machine, determined by spec and seed.
#[derive(Debug)]
pub struct Machine {
    pub(crate) seed: u64,
    pub(crate) driver: Version,
    /// The chips, by id.
    pub(crate) chips: Vec<Chip>,
    pub(crate) processes: Vec<Process>,
    pub(crate) faults: Vec<Fault>,
    /// Buffers of each process.
    pub(crate) buffers: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process never ran.
    Absent,
    /// The process runs.
    Running { pid: u32 },
    /// The process was killed at a tick. Its slots stay.
    Ended { tick: u64 },
}

impl Machine {
    /// Lays out the machine. Fails if the spec has too many devices, or a fault for a device that does not exist or cannot have the fault.
    pub fn new(spec: &Spec, seed: u64) -> Result<Self, SpecError> {
        let devices: u64 = spec.boards.iter().map(|(board, count)| board.devices() * count).sum();
        if devices > DEVICES_MAX as u64 {
            return Err(SpecError(format!("{devices} simulated devices are too many; at most {DEVICES_MAX} are allowed")));
        }
        let layout = Layout::new(spec, seed);
        for Fault { kind, device, .. } in spec.faults.iter().copied() {
            let Some(chip) = layout.chips.get(device as usize) else {
                let last = layout.chips.last().map_or(0, |chip| chip.id);
                return Err(SpecError(format!("no device {device} to have a fault; this machine has 0 to {last}")));
            };
            if kind != FaultKind::Stale && matches!(chip.location, Location::Remote) {
                return Err(SpecError(format!(
                    "device {device} is a remote chip without files that could show the fault {}; remote chips can only be stale",
                    kind.name()
                )));
            }
        }
        let processes = process::plan(spec, seed, &layout);
        let has_blackhole = layout.chips.iter().any(|chip| chip.product.arch == ttmon_model::Arch::Blackhole);
        let newest = if has_blackhole { Version::new(2, 10, 0) } else { Version::new(2, 9, 0) };
        let driver = spec.driver.unwrap_or(newest);
        Ok(Self { seed, driver, chips: layout.chips, processes, faults: spec.faults.clone(), buffers: spec.buffers })
    }

    /// Returns the number of planned processes.
    pub fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// Returns the command line of each planned process.
    pub fn commands(&self) -> Vec<Vec<&'static str>> {
        let command = |job: &Job| [job.program].iter().chain(job.arguments).copied().collect();
        self.processes.iter().map(|process| command(process.job)).collect()
    }

    /// Writes the tree of a tick below `dir`, or only the changing files if `dir` has it already. `pids` has an entry for each planned
    /// process, or `None` if it does not run. A process that lost its pid keeps its slot in the statistics, like a killed one.
    pub fn write(&self, dir: &Path, tick: u64, pids: &[Option<u32>]) -> io::Result<()> {
        let tree = Tree { machine: self, root: dir, tick, lives: &self.lives(pids), now: clock::unix_time() };
        if tree.is_laid() {
            tree.shift()?;
        } else {
            tree.lay()?;
        }
        let mut running = self.processes.iter().zip(pids).filter_map(|(process, pid)| Some((process, (*pid)?)));
        running.try_for_each(|(process, pid)| self.write_slots(dir, process, pid, tick))
    }

    /// Writes the slots of a process in TT-Metal's statistics. The tree has the files already.
    pub(crate) fn write_slots(&self, root: &Path, process: &Process, pid: u32, tick: u64) -> io::Result<()> {
        for one in &process.uses {
            let (chip, Some(slot)) = (&self.chips[one.chip as usize], one.slot) else { continue };
            let file = OpenOptions::new().write(true).open(region::path(root, chip.unique_id))?;
            let used = self.used(process, chip, tick);
            let content = Slot { pid, used, updated: clock::unix_time(), name: process.job.program.to_owned() };
            region::write_slot(&file, slot, content)?;
        }
        Ok(())
    }

    fn lives(&self, pids: &[Option<u32>]) -> Vec<Life> {
        let life = |index| pids.get(index).copied().flatten().map_or(Life::Absent, |pid| Life::Running { pid });
        (0..self.processes.len()).map(life).collect()
    }

    pub(crate) fn faults_of(&self, chip: &Chip, tick: u64) -> Active<'_> {
        Active { faults: &self.faults, device: chip.id, tick }
    }

    pub(crate) fn is_loaded(&self, tick: u64) -> bool {
        !self.faults.iter().any(|fault| fault.kind == FaultKind::Unload && fault.is_active(tick))
    }

    /// Returns the processes of a chip in the order of arrival, with state and slot.
    pub(crate) fn users<'a>(&'a self, chip: &Chip, lives: &'a [Life]) -> impl Iterator<Item = User<'a>> + use<'a> {
        let id = chip.id;
        self.processes.iter().zip(lives).filter_map(move |(process, life)| {
            let number = process.uses.iter().position(|one| one.chip == id)?;
            Some(User { process, life: *life, number, slot: process.uses[number].slot })
        })
    }

    pub(crate) fn activity(&self, chip: &Chip, tick: u64, lives: &[Life]) -> Activity {
        let activities = self.users(chip, lives).map(|user| match user.life {
            Life::Absent => Activity::default(),
            Life::Running { .. } => user.process.trace().at(tick),
            Life::Ended { tick: end } => user.process.trace().after(end, tick),
        });
        activities.fold(Activity::default(), |sum, one| Activity {
            load: sum.load + one.load,
            heat: sum.heat + one.heat,
            work: sum.work + one.work,
        })
    }

    pub(crate) fn used(&self, process: &Process, chip: &Chip, tick: u64) -> PerKind<u64> {
        self.share(process.index, process.job.rhythm, chip, self.sharers(chip)).used(tick)
    }

    fn sharers(&self, chip: &Chip) -> u64 {
        let uses = self.processes.iter().flat_map(|process| &process.uses);
        uses.filter(|one| one.chip == chip.id && one.slot.is_some()).count() as u64
    }

    fn share(&self, process: u64, rhythm: Rhythm, chip: &Chip, sharers: u64) -> Share<'_> {
        Share { seed: self.seed, process, rhythm, chip: chip.id, product: chip.product, sharers, buffers: self.buffers }
    }

    /// Returns the slot of a process that died before the simulation began.
    pub(crate) fn leftover(&self, chip: &Chip) -> Slot {
        // Higher than any pid of Linux, so that no live process has it.
        const PID_LIMIT: u32 = 1 << 22;
        const NEW_YEAR_2026: u64 = 1_767_225_600_000_000_000;
        let random = Random::new(self.seed, Purpose::Leftover, chip.id.into());
        let used = self.share(PID_LIMIT.into(), Rhythm::Serve, chip, 4).used(0);
        let pid = PID_LIMIT + u32::from(random.at(0).to_le_bytes()[0]);
        Slot { pid, used, updated: UnixTime(NEW_YEAR_2026 + random.at(1) % 1_000_000_000), name: "python3".to_owned() }
    }
}

/// A process as a user of one chip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User<'a> {
    pub(crate) process: &'a Process,
    pub(crate) life: Life,
    /// The chip's number inside the process.
    pub(crate) number: usize,
    pub(crate) slot: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(spec: &str) -> Result<Machine, SpecError> {
        Machine::new(&Spec::parse(spec).unwrap(), 1)
    }

    #[test]
    fn impossible_machines_are_refused() {
        for (spec, why) in [
            ("galaxyx9", "288 simulated devices are too many; at most 256 are allowed"),
            ("n300x129", "258 simulated devices are too many; at most 256 are allowed"),
            ("t3k,fault=hot:8", "no device 8 to have a fault; this machine has 0 to 7"),
            ("t3k,fault=hot:4", "device 4 is a remote chip without files that could show the fault hot; remote chips can only be stale"),
        ] {
            assert_eq!(machine(spec).unwrap_err().to_string(), why);
        }
        assert!(machine("t3k,fault=stale:7,fault=hot:3").is_ok());
        assert!(machine("galaxyx8").is_ok());
        assert_eq!(machine("p150,driver=2.5").unwrap().driver, Version::new(2, 5, 0));
    }

    #[test]
    fn the_driver_is_new_enough_for_the_chips() {
        assert_eq!(machine("t3k").unwrap().driver, Version::new(2, 9, 0));
        assert_eq!(machine("t3k,p150").unwrap().driver, Version::new(2, 10, 0));
    }

    #[test]
    fn a_killed_process_leaves_its_chip_to_cool() {
        let machine = machine("n150").unwrap();
        let at = |tick, life| machine.activity(&machine.chips[0], tick, &[life]);
        let running = at(100, Life::Running { pid: 1 });
        let (soon, late) = (at(101, Life::Ended { tick: 100 }), at(2000, Life::Ended { tick: 100 }));
        assert!(running.load > 0.0 && soon.load == 0.0);
        assert!(soon.heat > 0.9 * running.heat && late.heat < 0.01);
        assert_eq!((soon.work, late.work), (running.work, running.work));
        assert_eq!(at(100, Life::Absent), Activity::default());
    }
}
