//! Measures other monitors in the same run: nvtop on the same simulated devices, and btop for comparison.
//!
//! nvtop supports these cards since 2026, later than any release of Debian, so `TTMON_BENCH_NVTOP` names a program built from its sources.
//! It reads only `/sys` and `/proc/driver`. So it runs in a mount namespace with the simulated machine mounted over them, which needs root.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::root::Root;
use super::top::{WARM_UP, start};
use crate::terminal::Terminal;

const CASES: &[(&str, u32, (u16, u16))] = &[("p150x8", 8, (120, 40)), ("galaxy-bh", 32, (200, 50))];

/// `ttmon top` must need less than nvtop on the same machine at the same time.
const NVTOP_RATIO_MAX: f64 = 1.0;

pub(super) fn nvtop(ttmon: &Path, time: Duration) -> Result<(), String> {
    let program = env::var("TTMON_BENCH_NVTOP").unwrap_or_else(|_| "nvtop".to_owned());
    if !is_there(&program) {
        println!("nvtop is not here and was not measured (build it from its sources and name it by TTMON_BENCH_NVTOP)");
        return Ok(());
    }
    for (spec, devices, size) in CASES {
        let root = Root::make(spec)?;
        let over = root.path().display();
        let script = format!("mount --bind {over}/sys /sys && mount --bind {over}/proc/driver /proc/driver && exec {program} -d 10");
        let theirs = Terminal::run(Path::new("unshare"), &["--mount", "sh", "-c", &script], *size)?;
        if theirs.until("Device 0").is_err() {
            println!("this nvtop shows no Tenstorrent devices and was not measured");
            return Ok(());
        }
        let ours = start(ttmon, &root, *size)?;
        ours.until("Processes (")?;
        let [ours, theirs] = together([&ours, &theirs], &root, time)?;
        let ratio = ours / theirs;
        let verdict = if ratio < NVTOP_RATIO_MAX { "holds" } else { "MISSED" };
        println!(
            "beside nvtop, {devices} devices, {}x{}: ttmon {ours:.3} %, nvtop {theirs:.3} % of a core: {ratio:.2} x, below {NVTOP_RATIO_MAX} x: {verdict}",
            size.0, size.1
        );
    }
    Ok(())
}

/// Returns the shares of a core of two programs on a changing machine, measured at the same time.
fn together(terminals: [&Terminal; 2], root: &Root, time: Duration) -> Result<[f64; 2], String> {
    terminals[0].bytes_for(WARM_UP);
    let before = terminals.map(Terminal::cpu);
    let elapsed = root.run(time, || {
        terminals[0].bytes_for(Duration::from_secs(1));
        Ok(())
    })?;
    let share = |index: usize| (terminals[index].cpu() - before[index]).as_secs_f64() / elapsed * 100.0;
    Ok([share(0), share(1)])
}

pub(super) fn btop(time: Duration) -> Result<(), String> {
    if !is_there("btop") {
        println!("btop is not here and was not measured (apt-get install btop)");
        return Ok(());
    }
    let terminal = Terminal::run(Path::new("btop"), &["--utf-force", "-p", "0"], (120, 40))?;
    terminal.bytes_for(WARM_UP);
    let (began, before) = (Instant::now(), terminal.cpu());
    let bytes = terminal.bytes_for(time);
    let elapsed = began.elapsed().as_secs_f64();
    let share = (terminal.cpu() - before).as_secs_f64() / elapsed * 100.0;
    println!("btop, 120x40, no devices: {share:.3} % of a core, RSS {} kB, {:.0} bytes/s", terminal.memory().0, bytes as f64 / elapsed);
    Ok(())
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
