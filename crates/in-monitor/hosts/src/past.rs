//! The parts of the document of `/api/v1/history` that charts need.

use std::time::{Duration, Instant};

use serde_json::Value;
use ttmon_json::{Document, ReadError};
use ttmon_model::DeviceId;
use ttmon_model::limits::DOCUMENT_DEVICES_MAX;
use ttmon_model::units::UnixTime;

/// Maximum number of points: an hour with one point per second. No service has more.
const POINTS_MAX: usize = 4000;
/// Maximum number of values over all devices and fields: 64 devices with 16 fields each.
const VALUES_MAX: usize = 4 * 1024 * 1024;

/// Values at equal intervals of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// Time of the first point.
    pub start: UnixTime,
    /// Interval between two points.
    pub step: Duration,
    /// Number of points.
    pub points: usize,
    /// One series per device.
    pub devices: Vec<Series>,
}

/// The history of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The device.
    pub device: DeviceId,
    /// The name of each field, with one optional value per point.
    pub fields: Vec<(String, Vec<Option<f64>>)>,
}

impl Past {
    pub(crate) fn read(text: &str, deadline: Option<Instant>) -> Result<Self, ReadError> {
        let document = Document::read(text, deadline)?;
        let (start, step, points) = grid(&document.head).ok_or(ReadError::Shape("the grid of its history"))?;
        let (mut devices, mut values) = (Vec::new(), 0);
        document.each("devices", DOCUMENT_DEVICES_MAX, |item| {
            let series = series(item, points).ok_or(ReadError::Shape("the history of a device"))?;
            values += series.fields.iter().map(|(_, column)| column.len()).sum::<usize>();
            if values > VALUES_MAX {
                return Err(ReadError::TooMuch("history"));
            }
            devices.push(series);
            Ok(())
        })?;
        Ok(Self { start, step, points, devices })
    }

    /// Returns the time of a point.
    pub fn time(&self, point: usize) -> UnixTime {
        let step = u64::try_from(self.step.as_nanos()).unwrap_or(u64::MAX);
        UnixTime(self.start.0.saturating_add(step.saturating_mul(point as u64)))
    }
}

fn grid(head: &Value) -> Option<(UnixTime, Duration, usize)> {
    let start = UnixTime::parse_rfc3339(head.get("start")?.as_str()?)?;
    let step = Duration::try_from_secs_f64(head.get("step_s")?.as_f64()?).ok().filter(|step| !step.is_zero())?;
    let points = usize::try_from(head.get("points")?.as_u64()?).ok().filter(|points| *points <= POINTS_MAX)?;
    Some((start, step, points))
}

fn series(item: &Value, points: usize) -> Option<Series> {
    let device = DeviceId(u32::try_from(item.get("id")?.as_u64()?).ok()?);
    let fields = item.get("fields")?.as_object()?.iter().map(|(name, column)| {
        let column: Vec<Option<f64>> = column.as_array()?.iter().take(points).map(Value::as_f64).collect();
        Some((name.clone(), column))
    });
    Some(Series { device, fields: fields.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"schema": 1, "start": "2026-11-15T08:12:45Z", "step_s": 2.0, "points": 3, "fields": ["power"],
        "devices": [{"id": 4, "fields": {"power": [1.5, null, 3]}}], "marks": []}"#;

    #[test]
    fn a_past_is_read() {
        let past = Past::read(TEXT, None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(past.devices[0].fields, [("power".to_owned(), vec![Some(1.5), None, Some(3.0)])]);
        assert_eq!(past.time(2).0 - past.start.0, 4_000_000_000);
    }

    #[test]
    fn invalid_histories_are_refused() {
        for (from, to) in
            [("2.0", "0"), ("2.0", "-1"), ("\"points\": 3", "\"points\": 400000000"), ("08:12:45Z", "today"), ("\"id\": 4", "\"id\": -4")]
        {
            assert!(Past::read(&TEXT.replace(from, to), None).is_err(), "{to}");
        }
        assert!(Past::read("[]", None).is_err());
    }
}
