//! The expected state of the devices, and its comparison with a document or a screen.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fields that every driver and board has. They have the missing reason of their device.
const FIELDS: [&str; 4] = ["temperature", "power", "voltage", "aiclk_mhz"];
const IDENTITY: [&str; 6] = ["location", "via", "bdf", "asic_id", "serial", "board"];
const WORDS: [&str; 5] = ["RESET", "GONE", "UNREAD", "START", "WARN"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// One device, with the remote chips behind it.
    Victim,
    All,
}

/// The expected state of the disturbed devices. The other devices must be healthy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) scope: Scope,
    pub(super) state: &'static str,
    /// Reason of missing values; `None` if there are values.
    reason: Option<&'static str>,
    word: Option<&'static str>,
    /// Part of the line with the reason.
    why: Option<&'static str>,
    holders: u64,
    pub(super) more_samples: usize,
}

pub(super) struct Baseline {
    victim: u64,
    rows: BTreeMap<u64, Row>,
    /// Number of expected local devices while none was seen.
    unknown_rows: usize,
}

struct Row {
    identity: [Value; IDENTITY.len()],
    via: Option<u64>,
}

impl Expected {
    pub(super) fn fine() -> Self {
        Self { scope: Scope::All, state: "ok", reason: None, word: None, why: None, holders: 0, more_samples: 0 }
    }

    /// One device cannot be read. `reason` is the reason of each missing value, `why` is part of the line with the reason.
    pub(super) fn unread(state: &'static str, reason: &'static str, word: &'static str, why: &'static str) -> Self {
        Self { scope: Scope::Victim, state, reason: Some(reason), word: Some(word), why: Some(why), ..Self::fine() }
    }

    pub(super) fn gone(scope: Scope) -> Self {
        Self { scope, ..Self::unread("gone", "gone", "GONE", "unplugged, unbound, or the driver was unloaded") }
    }

    /// The driver has the device, but its firmware does not answer yet.
    pub(super) fn starting() -> Self {
        Self { scope: Scope::All, ..Self::unread("starting", "no_source", "START", "the firmware does not answer yet") }
    }

    pub(super) fn all_ones() -> Self {
        let why = "cannot be read: the value read cannot be true";
        Self { scope: Scope::All, ..Self::unread("unreadable", "out_of_range", "UNREAD", why) }
    }

    /// The heartbeat has stopped, which is visible only after its window (1 s).
    pub(super) fn stopped_heartbeat() -> Self {
        Self { word: Some("WARN"), why: Some("heartbeat has stopped"), more_samples: 1, ..Self::fine() }
    }

    pub(super) fn held() -> Self {
        Self { scope: Scope::Victim, holders: 1, ..Self::fine() }
    }

    pub(super) fn leaves_no_device(&self, baseline: &Baseline) -> bool {
        self.state == "gone" && (self.scope == Scope::All || baseline.is_lone())
    }

    /// Compares all rows of a document of a monitor that has seen the devices before.
    pub(super) fn check(&self, document: &Value, baseline: &Baseline) -> Result<(), String> {
        let devices = rows(document)?;
        let ids: Vec<u64> = devices.keys().copied().collect();
        let known: Vec<u64> = baseline.rows.keys().copied().collect();
        if !known.is_empty() && ids != known {
            return Err(format!("expected the ids {known:?}, found {ids:?}"));
        }
        for (id, device) in devices {
            self.check_device(device, baseline.is_disturbed(id, device, self.scope)).map_err(|error| format!("device {id}: {error}"))?;
            baseline.check_identity(id, device, self.state == "ok").map_err(|error| format!("device {id}: {error}"))?;
        }
        Ok(())
    }

    /// Like `check`, for a monitor that was started during the disturbance. It does not know values that the devices do not report.
    pub(super) fn check_new(&self, document: &Value, baseline: &Baseline) -> Result<(), String> {
        // It cannot know that a heartbeat has stopped either, because that needs two samples.
        let new = Self { why: self.why.filter(|_| self.state != "ok"), ..*self };
        for (id, device) in rows(document)? {
            new.check_device(device, baseline.is_disturbed(id, device, self.scope)).map_err(|error| format!("device {id}: {error}"))?;
        }
        Ok(())
    }

    fn check_device(&self, device: &Value, is_disturbed: bool) -> Result<(), String> {
        let fine = Self::fine();
        let expected = if is_disturbed { self } else { &fine };
        let is_remote = device["location"] == "remote";
        let state = match expected.state {
            state @ ("gone" | "resetting") => state,
            _ if is_remote => "unknown",
            state => state,
        };
        equal("state", &device["state"], &Value::from(state))?;
        if is_remote {
            return Ok(());
        }
        for field in FIELDS {
            match expected.reason {
                Some(reason) => equal(&format!("reason of {field}"), &device["missing"][field], &Value::from(reason))?,
                None if device[field].is_number() => {}
                None => return Err(format!("expected a number as {field}, found {}: {}", device[field], device["missing"][field])),
            }
        }
        let reasons = device["health_reasons"].to_string();
        match expected.why {
            Some(part) if !reasons.contains(part) => return Err(format!("expected health_reasons with {part:?}, found {reasons}")),
            None if expected.word.is_none() && reasons != "[]" => return Err(format!("expected no health_reasons, found {reasons}")),
            _ => {}
        }
        if expected.reason.is_none() {
            equal("holders", &device["memory"]["holders"], &Value::from(expected.holders))?;
        }
        Ok(())
    }

    pub(super) fn check_screen(&self, screen: &str, baseline: &Baseline) -> Result<(), String> {
        let found = |word: &str| screen.matches(word).count();
        let affected = baseline.rows.iter().filter(|(id, row)| {
            let is_shown = row.via.is_none() || matches!(self.state, "gone" | "resetting");
            is_shown && (self.scope == Scope::All || **id == baseline.victim || row.via == Some(baseline.victim))
        });
        let affected = affected.count().max(baseline.unknown_rows);
        for word in WORDS {
            let count = if self.word == Some(word) { affected } else { 0 };
            if found(word) != count {
                return Err(format!("expected {count} rows with {word}, found {}; the screen:\n{screen}", found(word)));
            }
        }
        if self.holders > 0 && !screen.contains("xtask") {
            return Err(format!("expected the holder's name, xtask; the screen:\n{screen}"));
        }
        Ok(())
    }
}

impl Baseline {
    pub(super) fn new(document: &Value, victim: u64) -> Self {
        let row = |device: &Value| Row { identity: IDENTITY.map(|field| device[field].clone()), via: device["via"].as_u64() };
        let rows = rows(document).unwrap_or_default().into_iter().map(|(id, device)| (id, row(device))).collect();
        Self { victim, rows, unknown_rows: 0 }
    }

    pub(super) fn unknown(devices: usize) -> Self {
        Self { victim: 0, rows: BTreeMap::new(), unknown_rows: devices }
    }

    pub(super) fn is_lone(&self) -> bool {
        self.rows.values().filter(|row| row.via.is_none()).count() == 1
    }

    pub(super) fn check_rows(&self, board: &str) -> Result<String, String> {
        let (local, remote) = match board {
            "n300" => (1, 1),
            "t3k" => (4, 4),
            _ => (1, 0),
        };
        let expected: Vec<(u64, Option<u64>)> =
            (0..local).map(|id| (id, None)).chain((0..remote).map(|via| (local + via, Some(via)))).collect();
        let found: Vec<(u64, Option<u64>)> = self.rows.iter().map(|(id, row)| (*id, row.via)).collect();
        if found == expected {
            Ok(format!("{local} local, {remote} remote"))
        } else {
            Err(format!("expected {expected:?}, found {found:?}"))
        }
    }

    /// Checks that each row has the identity that its id had before.
    pub(super) fn check_known(&self, document: &Value) -> Result<(), String> {
        for (id, device) in rows(document)? {
            if !self.rows.contains_key(&id) {
                return Err(format!("expected the ids {:?}, found {id}", self.rows.keys()));
            }
            self.check_identity(id, device, false).map_err(|error| format!("device {id}: {error}"))?;
        }
        Ok(())
    }

    fn is_disturbed(&self, id: u64, device: &Value, scope: Scope) -> bool {
        scope == Scope::All || id == self.victim || device["via"].as_u64() == Some(self.victim)
    }

    /// Checks the identity. While a device is unhealthy, values may be missing, but must not differ.
    fn check_identity(&self, id: u64, device: &Value, is_fine: bool) -> Result<(), String> {
        let Some(row) = self.rows.get(&id) else { return Ok(()) };
        for (field, before) in IDENTITY.iter().zip(&row.identity) {
            if is_fine || !device[*field].is_null() {
                equal(field, &device[*field], before)?;
            }
        }
        Ok(())
    }
}

fn rows(document: &Value) -> Result<BTreeMap<u64, &Value>, String> {
    let devices = document["devices"].as_array().ok_or_else(|| format!("expected devices, found {document}"))?;
    devices.iter().map(|device| Ok((device["id"].as_u64().ok_or("expected an id")?, device))).collect()
}

fn equal(what: &str, found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {what} {expected}, found {found}")) }
}
