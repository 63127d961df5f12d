//! The tree of files: where everything lies below the root, and how it is written while others read it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use ttmon_model::PerKind;
use ttmon_model::attributes::Place;
use ttmon_model::units::UnixTime;

use crate::chip::{Chip, Pci, Seat};
use crate::faults;
use crate::files::{all_ones, moves, published, text};
use crate::machine::{Life, Machine};
use crate::region::{self, Head, STALE_SLOT};
use crate::spec::FaultKind;
use crate::telemetry::Telemetry;

/// Major number of the driver's devices; the kernel hands out such numbers downwards from 254.
const MAJOR: u32 = 240;

/// Which files of a chip to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Moving,
}

/// A machine at one moment, to be written below a root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) root: &'a Path,
    pub(crate) tick: u64,
    /// How each planned process fares.
    pub(crate) lives: &'a [Life],
    /// The wall clock, which only TT-Metal's statistics show.
    pub(crate) now: UnixTime,
}

impl Tree<'_> {
    /// Writes everything but the slots of processes.
    pub(crate) fn lay(&self) -> io::Result<()> {
        for directory in ["sys/class/tenstorrent", "sys/bus/pci/devices", "sys/module/tenstorrent", "dev/shm", "proc/driver/tenstorrent"] {
            fs::create_dir_all(self.root.join(directory))?;
        }
        put_line(&self.root.join("sys/module/tenstorrent/version"), &self.machine.driver.to_string())?;
        for (chip, pci) in locals(self.machine) {
            lay_chip(self.root, chip, pci)?;
        }
        self.write(Which::All)
    }

    /// Writes what moves, but for the slots of processes.
    pub(crate) fn shift(&self) -> io::Result<()> {
        self.write(Which::Moving)
    }

    /// Writes the slots of processes that run, where no workers do it themselves.
    pub(crate) fn write_slots(&self) -> io::Result<()> {
        for (process, life) in self.machine.processes.iter().zip(self.lives) {
            let Life::Running { pid } = *life else { continue };
            for one in &process.uses {
                let (chip, Some(slot)) = (&self.machine.chips[one.chip as usize], one.slot) else { continue };
                let file = region::open_or_create(&region::path(self.root, chip.unique_id))?;
                region::write_slot(&file, slot, self.machine.slot(process, chip, self.tick, pid, self.now))?;
            }
        }
        Ok(())
    }

    fn write(&self, which: Which) -> io::Result<()> {
        for (chip, pci) in locals(self.machine) {
            self.write_files(chip, pci, which)?;
            put(&self.root.join(format!("proc/driver/tenstorrent/{}/pids", chip.id)), &self.pids(chip))?;
        }
        for chip in &self.machine.chips {
            self.write_region(chip)?;
        }
        self.write_faults()
    }

    fn write_files(&self, chip: &Chip, pci: &Pci, which: Which) -> io::Result<()> {
        let Self { machine, tick, .. } = *self;
        let faults = machine.faults_of(chip, tick);
        let activity = machine.activity(chip, tick, self.lives);
        let telemetry = Telemetry::at(chip, pci.lanes, machine.seed, tick, activity, faults.strain());
        for place in [Place::Class, Place::Hwmon, Place::Pci, Place::Bridge, Place::Counters] {
            let directory = directory(self.root, chip, pci, place);
            let is_garbage = faults.is_garbage(place);
            for row in published(chip.product.arch, machine.driver).filter(|row| row.place == place) {
                let ones = all_ones(row.attr).filter(|_| is_garbage);
                if which == Which::All || moves(row.attr) || ones.is_some() {
                    let text = ones.map_or_else(|| text(chip, pci, machine.seed, row.attr, &telemetry), str::to_owned);
                    put_line(&directory.join(row.file), &text)?;
                }
            }
        }
        Ok(())
    }

    /// One line for each open file, the newest first.
    fn pids(&self, chip: &Chip) -> String {
        let mut lines: Vec<String> = Vec::new();
        for user in self.machine.users(chip, self.lives) {
            if let Life::Running { pid } = user.life {
                lines.extend((0..user.process.files).map(|_| format!("{pid}\n")));
            }
        }
        lines.reverse();
        lines.concat()
    }

    /// The head of a chip's statistics, and what a dead process left. A chip that nobody reports on has no file.
    fn write_region(&self, chip: &Chip) -> io::Result<()> {
        let Self { machine, tick, .. } = *self;
        let users: Vec<_> = machine.users(chip, self.lives).filter(|user| user.slot.is_some()).collect();
        let leftover = machine.faults_of(chip, tick).has(FaultKind::Stale).then(|| machine.leftover(chip));
        if users.is_empty() && leftover.is_none() {
            return Ok(());
        }
        let mut head = Head { unique_id: chip.unique_id, device_id: 0, processes: 0, totals: PerKind::default(), updated: self.now };
        let mut add = |used: &PerKind<u64>| {
            head.totals = PerKind::from_fn(|kind| head.totals[kind] + used[kind]);
            head.processes += 1;
        };
        if let Some(slot) = &leftover {
            add(&slot.used);
        }
        for user in &users {
            match user.life {
                Life::Absent => {}
                Life::Running { .. } => add(&machine.used(user.process, chip, tick)),
                Life::Ended { tick: end } => add(&machine.used(user.process, chip, end)),
            }
        }
        head.device_id = users.last().map_or(0, |user| u32::try_from(user.number).unwrap_or(0));
        let file = region::open_or_create(&region::path(self.root, chip.unique_id))?;
        head.write(&file)?;
        leftover.map_or(Ok(()), |slot| region::write_slot(&file, STALE_SLOT, slot))
    }

    /// The list of injected errors. It is replaced as a whole, and only when it changes: a reader sees the old or the new.
    fn write_faults(&self) -> io::Result<()> {
        let Self { machine, tick, .. } = *self;
        if machine.faults.is_empty() {
            return Ok(());
        }
        let lines = locals(machine).map(|(chip, pci)| machine.faults_of(chip, tick).lines(chip, pci, machine.driver));
        let lines: String = lines.collect();
        let path = self.root.join(faults::FILE);
        if fs::read_to_string(&path).is_ok_and(|before| before == lines) {
            return Ok(());
        }
        let fresh = path.with_extension("new");
        fs::write(&fresh, lines)?;
        fs::rename(&fresh, &path)
    }
}

fn locals(machine: &Machine) -> impl Iterator<Item = (&Chip, &Pci)> {
    machine.chips.iter().filter_map(|chip| match &chip.seat {
        Seat::Local(pci) => Some((chip, pci)),
        Seat::Remote => None,
    })
}

/// Directories, links, and the files that are not in the model's table because no reader asks for them.
fn lay_chip(root: &Path, chip: &Chip, pci: &Pci) -> io::Result<()> {
    let Chip { id, board, .. } = chip;
    let (bdf, device) = (pci.bdf(), directory(root, chip, pci, Place::Pci));
    for place in [Place::Hwmon, Place::Counters] {
        fs::create_dir_all(directory(root, chip, pci, place))?;
    }
    fs::create_dir_all(root.join(format!("proc/driver/tenstorrent/{id}")))?;

    let class = directory(root, chip, pci, Place::Class);
    link(&format!("../../../{bdf}"), &class.join("device"))?;
    let path = pci.path();
    link(&format!("../../{path}/tenstorrent/tenstorrent!{id}"), &root.join(format!("sys/class/tenstorrent/tenstorrent!{id}")))?;
    link(&format!("../../../{path}"), &root.join(format!("sys/bus/pci/devices/{bdf}")))?;

    put_line(&class.join("dev"), &format!("{MAJOR}:{id}"))?;
    put_line(&class.join("uevent"), &format!("MAJOR={MAJOR}\nMINOR={id}\nDEVNAME=tenstorrent/{id}"))?;
    for (file, text) in [("vendor", "0x1e52"), ("subsystem_vendor", "0x1e52"), ("class", "0x120000")] {
        put_line(&device.join(file), text)?;
    }
    put_line(&directory(root, chip, pci, Place::Bridge).join("max_link_speed"), board.link.speed_max)?;
    let hwmon = directory(root, chip, pci, Place::Hwmon);
    for (file, text) in board.silicon.labels {
        put_line(&hwmon.join(file), text)?;
    }
    Ok(())
}

fn directory(root: &Path, chip: &Chip, pci: &Pci, place: Place) -> PathBuf {
    let below = match place {
        Place::Pci => pci.path(),
        Place::Bridge => pci.bridge_path(),
        Place::Hwmon => format!("{}/hwmon/hwmon{}", pci.path(), pci.hwmon),
        Place::Class => format!("{}/tenstorrent/tenstorrent!{}", pci.path(), chip.id),
        Place::Counters => format!("{}/tenstorrent/tenstorrent!{}/pcie_perf_counters", pci.path(), chip.id),
    };
    root.join("sys").join(below)
}

fn link(target: &str, path: &Path) -> io::Result<()> {
    match symlink(target, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn put_line(path: &Path, line: &str) -> io::Result<()> {
    put(path, &format!("{line}\n"))
}

/// Puts a text into a file in place, since readers keep their files open. A shorter text first ends in blank lines over
/// the old one's rest, then the file is cut: a reader in between sees no mixture of two numbers.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let bytes_before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    if bytes_before <= text.len() {
        return file.write_all_at(text.as_bytes(), 0);
    }
    let mut padded = text.as_bytes().to_vec();
    padded.resize(bytes_before, b'\n');
    file.write_all_at(&padded, 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_replaces_longer_and_shorter_texts_in_place() {
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        put(&path, "1\n").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        for text in ["100000\n", "99\n", "", "977\n4242\n"] {
            put(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }
}
