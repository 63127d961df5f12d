//! `ttmon check`: prints one line and sets an exit code, in the format of monitoring plugins.

use serde_json::json;
use ttmon_buffer_history::Size;
use ttmon_collect::reads::Sampling;
use ttmon_json::Layout;
use ttmon_model::check::{self, Finding, Request, Verdict};
use ttmon_model::{Device, Snapshot};
use ttmon_print::text;

use crate::cli::{CheckArgs, GlobalArgs};
use crate::failure::Failure;
use crate::invocation::Context;
use crate::open::MachineRequest;
use crate::output::Output;
use crate::server::Snapshots;

/// Maximum number of findings that the line names. Further findings are only counted.
const NAMED_MAX: usize = 3;

/// Prints the line and returns its exit code. Every failure, also a usage error, is "unknown".
pub(crate) fn run(common: &GlobalArgs, args: &CheckArgs) -> Result<(), Failure> {
    let (verdict, message, findings, data) = match examine(common, args) {
        Err(failure) => (Verdict::Unknown, failure.message, Vec::new(), String::new()),
        Ok((snapshot, request)) => {
            let findings = check::judge(&snapshot, &request);
            (check::overall(&findings), message(&snapshot, &findings), findings, performance(&snapshot, &request))
        }
    };
    let message = text::clean(&message, false);
    let line = if common.json {
        let row = |finding: &Finding| {
            let Finding { check, device, verdict, reason } = finding;
            json!({ "check": check, "device": device.map(|id| id.0), "status": verdict.name(), "reason": reason })
        };
        let findings: Vec<_> = findings.iter().map(row).collect();
        let document = json!({ "status": verdict.name(), "exit_code": verdict.exit_code(), "message": message, "findings": findings });
        ttmon_json::to_string(&document, Layout::Pretty)
    } else {
        format!("TTMON {}: {message}{data}", verdict.name())
    };
    Output::Stdout.write(format!("{line}\n").as_bytes())?;
    match verdict {
        Verdict::Ok => Ok(()),
        verdict => Err(Failure { message: String::new(), code: verdict.exit_code() }),
    }
}

fn examine(common: &GlobalArgs, args: &CheckArgs) -> Result<(Snapshot, Request), Failure> {
    // The monitoring system reads this error on standard output, so it is not one of the command line.
    let free_dram_min = args.min_free_dram.as_deref().map(str::parse::<Size>).transpose().map_err(Failure::usage)?;
    if args.max_temp.is_some_and(|limit| !limit.is_finite()) {
        return Err(Failure::usage("--max-temp takes degrees Celsius"));
    }
    let mut request = Request {
        is_healthy: args.healthy,
        is_idle: args.idle,
        temperature_max: args.max_temp,
        free_dram_min: free_dram_min.map(|size| size.0),
        count_min: args.count,
        has_no_stale: args.no_stale,
    };
    request.is_healthy |= request == Request::default();
    let context = Context::new(common, &args.devices)?;
    Ok((Snapshots::new(&context, MachineRequest::new(Sampling::Once)).next()?, request))
}

/// Describes the findings, worst first. Without findings, describes what was checked.
fn message(snapshot: &Snapshot, findings: &[Finding]) -> String {
    if findings.is_empty() {
        let count = snapshot.devices.len();
        return format!("{count} device{}", if count == 1 { "" } else { "s" });
    }
    let named = findings.iter().take(NAMED_MAX).map(|finding| match finding.device {
        Some(id) => format!("device {id}: {}", finding.reason),
        None => finding.reason.clone(),
    });
    let more = findings.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

/// Performance data: `name=value[unit];warning;critical;min;max`.
fn performance(snapshot: &Snapshot, request: &Request) -> String {
    let of_device = |device: &Device| {
        let id = device.id;
        let limit = request.temperature_max.or(device.temperature_limit.ok().map(|limit| limit.0));
        let limit = limit.map_or_else(String::new, |limit| limit.to_string());
        let total = device.memory.dram.total.map_or_else(|_| String::new(), |total| total.to_string());
        let values = [
            device.temperature.ok().map(|now| format!(" temperature_{id}={};;{limit}", now.0)),
            device.power.ok().map(|now| format!(" power_{id}={}", now.0)),
            device.memory.dram.used.ok().map(|now| format!(" dram_used_{id}={now}B;;;0;{total}")),
        ];
        values.into_iter().flatten().collect::<String>()
    };
    let data: String = snapshot.devices.iter().map(of_device).collect();
    if data.is_empty() { data } else { format!(" |{data}") }
}
