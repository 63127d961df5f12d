//! `ttmon alerts`: lists, tests and silences the alerts of this host.

mod list;

use std::sync::Arc;
use std::time::Duration;

use ttmon_alerts::{Alert, Delivery, Phase, Receiver, Rule, Sender, Silence, alertmanager_body, is_name, message_body};
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId};

use crate::cli::{AlertsArgs, AlertsCommand, GlobalArgs, SilenceArgs};
use crate::config;
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context};
use crate::output::Output;
use crate::serve::state_directory;
use crate::show::{VERSION, now};

pub(crate) fn run(common: &GlobalArgs, args: &AlertsArgs) -> Result<(), Failure> {
    let context = Context::new(common, &[])?;
    match &args.command {
        None => list::run(&context, None),
        Some(AlertsCommand::List { config }) => list::run(&context, config.as_deref()),
        Some(AlertsCommand::Test { rule, config }) => test(rule, config.as_deref()),
        Some(AlertsCommand::Silence(args)) => silence(common, &context, args),
    }
}

/// Sends a test alert for device 0 to every receiver.
fn test(name: &str, config: Option<&std::path::Path>) -> Result<(), Failure> {
    let config = config::alerts(config, true)?;
    let rule = config.rules.iter().find(|rule| rule.name == name);
    let known = || config.rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>().join(", ");
    let rule = rule.ok_or_else(|| Failure::usage(format!("no rule {name} (available: {})", known())))?;
    if config.receivers.is_empty() {
        return Err(Failure::new(
            "no receiver is configured; add [[alerts.command]], [[alerts.webhook]] or [[alerts.alertmanager]] to /etc/ttmon/config.toml",
        ));
    }
    let mut lines = String::new();
    let mut failed = 0;
    for receiver in &config.receivers {
        if rule.severity < receiver.severity {
            lines += &format!("{}: skipped: its lowest severity is {}\n", receiver.name, receiver.severity.name());
            continue;
        }
        let result = match ttmon_serve::deliver(&receiver.how, &body(receiver, rule)) {
            Ok(()) => "sent".to_owned(),
            Err(why) => {
                failed += 1;
                format!("failed: {why}")
            }
        };
        lines += &format!("{}: {result}\n", receiver.name);
    }
    Output::Stdout.write(lines.as_bytes())?;
    if failed == 0 { Ok(()) } else { Err(Failure::new(format!("{failed} of {} receivers failed", config.receivers.len()))) }
}

fn body(receiver: &Receiver, rule: &Rule) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let sender = Sender { version: VERSION, host: &host, origin: "local", is_test: true };
    let (now, rule) = (now(), Arc::new(rule.clone()));
    let device = Device { id: DeviceId(0), ..Device::absent() };
    let alert = Alert {
        phase: Phase::Firing,
        fired: Some(now),
        summary: "test of ttmon's alerts: nothing is wrong".to_owned(),
        ..Alert::new(&rule, &device, now)
    };
    match receiver.how {
        // Alertmanager ends the alert after a minute.
        Delivery::Alertmanager { .. } => alertmanager_body(sender, now, [&alert].into_iter(), Duration::from_secs(15)),
        Delivery::Command { .. } | Delivery::Webhook { .. } => message_body(sender, now, &[alert]),
    }
}

fn silence(common: &GlobalArgs, context: &Context, args: &SilenceArgs) -> Result<(), Failure> {
    let rule = match args.rule.as_str() {
        "all" => None,
        name if is_name(name) => Some(name.to_owned()),
        name => return Err(Failure::usage(format!("no rule {name:?}; see ttmon alerts list"))),
    };
    let device =
        |text: &str| text.parse::<u32>().map_err(|_| Failure::usage(format!("-d {text}: silence takes ids of devices, such as 0 or 0,3")));
    let words = common.device.iter().chain(&common.id).flat_map(|list| list.split(','));
    let mut devices: Vec<Option<u32>> = words.map(|word| device(word).map(Some)).collect::<Result<_, _>>()?;
    if let CliTarget::Simulated(..) = context.target {
        return Err(Failure::usage("a simulated machine has no silences of its own; leave --sim out and name its --state-dir"));
    }
    if devices.is_empty() {
        // One silence for all devices.
        devices.push(None);
    }
    let state = args.state_dir.clone().unwrap_or_else(state_directory);
    let nanoseconds = u64::try_from(args.time.as_nanos()).unwrap_or(u64::MAX);
    let until = UnixTime(now().0.saturating_add(nanoseconds));
    for device in devices {
        write(&state, &Silence { rule: rule.clone(), device, until, comment: args.comment.clone() }, args.end)?;
    }
    Ok(())
}

fn write(state: &std::path::Path, silence: &Silence, is_ended: bool) -> Result<(), Failure> {
    let path = state.join(ttmon_serve::SILENCES).join(silence.file_name());
    let failed =
        |error: std::io::Error| Failure::new(format!("{}: {error}; run it as the service's user, or name its --state-dir", path.display()));
    let what = format!(
        "{}{}",
        silence.rule.as_deref().unwrap_or("all rules"),
        silence.device.map_or_else(String::new, |id| format!(" on device {id}"))
    );
    if is_ended {
        std::fs::remove_file(&path).map_err(failed)?;
        return Output::Stdout.write(format!("{what}: no longer silenced\n").as_bytes());
    }
    if !state.is_dir() {
        return Err(Failure::new(format!("{}: no state directory of a service; name it with --state-dir", state.display())));
    }
    ttmon_os::Directory::create(&state.join(ttmon_serve::SILENCES)).map_err(failed)?;
    ttmon_os::write(&path, format!("{}\n", silence.document()).as_bytes()).map_err(failed)?;
    Output::Stdout.write(format!("{what}: silenced until {}\n", silence.until.rfc3339()).as_bytes())
}
