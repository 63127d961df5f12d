//! The devices of the virtual machine, and the ways in which the simulator, the kernel and the driver can disturb them.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::OFlags;

use crate::files;
use crate::project;
use crate::service::until;

/// The simulator's control file (driver-vm/simulator/rig.h).
pub(super) const CONTROL: &str = "/run/vm/ctl/telemetry";
pub(super) const CLASS: &str = "/sys/class/tenstorrent";
const PCI: &str = "/sys/bus/pci";

#[derive(Default)]
pub(super) struct Chips {
    is_blackhole: bool,
    pub(super) count: usize,
    /// PCI address of each device, after they were seen once.
    addresses: RefCell<Vec<String>>,
    module: RefCell<String>,
    sequence: Cell<u64>,
    held: RefCell<Option<File>>,
}

impl Chips {
    pub(super) fn new(board: &str) -> Self {
        let count = if board == "t3k" { 4 } else { 1 };
        Self { is_blackhole: board == "p150", count, ..Self::default() }
    }

    /// Returns the id of the device that scenarios disturb: one in the middle, if there are several.
    pub(super) fn victim(&self) -> u64 {
        if self.count > 2 { 2 } else { 0 }
    }

    /// Replaces the simulator's rules and waits until they are in effect.
    pub(super) fn set_rules(&self, rules: &[&str]) -> Result<(), String> {
        let sequence = self.sequence.get() + 1;
        self.sequence.set(sequence);
        let text = format!("sequence {sequence}\n{}\n", rules.join("\n"));
        let new = format!("{CONTROL}.new");
        write(&new, &text)?;
        fs::rename(&new, CONTROL).map_err(|error| format!("{CONTROL}: {error}"))?;
        let seen = format!("{CONTROL}.seen");
        until("acknowledged by the simulator", || fs::read_to_string(&seen).is_ok_and(|text| text.trim() == sequence.to_string()))
    }

    pub(super) fn load(&self, driver: &str) -> Result<(), String> {
        *self.module.borrow_mut() = format!("/run/vm/drivers/{driver}.ko");
        self.load_again()
    }

    pub(super) fn load_again(&self) -> Result<(), String> {
        busybox(&["insmod", &self.module.borrow()])
    }

    pub(super) fn unload(&self) -> Result<(), String> {
        busybox(&["rmmod", "tenstorrent"])
    }

    pub(super) fn wait_for_devices(&self) -> Result<(), String> {
        until("listed by the driver", || fs::read_dir(CLASS).is_ok_and(|entries| entries.count() == self.count))?;
        if self.addresses.borrow().is_empty() {
            let address = |id| fs::read_link(format!("{CLASS}/tenstorrent!{id}/device")).ok()?.file_name()?.to_str().map(str::to_owned);
            *self.addresses.borrow_mut() = (0..self.count).filter_map(address).collect();
        }
        Ok(())
    }

    /// Waits until the driver has created all files of all devices. A deferred job creates the sensors last.
    pub(super) fn wait_for_files(&self) -> Result<(), String> {
        self.wait_for_devices()?;
        let has_sensors = |id| fs::read_dir(format!("{CLASS}/tenstorrent!{id}/device/hwmon")).is_ok_and(|mut names| names.next().is_some());
        let has_type = |id| Path::new(&format!("{CLASS}/tenstorrent!{id}/tt_card_type")).exists();
        until("with telemetry files", || (0..self.count).all(|id| has_sensors(id) && has_type(id)))
    }

    /// Lets the firmware answer. On Blackhole the driver reads telemetry only when it is loaded.
    pub(super) fn make_ready(&self) -> Result<(), String> {
        self.set_rules(&[])?;
        if self.is_blackhole {
            self.unload()?;
            self.load_again()?;
        }
        self.wait_for_files()
    }

    fn address(&self) -> Result<String, String> {
        let index = usize::try_from(self.victim()).unwrap_or_default();
        self.addresses.borrow().get(index).cloned().ok_or_else(|| "the devices were never listed".to_owned())
    }

    pub(super) fn unbind(&self) -> Result<(), String> {
        write(&format!("{PCI}/drivers/tenstorrent/unbind"), &self.address()?)
    }

    pub(super) fn bind(&self) -> Result<(), String> {
        write(&format!("{PCI}/drivers/tenstorrent/bind"), &self.address()?)
    }

    pub(super) fn remove(&self) -> Result<(), String> {
        write(&format!("{PCI}/devices/{}/remove", self.address()?), "1")
    }

    pub(super) fn rescan(&self) -> Result<(), String> {
        write(&format!("{PCI}/rescan"), "1")
    }

    /// Calls the reset ioctl of the driver; driver-vm/guest/reset.c lists the kinds.
    pub(super) fn reset(&self, kind: &str) -> Result<(), String> {
        project::run(Command::new("/run/vm/bin/reset").args([kind, &self.victim().to_string()]))
    }

    pub(super) fn hold(&self, flags: OFlags) -> Result<(), String> {
        *self.held.borrow_mut() = Some(self.open(flags)?);
        Ok(())
    }

    /// Opens the device. Without O_APPEND the driver would set a power state, which the simulator refuses.
    pub(super) fn open(&self, flags: OFlags) -> Result<File, String> {
        let flags = (flags | OFlags::APPEND | OFlags::NONBLOCK).bits();
        let path = format!("/dev/tenstorrent/{}", self.victim());
        let flags = i32::try_from(flags).map_err(|error| format!("{path}: {error}"))?;
        fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).map_err(|error| format!("{path}: {error}"))
    }

    pub(super) fn release(&self) -> Result<(), String> {
        *self.held.borrow_mut() = None;
        Ok(())
    }
}

fn write(path: &str, text: &str) -> Result<(), String> {
    files::write(Path::new(path), text)
}

fn busybox(arguments: &[&str]) -> Result<(), String> {
    project::run(Command::new("/run/vm/bin/busybox").args(arguments))
}
