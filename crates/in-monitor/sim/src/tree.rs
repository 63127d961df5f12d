//! Writes the tree of files of a machine below a root.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ttmon_model::attributes::AttributeFolder;
use ttmon_model::units::{UnixTime, Version};
use ttmon_model::{Attr, PerKind};

use crate::chip::{Chip, Location, Pci};
use crate::faults::{self, Active};
use crate::files::{all_ones, moves, published, text};
use crate::image;
use crate::kernel::{self, READ_ONLY, SWITCH};
use crate::load::Activity;
use crate::machine::{Life, Machine};
use crate::region::{self, Head, STALE_SLOT};
use crate::spec::FaultKind;
use crate::telemetry::Telemetry;
use crate::write::{link, put, put_all, put_line, replace, vanish};

/// The directories of the driver, besides that of its module.
const DRIVER_DIRECTORIES: [&str; 3] = ["sys/class/tenstorrent", "sys/bus/pci/drivers/tenstorrent", "proc/driver/tenstorrent"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Moving,
}

/// A machine at one tick, to be written below a root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) root: &'a Path,
    pub(crate) tick: u64,
    pub(crate) lives: &'a [Life],
    /// The wall clock time. Only TT-Metal's statistics show it.
    pub(crate) now: UnixTime,
}

impl Tree<'_> {
    /// Writes everything except the slots of processes.
    pub(crate) fn lay(&self) -> io::Result<()> {
        for directory in ["sys/bus/pci/devices", "sys/bus/pci/drivers", "sys/class/hwmon", "dev/shm", image::DIRECTORY] {
            fs::create_dir_all(self.root.join(directory))?;
        }
        self.write(Which::All)
    }

    pub(crate) fn is_laid(&self) -> bool {
        self.root.join(image::DIRECTORY).exists()
    }

    /// Writes the changing files, except the slots of processes.
    pub(crate) fn shift(&self) -> io::Result<()> {
        self.write(Which::Moving)
    }

    fn write(&self, which: Which) -> io::Result<()> {
        let is_loaded = self.machine.is_loaded(self.tick);
        if is_loaded {
            self.load()?;
        }
        for (chip, pci) in locals(self.machine) {
            let faults = self.machine.faults_of(chip, self.tick);
            let presence = Presence { root: self.root, chip, pci, driver: self.machine.driver };
            let is_new = presence.set_plugged(faults.is_plugged())?
                | presence.set_bound(is_loaded && faults.is_bound(), faults.keeps_link())?
                | presence.set_ready(is_loaded && faults.is_bound() && faults.is_ready())?;
            let which = if is_new || faults.is_possible() { Which::All } else { which };
            self.write_files(chip, pci, which, faults, is_loaded)?;
            if is_loaded && faults.is_bound() {
                self.write_users(chip)?;
            }
            // The link is created last, so that the name never appears before its files.
            if is_loaded && (faults.is_bound() || faults.keeps_link()) {
                presence.link_class()?;
            }
        }
        if !is_loaded {
            vanish(self.root.join("sys/module/tenstorrent"))?;
            DRIVER_DIRECTORIES.iter().try_for_each(|directory| vanish(self.root.join(directory)))?;
        }
        for chip in &self.machine.chips {
            self.write_region(chip)?;
        }
        self.write_faults()
    }

    /// Creates the driver's own directories.
    fn load(&self) -> io::Result<()> {
        let module = self.root.join("sys/module/tenstorrent");
        if module.exists() {
            return Ok(());
        }
        DRIVER_DIRECTORIES.iter().try_for_each(|directory| fs::create_dir_all(self.root.join(directory)))?;
        fs::create_dir_all(module.join("parameters"))?;
        for (file, text, mode) in kernel::parameters(self.machine.driver) {
            put_line(&module.join("parameters").join(file), text, mode)?;
        }
        put_line(&module.join("version"), &self.machine.driver.to_string(), READ_ONLY)
    }

    fn write_files(&self, chip: &Chip, pci: &Pci, which: Which, faults: Active<'_>, is_loaded: bool) -> io::Result<()> {
        let Self { machine, tick, .. } = *self;
        let activity = machine.activity(chip, tick, self.lives);
        let telemetry = Telemetry::at(chip, pci.lanes, machine.seed, tick, activity, faults.strain());
        let is_bound = is_loaded && faults.is_bound();
        self.write_image(chip, activity, &telemetry, faults, is_bound && faults.is_ready())?;
        let is_there = |place: AttributeFolder| match place {
            AttributeFolder::Bridge => true,
            AttributeFolder::Pci => faults.is_plugged(),
            AttributeFolder::Counters => is_bound,
            AttributeFolder::Class | AttributeFolder::Hwmon => is_bound && faults.is_ready(),
        };
        let rows = published(chip.product.arch, machine.driver).filter(|row| which == Which::All || moves(row.attr));
        for row in rows.filter(|row| is_there(row.folder)) {
            let is_garbage = faults.is_garbage(row.folder, machine.driver);
            let ones = all_ones(row.attr, chip.product.arch, machine.driver).filter(|_| is_garbage);
            let unknown = (row.attr == Attr::LinkSpeedMax && faults.has(FaultKind::Link)).then_some("Unknown");
            let text = ones.or(unknown).map_or_else(|| text(chip, pci, machine.seed, row.attr, &telemetry), str::to_owned);
            let mode = if row.attr == Attr::NumaNode { SWITCH } else { READ_ONLY };
            put_line(&directory(self.root, chip, pci, row.folder).join(row.file), &text, mode)?;
        }
        Ok(())
    }

    /// Writes the image of the chip for `--deep`. The file is replaced as a whole, so that its counters are consistent.
    fn write_image(&self, chip: &Chip, activity: Activity, now: &Telemetry, faults: Active<'_>, is_ready: bool) -> io::Result<()> {
        let path = self.root.join(image::DIRECTORY).join(chip.id.to_string());
        if !is_ready {
            return vanish(&path);
        }
        let is_used = self.machine.users(chip, self.lives).any(|user| matches!(user.life, Life::Running { .. }));
        let text = match faults.is_garbage(AttributeFolder::Class, self.machine.driver) {
            true => ttmon_deep::image::ALL_ONES.to_owned(),
            false => image::text(chip, self.tick, activity, now, faults.strain(), is_used),
        };
        replace(&path, &text)
    }

    /// Writes the driver's list of processes that have a chip open.
    fn write_users(&self, chip: &Chip) -> io::Result<()> {
        let open = self.machine.users(chip, self.lives).filter_map(|user| match user.life {
            Life::Running { pid } => Some(std::iter::repeat_n((pid, user.process.job.program), user.process.files)),
            _ => None,
        });
        let open: Vec<(u32, &str)> = open.flatten().collect();
        // The newest file comes first.
        let pids: String = open.iter().rev().map(|(pid, _)| format!("{pid}\n")).collect();
        put(&self.root.join(format!("proc/driver/tenstorrent/{}/pids", chip.id)), &pids, READ_ONLY)?;
        put(&self.root.join(format!("sys/kernel/debug/tenstorrent/{}/mappings", chip.id)), &kernel::mappings(&open), READ_ONLY)
    }

    /// Writes the head of a chip's statistics and the slots of dead processes. Writes no file if no process reports on the chip.
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

    /// Writes the list of injected errors. The file is replaced as a whole, and only if it changed.
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
        replace(&path, &lines)
    }
}

fn locals(machine: &Machine) -> impl Iterator<Item = (&Chip, &Pci)> {
    machine.chips.iter().filter_map(|chip| match &chip.location {
        Location::Local(pci) => Some((chip, pci)),
        Location::Remote => None,
    })
}

/// The files of one chip. Each method creates or removes a part as needed, and returns whether the part was created.
struct Presence<'a> {
    root: &'a Path,
    chip: &'a Chip,
    pci: &'a Pci,
    driver: Version,
}

impl Presence<'_> {
    fn directory(&self, place: AttributeFolder) -> PathBuf {
        directory(self.root, self.chip, self.pci, place)
    }

    /// Creates or removes the PCI device and its bridge.
    fn set_plugged(&self, is_plugged: bool) -> io::Result<bool> {
        let (device, bridge) = (self.directory(AttributeFolder::Pci), self.directory(AttributeFolder::Bridge));
        let listed = self.root.join(format!("sys/bus/pci/devices/{}", self.pci.bdf()));
        if !is_plugged {
            vanish(&listed)?;
            vanish(&device)?;
            fs::create_dir_all(bridge)?;
            return Ok(false);
        }
        if device.exists() {
            return Ok(false);
        }
        fs::create_dir_all(device.join("link"))?;
        put_all(&bridge, kernel::BRIDGE)?;
        for file in ["current_link_speed", "max_link_speed"] {
            put_line(&bridge.join(file), self.chip.board.link.speed_max, READ_ONLY)?;
        }
        put_line(&bridge.join("current_link_width"), &self.pci.lanes.to_string(), READ_ONLY)?;
        put_all(&device, kernel::PCI)?;
        put_all(&device.join("power"), kernel::POWER_PCI)?;
        put_line(&device.join("modalias"), &kernel::modalias(self.chip), READ_ONLY)?;
        put_line(&device.join("uevent"), &kernel::uevent(self.chip, self.pci, false), SWITCH)?;
        put_line(&device.join("resource"), &kernel::resource(self.chip), READ_ONLY)?;
        link("../../../../bus/pci", &device.join("subsystem"))?;
        let node = format!("../../../LNXSYSTM:00/LNXSYBUS:00/PNP0A08:00/device:{:02x}/device:{:02x}", 5 + self.chip.id, 6 + self.chip.id);
        link(&node, &device.join("firmware_node"))?;
        link(&format!("../../../{}", self.pci.path()), &listed)?;
        Ok(true)
    }

    /// Creates or removes the class device with its counters, and the driver's other files of the device.
    fn set_bound(&self, is_bound: bool, keeps_link: bool) -> io::Result<bool> {
        let (device, class, id, bdf) =
            (self.directory(AttributeFolder::Pci), self.directory(AttributeFolder::Class), self.chip.id, self.pci.bdf());
        let users = self.root.join(format!("proc/driver/tenstorrent/{id}"));
        let (debug, bound) = (format!("sys/kernel/debug/tenstorrent/{id}"), format!("sys/bus/pci/drivers/tenstorrent/{bdf}"));
        let (debug, bound) = (self.root.join(debug), self.root.join(bound));
        if is_bound && class.exists() {
            return Ok(false);
        }
        if device.exists() {
            put_line(&device.join("uevent"), &kernel::uevent(self.chip, self.pci, is_bound), SWITCH)?;
        }
        if !is_bound {
            if !keeps_link {
                vanish(self.class_link())?;
            }
            let parent = class.parent().unwrap_or(&class);
            return [parent, &users, &debug, &bound, &device.join("driver")].into_iter().try_for_each(vanish).map(|()| false);
        }
        for directory in [&self.directory(AttributeFolder::Counters), &users, &debug] {
            fs::create_dir_all(directory)?;
        }
        put(&users.join("pids"), "", READ_ONLY)?;
        // For other users the directory stays writable, because only root could remove the file again.
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&users, Permissions::from_mode(0o555))?;
        }
        link(&format!("../../../{bdf}"), &class.join("device"))?;
        link("../../../../../../class/tenstorrent", &class.join("subsystem"))?;
        link("../../../../bus/pci/drivers/tenstorrent", &device.join("driver"))?;
        link(&format!("../../../../{}", self.pci.path()), &bound)?;
        put_line(&class.join("dev"), &format!("{}:{id}", kernel::MAJOR), READ_ONLY)?;
        put_line(&class.join("uevent"), &format!("MAJOR={}\nMINOR={id}\nDEVNAME=tenstorrent/{id}", kernel::MAJOR), SWITCH)?;
        put_all(&class.join("power"), kernel::POWER_IDLE)?;
        Ok(true)
    }

    /// Creates or removes the sensors, which exist once the firmware is ready. The `tt_*` files are written with the others.
    fn set_ready(&self, is_ready: bool) -> io::Result<bool> {
        let hwmon = self.directory(AttributeFolder::Hwmon);
        let listed = self.root.join(format!("sys/class/hwmon/hwmon{}", self.pci.hwmon));
        if is_ready && hwmon.exists() {
            return Ok(false);
        }
        if !is_ready {
            vanish(&listed)?;
            vanish(hwmon.parent().unwrap_or(&hwmon))?;
            let class = self.directory(AttributeFolder::Class);
            let rows = published(self.chip.product.arch, self.driver).filter(|row| row.folder == AttributeFolder::Class);
            return rows.map(|row| class.join(row.file)).try_for_each(|path| vanish(&path)).map(|()| false);
        }
        fs::create_dir_all(&hwmon)?;
        for (file, text) in self.chip.board.silicon.labels {
            put_line(&hwmon.join(file), text, READ_ONLY)?;
        }
        put(&hwmon.join("uevent"), "", SWITCH)?;
        put_all(&hwmon.join("power"), kernel::POWER_IDLE)?;
        link(&format!("../../../{}", self.pci.bdf()), &hwmon.join("device"))?;
        link("../../../../../../class/hwmon", &hwmon.join("subsystem"))?;
        link(&format!("../../{}/hwmon/hwmon{}", self.pci.path(), self.pci.hwmon), &listed)?;
        Ok(true)
    }

    fn class_link(&self) -> PathBuf {
        self.root.join(format!("sys/class/tenstorrent/tenstorrent!{}", self.chip.id))
    }

    fn link_class(&self) -> io::Result<()> {
        link(&format!("../../{}/tenstorrent/tenstorrent!{}", self.pci.path(), self.chip.id), &self.class_link())
    }
}

fn directory(root: &Path, chip: &Chip, pci: &Pci, place: AttributeFolder) -> PathBuf {
    let below = match place {
        AttributeFolder::Pci => pci.path(),
        AttributeFolder::Bridge => pci.bridge_path(),
        AttributeFolder::Hwmon => format!("{}/hwmon/hwmon{}", pci.path(), pci.hwmon),
        AttributeFolder::Class => format!("{}/tenstorrent/tenstorrent!{}", pci.path(), chip.id),
        AttributeFolder::Counters => format!("{}/tenstorrent/tenstorrent!{}/pcie_perf_counters", pci.path(), chip.id),
    };
    root.join("sys").join(below)
}
