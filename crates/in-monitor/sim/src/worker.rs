//! A simulated process. It resembles a user's program, updates its slots in TT-Metal's statistics, and ends with the engine.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::set_name;

use crate::buffers::Buffers;
use crate::chip::Chip;
use crate::clock::Clock;
use crate::directory;
use crate::machine::Machine;
use crate::part::{self, PartSettings};
use crate::process::Process;

const PROCESS: &str = "TTMON_SIM_PART_PROCESS";
const START: &str = "TTMON_SIM_PART_START";
const ENGINE: &str = "TTMON_SIM_PART_ENGINE";

/// Starts the worker of a planned process. The worker inherits its other settings from the environment.
pub(crate) fn spawn(process: &Process, clock: Clock) -> io::Result<Child> {
    let mut command = part::command("worker");
    command.env(PROCESS, process.index.to_string()).env(START, clock.nanos().to_string());
    command.env(ENGINE, std::process::id().to_string());
    // The variable refers to devices of the real machine.
    command.env_remove("TT_VISIBLE_DEVICES");
    command.arg0(process.job.program).args(process.job.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

pub(crate) fn run() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The signal covers the end of the engine from now on. This check covers an earlier end.
    let engine: i32 = part::number(ENGINE)?;
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != engine) {
        return Ok(());
    }
    let settings = PartSettings::from_environment()?;
    let machine = settings.machine()?;
    let index: usize = part::number(PROCESS)?;
    let process = machine.processes.get(index).ok_or_else(|| io::Error::other("no such process is planned"))?;
    set_name(&CString::new(process.job.program)?)?;
    let mut tracked = tracked(&machine, process, &settings.directory);
    let clock = Clock::from_nanos(part::number(START)?);
    let mut step = || {
        let tick = clock.tick();
        for (chip, buffers) in &mut tracked {
            buffers.become_like(chip, &machine.used(process, chip, tick), machine.buffers);
        }
        machine.write_slots(&settings.directory, process, std::process::id(), tick)
    };
    step()?;
    part::say_ready()?;
    loop {
        thread::sleep(clock.until_next_tick());
        step()?;
    }
}

/// Returns the chips on which this process tracks every buffer. One program in four runs without tracking.
fn tracked<'a>(machine: &'a Machine, process: &Process, root: &Path) -> Vec<(&'a Chip, Buffers)> {
    if process.index % 4 == 1 {
        return Vec::new();
    }
    let chips: Vec<&Chip> = process.uses.iter().filter(|one| one.slot.is_some()).map(|one| &machine.chips[one.chip as usize]).collect();
    ttmon_client::name_devices(chips.iter().map(|chip| (chip.id, chip.unique_id)).collect());
    ttmon_client::start(ttmon_client::Options { machine: directory::mark(root) });
    chips.into_iter().map(|chip| (chip, Buffers::new(chip))).collect()
}
