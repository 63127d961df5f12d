//! systemd checks the units of packaging/ and deploy/, starts the server by its socket, and loads its filter of system calls.

mod filter;
mod socket;

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::{output, repository, run};

const UNITS: [&str; 5] = ["ttmon.service", "ttmon.socket", "ttmon-tmp.socket", "ttmon-http.socket", "run-ttmon-state.mount"];
/// Highest accepted score of `systemd-analyze security`, times ten. docs/security.md has the reasons for what remains.
const EXPOSURE_MAX: &str = "20";
/// Path of the program in the units, and a program that exists on every machine.
const PROGRAM: (&str, &str) = ("/usr/bin/ttmon", "/bin/true");

/// Copies the units into a folder.
fn units() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for unit in UNITS {
        let text = fs::read_to_string(repository("packaging/systemd").join(unit)).unwrap();
        fs::write(folder.path().join(unit), text.replace(PROGRAM.0, PROGRAM.1)).unwrap();
    }
    folder
}

fn verify(folder: &Path) -> Command {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).args(files);
    command
}

/// Asserts that systemd accepts every line of a drop-in, together with all units of the folder.
#[track_caller]
fn expect_accepted(folder: &Path, drop_in: &str) {
    let place = folder.join("ttmon.service.d");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("added.conf"), drop_in).unwrap();
    let output = output(&mut verify(folder));
    let errors = String::from_utf8_lossy(&output.stderr);
    // systemd reports an unknown line only as a warning.
    assert!(output.status.success() && !errors.contains("added.conf") && !errors.contains("ttmon-metrics.socket"), "{errors}");
}

#[test]
#[ignore = "needs systemd: cargo xtask ci --only systemd"]
fn systemd_accepts_the_units() {
    run(&mut verify(units().path()));
}

#[test]
#[ignore = "needs systemd: cargo xtask ci --only systemd"]
fn the_service_is_hardly_exposed() {
    let folder = units();
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager"]).arg(format!("--threshold={EXPOSURE_MAX}"));
    run(command.arg(folder.path().join(UNITS[0])));
}

/// The drop-in lets the service reach receivers of alerts.
#[test]
#[ignore = "needs systemd: cargo xtask ci --only systemd"]
fn systemd_accepts_the_drop_in_of_the_page_about_alerts() {
    let text = fs::read_to_string(repository("docs/alerts.md")).unwrap();
    let drop_in = text.split_once("```ini\n").and_then(|(_, rest)| rest.split_once("```")).map(|(block, _)| block);
    expect_accepted(units().path(), drop_in.expect("docs/alerts.md has a drop-in"));
}

/// A socket, and a drop-in of the service.
#[test]
#[ignore = "needs systemd: cargo xtask ci --only systemd"]
fn systemd_accepts_the_port_for_scrapers() {
    let (folder, deployed) = (units(), repository("deploy/systemd"));
    fs::copy(deployed.join("ttmon-metrics.socket"), folder.path().join("ttmon-metrics.socket")).unwrap();
    let drop_in = fs::read_to_string(deployed.join("metrics.conf")).unwrap();
    expect_accepted(folder.path(), &drop_in.replace(PROGRAM.0, PROGRAM.1));
}
