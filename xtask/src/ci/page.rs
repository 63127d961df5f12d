//! Tests the page in a real Chromium: the built files match `web/`, and every view is opened and checked (`web/test/page.mjs`).

use super::{Gate, Outcome};
use crate::stop::untested;
use crate::{project, web};

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let browser = web::Browser::have(gate.project).map_err(untested("NO BROWSER OPENED THE PAGE"))?;
    let checked = web::build(gate.project, &["--check"])
        .and_then(|()| gate.ttmon(&[]))
        .and_then(|program| project::run(&mut browser.command(gate.project, &program)));
    gate.count(checked)
}
