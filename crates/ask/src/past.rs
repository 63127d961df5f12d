//! The document of `/api/v1/history`, as far as charts need it.

use std::time::Duration;

use serde_json::Value;
use ttmon_model::DeviceId;
use ttmon_model::units::UnixTime;

/// More points than an hour by the second, and no service of ours tells more.
const POINTS_MAX: usize = 4000;

/// Values on an even grid of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// The moment of the first point.
    pub start: UnixTime,
    /// Between two points.
    pub step: Duration,
    /// How many there are.
    pub points: usize,
    /// One for each device.
    pub devices: Vec<Series>,
}

/// One device's past.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which device.
    pub device: DeviceId,
    /// For each field of the answer its name, and a value or nothing for each point.
    pub fields: Vec<(String, Vec<Option<f64>>)>,
}

impl Past {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let start = UnixTime::parse_rfc3339(document.get("start")?.as_str()?)?;
        let step = Duration::try_from_secs_f64(document.get("step_s")?.as_f64()?).ok().filter(|step| !step.is_zero())?;
        let points = usize::try_from(document.get("points")?.as_u64()?).ok().filter(|points| *points <= POINTS_MAX)?;
        let devices = document.get("devices")?.as_array()?.iter().map(|item| series(item, points)).collect::<Option<_>>()?;
        Some(Self { start, step, points, devices })
    }

    /// The moment of a point.
    pub fn time(&self, point: usize) -> UnixTime {
        let step = u64::try_from(self.step.as_nanos()).unwrap_or(u64::MAX);
        UnixTime(self.start.0.saturating_add(step.saturating_mul(point as u64)))
    }
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
        let past = Past::read(TEXT).unwrap_or_else(|| panic!("not read"));
        assert_eq!(past.devices[0].fields, [("power".to_owned(), vec![Some(1.5), None, Some(3.0)])]);
        assert_eq!(past.time(2).0 - past.start.0, 4_000_000_000);
    }

    #[test]
    fn what_is_none_is_none() {
        for (from, to) in
            [("2.0", "0"), ("2.0", "-1"), ("\"points\": 3", "\"points\": 400000000"), ("08:12:45Z", "today"), ("\"id\": 4", "\"id\": -4")]
        {
            assert_eq!(Past::read(&TEXT.replace(from, to)), None, "{to}");
        }
        assert_eq!(Past::read("[]"), None);
    }
}
