//! Tests the page in a real Chromium: the built files match `web/`, and every view is opened and checked (`web/test/page.mjs`).

use super::{Gate, Outcome};
use crate::{project, web};

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let browser = match web::Browser::have(gate.project) {
        Ok(browser) => browser,
        Err(why) => return Outcome::Skipped(format!("NO BROWSER OPENED THE PAGE: {why}")),
    };
    let checked = web::build(gate.project, &["--check"])
        .and_then(|()| gate.cargo(&["build", "--quiet", "--package", "ttmon"]))
        .and_then(|()| Ok(gate.project.metadata()?.target.join("debug/ttmon")))
        .and_then(|program| project::run(&mut browser.command(gate.project, &program)));
    gate.tally.add(u64::from(checked.is_ok()), u64::from(checked.is_err()));
    checked.into()
}
