//! Tests every path of the service's API against its own description with schemathesis: no answer has status 500 or breaks the description.

use std::path::Path;

use super::{Gate, Outcome};
use crate::project::{self, called};
use crate::service::{Service, TOKEN};
use crate::stop::untested;
use crate::tools;

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// 50 examples missed a fault that was planted; this many found it.
const EXAMPLES: &str = "500";
const FAILURES: &str = "ttmon_http_requests_total{code=\"5xx\"}";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let environment = gate.project.target()?.join("tools/schemathesis");
    tools::python(gate.project, &environment, &[SCHEMATHESIS]).map_err(untested("THE API WAS NOT TRIED AGAINST ITS DESCRIPTION"))?;
    let checked = check(gate, &environment.join("bin/schemathesis"));
    gate.count(checked)
}

fn check(gate: &Gate, program: &Path) -> Result<(), String> {
    let ttmon = gate.ttmon(&[])?;
    let service = Service::start(&ttmon, &["--sim", "n300,p150", "--process-metrics"])?;
    // Before it was ready, the service answered with 503, which is counted.
    let before = service.metric(FAILURES)?;
    let url = format!("http://127.0.0.1:{}", service.port);
    let token = format!("Authorization: Bearer {TOKEN}");
    // Streams do not end, so they are requested as documents.
    let others = ["--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/memory/events"];
    let streams = ["--include-path", "/api/v1/events", "--include-path", "/api/v1/memory/events", "--header", "Accept: application/json"];
    for more in [&others[..], &streams] {
        let mut command = gate.project.command(program, &["run", &format!("{url}/api/v1/openapi.json"), "--url", &url]);
        command.args(["--max-examples", EXAMPLES, "--seed", "1", "--request-timeout", "20", "--header", &token]).args(more);
        // It writes files to its current directory.
        command.current_dir(ttmon.parent().unwrap_or(&gate.project.root));
        println!("$ {}", called(&command).replace(TOKEN, "..."));
        project::run(&mut command)?;
    }
    let failed = service.metric(FAILURES)?;
    if failed == before { Ok(()) } else { Err(format!("the service failed: {before}, then {failed} times")) }
}
