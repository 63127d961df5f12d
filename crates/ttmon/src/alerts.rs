//! `ttmon alerts`: lists, tests and silences the alerts of this host.

mod configuration;
mod list;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ttmon_alerts::{Alert, Change, Delivery, Event, Phase, Receiver, Rule, Sender, Silence, alertmanager_body, is_name, message_body};
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId};

use crate::cli::{AlertsCommand, SilenceArgs};
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context};
use crate::output::Output;
use crate::serve::state_directory;
use crate::show::VERSION;

pub(crate) use configuration::read as configuration;

/// Longest silence: one that is forgotten must end.
const SILENCE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Does what was asked for.
pub(crate) fn run(context: &Context, devices: &[String], command: Option<&AlertsCommand>) -> Result<(), Failure> {
    match command {
        None => list::run(context, None),
        Some(AlertsCommand::List { config }) => list::run(context, config.as_deref()),
        Some(AlertsCommand::Test { rule, config }) => test(rule, config.as_deref()),
        Some(AlertsCommand::Silence(args)) => silence(context, devices, args),
    }
}

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Sends a made-up alert of device 0 to every receiver.
fn test(name: &str, config: Option<&std::path::Path>) -> Result<(), Failure> {
    let config = configuration(config, true)?;
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
        let told = match ttmon_serve::deliver(&receiver.how, &body(receiver, rule)) {
            Ok(()) => "sent".to_owned(),
            Err(why) => {
                failed += 1;
                format!("failed: {why}")
            }
        };
        lines += &format!("{}: {told}\n", receiver.name);
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
        // It ends by itself after a minute.
        Delivery::Alertmanager { .. } => alertmanager_body(sender, now, [&alert].into_iter(), Duration::from_secs(15)),
        Delivery::Command { .. } | Delivery::Webhook { .. } => message_body(sender, now, &[Event { change: Change::Fired, alert }]),
    }
}

fn silence(context: &Context, devices: &[String], args: &SilenceArgs) -> Result<(), Failure> {
    let rule = match args.rule.as_str() {
        "all" => None,
        name if is_name(name) => Some(name.to_owned()),
        name => return Err(Failure::usage(format!("no rule {name:?}; see ttmon alerts list"))),
    };
    let time = ttmon_model::duration::parse(&args.time).filter(|time| !time.is_zero() && *time <= SILENCE_MAX);
    let time = time.ok_or_else(|| Failure::usage("--for takes 1s to 30d, such as 30m, 2h or 1d"))?;
    let device = |text: &String| {
        text.parse::<u32>().map_err(|_| Failure::usage(format!("-d {text}: silence takes ids of devices, such as 0 or 0,3")))
    };
    let devices: Vec<u32> = devices
        .iter()
        .flat_map(|list| list.split(',').map(str::to_owned).collect::<Vec<_>>())
        .map(|text| device(&text))
        .collect::<Result<_, _>>()?;
    if let CliTarget::Simulated(..) = context.place {
        return Err(Failure::usage("a simulated machine has no silences of its own; leave --sim out and name its --state-dir"));
    }
    let state = args.state_dir.clone().unwrap_or_else(state_directory);
    let until = UnixTime(now().0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    let all = if devices.is_empty() { vec![None] } else { devices.into_iter().map(Some).collect() };
    for device in all {
        let silence = Silence { rule: rule.clone(), device, until, comment: args.comment.clone() };
        write(&state, &silence, args.end)?;
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
    ttmon_files::Directory::create(&state.join(ttmon_serve::SILENCES)).map_err(failed)?;
    ttmon_files::write(&path, format!("{}\n", silence.document()).as_bytes()).map_err(failed)?;
    Output::Stdout.write(format!("{what}: silenced until {}\n", silence.until.rfc3339()).as_bytes())
}
