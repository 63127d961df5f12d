//! `ttmon check`: one line and an exit code, as monitoring plugins have them.

use serde_json::json;
use ttmon_model::check::{self, Finding, Request, Verdict};
use ttmon_model::{Device, Snapshot};
use ttmon_print::text;
use ttmon_reads::Pace;

use crate::cli::{CheckArgs, GlobalArgs};
use crate::failure::Failure;
use crate::invocation::Context;
use crate::output::Output;
use crate::server::{SampleRequest, Snapshots};
use ttmon_account::Size;

/// Findings named in the line; the rest is counted.
const NAMED_MAX: usize = 3;

/// Prints the line and returns its exit code. Every failure is "unknown".
pub(crate) fn run(common: &GlobalArgs, args: &CheckArgs) -> Result<(), Failure> {
    let checked = request(args).and_then(|request| Ok((snapshot(common, args)?, request)));
    let (verdict, message, findings, data) = match &checked {
        Ok((snapshot, request)) => {
            let findings = check::judge(snapshot, request);
            (check::overall(&findings), message(snapshot, &findings), findings, performance(snapshot, request))
        }
        Err(failure) => (Verdict::Unknown, failure.message.clone(), Vec::new(), String::new()),
    };
    let message = text::clean(&message, false);
    let line = if common.json {
        let row = |finding: &Finding| {
            let Finding { check, device, verdict, reason } = finding;
            json!({ "check": check, "device": device.map(|id| id.0), "status": verdict.name(), "reason": reason })
        };
        let findings: Vec<_> = findings.iter().map(row).collect();
        let document = json!({ "status": verdict.name(), "exit_code": verdict.exit_code(), "message": message, "findings": findings });
        format!("{document:#}")
    } else {
        format!("TTMON {}: {message}{data}", verdict.name())
    };
    Output::Stdout.write(format!("{line}\n").as_bytes())?;
    match verdict {
        Verdict::Ok => Ok(()),
        verdict => Err(Failure { message: String::new(), code: verdict.exit_code() }),
    }
}

fn request(args: &CheckArgs) -> Result<Request, Failure> {
    let free_dram_min = args.min_free_dram.as_deref().map(str::parse::<Size>).transpose().map_err(Failure::usage)?;
    if args.max_temp.is_some_and(|limit| !limit.is_finite()) {
        return Err(Failure::usage("--max-temp takes degrees Celsius"));
    }
    let request = Request {
        is_healthy: args.healthy,
        is_idle: args.idle,
        temperature_max: args.max_temp,
        free_dram_min: free_dram_min.map(|size| size.0),
        count_min: args.count,
        has_no_stale: args.no_stale,
    };
    Ok(if request == Request::default() { Request { is_healthy: true, ..request } } else { request })
}

fn snapshot(common: &GlobalArgs, args: &CheckArgs) -> Result<Snapshot, Failure> {
    let context = Context::new(common, &args.devices)?;
    Snapshots::new(&context, SampleRequest::snapshot(Pace::Once, true)).next()
}

/// What is wrong, the worst first, or what was checked.
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
