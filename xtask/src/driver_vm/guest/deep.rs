//! Tests `ttmon --deep` on the real driver: the values that it reads, when it opens a device, and what it leaves behind.

mod faces;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde_json::Value;
use ttmon_deep::kernel::Kernel;
use ttmon_deep::{READER_NAME, Session};
use ttmon_model::Arch;
use ttmon_model::deep::tag;

use super::chips::Chips;
use super::files::HOLD_SENSORS;
use super::monitors::{HANG, Mark, READ_TIMEOUT, Samples, once};
use crate::project;
use crate::service::{Ended, until};

pub(in crate::driver_vm) const DEEP: &str = "deep";

/// Address at which the simulator publishes the block of a program (driver-vm/patches/ttsim.patch), as the firmware addresses it.
const BLOCK: u64 = 0x1007_6000;
/// Address of the counters of the queue, in L1 of its core.
const COUNTERS: u64 = 0x1_A180;
const SIGNATURE: u32 = 0x534D_435F;
const SAMPLES: u64 = 1000;
/// Number of checks with several cards beside other scenarios, because four emulated cards are slow. The first checks are run.
const OF_SEVERAL: usize = 2;
/// Maximum number of attempts for a value that is written while the chip is read.
const TRIES: usize = 4;

pub(super) struct Deep<'a> {
    ttmon: &'a Path,
    umd: Option<&'a Path>,
    chips: &'a Chips,
    arch: Arch,
    arc: (u16, u16),
    core: (u16, u16),
    csm: u64,
    /// Address of the word with the address of the block.
    pointer: u64,
    window: u64,
}

type Check<'a> = (&'static str, fn(&Deep<'a>) -> Result<String, String>);

impl<'a> Deep<'a> {
    pub(super) fn new(ttmon: &'a Path, umd: Option<&'a Path>, chips: &'a Chips, board: &str) -> Self {
        match board {
            "p150" => {
                Self { ttmon, umd, chips, arch: Arch::Blackhole, arc: (8, 0), core: (2, 2), csm: 0, pointer: 0x8003_0458, window: 2 << 20 }
            }
            _ => {
                let (csm, pointer) = (0x8_0000_0000, 0x8_1007_5C00);
                Self { ttmon, umd, chips, arch: Arch::Wormhole, arc: (0, 10), core: (19, 20), csm, pointer, window: 1 << 20 }
            }
        }
    }

    /// Returns all checks by name, or only the first ones: see [`OF_SEVERAL`].
    pub(super) fn checks(&self, is_alone: bool) -> impl Iterator<Item = Check<'a>> + use<'a> {
        let checks: [Check<'a>; 12] = [
            ("power-down of an idle chip", Self::leaves_power_down),
            ("tags", Self::follows_tags),
            ("system calls", Self::calls_nothing_else),
            ("utilization", Self::measures_utilization),
            ("blocks that are not followed", Self::refuses_blocks),
            ("tags beside tt-umd", Self::equals_umd),
            ("service", Self::serves),
            ("top", Self::shows_on_a_screen),
            ("reset and unbind", Self::survives),
            ("windows taken by another", Self::skips_without_windows),
            ("a device that another has for itself", Self::skips_an_exclusive_device),
            ("a thousand samples", Self::leaves_nothing),
        ];
        let count = if self.chips.count == 1 || is_alone { checks.len() } else { OF_SEVERAL };
        checks.into_iter().take(count)
    }

    /// The driver starts the power-down timer of a Wormhole chip at the last close. A reader must not cancel it.
    fn leaves_power_down(&self) -> Result<String, String> {
        const CANCELLED: &str = "cancelled pending idle powerdown";
        let _ = project::run(Command::new("/run/vm/bin/busybox").args(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"]));
        fs::write("/sys/kernel/debug/dynamic_debug/control", "module tenstorrent +p").map_err(|error| format!("dynamic debug: {error}"))?;
        let cancelled = || Ok::<usize, String>(kernel_log()?.matches(CANCELLED).count());
        let before = cancelled()?;
        self.arm_power_down()?;
        let started = Instant::now();
        let document = self.snapshot()?;
        let took = started.elapsed();
        let power = &self.device(&document)["board_power"];
        if !power.is_number() {
            return Err(format!("expected board_power after the wait, found {power}: {}", self.device(&document)["missing"]));
        }
        let by_us = cancelled()? - before;
        if by_us != 0 {
            return Err(format!("expected no {CANCELLED:?} in the kernel's log, found {by_us}"));
        }
        if self.arch == Arch::Blackhole {
            return Ok(format!("a snapshot took {:.1} s; Blackhole is powered down at the last close", took.as_secs_f64()));
        }
        // The same open without the wait is detected, so this check can fail.
        self.arm_power_down()?;
        drop(self.chips.open(OFlags::empty())?);
        match cancelled()? - before {
            0 => Err("an open that cancels the power-down is not seen in the kernel's log, so the check proves nothing".to_owned()),
            _ => Ok(format!("a snapshot took {:.1} s and cancelled nothing; an open without the wait does", took.as_secs_f64())),
        }
    }

    /// Opens and closes the device like a program that requests power. The simulator refuses the message, and the driver continues.
    fn arm_power_down(&self) -> Result<(), String> {
        let path = self.node();
        fs::OpenOptions::new().read(true).write(true).open(&path).map(drop).map_err(|error| format!("{path}: {error}"))
    }

    fn follows_tags(&self) -> Result<String, String> {
        let expected = |device: &Value| {
            let pairs = [
                ("board_power", Value::from(123.0)),
                ("board_power_limit", Value::from(300.0)),
                ("board_temperature", Value::from(35.0)),
                ("input_current", Value::Null),
                ("gddr_temperature", Value::from(61.0)),
                ("gddr_speed_mts", Value::from(16_000)),
                ("gddr_trained", Value::from(true)),
                ("gddr_uncorrected_errors", Value::from(2)),
                ("throttle_reasons", Value::from(vec!["temperature"])),
                ("utilization", Value::from(0.0)),
            ];
            let wrong = pairs.into_iter().find(|(name, value)| device[name] != *value);
            wrong.map_or(Ok(()), |(name, value)| Err(format!("expected {name} {value}, found {}", device[name])))
        };
        let held = self.hold()?;
        self.chips.set_rules(&["* 54 123", "* 51 61", "* 50 3"])?;
        let monitor = Monitor::start(self.ttmon, self.chips.victim())?;
        let mark = Mark::now();
        drop(held);
        let checked = monitor.until(mark, expected);
        // Changing values are read while the chip is held.
        let held = self.hold()?;
        self.chips.set_rules(&["* 54 45"])?;
        let followed = monitor.until_equal("board_power", 45.0);
        drop(held);
        self.chips.set_rules(&[])?;
        checked.and(followed).map(|samples| format!("10 fields as planted, and a change after {samples} samples"))
    }

    fn equals_umd(&self) -> Result<String, String> {
        let Some(python) = self.umd else { return Ok("not examined: no tt-umd".to_owned()) };
        self.chips.set_rules(&HOLD_SENSORS)?;
        let mut session = Session::new(Kernel::new(Path::new(&self.node()), self.arch), self.arch);
        let ours = session.sample(Duration::ZERO, Some(true), Duration::ZERO).map_err(|reason| reason.to_string())?.tags;
        let mut command = Command::new(python);
        command.args(["driver-vm/guest/umd.py"]).arg(self.chips.victim().to_string());
        let printed = project::output(command.stdin(Stdio::null()))?;
        self.chips.set_rules(&[])?;
        let theirs = printed.lines().find_map(|line| line.strip_prefix("tags ")).ok_or("umd.py printed no tags")?;
        let theirs: Value = serde_json::from_str(theirs).map_err(|error| error.to_string())?;
        for (tag, value) in ours.iter().filter(|(tag, _)| *tag != tag::TIMER_HEARTBEAT) {
            equal(&theirs[tag.to_string()], &Value::from(*value)).map_err(|error| format!("tag {tag}: {error}"))?;
        }
        Ok(format!("{} tags are equal", ours.len() - 1))
    }

    /// Checks every system call of the reading process with strace.
    fn calls_nothing_else(&self) -> Result<String, String> {
        const OURS: [&str; 5] = ["0xfa, 0x5", "0xfa, 0", "0xfa, 0xb", "0xfa, 0xd", "0xfa, 0xc"];
        let held = self.hold()?;
        let log = "/tmp/deep-calls";
        let mut command = Command::new("/usr/bin/strace");
        command.args(["-f", "-o", log, "-e", "trace=ioctl,mmap,openat,open,write,pwrite64", self.ttmon.to_str().unwrap_or_default()]);
        let output = command.args(["--deep", "--json", "--no-server"]).args(READ_TIMEOUT).stdin(Stdio::null()).output();
        drop(held);
        if let Err(error) = output {
            return Ok(format!("not examined: strace: {error}"));
        }
        let calls = fs::read_to_string(log).map_err(|error| format!("{log}: {error}"))?;
        let (mut ioctls, mut opens, mut maps) = (0, 0, 0);
        // Each chip has its own process, and each line begins with the pid.
        let mut nodes = HashMap::new();
        for line in calls.lines() {
            let process = line.split_whitespace().next().unwrap_or_default();
            if line.contains("/dev/tenstorrent/") {
                opens += 1;
                if !line.contains("O_RDWR|O_APPEND|O_NONBLOCK") {
                    return Err(format!("expected O_RDWR|O_APPEND|O_NONBLOCK, found {line}"));
                }
                nodes.insert(process, line.rsplit("= ").next().unwrap_or_default().trim());
            } else if line.contains("ioctl(") && line.contains("0xfa") {
                ioctls += 1;
                if !OURS.iter().any(|ours| line.contains(&format!("({ours}, ")) || line.contains(&format!("{ours}, 0"))) {
                    return Err(format!("expected one of five ioctls, found {line}"));
                }
            } else if let Some(node) = nodes.get(process)
                && line.contains("mmap(NULL, ")
                && line.contains(&format!("MAP_SHARED, {node}, "))
            {
                maps += 1;
                if !line.contains("PROT_READ, ") {
                    return Err(format!("expected PROT_READ alone, found {line}"));
                }
            }
        }
        if opens == 0 || maps != opens || ioctls < 4 * opens {
            return Err(format!(
                "expected one mapping and at least 4 ioctls per open, found {opens} opens, {maps} mappings, {ioctls} ioctls"
            ));
        }
        Ok(format!("{opens} opens, {maps} mappings for reading, {ioctls} ioctls, all of the five"))
    }

    /// Writes counters as a queue would: cycles, busy cycles, and working time of each core. The queue waits for the host.
    fn plant_counters(&self, cycles: u64, busy: u64, worked: u64, programs: u32) -> Result<(), String> {
        let half = |number: u64, shift: u32| u32::try_from(number >> shift & 0xFFFF_FFFF).unwrap_or_default();
        let mut words = vec![0; 62];
        words[..5].copy_from_slice(&[1, 0x4449_5350, programs.wrapping_add(1), programs, programs]);
        for (at, number) in [(6, cycles), (8, worked), (10, busy)] {
            (words[at], words[at + 1]) = (half(number, 0), half(number, 32));
        }
        (words[46], words[54]) = (64, 64);
        self.write(self.core, COUNTERS, &words)
    }

    /// Writes the block that a program publishes, with this signature, flags and core.
    fn plant_block(&self, signature: u32, flags: u8, core: (u16, u16)) -> Result<(), String> {
        self.plant_block_at(BLOCK, signature, flags, core)
    }

    fn plant_block_at(&self, address: u64, signature: u32, flags: u8, core: (u16, u16)) -> Result<(), String> {
        let mut bytes = [0xFF; 56];
        bytes[..4].copy_from_slice(&1_u32.to_le_bytes());
        bytes[4..8].copy_from_slice(&signature.to_le_bytes());
        bytes[8] = flags;
        bytes[9..13].copy_from_slice(&u32::try_from(COUNTERS).unwrap_or_default().to_le_bytes());
        bytes[13] = 1;
        bytes[18..22].copy_from_slice(&(u32::from(core.0) << 16 | u32::from(core.1)).to_le_bytes());
        let words: Vec<u32> = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        self.write(self.arc, self.csm + address, &words)
    }

    fn point_to_block(&self, address: u64) -> Result<(), String> {
        self.write(self.arc, self.pointer, &[u32::try_from(address).unwrap_or_default()])
    }

    fn write(&self, (x, y): (u16, u16), address: u64, words: &[u32]) -> Result<(), String> {
        let mut command = Command::new("/run/vm/bin/chip");
        command.args(["write", &self.chips.victim().to_string(), &x.to_string(), &y.to_string(), &address.to_string()]);
        project::run(command.args(words.iter().map(u32::to_string)))
    }

    fn measures_utilization(&self) -> Result<String, String> {
        let held = self.hold()?;
        // Every counter wraps in the first step.
        let (mut cycles, mut busy, mut worked, mut programs) = (u64::MAX - 1000, u64::MAX - 10, u64::MAX - 5, u32::MAX);
        self.plant_counters(cycles, busy, worked, programs)?;
        self.plant_block(SIGNATURE, 0, self.core)?;
        let monitor = Monitor::start(self.ttmon, self.chips.victim())?;
        monitor.until_equal("queues_waiting", 1)?;
        for share in [37_u64, 0, 100] {
            let mut tried = Err(String::new());
            for _ in 0..TRIES {
                let mark = Mark::now();
                (cycles, busy) = (cycles.wrapping_add(100_000_000), busy.wrapping_add(share * 1_000_000));
                (worked, programs) = (worked.wrapping_add(share * 500_000), programs.wrapping_add(7));
                self.plant_counters(cycles, busy, worked, programs)?;
                let part = |whole: f64| Value::from(f64::from(u32::try_from(share).unwrap_or_default()) / whole);
                let is_counted = |device: &Value| device["programs_per_s"].as_f64().is_some_and(|rate| (1.0..20.0).contains(&rate));
                // The counters change once. A later sample may have no difference, and a sample in between only a part.
                tried = monitor.until(mark, |device| {
                    equal(&device["utilization"], &part(100.0))?;
                    equal(&device["core_efficiency"], &part(200.0))?;
                    if is_counted(device) { Ok(()) } else { Err(format!("programs_per_s {}", device["programs_per_s"])) }
                });
                if tried.is_ok() {
                    break;
                }
            }
            tried.map_err(|error| format!("at {share} %: {error}"))?;
        }
        monitor.until_missing("utilization", "stale")?;
        drop(held);
        monitor.until_equal("utilization", 0.0)?;
        Ok("37, 0 and 100 % as planted, and half for cores, over counters that all wrap; then stale, and 0 without a holder".to_owned())
    }

    fn refuses_blocks(&self) -> Result<String, String> {
        let held = self.hold()?;
        self.plant_counters(1, 1, 1, 1)?;
        let monitor = Monitor::start(self.ttmon, self.chips.victim())?;
        for (signature, flags, core, reason) in
            [(SIGNATURE, 1, self.core, "slow_dispatch"), (0, 0, self.core, "no_source"), (SIGNATURE, 0, (40, 50), "out_of_range")]
        {
            self.plant_block(signature, flags, core)?;
            monitor.until_missing("utilization", reason)?;
        }
        // The address of the block changes: to a valid block, to a block of slow dispatch, and out of its memory.
        self.plant_block_at(BLOCK + 0x100, SIGNATURE, 0, self.core)?;
        self.plant_block_at(BLOCK + 0x200, SIGNATURE, 1, self.core)?;
        let moved = || {
            self.point_to_block(BLOCK + 0x100)?;
            monitor.until_equal("queues_waiting", 1)?;
            for (address, reason) in [(BLOCK + 0x200, "slow_dispatch"), (0x2000_0000, "out_of_range")] {
                self.point_to_block(address)?;
                monitor.until_missing("utilization", reason)?;
            }
            Ok::<(), String>(())
        };
        let moved = moved();
        self.point_to_block(BLOCK)?;
        self.plant_block(0, 0, self.core)?;
        drop(held);
        moved?;
        Ok("slow dispatch, a signature removed, a core out of range, a block that moves".to_owned())
    }

    fn read_while_held(&self, monitor: &Monitor) -> Result<(), String> {
        let _held = self.hold()?;
        monitor.until_read().map(drop)
    }

    /// Checks that the reader continues after a reset and after an unbound device.
    fn survives(&self) -> Result<String, String> {
        let held = self.hold()?;
        let monitor = Monitor::start(self.ttmon, self.chips.victim())?;
        monitor.until_read()?;
        self.chips.reset("user")?;
        let reset = monitor.until_missing("board_power", "resetting");
        self.chips.reset("post")?;
        drop(held);
        reset?;
        self.chips.wait_for_files()?;
        self.read_while_held(&monitor)?;
        self.chips.unbind()?;
        let gone = monitor.until_missing("board_power", "gone");
        self.chips.bind()?;
        self.chips.wait_for_files()?;
        gone?;
        self.read_while_held(&monitor)?;
        // The reader has the device open for a short time per sample, so unloading is retried.
        until("unloaded", || self.chips.unload().is_ok())?;
        self.chips.load_again()?;
        self.chips.wait_for_files()?;
        self.read_while_held(&monitor)?;
        Ok("resetting, gone, unloaded, and read again each time".to_owned())
    }

    fn skips_without_windows(&self) -> Result<String, String> {
        let held = self.hold()?;
        let (taken, windows) = self.take_windows()?;
        let monitor = Monitor::start(self.ttmon, self.chips.victim())?;
        monitor.until_missing("board_power", "busy")?;
        drop(taken);
        monitor.until_read()?;
        drop(held);
        Ok(format!("busy while another has all {windows} windows of {} bytes; read again afterwards", self.window))
    }

    /// A program such as tt-flash opens the device with O_EXCL. It succeeds between two samples, and then no sample is taken.
    fn skips_an_exclusive_device(&self) -> Result<String, String> {
        let held = self.hold()?;
        let monitor = Monitor::start(self.ttmon, self.chips.victim())?;
        monitor.until_read()?;
        drop(held);
        let mut alone = None;
        until("opened with O_EXCL", || {
            alone = self.chips.open(OFlags::EXCL).ok();
            alone.is_some()
        })?;
        monitor.until_missing("board_power", "busy")?;
        drop(alone);
        self.read_while_held(&monitor)?;
        Ok("opened between two samples; busy while another has it; read again afterwards".to_owned())
    }

    /// Allocates all windows of the used size in another process. Returns the process and their number.
    fn take_windows(&self) -> Result<(Ended, u64), String> {
        let mut command = Command::new("/run/vm/bin/chip");
        command.args(["windows", &self.chips.victim().to_string(), &self.window.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| format!("chip windows: {error}"))?;
        let mut taken = Ended(child);
        let count = first_line(&mut taken.0)?.parse().map_err(|error| format!("chip windows: {error}"))?;
        Ok((taken, count))
    }

    fn leaves_nothing(&self) -> Result<String, String> {
        let descriptors = || fs::read_dir("/proc/self/fd").map(Iterator::count).map_err(|error| error.to_string());
        let windows = || self.take_windows().map(|(_, count)| count);
        let (had, free) = (descriptors()?, windows()?);
        let mut session = Session::new(Kernel::new(Path::new(&self.node()), self.arch), self.arch);
        let started = Instant::now();
        for turn in 0..SAMPLES {
            // The caller provides the time of the session: two samples per second.
            let sample = session.sample(Duration::from_millis(500 * turn), Some(true), Duration::ZERO);
            match sample {
                Ok(sample) if sample.age.is_zero() && !sample.tags.is_empty() => {}
                Ok(sample) => return Err(format!("expected sample {turn} to be new, found {sample:?}")),
                Err(reason) => return Err(format!("sample {turn}: {reason}")),
            }
        }
        let took = started.elapsed();
        until("free again", || windows().is_ok_and(|now| now == free))?;
        let users =
            fs::read_to_string(format!("/proc/driver/tenstorrent/{}/pids", self.chips.victim())).map_err(|error| error.to_string())?;
        until("left by all reading processes", || readers().is_empty())?;
        let has = descriptors()?;
        if has > had || !users.is_empty() {
            return Err(format!("expected {had} descriptors at most and no user, found {has} and {users:?}"));
        }
        let each = took / u32::try_from(SAMPLES).unwrap_or(1);
        Ok(format!("{SAMPLES} samples, {each:.1?} each: no window, descriptor, user or process is left"))
    }

    fn device<'d>(&self, document: &'d Value) -> &'d Value {
        device(document, self.chips.victim())
    }

    fn node(&self) -> String {
        format!("/dev/tenstorrent/{}", self.chips.victim())
    }

    fn hold(&self) -> Result<fs::File, String> {
        self.chips.open(OFlags::empty())
    }

    fn snapshot(&self) -> Result<Value, String> {
        let output = once(self.ttmon, &["--deep", "--json", "--no-server"])?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("ttmon --deep: {error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// `ttmon --deep -l 0.5 --json`, and its output.
struct Monitor {
    samples: Samples,
    id: u64,
    _process: Ended,
}

impl Monitor {
    fn start(ttmon: &Path, id: u64) -> Result<Self, String> {
        let mut command = Command::new(ttmon);
        command.args(["--deep", "-l", "0.5", "--json", "--no-server"]).args(READ_TIMEOUT).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Ended(command.spawn().map_err(|error| format!("ttmon --deep -l: {error}"))?);
        let samples = Samples::default();
        samples.follow(process.0.stdout.take().ok_or("ttmon -l has no output")?);
        Ok(Self { samples, id, _process: process })
    }

    fn until_equal(&self, field: &str, value: impl Into<Value>) -> Result<usize, String> {
        let value = value.into();
        self.until(Mark::now(), |device| equal(&device[field], &value))
    }

    /// Waits until a field is missing for this reason.
    fn until_missing(&self, field: &str, reason: &str) -> Result<usize, String> {
        self.until(Mark::now(), |device| equal(&device["missing"][field], &Value::from(reason)))
    }

    fn until_read(&self) -> Result<usize, String> {
        let missing = |device: &Value| Err(device["missing"]["board_power"].to_string());
        self.until(Mark::now(), |device| if device["board_power"].is_number() { Ok(()) } else { missing(device) })
    }

    /// Waits for a sample after the mark that passes the check. Returns its number.
    fn until(&self, mark: Mark, check: impl Fn(&Value) -> Result<(), String>) -> Result<usize, String> {
        let started = Instant::now();
        loop {
            let verdicts: Vec<Result<(), String>> =
                self.samples.since(mark).iter().map(|document| check(device(document, self.id))).collect();
            match verdicts.iter().position(Result::is_ok) {
                Some(first) => return Ok(first + 1),
                None if started.elapsed() > HANG => {
                    let last = verdicts.last().cloned().unwrap_or_else(|| Err("no sample".to_owned()));
                    return Err(format!("{} samples; the last one: {}", verdicts.len(), last.err().unwrap_or_default()));
                }
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

fn device(document: &Value, id: u64) -> &Value {
    document["devices"].as_array().and_then(|devices| devices.iter().find(|device| device["id"] == id)).unwrap_or(&Value::Null)
}

fn equal(found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

fn readers() -> Vec<String> {
    let is_reader = |pid: &String| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == READER_NAME);
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(is_reader).collect()
}

fn kernel_log() -> Result<String, String> {
    project::output(Command::new("/run/vm/bin/busybox").arg("dmesg"))
}

fn first_line(child: &mut Child) -> Result<String, String> {
    let mut line = String::new();
    let output = child.stdout.as_mut().ok_or("no output")?;
    BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
    Ok(line.trim_end().to_owned())
}
