//! Runs inside the virtual machine: loads the driver, starts ttmon in three forms, disturbs the devices, and compares.
//!
//! Each line of output is one check. It starts with [`PASSED`] or [`FAILED`] and names board, driver and scenario.

mod chips;
pub(super) mod deep;
mod expected;
mod files;
mod monitors;
pub(super) mod scenarios;
mod top;

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stop::Stop;
use chips::Chips;
use deep::Deep;
use expected::{Baseline, Expected};
use monitors::{Mark, Monitors};
use scenarios::Scenario;

pub(super) const WORD: &str = "guest";
pub(super) const PASSED: &str = "ok   ";
pub(super) const FAILED: &str = "FAIL ";

/// Samples until a disturbance must be visible: the current one and the next.
const SAMPLES_MAX: usize = 2;
/// A snapshot that takes longer is considered hung.
const SNAPSHOT_MAX: Duration = Duration::from_secs(30);

/// Argument for a program that is not available.
pub(super) const NOTHING: &str = "-";

/// `TTMON BOARD DRIVER[,DRIVER...] SCENARIO[,SCENARIO...] PYTHON-WITH-UMD`
pub(super) fn run(arguments: &[String]) -> Result<(), Stop> {
    let [ttmon, board, drivers, scenarios, umd] = arguments else {
        return Err(Stop::Usage("guest needs five arguments".to_owned()));
    };
    if !Path::new(chips::CONTROL).exists() {
        return Err(Stop::Failed("this is not the virtual machine; run cargo xtask driver-vm".to_owned()));
    }
    let drivers: Vec<&str> = drivers.split(',').collect();
    let scenarios: Vec<&str> = scenarios.split(',').collect();
    let newest = *drivers.first().ok_or_else(|| Stop::Usage("no driver".to_owned()))?;
    let mut guest = Guest {
        ttmon: Path::new(ttmon),
        umd: Some(Path::new(umd)).filter(|path| *path != Path::new(NOTHING)),
        board,
        driver: newest.to_owned(),
        chips: Chips::new(board),
        failures: 0,
        started: Instant::now(),
    };
    if let Err(why) = guest.check_all(&drivers, &scenarios) {
        guest.report("", "machine", Err(why));
    }
    if guest.failures == 0 { Ok(()) } else { Err(Stop::Told) }
}

struct Guest<'a> {
    ttmon: &'a Path,
    umd: Option<&'a Path>,
    board: &'a str,
    driver: String,
    chips: Chips,
    failures: u64,
    started: Instant,
}

impl Guest<'_> {
    fn report(&mut self, scenario: &str, part: &str, result: Result<String, String>) {
        let (sign, text) = match result {
            Ok(text) => (PASSED, text),
            Err(text) => {
                self.failures += 1;
                (FAILED, text)
            }
        };
        let (board, driver, seconds) = (self.board, &self.driver, self.started.elapsed().as_secs_f64());
        println!("{sign}{board} {driver} {scenario}: {part}: {text} [{seconds:.1} s]");
    }

    fn check_all(&mut self, drivers: &[&str], scenarios: &[&str]) -> Result<(), String> {
        let is_late = scenarios.contains(&scenarios::LATE);
        if is_late {
            self.chips.set_rules(&["* ready 0"])?;
        }
        let newest = self.driver.clone();
        self.chips.load(&newest)?;
        self.chips.wait_for_devices()?;
        if !is_late {
            self.chips.wait_for_files()?;
        }
        let mut monitors = Monitors::start(self.ttmon)?;
        if is_late {
            self.check_late(&monitors)?;
        }
        let baseline = Baseline::new(&monitors.next_document()?, self.chips.victim());
        self.report("start", "rows", baseline.check_rows(self.board));
        self.await_recovery("start", &monitors, &baseline);
        for scenario in scenarios::SCENARIOS.iter().filter(|scenario| scenarios.contains(&scenario.name)) {
            self.disturb(scenario, &monitors, &baseline)?;
        }
        if scenarios.contains(&scenarios::VALUES) {
            self.compare_values();
            for driver in &drivers[1..] {
                self.change_driver(driver)?;
                self.await_recovery("change of driver", &monitors, &baseline);
                self.compare_values();
            }
        }
        let ended = monitors.end();
        self.report("end", "no monitor was restarted", ended);
        drop(monitors);
        if scenarios.contains(&deep::DEEP) {
            self.check_deep(&newest, drivers.len() > 1, scenarios == [deep::DEEP])?;
        }
        Ok(())
    }

    fn change_driver(&mut self, driver: &str) -> Result<(), String> {
        self.chips.unload()?;
        self.driver = driver.to_owned();
        self.chips.load(driver)?;
        self.chips.wait_for_files()
    }

    /// Reads the chips themselves, on the newest driver. If this is the only scenario, several cards get every check.
    fn check_deep(&mut self, newest: &str, is_changed: bool, is_alone: bool) -> Result<(), String> {
        if is_changed {
            self.change_driver(newest)?;
        }
        let deep = Deep::new(self.ttmon, self.umd, &self.chips, self.board);
        let results: Vec<_> = deep.checks(is_alone).map(|(name, check)| (name, check(&deep))).collect();
        for (name, result) in results {
            self.report(deep::DEEP, name, result);
        }
        Ok(())
    }

    fn check_late(&mut self, monitors: &Monitors) -> Result<(), String> {
        let expected = Expected::starting();
        let baseline = Baseline::unknown(self.chips.count);
        self.judge(scenarios::LATE, monitors, Mark::now(), &expected, &baseline);
        self.chips.make_ready()
    }

    fn disturb(&mut self, scenario: &Scenario, monitors: &Monitors, baseline: &Baseline) -> Result<(), String> {
        let expected = (scenario.expected)(&self.driver);
        (scenario.disturb)(&self.chips)?;
        self.judge(scenario.name, monitors, Mark::now(), &expected, baseline);
        let remedy = (scenario.remedy)(&self.driver, baseline.is_lone());
        if !remedy.is_empty() {
            let examined = self.doctor(remedy);
            self.report(scenario.name, "ttmon doctor", examined);
        }
        (scenario.restore)(&self.chips)?;
        self.chips.wait_for_files()?;
        self.await_recovery(scenario.name, monitors, baseline);
        Ok(())
    }

    /// Waits until all devices are healthy again in all monitors, with their old ids.
    fn await_recovery(&mut self, scenario: &str, monitors: &Monitors, baseline: &Baseline) {
        let part = format!("{scenario}, after");
        self.judge(&part, monitors, Mark::now(), &Expected::fine(), baseline);
    }

    /// Checks that each monitor, and a single snapshot, shows the expected state within [`SAMPLES_MAX`] samples.
    fn judge(&mut self, scenario: &str, monitors: &Monitors, mark: Mark, expected: &Expected, baseline: &Baseline) {
        let samples_max = SAMPLES_MAX + expected.more_samples;
        let check_screen = |screen: &str| expected.check_screen(screen, baseline);
        let drawn = monitors.top.judge(mark, samples_max, monitors.repeated(), check_screen);
        for (name, samples) in &monitors.samples {
            let judged = samples.judge(mark, samples_max, |document| expected.check(document, baseline));
            self.report(scenario, name, judged.map(|samples| format!("{} in sample {samples}", expected.state)));
        }
        // The state must still be correct when the screen is drawn again.
        let drawn =
            drawn.and_then(|seconds| check_screen(&monitors.top.text()).map(|()| format!("{} after {seconds:.1} s", expected.state)));
        self.report(scenario, "ttmon top", drawn);
        let snapshot = self.snapshot(expected, baseline);
        self.report(scenario, "ttmon --json", snapshot);
    }

    /// Starts a new ttmon that has not seen the devices in another state.
    fn snapshot(&self, expected: &Expected, baseline: &Baseline) -> Result<String, String> {
        let answer = self.json()?;
        if expected.leaves_no_device(baseline) {
            return answer.expect_code(3);
        }
        if expected.state == "gone" {
            // A new process cannot know the missing device, but must not give its ids to other chips.
            answer.expect_code(0)?;
            return baseline.check_known(&answer.document()?).map(|()| "the other devices keep their ids".to_owned());
        }
        expected.check_new(&answer.document()?, baseline).map(|()| expected.state.to_owned())
    }

    fn json(&self) -> Result<Answer, String> {
        let started = Instant::now();
        let output = monitors::once(self.ttmon, &["--json", "--no-server"])?;
        let took = started.elapsed();
        if took > SNAPSHOT_MAX {
            return Err(format!("expected an answer within {} s, found {:.1} s", SNAPSHOT_MAX.as_secs(), took.as_secs_f64()));
        }
        Ok(Answer(output))
    }

    fn doctor(&self, remedy: &str) -> Result<String, String> {
        let output = monitors::once(self.ttmon, &["doctor"])?;
        let printed = String::from_utf8_lossy(&output.stdout);
        match printed.lines().find(|line| line.contains("try: ") && line.contains(remedy)) {
            Some(line) => Ok(line.trim().to_owned()),
            None => Err(format!("expected the remedy {remedy:?}, found {}", printed.replace('\n', "; "))),
        }
    }

    /// Compares every value of a snapshot with its file, while the sensors do not change.
    fn compare_values(&mut self) {
        let result = self.compare();
        self.report("values", "every value against its file", result);
    }

    fn compare(&self) -> Result<String, String> {
        self.chips.set_rules(&files::HOLD_SENSORS)?;
        let before = files::read_all()?;
        let answer = self.json()?;
        let after = files::read_all()?;
        self.chips.set_rules(&[])?;
        let document = answer.document()?;
        let found = files::differences(&before, &after, &document);
        if !found.is_empty() {
            return Err(found.join("; "));
        }
        let planted = files::plant(&before, &after, &document)?;
        Ok(format!("{} values of {} devices are equal; {planted} planted differences were found", planted, before.len()))
    }
}

struct Answer(Output);

impl Answer {
    fn document(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.0.stdout).map_err(|error| format!("expected JSON, found {error}; {}", self.end()))
    }

    fn expect_code(&self, code: i32) -> Result<String, String> {
        let is_right = self.0.status.code() == Some(code);
        if is_right { Ok(format!("exit code {code}")) } else { Err(format!("expected exit code {code}, found {}", self.end())) }
    }

    fn end(&self) -> String {
        format!("{}: {}", self.0.status, String::from_utf8_lossy(&self.0.stderr).trim())
    }
}
