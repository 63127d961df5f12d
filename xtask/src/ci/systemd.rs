//! The units of packaging/systemd, read by systemd itself.

use std::fs;
use std::process::Stdio;

use super::{Gate, Outcome};
use crate::project;

const UNITS: [&str; 2] = ["ttmon.service", "ttmon.socket"];
/// Where the units say the program is, and something that is there on every machine.
const PROGRAM: (&str, &str) = ("/usr/bin/ttmon", "/bin/true");

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let mut probe = gate.project.command("systemd-analyze", &["--version"]);
    if project::run(probe.stdout(Stdio::null()).stderr(Stdio::null())).is_err() {
        return Outcome::Skipped("the units were not verified: there is no systemd-analyze here".to_owned());
    }
    verify(gate).into()
}

fn verify(gate: &Gate) -> Result<(), String> {
    let folder = gate.project.metadata()?.target.join("units");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for unit in UNITS {
        let from = gate.project.root.join("packaging/systemd").join(unit);
        let text = fs::read_to_string(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        let to = folder.join(unit);
        fs::write(&to, text.replace(PROGRAM.0, PROGRAM.1)).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    let mut command = gate.project.command("systemd-analyze", &["verify", "--man=no"]);
    project::run(command.args(UNITS.map(|unit| folder.join(unit))))
}
