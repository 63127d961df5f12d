//! Files of alerts in the state directory: silences, which users create, and firing alerts, which are read after a restart.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use ttmon_alerts::{Saved, Silence, is_name};
use ttmon_model::DeviceId;
use ttmon_model::units::UnixTime;

use crate::limits::{SAVED_BYTES_MAX, SILENCE_BYTES_MAX, SILENCES_MAX};

/// The directory of silences in the state directory.
pub const SILENCES: &str = "silences";
const SAVED: &str = "alerts.json";

/// Reads the silences of a state directory. Files that another user could have written and invalid files are skipped.
pub(super) fn read_silences(state: &Path) -> Vec<Silence> {
    let Ok(entries) = fs::read_dir(state.join(SILENCES)) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let mut paths: Vec<_> = paths.take(SILENCES_MAX).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let bytes = ttmon_files::read_trusted(path, SILENCE_BYTES_MAX).ok()?;
        Silence::parse(std::str::from_utf8(&bytes).ok()?)
    };
    paths.iter().filter_map(read).collect()
}

pub(super) fn read_saved(state: &Path) -> Vec<Saved> {
    let bytes = ttmon_files::read_trusted(&state.join(SAVED), SAVED_BYTES_MAX).unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let time = |value: &Value| value.as_str().and_then(UnixTime::parse_rfc3339);
    let saved = |entry: &Value| {
        let device = entry["device"].as_u64().and_then(|id| u32::try_from(id).ok()).map(DeviceId)?;
        let rule = entry["rule"].as_str().filter(|name| is_name(name))?.to_owned();
        Some(Saved { rule, device, since: time(&entry["since"])?, fired: time(&entry["fired"])? })
    };
    document["firing"].as_array().map_or_else(Vec::new, |entries| entries.iter().filter_map(saved).collect())
}

pub(super) fn write_saved(state: &Path, saved: &[Saved]) {
    let entry = |saved: &Saved| json!({"rule": saved.rule, "device": saved.device.0, "since": saved.since.rfc3339(), "fired": saved.fired.rfc3339()});
    let document = json!({"firing": saved.iter().map(entry).collect::<Vec<_>>()});
    // If the disk is full, alerts are sent again after a restart. There is no other effect.
    let _ = ttmon_files::write(&state.join(SAVED), format!("{document}\n").as_bytes());
}
