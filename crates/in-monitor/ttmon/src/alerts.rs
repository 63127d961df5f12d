//! `ttmon alerts`: lists, tests and silences the alerts of this host.

mod configuration;
mod list;

use std::sync::Arc;
use std::time::Duration;

use ttmon_alerts::{Alert, Delivery, Phase, Receiver, Rule, Sender, Silence, alertmanager_body, message_body};
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId};

use crate::failure::Failure;
use crate::invocation::SilenceRequest;
use crate::output::Output;
use crate::serve::state_directory;
use crate::show::{VERSION, now};

pub(crate) use configuration::read as configuration;
pub(crate) use list::run as list;

/// Sends a test alert for device 0 to every receiver.
pub(crate) fn test(name: &str, config: Option<&std::path::Path>) -> Result<(), Failure> {
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

pub(crate) fn silence(request: &SilenceRequest) -> Result<(), Failure> {
    let state = request.state_directory.clone().unwrap_or_else(state_directory);
    let nanoseconds = request.time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let until = UnixTime(now().0.saturating_add(nanoseconds));
    let devices = if request.devices.is_empty() { vec![None] } else { request.devices.iter().copied().map(Some).collect() };
    for device in devices {
        let silence = Silence { rule: request.rule.clone(), device, until, comment: request.comment.clone() };
        write(&state, &silence, request.time.is_none())?;
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
