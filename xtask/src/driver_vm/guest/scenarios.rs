//! The disturbances of the devices while the monitors run, and the expected state.

use rustix::fs::OFlags;

use super::chips::Chips;
use super::deep::DEEP;
use super::expected::{Expected, Scope};

/// Not in the table, because it needs no monitor.
pub(in crate::driver_vm) const VALUES: &str = "values";
/// Not in the table, because the monitors are started while the firmware is not ready.
pub(super) const LATE: &str = "late";

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) disturb: fn(&Chips) -> Result<(), String>,
    pub(super) expected: fn(&str) -> Expected,
    pub(super) restore: fn(&Chips) -> Result<(), String>,
    /// Part of the remedy that `ttmon doctor` prints during the disturbance; depends on whether the machine has only one device. Empty if
    /// no remedy is expected.
    pub(super) remedy: fn(&str, bool) -> &'static str,
}

/// Does nothing, and expects healthy devices and no remedy.
const QUIET: Scenario = Scenario { name: "", disturb: |_| Ok(()), expected: |_| Expected::fine(), restore: |_| Ok(()), remedy: |_, _| "" };

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "reset",
        disturb: |chips| chips.reset("user"),
        // Before 2.9 the driver does not report that a device is in reset, so the values of the chip are visible.
        expected: |driver| {
            let reset = Expected::unread("resetting", "resetting", "RESET", "the chip is being reset");
            if matches!(driver, "2.5.0" | "2.7.0") { Expected::fine() } else { reset }
        },
        restore: |chips| chips.reset("post"),
        remedy: |driver, _| if matches!(driver, "2.5.0" | "2.7.0") { "" } else { "wait for the end of the reset" },
    },
    Scenario {
        name: "unbind",
        disturb: Chips::unbind,
        expected: |_| Expected::gone(Scope::Victim),
        restore: Chips::bind,
        remedy: |_, _| "drivers/tenstorrent/bind",
    },
    Scenario {
        name: "rebind",
        // Between two samples: the names are the same, but all files are new.
        disturb: |chips| {
            chips.unbind()?;
            chips.bind()?;
            chips.wait_for_files()
        },
        ..QUIET
    },
    Scenario {
        name: "reload",
        disturb: Chips::unload,
        expected: |_| Expected::gone(Scope::All),
        restore: Chips::load_again,
        remedy: |_, _| "sudo modprobe tenstorrent",
    },
    Scenario {
        name: "all-ones",
        disturb: |chips| chips.set_rules(&["* dead 1"]),
        expected: |_| Expected::all_ones(),
        restore: |chips| chips.set_rules(&[]),
        remedy: |_, _| "tt-smi -r",
    },
    Scenario {
        name: "frozen",
        disturb: |chips| chips.set_rules(&["* 32 hold"]),
        expected: |_| Expected::stopped_heartbeat(),
        restore: |chips| chips.set_rules(&[]),
        ..QUIET
    },
    Scenario {
        name: "not-ready",
        // The driver is loaded again, and the firmware has no telemetry yet.
        disturb: |chips| {
            chips.unload()?;
            chips.set_rules(&["* ready 0"])?;
            chips.load_again()?;
            chips.wait_for_devices()
        },
        expected: |_| Expected::starting(),
        restore: Chips::make_ready,
        remedy: |_, _| "modprobe -r tenstorrent",
    },
    Scenario {
        name: "holder",
        disturb: |chips| chips.hold(OFlags::empty()),
        expected: |_| Expected::held(),
        restore: Chips::release,
        remedy: |_, _| "ttmon run -- COMMAND",
    },
    Scenario {
        name: "exclusive",
        // This open succeeds only while no other process has the device open. The monitors do not have it open.
        disturb: |chips| {
            chips.hold(OFlags::EXCL)?;
            let is_alone = chips.open(OFlags::empty()).is_err();
            if is_alone { Ok(()) } else { Err("a second open succeeds beside O_EXCL, so the scenario proves nothing".to_owned()) }
        },
        expected: |_| Expected::held(),
        restore: Chips::release,
        remedy: |_, _| "ttmon run -- COMMAND",
    },
    Scenario {
        // This is the last scenario: a device found by a rescan is probed last when the driver is loaded again, so its number changes.
        name: "remove",
        disturb: Chips::remove,
        expected: |_| Expected::gone(Scope::Victim),
        restore: Chips::rescan,
        remedy: |_, is_lone| if is_lone { "pci/rescan" } else { "" },
    },
];

pub(in crate::driver_vm) fn names() -> impl Iterator<Item = &'static str> {
    [LATE].into_iter().chain(SCENARIOS.iter().map(|scenario| scenario.name)).chain([VALUES, DEEP])
}
