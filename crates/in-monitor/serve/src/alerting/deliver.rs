//! Delivers one message to one receiver.

use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use ttmon_alerts::{Delivery, PostTarget, UrlFrom};
use ttmon_hosts::{RequestError, Roots, RootsError, Target, post};

use crate::limits::{ALERT_SECRET_BYTES_MAX, WEBHOOK_TIMEOUT};

/// Path of Alertmanager's API for alerts.
const ALERTS_PATH: &str = "/api/v2/alerts";
/// Variables of the service that a command gets. They are enough to reach a desktop, and contain no secrets of the service.
const ENVIRONMENT: [&str; 5] = ["HOME", "LANG", "USER", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a message was not delivered. It contains no address, because some addresses are secret.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum DeliveryError {
    /// A file cannot be used. The text is the key that names it.
    #[error("{0}: {1}")]
    File(&'static str, io::Error),
    #[error("not a URL; give http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH")]
    Url,
    #[error("the token would be sent unencrypted; use https://")]
    Exposed,
    #[error(transparent)]
    Roots(RootsError),
    #[error(transparent)]
    Post(RequestError),
    #[error("cannot be started: {0}")]
    Start(io::Error),
    #[error("cannot be watched: {0}")]
    Watch(io::Error),
    #[error("took longer than {} s and was killed", .0.as_secs())]
    Late(Duration),
    #[error("failed: {0}")]
    Failed(String),
}

/// Delivers a body in the format of this receiver. Takes at most the time limit of the receiver.
pub fn deliver(how: &Delivery, body: &str) -> Result<(), DeliveryError> {
    match how {
        Delivery::Command { argv, timeout } => command(argv, *timeout, body),
        Delivery::Webhook(to) => post_to(to, &address(&to.url)?, body),
        Delivery::Alertmanager { target: to, .. } => post_to(to, &address(&to.url)?.joined(ALERTS_PATH), body),
    }
}

fn address(url: &UrlFrom) -> Result<Target, DeliveryError> {
    let text = match url {
        UrlFrom::Text(text) => text.clone(),
        UrlFrom::File(path) => secret("url_file", path)?,
    };
    text.parse().map_err(|_| DeliveryError::Url)
}

/// Reads a secret. It is read each time, so that it can be changed while the service runs.
fn secret(key: &'static str, path: &Path) -> Result<String, DeliveryError> {
    let bytes = ttmon_os::read_secret(path, ALERT_SECRET_BYTES_MAX).map_err(|error| DeliveryError::File(key, error))?;
    let text = String::from_utf8(bytes).ok().map(|text| text.trim().to_owned());
    let is_plain = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    text.filter(is_plain).ok_or_else(|| DeliveryError::File(key, io::Error::new(io::ErrorKind::InvalidData, "it is not one line of text")))
}

fn post_to(PostTarget { bearer_file, ca, .. }: &PostTarget, target: &Target, body: &str) -> Result<(), DeliveryError> {
    let bearer = bearer_file.as_deref().map(|path| secret("bearer_file", path)).transpose()?;
    if bearer.is_some() && !target.is_private() {
        return Err(DeliveryError::Exposed);
    }
    let roots = target.is_tls().then(|| Roots::read(ca.as_deref())).transpose().map_err(DeliveryError::Roots)?;
    post(target, roots.as_ref(), bearer.as_deref(), body, WEBHOOK_TIMEOUT).map_err(DeliveryError::Post)
}

/// Runs a program without a shell. The message is a file on its standard input, so that a program that does not read it blocks nothing.
fn command(argv: &[String], timeout: Duration, body: &str) -> Result<(), DeliveryError> {
    let [program, arguments @ ..] = argv else { return Err(DeliveryError::Start(io::ErrorKind::NotFound.into())) };
    let mut input =
        std::fs::File::from(memfd_create("ttmon-alert", MemfdFlags::CLOEXEC).map_err(|error| DeliveryError::Start(error.into()))?);
    input.write_all(body.as_bytes()).and_then(|()| input.seek(SeekFrom::Start(0))).map_err(DeliveryError::Start)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(input)).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_clear().env("PATH", PATH).current_dir("/").process_group(0);
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let mut child = command.spawn().map_err(DeliveryError::Start)?;
    let has_ended = ends_within(&child, timeout);
    if !matches!(has_ended, Ok(true)) {
        // Kill its children too. The pid is not reused before `wait`. Fails only if all have just ended.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait().map_err(DeliveryError::Watch)?;
    match () {
        () if !has_ended.map_err(DeliveryError::Watch)? => Err(DeliveryError::Late(timeout)),
        () if status.success() => Ok(()),
        () => Err(DeliveryError::Failed(status.to_string())),
    }
}

fn ends_within(child: &Child, timeout: Duration) -> io::Result<bool> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
