//! Files of alerts in the state directory: silences, which users create, and firing alerts, which are read after a restart.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use ttmon_alerts::{Saved, Silence, is_name};
use ttmon_model::DeviceId;
use ttmon_model::units::UnixTime;

use crate::limits::{SAVED_BYTES_MAX, SILENCE_BYTES_MAX, SILENCES_MAX};

/// The directory of silences in the state directory.
pub const SILENCES: &str = "silences";
pub(super) const SAVED: &str = "alerts.json";

/// Reads the silences of a state directory. Also returns why files are not used: another user could have written them, or they are invalid.
pub(super) fn read_silences(state: &Path) -> (Vec<Silence>, Vec<String>) {
    let (mut silences, mut problems) = (Vec::new(), Vec::new());
    let mut paths: Vec<PathBuf> = Vec::new();
    match fs::read_dir(state.join(SILENCES)) {
        Ok(entries) => {
            for entry in entries {
                match entry.map(|entry| entry.path()) {
                    Ok(path) if path.extension().is_some_and(|ending| ending == "json") => paths.push(path),
                    Ok(_) => {}
                    Err(error) => problems.push(format!("not all silences are used: {error}")),
                }
            }
        }
        // There never was a silence.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => problems.push(format!("silences are not used: {error}")),
    }
    paths.sort();
    if paths.len() > SILENCES_MAX {
        problems.push(format!("only the first {SILENCES_MAX} of {} silences are used", paths.len()));
    }
    for path in paths.into_iter().take(SILENCES_MAX) {
        let read = ttmon_os::read_trusted(&path, SILENCE_BYTES_MAX);
        match read.and_then(|bytes| Silence::parse(&bytes).map_err(io::Error::other)) {
            Ok(silence) => silences.push(silence),
            // A user has just ended it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => problems.push(format!("silence {} is not used: {error}", path.display())),
        }
    }
    (silences, problems)
}

/// Reads the alerts that fired before a restart: none before the first start. Also returns the number of invalid entries.
pub(super) fn read_saved(state: &Path) -> io::Result<(Vec<Saved>, usize)> {
    let bytes = match ttmon_os::read_trusted(&state.join(SAVED), SAVED_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        read => read?,
    };
    let document: Value = serde_json::from_slice(&bytes)?;
    let time = |value: &Value| value.as_str().and_then(UnixTime::parse_rfc3339);
    let saved = |entry: &Value| {
        let device = entry["device"].as_u64().and_then(|id| u32::try_from(id).ok()).map(DeviceId)?;
        let rule = entry["rule"].as_str().filter(|name| is_name(name))?.to_owned();
        Some(Saved { rule, device, since: time(&entry["since"])?, fired: time(&entry["fired"])? })
    };
    let entries = document["firing"].as_array().ok_or_else(|| io::Error::other("it is no list of alerts"))?;
    let firing: Vec<Saved> = entries.iter().filter_map(saved).collect();
    let invalid = entries.len() - firing.len();
    Ok((firing, invalid))
}

pub(super) fn write_saved(state: &Path, saved: &[Saved]) -> io::Result<()> {
    let entry = |saved: &Saved| {
        let (since, fired) = (saved.since.rfc3339(), saved.fired.rfc3339());
        json!({"rule": saved.rule, "device": saved.device.0, "since": since, "fired": fired})
    };
    let document = json!({"firing": saved.iter().map(entry).collect::<Vec<_>>()});
    ttmon_os::write(&state.join(SAVED), format!("{document}\n").as_bytes())
}
