//! Tests every path of the service's API against its own description with schemathesis: no answer has status 500 or breaks the description.

use std::path::PathBuf;
use std::process::Stdio;

use super::{Gate, Outcome};
use crate::project::{self, Project, called};
use crate::service::{Service, TOKEN};

const VERSION: &str = "4.32.5";
/// 50 examples missed a fault that was planted; this many found it.
const EXAMPLES: &str = "500";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let program = match schemathesis(gate.project) {
        Ok(program) => program,
        Err(why) => return Outcome::Skipped(format!("THE API WAS NOT TRIED AGAINST ITS DESCRIPTION: {why}")),
    };
    let checked = check(gate, &program);
    gate.tally.add(u64::from(checked.is_ok()), u64::from(checked.is_err()));
    checked.into()
}

/// Installs it in a separate environment below the target directory.
fn schemathesis(project: &Project) -> Result<PathBuf, String> {
    let environment = project.metadata()?.target.join("tools/schemathesis");
    let program = environment.join("bin/schemathesis");
    let says = program.exists().then(|| project::output(&mut project.command(&program, &["--version"])));
    if says.is_some_and(|says| says.is_ok_and(|says| says.contains(VERSION))) {
        return Ok(program);
    }
    eprintln!("xtask: installing schemathesis {VERSION} into {}", environment.display());
    project::run(project.command("python3", &["-m", "venv", "--clear"]).arg(&environment))?;
    let package = format!("schemathesis=={VERSION}");
    project::run(project.command(environment.join("bin/pip"), &["install", "--quiet", &package]).stdout(Stdio::null()))?;
    Ok(program)
}

fn check(gate: &Gate, program: &PathBuf) -> Result<(), String> {
    gate.cargo(&["build", "--quiet", "--package", "ttmon"])?;
    let ttmon = gate.project.metadata()?.target.join("debug/ttmon");
    let service = Service::start(&ttmon, &["--sim", "n300,p150", "--process-metrics"])?;
    // Before it was ready, the service answered with 503, which is counted.
    let before = failures(&service)?;
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
    let failed = failures(&service)?;
    if failed == before { Ok(()) } else { Err(format!("the service failed: {before}, then {failed}")) }
}

/// Returns the service's own count of failures.
fn failures(service: &Service) -> Result<String, String> {
    let text = service.get("/metrics")?.body;
    let line = text.lines().find(|line| line.starts_with("ttmon_http_requests_total{code=\"5xx\"}"));
    line.map(str::to_owned).ok_or_else(|| "the service does not count its failures".to_owned())
}
