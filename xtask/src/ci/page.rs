//! The page in a real Chromium: built files are what `web/` builds, and every view is opened and examined (`web/test/page.mjs`).

use super::{Gate, Outcome};
use crate::{project, tools, web};

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let ready = web::packages(gate.project).and_then(|folder| tools::installed(gate.project, "chromium", "chromium").map(|()| folder));
    let folder = match ready {
        Ok(folder) => folder,
        Err(why) => return Outcome::Skipped(format!("NO BROWSER OPENED THE PAGE: {why}")),
    };
    let checked = web::build(gate.project, &["--check"])
        .and_then(|()| gate.cargo(&["build", "--quiet", "--package", "ttmon"]))
        .and_then(|()| Ok(gate.project.metadata()?.target.join("debug/ttmon")))
        .and_then(|program| project::run(gate.project.command("node", &["test/page.mjs"]).arg(program).current_dir(folder)));
    gate.tally.add(u64::from(checked.is_ok()), u64::from(checked.is_err()));
    checked.into()
}
